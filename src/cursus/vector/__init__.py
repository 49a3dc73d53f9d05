"""Many environments, in step."""

from cursus.vector.make import make_vec
from cursus.vector.processes import Processes
from cursus.vector.serial import Serial

__all__ = ["Processes", "Serial", "make_vec"]
