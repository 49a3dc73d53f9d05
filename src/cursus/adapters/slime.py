"""slime: a `DataSource` that draws groups by a curriculum, around the one that has the dataset."""

from __future__ import annotations

from copy import deepcopy
from pathlib import Path
from typing import Any

from cursus.adapters._prompt_stream import PromptStream
from cursus.curricula import Curriculum
from cursus.errors import ResultError
from cursus.runs.checkpoint import decode, encode, write_atomically

ROW = "curriculum_row"
"""The key in the metadata of a sample that says of which row of the dataset it is."""


class TaughtSource:
    """Groups of samples whose prompts a curriculum draws; `report` tells how they went.

    It works whether slime is installed or not. Make a data source of it in the function that `--data-source-path` names, and
    report groups where their rewards are known, such as in a filter of rollouts.

    Args:
        samples: the prompts of the dataset, one sample for each, as `RolloutDataSource` has them in `dataset.samples`.
        curriculum: what decides; its tasks are the rows of `samples`.
        group: samples of a prompt (`n_samples_per_prompt`), at least 1.
        folder: where `save` and `load` keep their files.
        in_flight: groups that may be drawn before an earlier one is reported, at least 1 (default 4096).
        distinct: draws among which no prompt comes twice; 1 for no such rule (default 1).
        run: folder in which everything is recorded (default None: nothing is).
        seed: of all draws (default 0).
        resume: whether to go on with the run in this folder, if there is one (default False).
        success_reward: a sample is right when its reward is at least this (default 1.0).
    """

    def __init__(
        self,
        samples: Any,
        curriculum: Curriculum,
        *,
        group: int,
        folder: str | Path,
        in_flight: int = 4096,
        distinct: int = 1,
        run: str | Path | None = None,
        seed: int = 0,
        resume: bool = False,
        success_reward: float = 1.0,
    ) -> None:
        self._samples, self._group, self._folder = samples, int(group), Path(folder)
        self._success_reward = float(success_reward)
        self._stream = PromptStream(curriculum, in_flight=in_flight, distinct=distinct, run=run, seed=seed, resume=resume)
        self._returned: list[list[Any]] = []
        self._groups = 0

    def __len__(self) -> int:
        return len(self._samples)

    def get_samples(self, num_samples: int) -> list[list[Any]]:
        """`num_samples` groups: first those that were handed back, then what the curriculum draws."""
        groups, self._returned = self._returned[:num_samples], self._returned[num_samples:]
        return groups + [self._draw() for _ in range(num_samples - len(groups))]

    def _draw(self) -> list[Any]:
        row = self._stream.draw()
        group = [deepcopy(self._samples[row]) for _ in range(self._group)]
        for number, sample in enumerate(group):
            sample.group_index, sample.index = self._groups, self._groups * self._group + number
            sample.metadata = {**(sample.metadata or {}), ROW: row}
        self._groups += 1
        return group

    def add_samples(self, samples: list[list[Any]]) -> None:
        """Take back groups (`samples`) that are not finished; they are given out again first."""
        self._returned += samples

    def report(self, groups: list[list[Any]]) -> None:
        """Tell how `groups` went, each once, from the `reward` of their samples."""
        for group in groups:
            row = group[0].metadata.get(ROW)
            if row is None:
                raise ResultError(f"a sample has no {ROW} in its metadata: it is not of this data source.")
            tokens = sum(getattr(sample, "response_length", 1) for sample in group) / len(group)
            self._stream.report(row, [sample.reward for sample in group], self._success_reward, tokens)

    def withdraw(self, groups: list[list[Any]]) -> None:
        """Give back the prompts of `groups` that were thrown away."""
        self._stream.prompts.withdraw([group[0].metadata[ROW] for group in groups])

    def save(self, rollout_id: int) -> None:
        """Keep what the curriculum knows, by the number of a rollout (`rollout_id`)."""
        self._folder.mkdir(parents=True, exist_ok=True)
        state = {"prompts": self._stream.prompts.state(), "groups": self._groups}
        write_atomically(self._path(rollout_id), encode(state))

    def load(self, rollout_id: int | None = None) -> None:
        """Go back to what `save` kept under `rollout_id`, if it did; groups that were not reported are drawn again."""
        if rollout_id is None or not self._path(rollout_id).exists():
            return
        state = decode(self._path(rollout_id).read_bytes())
        self._stream.prompts.load(state["prompts"])
        self._groups, self._returned = int(state["groups"]), []

    def _path(self, rollout_id: int) -> Path:
        return self._folder / f"curriculum_{rollout_id}.bin"

    def close(self) -> None:
        """Close the record."""
        self._stream.prompts.close()
