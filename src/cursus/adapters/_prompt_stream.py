"""Prompts one after the other, for frameworks that generate without batches."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from cursus.adapters._prompt_batches import PromptBatches
from cursus.curricula import Curriculum, Distinct
from cursus.settings import check_count
from cursus.types import Decision


class PromptStream:
    """Rows of a dataset as a curriculum draws them, of which so many may be without results at once.

    Args:
        curriculum: what decides; its tasks are the rows of the dataset.
        in_flight: prompts that may be drawn before the results of an earlier one are reported, at least 1.
        distinct: draws among which no prompt comes twice; 1 for no such rule.
        run: folder in which everything is recorded; None: nothing is.
        seed: of all draws.
        resume: whether to go on with the run in this folder, if there is one.
    """

    def __init__(
        self, curriculum: Curriculum, *, in_flight: int, distinct: int, run: str | Path | None, seed: int, resume: bool
    ) -> None:
        check_count("in_flight", in_flight)
        check_count("distinct", distinct)
        inside = Distinct(curriculum, batch=distinct) if distinct > 1 else curriculum
        settings: dict[str, Any] = {"run": run, "seed": seed, "resume": resume, "distinct": False}
        self.prompts = PromptBatches(inside, batch=1, ahead=in_flight - 1, **settings)

    def draw(self) -> int:
        """The next row; after a resume, first those without results."""
        return int(self.prompts.draw()[0])

    def report(self, row: int, rewards: ArrayLike, success_reward: float, tokens: float = 1.0) -> list[Decision]:
        """The rewards of the answers to a row, shape `(answers,)`; those of at least `success_reward` are right."""
        found = np.atleast_1d(np.asarray(rewards, dtype=np.float64))
        return self.prompts.report([row], [int((found >= success_reward).sum())], len(found), [tokens])
