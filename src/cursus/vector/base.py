"""What all vector environments of ours share: the step protocol, and the teacher's part in it."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from enum import Enum
from typing import Any, Literal, NamedTuple, TypeAlias

import numpy as np
from gymnasium.vector import AutoresetMode, VectorEnv
from gymnasium.vector.utils import batch_space

from cursus.errors import SettingsError
from cursus.randomness import episode_seed
from cursus.teacher import Teacher
from cursus.types import BoolArray, FloatArray, IntArray
from cursus.vector.env_group import EnvInfo
from cursus.vector.step_buffer import Board

Autoreset: TypeAlias = Literal["next_step", "same_step", "disabled"]
StepResult: TypeAlias = tuple[Any, FloatArray, BoolArray, BoolArray, dict[str, Any]]
_NO_TICKET = -1
NOBODY: IntArray = np.empty(0, dtype=np.int64)


class Heard(NamedTuple):
    """What came of a step, beside what stands on the board."""

    infos: list[EnvInfo]
    ended: bool
    """Whether any episode may have ended."""
    lost: IntArray = NOBODY
    """The environments whose worker was lost meanwhile."""


class State(Enum):
    """Where the environments stand. Whatever is done with them is done wholly, or they count as broken."""

    NEW = "the environments must be reset before their first step."
    READY = ""
    STEPPING = "a step is under way: call step_wait() first."
    HALVES = "a half is under way: call recv() first."
    BROKEN = (
        "something failed or was interrupted half-way, so the environments are no longer in step. Close them and make new ones."
    )


class TaughtVectorEnv(VectorEnv[Any, Any, Any]):
    """Environments in step, and a teacher who hears of every end before the next beginning.

    At every step in which episodes end, their results are reported, the teacher decides, and the next tasks are
    assigned; only then do those environments reset: within the same step (`same_step`) or at the next one (`next_step`,
    Gymnasium's default). So no episode begins with a task that was drawn before the results of those that ended earlier
    were known. Steps in which nothing ends pay nothing.
    """

    def __init__(
        self,
        board: Board,
        num_envs: int,
        *,
        autoreset: Autoreset,
        teacher: Teacher | None,
        seed: int | None,
        copy: bool,
        record_episodes: bool,
        seed_episodes: bool,
        metadata: dict[str, Any],
    ) -> None:
        self._board = board
        self.num_envs = num_envs
        self.teacher = teacher
        self.single_observation_space = board.observations.space
        self.single_action_space = board.actions.space
        self.observation_space = batch_space(self.single_observation_space, num_envs)
        self.action_space = batch_space(self.single_action_space, num_envs)
        self._mode = AutoresetMode[autoreset.upper()]
        self.metadata = {**metadata, "autoreset_mode": self._mode}
        self._copy = copy
        self.record_episodes = record_episodes
        self._first_seed = None if seed_episodes else seed
        self.seeds_episodes = seed_episodes
        self._tickets = np.full(num_envs, _NO_TICKET, dtype=np.int64)
        self._course = 0  # how often a decision changed it
        self._drawn_in = np.zeros(num_envs, dtype=np.int64)
        self._state = State.NEW
        self._any_waiting = False
        self.raw_infos: list[EnvInfo] = []
        """The infos of the last step as the environments gave them, one by one."""

    # ---- what subclasses do

    @abstractmethod
    def _reset_envs(
        self, numbers: IntArray, seeds: Sequence[int | None], options: dict[str, Any]
    ) -> tuple[list[EnvInfo], IntArray]:
        """Reset these environments; their infos, and those whose worker was lost."""

    @abstractmethod
    def _reset_waiting(self) -> tuple[list[EnvInfo], IntArray]:
        """Reset the environments that wait; infos worth telling, and those whose worker was lost."""

    @abstractmethod
    def _begin_step(self) -> None:
        """Let the environments begin to step with the actions on the board."""

    @abstractmethod
    def _finish_step(self) -> Heard:
        """Wait for all, and hear what they tell."""

    # ---- Gymnasium's interface

    def reset(
        self, *, seed: int | Sequence[int | None] | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Any, dict[str, Any]]:
        """Begin new episodes everywhere, or where `options["reset_mask"]` says so."""
        self._require("reset", State.NEW, State.READY)
        chosen = dict(options or {})
        mask = chosen.pop("reset_mask", None)
        numbers = np.arange(self.num_envs) if mask is None else np.flatnonzero(_mask(mask, self.num_envs))
        if seed is None and self._state is State.NEW:
            seed = self._first_seed
        seeds = _seeds(seed, self.num_envs, numbers)
        self._state = State.BROKEN  # until all is done
        self._assign_anew(numbers)
        infos, lost = self._reset_envs(numbers, seeds, chosen)
        self._board.waiting[numbers] = False
        told: dict[str, Any] = {}
        while len(lost := lost[~self._board.waiting[lost]]):  # begun before, in workers that were replaced meanwhile
            self._settle(lost, lost)
            self._assign(lost[self._tickets[lost] == _NO_TICKET])
            told = self._merge(told, [], lost)
            more, lost = self._reset_envs(lost, [None] * len(lost), {})
            infos += more
        self._state = State.READY
        return self._observations(self._board), self._merge(told, infos)

    def step(self, actions: Any) -> StepResult:
        """Step every environment."""
        self._start_step(actions)
        result = self._conclude(self._board, self._finish_step())
        self._state = State.READY
        return result

    def step_async(self, actions: Any) -> None:
        """Let the workers begin to step; `step_wait` gives what came of it."""
        self._start_step(actions)
        self._state = State.STEPPING

    def step_wait(self) -> StepResult:
        """What came of the step that `step_async` began."""
        if self._state in (State.NEW, State.READY) and not self.closed:
            raise SettingsError("step_wait() without step_async().")
        self._require("step_wait", State.STEPPING)
        self._state = State.BROKEN
        result = self._conclude(self._board, self._finish_step())
        self._state = State.READY
        return result

    def _start_step(self, actions: Any) -> None:
        self._require("step", State.READY)
        self._board.actions.fill(actions)
        self._state = State.BROKEN  # until all is done
        if self._any_waiting:
            self._redraw(self._board)
        self._begin_step()

    def _conclude(self, part: Board, heard: Heard) -> StepResult:
        """Report what ended among these environments, assign what is next, and reset where the mode says so."""
        self.raw_infos = infos = heard.infos
        if not heard.ended and not infos:
            if self._any_waiting:
                self._wait(part, False)
            return self._result(part, {})
        ended_mask = part.terminated | part.truncated
        ended = ended_mask.nonzero()[0] + part.first
        told: dict[str, Any] = {}
        if self.record_episodes:
            self._tell_episodes(told, ended)
        self._settle(ended, heard.lost)
        self._wait(part, ended_mask)
        if self._mode is not AutoresetMode.SAME_STEP or not len(ended):
            return self._result(part, self._merge(told, infos, heard.lost))
        said = {env: info for env, info in infos if ended_mask[env - part.first]}
        finals = [(env, {"final_info": said.get(env, {})}) for env in ended.tolist()]
        others = [(env, info) for env, info in infos if not ended_mask[env - part.first]]
        told = self._merge(self._merge(told, self._final_observations(ended)), finals + others, heard.lost)
        rewards, terminated, truncated = part.rewards.copy(), part.terminated.copy(), part.truncated.copy()
        more, lost = self._reset_waiting()
        while len(lost):  # of workers that were replaced meanwhile: their episodes end here, too
            truncated[lost - part.first] = True
            told = self._merge(told, [*more, *self._final_observations(lost)], lost)
            self._settle(lost, lost)
            part.waiting[:] = False
            self._board.waiting[lost] = True
            more, lost = self._reset_waiting()
        self._wait(part, False)
        return self._observations(part), rewards, terminated, truncated, self._merge(told, more)

    def _wait(self, part: Board, who: BoolArray | bool) -> None:
        """Let these of the part wait for their next episode, and nobody else of it."""
        if self._mode is not AutoresetMode.DISABLED:
            part.waiting[:] = who
            self._any_waiting = 1 in self._board.waiting.tobytes()

    def _final_observations(self, ended: IntArray) -> list[EnvInfo]:
        return [(env, {"final_obs": self._board.observations.row(env)}) for env in ended.tolist()]

    # ---- one environment at a time

    @abstractmethod
    def call_some(self, numbers: Sequence[int], name: str, *args: Any, **kwargs: Any) -> tuple[Any, ...]:
        """Call a method of some environments, or read an attribute."""

    @abstractmethod
    def repeat(self, numbers: Sequence[int], actions: Sequence[Sequence[Any]]) -> Any:
        """Let environments that have just begun do again what a run that was stopped had done; all observations afterwards.

        An environment that ends on the way is an `EnvError`. With `seed_episodes` and an environment that does the same for
        the same seed and actions, it is then where it was.
        """

    @abstractmethod
    def set_attr_some(self, numbers: Sequence[int], name: str, values: Sequence[Any]) -> None:
        """Set an attribute of some environments, one value for each."""

    def set_attr(self, name: str, values: Any) -> None:
        """Set an attribute of every environment: one value for all, or a list of one for each."""
        if not isinstance(values, list | tuple):
            values = [values] * self.num_envs
        if len(values) != self.num_envs:
            raise SettingsError(f"{len(values)} values for {self.num_envs} environments.")
        self.set_attr_some(range(self.num_envs), name, values)

    def call(self, name: str, *args: Any, **kwargs: Any) -> tuple[Any, ...]:
        """Call a method of every environment, or read an attribute."""
        return self.call_some(range(self.num_envs), name, *args, **kwargs)

    def get_attr(self, name: str) -> tuple[Any, ...]:
        """Read an attribute of every environment."""
        return self.call(name)

    def render(self) -> tuple[Any, ...] | None:
        """A picture of every environment."""
        return self.call("render")

    # ---- the teacher's part

    def _settle(self, ended: IntArray, lost: IntArray) -> None:
        """Report results and losses, then assign the next tasks."""
        if self.teacher is None or not len(ended):
            return
        board = self._board
        finished = np.setdiff1d(ended, lost, assume_unique=True) if len(lost) else ended
        decided = []
        if len(lost):
            held = self._tickets[lost]
            decided += self.teacher.lose(held[held != _NO_TICKET])
        if len(finished):
            decided += self.teacher.report(
                self._tickets[finished],
                success=board.success[finished],
                returns=board.returns[finished],
                lengths=board.lengths[finished],
                scores=board.scores[finished],
            )
        self._tickets[ended] = _NO_TICKET
        self._course += bool(decided)
        if self._mode is not AutoresetMode.DISABLED:
            self._assign(ended)

    def _assign(self, numbers: IntArray) -> None:
        if self.teacher is not None and len(numbers):
            given = self.teacher.assign(numbers)
            self._tickets[numbers] = given.tickets
            self._board.tasks[numbers] = given.tasks
            if self.seeds_episodes:
                self._board.seeds[numbers] = [episode_seed(self.teacher.seed, ticket) for ticket in given.tickets.tolist()]
            self._drawn_in[numbers] = self._course

    def _assign_anew(self, numbers: IntArray) -> None:
        """Take back what these environments hold, and give them fresh tasks."""
        if self.teacher is not None:
            held = self._tickets[numbers]
            if (held != _NO_TICKET).any():
                self._course += bool(self.teacher.withdraw(held[held != _NO_TICKET]))
            self._assign(numbers)

    def _redraw(self, part: Board) -> None:
        """Draw anew what waits here and was drawn before the last decision."""
        if self.teacher is None or self._course == 0:
            return
        outdated = part.waiting & (self._drawn_in[part.first : part.first + len(part.waiting)] != self._course)
        if outdated.any():
            self._assign_anew(part.first + np.flatnonzero(outdated))

    @property
    def task_ids(self) -> IntArray:
        """The task that each environment practises, or will at its next reset."""
        ids: IntArray = self._board.tasks.copy()
        return ids

    # ---- results

    def _observations(self, part: Board) -> Any:
        return part.observations.copy() if self._copy else part.observations.arrays

    def _result(self, part: Board, infos: dict[str, Any]) -> StepResult:
        return self._observations(part), part.rewards.copy(), part.terminated.copy(), part.truncated.copy(), infos

    def _merge(self, told: dict[str, Any], infos: list[EnvInfo], lost: IntArray | None = None) -> dict[str, Any]:
        for env, info in infos:
            told = self._add_info(told, info, env)
        if lost is not None and len(lost):
            for env in lost.tolist():
                told = self._add_info(told, {"worker_lost": True}, env)
        return told

    def _tell_episodes(self, told: dict[str, Any], ended: IntArray) -> None:
        mask = np.zeros(self.num_envs, dtype=bool)
        mask[ended] = True
        returns = np.where(mask, self._board.returns, 0.0)
        lengths = np.where(mask, self._board.lengths, 0)
        told["episode"] = {"r": returns, "_r": mask, "l": lengths, "_l": mask.copy()}
        told["_episode"] = mask.copy()

    def _require(self, act: str, *states: State) -> None:
        """Refuse an act for which the environments are not ready."""
        if self.closed:
            raise SettingsError(f"{act}() after close().")
        if self._state not in states:
            raise SettingsError(f"{act}() is not possible now: {self._state.value}")


def _mask(mask: Any, num_envs: int) -> BoolArray:
    found = np.asarray(mask)
    if found.shape != (num_envs,) or found.dtype != np.bool_:
        raise SettingsError(f"reset_mask must hold {num_envs} truth values, not {found.shape} of {found.dtype}.")
    return found


def _seeds(seed: int | Sequence[int | None] | None, num_envs: int, numbers: IntArray) -> list[int | None]:
    """One seed per environment: from one number `seed + env`, as Gymnasium does."""
    if seed is None:
        return [None] * len(numbers)
    if isinstance(seed, int | np.integer):
        return [int(seed) + int(env) for env in numbers]
    if len(seed) != num_envs:
        raise SettingsError(f"{len(seed)} seeds for {num_envs} environments.")
    return [seed[int(env)] for env in numbers]
