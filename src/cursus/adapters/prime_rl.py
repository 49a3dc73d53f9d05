"""prime-rl: a `TaskSampler` that draws examples by a curriculum, and observes their groups."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from numpy.typing import ArrayLike

from cursus.adapters._prompt_stream import PromptStream
from cursus.curricula import Curriculum
from cursus.types import Decision


class TaskSampler:
    """Examples one after the other: `next` gives one, `observe` tells how its group went.

    It works whether prime-rl is installed or not. A draw costs the same for ten examples and for a million.

    Args:
        examples: what is trained on.
        curriculum: what decides; its tasks are the rows of `examples`.
        in_flight: examples that may be drawn before an earlier one is observed, at least 1 (default 1024).
        distinct: draws among which no example comes twice; 1 for no such rule (default 1).
        run: folder in which everything is recorded (default None: nothing is).
        seed: of all draws (default 0).
        resume: whether to go on with the run in this folder, if there is one (default False).
        success_reward: an answer is right when its reward is at least this (default 1.0).

    >>> import cursus
    >>> sampler = TaskSampler(["1+1", "2+2"], cursus.Prompts(2), in_flight=1)
    >>> row, example = next(sampler)
    >>> sampler.observe(row, rewards=[1.0, 0.0, 1.0, 1.0])
    []
    """

    def __init__(
        self,
        examples: Sequence[Any],
        curriculum: Curriculum,
        *,
        in_flight: int = 1024,
        distinct: int = 1,
        run: str | Path | None = None,
        seed: int = 0,
        resume: bool = False,
        success_reward: float = 1.0,
    ) -> None:
        self._examples, self._success_reward = examples, float(success_reward)
        self._stream = PromptStream(curriculum, in_flight=in_flight, distinct=distinct, run=run, seed=seed, resume=resume)

    def __iter__(self) -> TaskSampler:
        return self

    def __next__(self) -> tuple[int, Any]:
        row = self._stream.draw()
        return row, self._examples[row]

    def observe(self, row: int, rewards: ArrayLike, tokens: float = 1.0) -> list[Decision]:
        """How the group of an example went.

        Args:
            row: of the example, as `next` gave it.
            rewards: of its answers, shape `(answers,)`.
            tokens: of an answer, on average (default 1).
        """
        return self._stream.report(row, rewards, self._success_reward, tokens)

    def withdraw(self, row: int) -> list[Decision]:
        """Give an example (`row`) back whose group was thrown away."""
        return self._stream.prompts.withdraw([row])

    def metrics(self) -> dict[str, float]:
        """Numbers about this moment, by name."""
        behind = self._stream.prompts.staleness
        return {
            **self._stream.prompts.teacher.curriculum.metrics(),
            "staleness/mean": behind.mean,
            "staleness/most": behind.most,
        }

    def state_dict(self) -> dict[str, Any]:
        """Everything that `load_state_dict` needs."""
        return dict(self._stream.prompts.state())

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Go back to a `state`: examples that were not observed are drawn again."""
        self._stream.prompts.load(state)

    def close(self) -> None:
        """Close the record."""
        self._stream.prompts.close()
