"""Many environments, in step."""

from cursus.vector.make import make_vec
from cursus.vector.processes import Processes
from cursus.vector.serial import Serial
from cursus.vector.tuning import autotune

__all__ = ["Processes", "Serial", "autotune", "make_vec"]
