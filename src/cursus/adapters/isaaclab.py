"""Isaac Lab and mjlab: a curriculum term of their managers whose teacher stays on the host."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np

from cursus.curricula import Curriculum
from cursus.errors import CheckpointError, MissingExtra, SettingsError
from cursus.runs import RunFolder, checkpoint
from cursus.settings import check_kind
from cursus.tasks import TaskSpace
from cursus.teacher import Teacher
from cursus.types import FloatArray, IntArray
from cursus.vector.transfer import pack, unpack

try:
    import torch
    from torch import Tensor
except ImportError as missing:
    raise MissingExtra.of(missing, "agents") from None

SetTasks: TypeAlias = Callable[[Any, Tensor, Tensor], None]
"""Given the environment, the numbers of those that are reset, and the ids of their next tasks."""
Read: TypeAlias = Callable[[Any, Tensor], Tensor]
"""Given the environment and the numbers of those whose episodes have ended: a number or boolean for each."""
_KEY = "cursus"
_NO_TICKET = -1


class IsaacCurriculumTerm:
    """A curriculum term, `f(env, env_ids)`, as the managers of Isaac Lab and mjlab call it in every reset.

    It hands in the results of the episodes that end there, and sets the next tasks. What is reset before it has stepped, as all
    environments are at the beginning, is no episode. There is one teacher, on the host, however often a configuration that
    holds this term is copied.

        term = IsaacCurriculumTerm(curriculum, run="runs/walk", set_tasks=set_levels, success=reached_the_end)
        curriculum = {"levels": CurriculumTermCfg(func=term)}  # in the configuration of the environment
        runner.save(path, infos=term.state())
        term.load(runner.load(path))

    Args:
        curriculum: what decides; a copy of it teaches.
        run: the run folder.
        set_tasks: sets the tasks of environments that are reset.
        success: whether episodes that end succeeded, booleans (default None: those that ran out of time, as in locomotion).
        returns: their sums of rewards (default None: those of the reward manager, over all its terms).
        scores: a finer measure than success (default None: the success).
        seed: as for `Teacher` (default None).
        resume: whether to go on with the run in this folder, if there is one (default False). `load` goes on from a checkpoint
            of the student.
    """

    def __init__(
        self,
        curriculum: Curriculum,
        *,
        run: str | Path,
        set_tasks: SetTasks,
        success: Read | None = None,
        returns: Read | None = None,
        scores: Read | None = None,
        seed: int | None = None,
        resume: bool = False,
    ) -> None:
        check_kind("curriculum", curriculum, Curriculum, "cursus.Staged(levels)")
        self._set_tasks, self._success, self._returns, self._scores = set_tasks, success, returns, scores
        self._fresh = pack(curriculum)
        self._run = Path(run)
        self._teach(Teacher(self._copy(), run=run, seed=seed, resume=resume))
        if self.teacher.rollout_score is not None or self.teacher.withholds:
            self.close()
            raise SettingsError(
                f"{type(curriculum).__name__} reads scores of rollouts, or plays episodes that are not learned from, which "
                "these environments cannot do. Take one that reads results, such as Staged or LearningProgress."
            )

    def __deepcopy__(self, memo: dict[int, Any]) -> IsaacCurriculumTerm:
        return self  # managers copy their configuration

    def _copy(self) -> Curriculum:
        """A curriculum that was never taught."""
        made: Curriculum = unpack(self._fresh)
        made.move_here()
        return made

    def _teach(self, teacher: Teacher) -> None:
        self.teacher = teacher
        """Whose curriculum is practised."""
        self._tickets: IntArray = np.empty(0, dtype=np.int64)  # of each environment
        self._tasks: IntArray = np.empty(0, dtype=np.int64)
        self._begun: IntArray = np.empty(0, dtype=np.int64)  # the step at which its episode began
        self._again = teacher.keep_in_flight()

    @property
    def tasks(self) -> TaskSpace:
        """What the ids of tasks mean: `term.tasks[id]` has label and parameters."""
        return self.teacher.tasks

    def __call__(self, env: Any, env_ids: Tensor | slice | None) -> dict[str, float]:
        """Settle the episodes that end in these environments and set their next tasks; metrics for the log.

        Args:
            env: with `num_envs`, `common_step_counter`, `reset_time_outs` and `reward_manager`.
            env_ids: of those that are reset; a slice or None for all.
        """
        rows = env_ids if isinstance(env_ids, Tensor) else torch.arange(env.num_envs, device=env.device)[env_ids or slice(None)]
        envs: IntArray = rows.cpu().numpy().astype(np.int64)
        now = int(env.common_step_counter)
        if not len(self._tickets):
            self._seat(env.num_envs, now)
        stepped = (self._tickets[envs] != _NO_TICKET) & (self._begun[envs] < now)
        if stepped.any():
            self._report(env, rows[torch.from_numpy(stepped).to(rows.device)], envs[stepped], now)
        free = envs[self._tickets[envs] == _NO_TICKET]
        if len(free):
            given = self.teacher.assign(free)
            self._tickets[free], self._tasks[free] = given.tickets, given.tasks
        self._begun[envs] = now
        self._set_tasks(env, rows, torch.from_numpy(self._tasks[envs]).to(rows.device))
        return {"finished": float(self.teacher.counts.finished), **self.teacher.curriculum.metrics()}

    def _seat(self, num_envs: int, now: int) -> None:
        """As many environments; those whose tickets are in flight in a resumed run play these again."""
        self._tickets, self._tasks = np.full((2, num_envs), _NO_TICKET, dtype=np.int64)
        self._begun = np.full(num_envs, now, dtype=np.int64)
        held = np.array([(ticket, env) for ticket, env in self._again.items()], dtype=np.int64).reshape(-1, 2)
        here = held[held[:, 1] < num_envs]
        self._tickets[here[:, 1]] = here[:, 0]
        if len(here):
            self._tasks[here[:, 1]] = self.teacher.drawn(here[:, 0])[0]
        if len(gone := held[held[:, 1] >= num_envs, 0]):
            self.teacher.withdraw(gone)

    def _report(self, env: Any, rows: Tensor, envs: IntArray, now: int) -> None:
        success = env.reset_time_outs[rows] if self._success is None else self._success(env, rows)
        columns: dict[str, Any] = {
            "success": _here(success).astype(bool),
            "returns": _here(_episode_sums(env, rows) if self._returns is None else self._returns(env, rows)),
            "lengths": now - self._begun[envs],
            "scores": None if self._scores is None else _here(self._scores(env, rows)),
        }
        self.teacher.report(self._tickets[envs], **columns)
        self._tickets[envs] = _NO_TICKET

    # ---- saving

    def state(self) -> dict[str, bytes]:
        """A cut of the run, to be saved with the student: `runner.save(path, infos=term.state())`."""
        return {_KEY: self.teacher.checkpoint({"student": True}).read_bytes()}

    def load(self, state: Any) -> None:
        """Go back to the cut that was saved with the student; what was recorded after it is set aside.

        Args:
            state: from `state`, or what `runner.load` gives.
        """
        cut = state.get(_KEY) if isinstance(state, dict) else None
        if not isinstance(cut, bytes):
            raise CheckpointError(
                f"there is no curriculum in this checkpoint: save it with infos=term.state(). Got {state!r:.80}."
            )
        at = checkpoint.put_back(RunFolder(self._run), cut)
        self.teacher.close()
        self._teach(Teacher.resume(self._copy(), self._run, at=at, forward=False))

    def close(self) -> None:
        """Write a last checkpoint and let go of the run."""
        self.teacher.close()


def _here(column: Tensor) -> FloatArray:
    found: FloatArray = column.detach().cpu().numpy()
    return found


def _episode_sums(env: Any, rows: Tensor) -> Tensor:
    """Sums of rewards, which both libraries keep by term of their reward manager."""
    sums: Tensor = torch.stack([each[rows] for each in env.reward_manager._episode_sums.values()]).sum(dim=0)
    return sums
