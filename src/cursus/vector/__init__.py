"""Many environments, stepped together: in this process, or in workers."""

from cursus.vector.base import VectorSettings
from cursus.vector.make import Trial, Tuning, autotune, make_vec
from cursus.vector.processes import Processes
from cursus.vector.serial import Serial

__all__ = ["Processes", "Serial", "Trial", "Tuning", "VectorSettings", "autotune", "make_vec"]
