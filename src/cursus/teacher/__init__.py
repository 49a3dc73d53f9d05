"""The teacher: the one authority that assigns tasks, settles results and lets the curriculum decide."""

from cursus.teacher.observers import Observer
from cursus.teacher.teacher import Assignment, Teacher
from cursus.teacher.tickets import Counts

__all__ = ["Assignment", "Counts", "Observer", "Teacher"]
