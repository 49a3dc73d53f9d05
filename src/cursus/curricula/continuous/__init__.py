"""Continuous and structured spaces: what is known of a task comes from its neighbours."""

from cursus.curricula.continuous.regions import Regions

__all__ = ["Regions"]
