"""Continuous and structured spaces: what is known of a task comes from its neighbours."""

from cursus.curricula.continuous.adr import ADR
from cursus.curricula.continuous.alp_gmm import ALPGMM
from cursus.curricula.continuous.covar_gmm import CovarGMM
from cursus.curricula.continuous.currot import CURROT
from cursus.curricula.continuous.regions import Regions
from cursus.curricula.continuous.riac import RIAC

__all__ = ["ADR", "ALPGMM", "CURROT", "RIAC", "CovarGMM", "Regions"]
