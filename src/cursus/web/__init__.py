"""A live page over run folders, `cursus serve`: it reads them only, so that it cannot disturb a training."""

from cursus.web.server import PageServer

__all__ = ["PageServer"]
