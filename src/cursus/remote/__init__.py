"""Workers in other processes that take their tasks by themselves: seats on their side, a hub on the teacher's."""

from cursus.remote.hub import Hub, Staleness
from cursus.remote.seats import RemoteTeacher, Seat

__all__ = ["Hub", "RemoteTeacher", "Seat", "Staleness"]
