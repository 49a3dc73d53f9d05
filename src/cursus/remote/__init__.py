"""Workers in other processes: a desk that anybody may ask, and a hub for those who pick their tasks by themselves."""

from cursus.remote.desk import Desk, DeskClient, Given, Joined, Settled, Transport, Wanted
from cursus.remote.hub import Hub, Staleness
from cursus.remote.places import DeskAddress, Place, Turn
from cursus.remote.seats import RemoteTeacher, Seat

__all__ = [
    "Desk",
    "DeskAddress",
    "DeskClient",
    "Given",
    "Hub",
    "Joined",
    "Place",
    "RemoteTeacher",
    "Seat",
    "Settled",
    "Staleness",
    "Transport",
    "Turn",
    "Wanted",
]
