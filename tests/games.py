"""Rock paper scissors of PettingZoo as a game of our trainings; importable by workers, however they are started."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import gymnasium
import numpy as np
from pettingzoo.classic.rps.rps import parallel_env

from cursus.adapters.pettingzoo import TwoPlayerEnv
from cursus.recipe import Recipe, register_recipe

RPS = "games:games/RockPaperScissors-v0"
ROCK, PAPER, SCISSORS, NOTHING = range(4)


def copycat(seen: Any, rng: np.random.Generator) -> int:
    """What the other did last."""
    return ROCK if seen == NOTHING else int(seen)


PLAYERS = {
    "rock": lambda seen, rng: ROCK,
    "random": lambda seen, rng: int(rng.integers(3)),
    "copycat": copycat,
}


def make(external: Sequence[str] = (), rounds: int = 5, render_mode: str | None = None) -> TwoPlayerEnv:
    return TwoPlayerEnv(parallel_env(max_cycles=rounds, render_mode=render_mode), PLAYERS, external=external)


class RockPaperScissors(Recipe):
    opponents = tuple(PLAYERS)
    anchors = {"random": 1000.0}  # noqa: RUF012


if RPS.partition(":")[2] not in gymnasium.registry:
    gymnasium.register(RPS.partition(":")[2], entry_point=make)
    register_recipe(RPS.partition(":")[2], RockPaperScissors)
