"""A sampler of PyTorch that draws the rows of a dataset by a curriculum, for trainings of language models."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from cursus.adapters._prompt_batches import PromptBatches
from cursus.curricula import Curriculum
from cursus.errors import MissingExtra, SettingsError, TeacherError
from cursus.remote import Staleness
from cursus.settings import check_count
from cursus.types import Decision, IntArray

try:
    import torch
    import torch.distributed as dist
    from torch.utils.data import Sampler
except ImportError as error:
    raise MissingExtra.of(error, "agents") from None


class PromptSampler(Sampler[int]):
    """Rows of a dataset, batch by batch, as a curriculum draws them; each comes `repeats` times in a row, for its group.

    Who trains hands in results with `report`, and the next batch knows them. A batch that is drawn before they are there is
    chosen by stale results: `ahead` says how many may be, and `staleness` counts by how many results draws were behind.
    Dataloader workers read further ahead than that, and are refused when they do.

    Where torch.distributed is initialised, rank 0 decides and tells the others: every rank iterates over a sampler of its own,
    in step with the others, and all ranks may report, of which only what rank 0 says counts.

    It has the names of a Stateful (`state_dict`, `load_state_dict`): batches without results are drawn again.

    Args:
        curriculum: what decides; its tasks are the rows of the dataset.
        batch: different prompts in a batch, at least 1.
        repeats: how often each comes in a row, for the answers of its group, at least 1 (default 1).
        passes: how often the whole batch comes, for several updates from the same answers, at least 1 (default 1).
        batches: how many batches an iteration has, at least 1 (default None: as many as make up the dataset).
        ahead: batches that may be drawn before the results of an earlier one are reported, 0 or more (default 1).
        run: folder in which everything is recorded (default None: nothing is).
        seed: of all draws (default 0).
        resume: whether to go on with the run in this folder, if there is one (default False).
        distinct: whether no prompt comes twice in a batch (default True).

    >>> import cursus
    >>> sampler = PromptSampler(cursus.Prompts(10), batch=2, repeats=3, batches=1, ahead=0)
    >>> rows = list(sampler)
    >>> rows[0] == rows[1] == rows[2] != rows[3]
    True
    >>> sampler.report([rows[0], rows[3]], successes=[1, 2], trials=3)
    []
    """

    def __init__(
        self,
        curriculum: Curriculum,
        *,
        batch: int,
        repeats: int = 1,
        passes: int = 1,
        batches: int | None = None,
        ahead: int = 1,
        run: str | Path | None = None,
        seed: int = 0,
        resume: bool = False,
        distinct: bool = True,
    ) -> None:
        for name, value in (("batch", batch), ("repeats", repeats), ("passes", passes)):
            check_count(name, value)
        if batches is not None:
            check_count("batches", batches)
        self.batch, self.repeats, self.passes = int(batch), int(repeats), int(passes)
        self.batches = max(curriculum.tasks.size // batch, 1) if batches is None else int(batches)
        self._decides = _rank() == 0
        self._inside: PromptBatches | None = None
        if self._decides:
            settings = {"ahead": ahead, "run": run, "seed": seed, "resume": resume, "distinct": distinct}
            self._inside = PromptBatches(curriculum, batch=batch, **settings)  # type: ignore[arg-type]

    def __iter__(self) -> Iterator[int]:
        for _ in range(self.batches):
            rows = np.repeat(self._draw(), self.repeats).tolist()
            for _ in range(self.passes):
                yield from rows

    def __len__(self) -> int:
        return self.batches * self.passes * self.batch * self.repeats

    def _draw(self) -> IntArray:
        """The next batch, on every rank the same; what is wrong on rank 0 is raised there, and told to the others."""
        if self._decides != (_rank() == 0):
            raise SettingsError(
                "this sampler was made before torch.distributed was initialised: each rank would have a curriculum of its own. "
                "Call init_process_group first."
            )
        if not _together():
            return self._prompts.draw()
        rows, wrong = np.full(self.batch, -1), None
        if self._decides:
            try:
                rows = self._prompts.draw()
            except Exception as error:  # whatever a curriculum or a disk raises: the other ranks are told, and do not wait
                wrong = error
        told = torch.from_numpy(rows.astype(np.int64)).to(_device())
        dist.broadcast(told, src=0)
        rows = told.cpu().numpy()
        if wrong is not None:
            raise wrong
        if len(rows) and rows[0] < 0:
            raise TeacherError("rank 0 could not draw the next batch of prompts; it says why.")
        return rows

    def report(
        self, prompts: ArrayLike, successes: ArrayLike, trials: ArrayLike, lengths: ArrayLike | None = None
    ) -> list[Decision]:
        """Results of groups, in any order; on ranks other than 0 nothing happens.

        Args:
            prompts: rows of the dataset, shape `(n,)`, each once for every time that it was drawn.
            successes: right answers of each, shape `(n,)`.
            trials: answers of each, shape `(n,)` or one number for all.
            lengths: tokens of an answer, shape `(n,)` (default None: 1).
        """
        return self._prompts.report(prompts, successes, trials, lengths) if self._decides else []

    def withdraw(self, prompts: ArrayLike) -> list[Decision]:
        """Give these `prompts` (rows, shape `(n,)`) back without a result: their groups were thrown away."""
        return self._prompts.withdraw(prompts) if self._decides else []

    def oldest(self) -> IntArray:
        """On rank 0, the rows of the oldest batch without results, in the order in which they were drawn."""
        return self._prompts.oldest()

    @property
    def staleness(self) -> Staleness:
        """On rank 0, by how many results draws were behind."""
        return self._prompts.staleness

    @property
    def curriculum(self) -> Curriculum:
        """On rank 0, the curriculum, to be looked at."""
        return self._prompts.teacher.curriculum

    @property
    def assigned(self) -> int:
        """On rank 0, how many prompts were drawn until now, in a resumed run also before."""
        return self._prompts.teacher.counts.assigned

    @property
    def decides(self) -> bool:
        """Whether this is rank 0, which has the curriculum."""
        return self._decides

    @property
    def _prompts(self) -> PromptBatches:
        if self._inside is None:
            raise SettingsError("rank 0 has the curriculum; ask its sampler.")
        return self._inside

    def explain(self) -> str:
        """On rank 0, in words: where the curriculum stands, and how stale its draws were."""
        told = self._prompts.teacher.explain()
        return f"{told}\nDraws were {self.staleness.mean:.1f} results behind on average, {self.staleness.most:,} at most."

    def state_dict(self) -> dict[str, Any]:
        """Everything that `load_state_dict` needs; empty on ranks other than 0."""
        return dict(self._prompts.state()) if self._decides else {}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Go back to a `state`: batches without results are drawn again. On ranks other than 0 nothing happens."""
        if self._decides:
            self._prompts.load(state)

    def close(self) -> None:
        """Close the record. Harmless when closed before."""
        if self._inside is not None:
            self._inside.close()


def _together() -> bool:
    return dist.is_available() and dist.is_initialized() and dist.get_world_size() > 1


def _rank() -> int:
    return dist.get_rank() if _together() else 0


def _device() -> torch.device:
    """Where tensors must lie to be sent."""
    if dist.get_backend() == "nccl":
        return torch.device("cuda", torch.cuda.current_device())
    return torch.device("cpu")
