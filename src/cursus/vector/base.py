"""Base class of vector environments: step, autoreset, reporting to the teacher."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import Enum
from operator import index
from types import TracebackType
from typing import Any, Literal, NamedTuple, TypeAlias

import numpy as np
from gymnasium.vector import AutoresetMode, VectorEnv
from gymnasium.vector.utils import batch_space
from numpy.typing import NDArray

from cursus.errors import SettingsError
from cursus.randomness import check_seed, episode_seed
from cursus.settings import check_count, check_positive
from cursus.teacher import Teacher
from cursus.types import BoolArray, Decision, FloatArray, IntArray
from cursus.vector.env_group import EnvDescription, EnvInfo, InfoKeys
from cursus.vector.errors import AlreadyPending, Closed, NotPending, StillPending
from cursus.vector.step_buffer import StepBuffer
from cursus.vector.worker import context_of

Autoreset: TypeAlias = Literal["next_step", "same_step", "disabled"]
OnWorkerLoss: TypeAlias = Literal["raise", "restart"]
StepResult: TypeAlias = tuple[Any, FloatArray, BoolArray, BoolArray, dict[str, Any]]
NOBODY: IntArray = np.empty(0, dtype=np.int64)
_NO_TICKET = -1


@dataclass(frozen=True)
class VectorSettings:
    """How environments are stepped; `cursus.make_vec` says what each of these means."""

    num_workers: int = 0
    """Worker processes."""
    parent_steps: bool = True
    """Whether this process steps a share of its own."""
    start_method: str | None = None
    """How processes are started."""
    autoreset: Autoreset = "next_step"
    """When an environment whose episode has ended begins the next one."""
    seed: int | None = None
    """The seed of the first reset."""
    info_keys: InfoKeys = ()
    """What the infos of steps keep."""
    copy: bool = True
    """Whether observations are copied out of the buffer."""
    record_episodes: bool = False
    """Whether `infos["episode"]` tells return and length."""
    seed_episodes: bool = False
    """Whether every episode is seeded by its ticket."""
    on_worker_loss: OnWorkerLoss = "raise"
    """What happens when a worker dies or hangs."""
    timeout_s: float | None = 60.0
    """How long a worker may take to answer."""

    def __post_init__(self) -> None:
        check_count("num_workers", self.num_workers, low=0)
        if self.num_workers == 0 and not self.parent_steps:
            raise SettingsError("num_workers=0 and parent_steps=False: nobody would step the environments.")
        if self.autoreset not in ("next_step", "same_step", "disabled"):
            raise SettingsError(f"autoreset must be 'next_step', 'same_step' or 'disabled', got {self.autoreset!r}.")
        if self.on_worker_loss not in ("raise", "restart"):
            raise SettingsError(f"on_worker_loss must be 'raise' or 'restart', got {self.on_worker_loss!r}.")
        if self.timeout_s is not None:
            check_positive("timeout_s", self.timeout_s)
        if self.seed is not None:
            check_seed(self.seed)
        if self.start_method is not None:
            context_of(self.start_method)


class StepReply(NamedTuple):
    """What came of a step, beside what stands in the buffer."""

    infos: list[EnvInfo]
    ended: bool
    """Whether any episode may have ended."""
    lost: IntArray = NOBODY
    """The environments whose worker was lost meanwhile."""


class State(Enum):
    """Where the environments stand. Whatever is done with them is done wholly, or they count as broken."""

    NEW = "the environments must be reset before their first step."
    READY = ""
    STEPPING = "step"
    RESETTING = "reset"
    BROKEN = (
        "something failed or was interrupted half-way, so the environments are no longer synchronised. "
        "Close them and make new ones."
    )


class _Episodes(NamedTuple):
    """What the episodes of some environments are: the columns of `EPISODE_KEYS`."""

    envs: IntArray
    columns: dict[str, NDArray[Any]]


class _Whole:
    """What is done under this is done wholly: the environments are `READY` afterwards (or `then`), or broken if it fails."""

    def __init__(self, envs: CurriculumVectorEnv) -> None:
        self._envs = envs
        self.then = State.READY

    def __enter__(self) -> None:
        self._envs._state = State.BROKEN

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        if kind is None:
            self._envs._state, self.then = self.then, State.READY


class CurriculumVectorEnv(VectorEnv[Any, Any, Any]):
    """Environments that step together, and a teacher who hears of every end before the next beginning.

    At every step in which episodes end, their results are reported, the teacher decides, and the next tasks are
    assigned; only then do those environments reset: within the same step (`same_step`) or at the next one (`next_step`,
    Gymnasium's default). So no episode begins with a task that was drawn before the results of those that ended earlier
    were known. Steps in which nothing ends pay nothing. What was decided in a step is in its `infos["decisions"]`.
    """

    def __init__(
        self,
        first: EnvDescription,
        buffer: StepBuffer,
        num_envs: int,
        settings: VectorSettings,
        teacher: Teacher | None,
    ) -> None:
        self._buffer = buffer
        self.num_envs = num_envs
        self.settings = settings
        self.has_teacher = teacher is not None
        """Whether there is a curriculum."""
        self._teacher = teacher
        self._withholds = teacher is not None and teacher.withholds
        self.spec, self.render_mode = first.spec, first.render_mode
        self.single_observation_space = buffer.observations.space
        self.single_action_space = buffer.actions.space
        self.observation_space = batch_space(self.single_observation_space, num_envs)
        self.action_space = batch_space(self.single_action_space, num_envs)
        self._mode = AutoresetMode[settings.autoreset.upper()]
        self.metadata = {**first.metadata, "autoreset_mode": self._mode}
        self._tickets = np.full(num_envs, _NO_TICKET, dtype=np.int64)
        self._drawn_after = np.zeros(num_envs, dtype=np.int64)  # how many decisions had been made when a task was drawn
        self._fresh_after = 0  # and when all that wait had been drawn
        self._decided: list[Decision] = []
        self._labels = np.full(num_envs, None, dtype=object)
        self._stages: NDArray[Any] | None = None
        self._learn: BoolArray = np.ones(num_envs, dtype=bool)
        self._state = State.NEW
        self._whole = _Whole(self)
        self._any_waiting = False
        self._resetting = NOBODY
        self.raw_infos: list[EnvInfo] = []
        """The infos of the last step as the environments gave them, one by one."""

    # ---- what subclasses do

    @abstractmethod
    def _begin_reset(self, numbers: IntArray, seeds: Sequence[int | None], options: Sequence[dict[str, Any]]) -> None:
        """Let these environments begin to reset, with a seed and options for each."""

    @abstractmethod
    def _finish_reset(self) -> tuple[list[EnvInfo], IntArray]:
        """Wait for those that reset; their infos, and those whose worker was lost."""

    @abstractmethod
    def _reset_waiting(self) -> tuple[list[EnvInfo], IntArray]:
        """Reset the environments that wait; infos worth telling, and those whose worker was lost."""

    @abstractmethod
    def _begin_step(self) -> None:
        """Let the environments begin to step with the actions in the buffer."""

    @abstractmethod
    def _finish_step(self) -> StepReply:
        """Wait for all, and hear what they tell."""

    @abstractmethod
    def _step_envs(self) -> StepReply:
        """Both at once."""

    @abstractmethod
    def _is_done_within(self, timeout_s: float) -> bool:
        """Wait so long at most until all workers have done what they were asked; whether they have."""

    # ---- Gymnasium's interface

    def reset(
        self,
        *,
        seed: int | Sequence[int | None] | None = None,
        options: dict[str, Any] | Sequence[dict[str, Any]] | None = None,
    ) -> tuple[Any, dict[str, Any]]:
        """Begin new episodes.

        Args:
            seed: one integer, from which environment i gets `seed + i`, or a list of one for each (default None: at the
                first reset the seed of `make_vec`, then none).
            options: for the environments' own `reset`, one dict or a list of one for each; a boolean array under
                `"reset_mask"` of the one dict, shape (num_envs,), says which environments are meant (default None: all).
        """
        self._begin_reset_of("reset", seed, options)
        return self.reset_wait()

    def reset_async(
        self,
        *,
        seed: int | Sequence[int | None] | None = None,
        options: dict[str, Any] | Sequence[dict[str, Any]] | None = None,
    ) -> None:
        """Let the workers begin to reset, and return at once; `reset_wait` gives what came of it.

        Args:
            seed: as in `reset`.
            options: as in `reset`.
        """
        self._begin_reset_of("reset_async", seed, options)

    def _begin_reset_of(self, act: str, seed: Any, options: Any) -> None:
        self._require(act, State.NEW, State.READY)
        each, mask = _options(options, self.num_envs)
        numbers = np.arange(self.num_envs) if mask is None else np.flatnonzero(_mask(mask, self.num_envs))
        if seed is None and self._state is State.NEW and not self.settings.seed_episodes:
            seed = self.settings.seed
        seeds = _seeds(seed, self.num_envs, numbers)
        if self._state is State.NEW and len(numbers) < self.num_envs:
            raise SettingsError("the first reset must be of all environments: leave reset_mask out.")
        with self._whole:
            self._assign_anew(numbers)
            self._begin_reset(numbers, seeds, [each[env] for env in numbers.tolist()])
            self._resetting = numbers
            self._whole.then = State.RESETTING

    def reset_wait(self, timeout: float | None = None) -> tuple[Any, dict[str, Any]]:
        """What came of the reset that `reset_async` began.

        Args:
            timeout: seconds to wait for the workers, as in `step_wait` (default None: until they are done, or lost).
        """
        self._wait_for("reset", State.RESETTING, timeout)
        with self._whole:
            infos, lost = self._finish_reset()
            self._buffer.waiting[self._resetting] = False
            told: dict[str, Any] = {}
            begun = self._resetting
            while len(lost := lost[~self._buffer.waiting[lost]]):  # begun before, in workers that were replaced meanwhile
                self._settle(lost, lost)
                self._assign(lost[self._tickets[lost] == _NO_TICKET])
                told, begun = self._merge(told, [], lost), np.union1d(begun, lost)
                self._begin_reset(lost, [None] * len(lost), [{}] * len(lost))
                more, lost = self._finish_reset()
                infos += more
            told = self._merge(told, infos)
            self._tell_tasks(told, self._episodes_of(begun))
            return self._observations(), told

    def step(self, actions: Any) -> StepResult:
        """Step every environment.

        Args:
            actions: one action per environment, as `action_space` says.
        """
        self._take_actions("step", actions)
        with self._whole:
            self._resample()
            return self._conclude(self._step_envs())

    def step_async(self, actions: Any) -> None:
        """Let the workers begin to step, and return at once; `step_wait` gives what came of it.

        This process steps its own share in `step_wait`: with `parent_steps=False` all of it overlaps.

        Args:
            actions: one action per environment, as `action_space` says.
        """
        self._take_actions("step_async", actions)
        with self._whole:
            self._resample()
            self._begin_step()
            self._whole.then = State.STEPPING

    def step_wait(self, timeout: float | None = None) -> StepResult:
        """What came of the step that `step_async` began.

        Args:
            timeout: seconds to wait for the workers; if they have not done their step by then this is a `TimeoutError`, the
                step goes on, and `step_wait` can be called again (default None: until they have, or are lost).
        """
        self._wait_for("step", State.STEPPING, timeout)
        with self._whole:
            return self._conclude(self._finish_step())

    def _wait_for(self, act: str, state: State, timeout: float | None) -> None:
        """Wait so long for the end of what was begun; a `TimeoutError` if it has not come by then."""
        if self._state is not state and self._state is not State.BROKEN and not self.closed:
            raise NotPending(act)
        self._require(f"{act}_wait", state)
        if timeout is None:
            return
        check_positive("timeout", timeout, zero=True)
        if not self._is_done_within(timeout):
            raise StillPending(f"the {act} has not ended within {timeout:g} s. It goes on: call {act}_wait() again.")

    def _take_actions(self, act: str, actions: Any) -> None:
        self._require(act, State.READY)
        if self._mode is AutoresetMode.DISABLED and self.has_teacher and _NO_TICKET in self._tickets.tolist():
            ended = np.flatnonzero(self._tickets == _NO_TICKET).tolist()
            raise SettingsError(f"step() of environments whose episode has ended: reset {ended!s:.60} first (reset_mask).")
        self._buffer.actions.fill(actions)

    def _conclude(self, reply: StepReply) -> StepResult:
        """Report what ended, assign what is next, and reset where the mode says so."""
        self.raw_infos = reply.infos
        buffer, told = self._buffer, dict[str, Any]()
        begun = self._episodes_of(np.flatnonzero(buffer.waiting)) if self._any_waiting else None
        if not reply.ended and not reply.infos:
            if begun is not None:
                self._wait(False)
                self._tell_tasks(told, begun)
            return self._result(self._merge(told, []) if self._decided else told)
        ended_mask = buffer.terminated | buffer.truncated
        ended = ended_mask.nonzero()[0]
        if self.settings.record_episodes:
            self._tell_episodes(told, ended)
        over = self._episodes_of(ended)
        self._settle(ended, reply.lost)
        self._wait(ended_mask)
        if self.has_teacher:
            self._fresh_after = self.teacher.num_decisions
        if self._mode is AutoresetMode.SAME_STEP and len(ended):
            return self._reset_at_once(told, ended_mask, over, reply)
        told = self._merge(told, reply.infos, reply.lost)
        self._tell_tasks(told, *(each for each in (over, begun) if each is not None and len(each.envs)))
        return self._result(told)

    def _reset_at_once(self, told: dict[str, Any], ended_mask: BoolArray, over: _Episodes, reply: StepReply) -> StepResult:
        """Begin the next episodes within the step; what the ended ones saw and said last goes into the infos."""
        buffer, ended = self._buffer, ended_mask.nonzero()[0]
        said = {env: info for env, info in reply.infos if ended_mask[env]}
        finals = [(env, {"final_info": said.get(env, {})}) for env in ended.tolist()]
        others = [(env, info) for env, info in reply.infos if not ended_mask[env]]
        told = self._merge(self._merge(told, self._final_observations(ended)), finals + others, reply.lost)
        rewards, terminated, truncated = buffer.rewards.copy(), buffer.terminated.copy(), buffer.truncated.copy()
        more, lost = self._reset_waiting()
        over_now, ended_now = [over], ended_mask.copy()
        while len(lost):  # of workers that were replaced meanwhile: their episodes end here, too
            truncated[lost] = True
            late = lost[~ended_now[lost]]  # the others had not begun their next episode yet
            over_now.append(self._episodes_of(late))
            ended_now[late] = True
            finals = [(env, {"final_info": {}}) for env in late.tolist()]
            told = self._merge(told, [*more, *self._final_observations(lost), *finals], lost)
            self._settle(lost, lost)
            buffer.waiting[:] = False
            buffer.waiting[lost] = True
            more, lost = self._reset_waiting()
        self._wait(False)
        told = self._merge(told, more)
        self._tell_tasks(told["final_info"], *over_now)
        self._tell_tasks(told, self._episodes_of(np.flatnonzero(ended_now)))
        return self._observations(), rewards, terminated, truncated, told

    def _wait(self, who: BoolArray | bool) -> None:
        """Let these wait for their next episode, and nobody else."""
        if self._mode is not AutoresetMode.DISABLED:
            self._buffer.waiting[:] = who
            self._any_waiting = 1 in self._buffer.waiting.tobytes()

    def _final_observations(self, ended: IntArray) -> list[EnvInfo]:
        return [(env, {"final_obs": self._buffer.observations.row(env)}) for env in ended.tolist()]

    # ---- one environment at a time

    @abstractmethod
    def call_some(self, numbers: Sequence[int], name: str | Callable[..., Any], *args: Any, **kwargs: Any) -> tuple[Any, ...]:
        """Call a method of some environments or a function of them, or read an attribute.

        Args:
            numbers: indices of environments, shape (n,).
            name: name of the method or attribute, or a function whose first argument is the environment.
            args: positional arguments of the method.
            kwargs: keyword arguments of the method.
        """

    @abstractmethod
    def repeat(self, numbers: Sequence[int], actions: Sequence[Sequence[Any]]) -> Any:
        """Let environments that have just begun do again what a run that was stopped had done; all observations afterwards.

        An environment that ends on the way is an `EnvError`. With `seed_episodes` and an environment that does the same for
        the same seed and actions, it is then where it was.

        Args:
            numbers: indices of environments, shape (n,).
            actions: for each of them the actions of its episode so far.
        """

    @abstractmethod
    def set_attr_some(self, numbers: Sequence[int], name: str, values: Sequence[Any]) -> None:
        """Set an attribute of some environments.

        Args:
            numbers: indices of environments, shape (n,).
            name: the attribute's name.
            values: one for each of them.
        """

    def set_attr(self, name: str, values: Any) -> None:
        """Set the attribute `name` of every environment to `values`: one value for all, or a list of one for each."""
        if not isinstance(values, list | tuple):
            values = [values] * self.num_envs
        if len(values) != self.num_envs:
            raise SettingsError(f"{len(values)} values for {self.num_envs} environments.")
        self.set_attr_some(range(self.num_envs), name, values)

    def call(self, name: str | Callable[..., Any], *args: Any, **kwargs: Any) -> tuple[Any, ...]:
        """Call the method `name` of every environment with `args` and `kwargs`, or read the attribute of that name.

        `name` may also be a function whose first argument is the environment.
        """
        return self.call_some(range(self.num_envs), name, *args, **kwargs)

    def get_attr(self, name: str) -> tuple[Any, ...]:
        """Read the attribute `name` of every environment."""
        return self.call(name)

    @property
    def np_random_seed(self) -> tuple[int, ...]:  # type: ignore[override]
        """The seed with which the generator of each environment began."""
        return self.get_attr("np_random_seed")

    @property  # type: ignore[misc]
    def np_random(self) -> tuple[np.random.Generator, ...]:  # type: ignore[override]
        """The generator of each environment; of those in workers, a copy."""
        return self.get_attr("np_random")

    def render(self) -> tuple[Any, ...] | None:
        """One frame of every environment, as its render mode says."""
        return self.call("render")

    # ---- the teacher's part

    @property
    def teacher(self) -> Teacher:
        """The teacher of these environments; an error where there is no curriculum."""
        if self._teacher is None:
            raise SettingsError(
                "these environments have no curriculum, and so no teacher. Give one: make_vec(…, curriculum=…)."
            )
        return self._teacher

    def _settle(self, ended: IntArray, lost: IntArray) -> None:
        """Report results and losses, then assign the next tasks."""
        if not self.has_teacher or not len(ended):
            return
        buffer = self._buffer
        finished = np.setdiff1d(ended, lost, assume_unique=True) if len(lost) else ended
        if len(lost):
            held = self._tickets[lost]
            self._decided += self.teacher.lose(held[held != _NO_TICKET])
        if len(finished):
            self._decided += self.teacher.report(
                self._tickets[finished],
                success=buffer.success[finished],
                returns=buffer.returns[finished],
                lengths=buffer.lengths[finished],
                scores=buffer.scores[finished],
            )
        self._tickets[ended] = _NO_TICKET
        if self._mode is not AutoresetMode.DISABLED:
            self._assign(ended)

    def _assign(self, numbers: IntArray) -> None:
        if self.has_teacher and len(numbers):
            given = self.teacher.assign(numbers)
            self._tickets[numbers] = given.tickets
            self._buffer.tasks[numbers] = given.tasks
            self._labels[numbers] = [self.teacher.tasks.label(task) for task in given.tasks.tolist()]
            stages = self.teacher.curriculum.stages_of(given.tags)
            if stages is not None:
                self._stages = np.full(self.num_envs, None, dtype=object) if self._stages is None else self._stages
                self._stages[numbers] = stages
            self._learn[numbers] = given.learn
            if self.settings.seed_episodes:
                self._buffer.seeds[numbers] = [episode_seed(self.teacher.seed, ticket) for ticket in given.tickets.tolist()]
            self._drawn_after[numbers] = self.teacher.num_decisions

    def _assign_anew(self, numbers: IntArray) -> None:
        """Take back what these environments hold, and give them fresh tasks."""
        if self.has_teacher:
            held = self._tickets[numbers]
            if (held != _NO_TICKET).any():
                self._decided += self.teacher.withdraw(held[held != _NO_TICKET])
            self._assign(numbers)

    def _resample(self) -> None:
        """Draw again what waits and was drawn before the last decision, whoever brought that about."""
        if self._any_waiting and self.has_teacher and self.teacher.num_decisions != self._fresh_after:
            outdated = self._buffer.waiting & (self._drawn_after != self.teacher.num_decisions)
            if outdated.any():
                self._assign_anew(np.flatnonzero(outdated))

    @property
    def task_ids(self) -> IntArray:
        """The task that each environment practises, or will at its next reset."""
        ids: IntArray = self._buffer.tasks.copy()
        return ids

    @property
    def tickets(self) -> IntArray:
        """The ticket that each environment holds, -1 where it holds none."""
        return self._tickets.copy()

    @property
    def learn(self) -> BoolArray:
        """Whether the episode of each environment is to be learned from: not where it is played to be scored alone."""
        return self._learn.copy()

    def _episodes_of(self, envs: IntArray) -> _Episodes:
        """Which tasks these environments have now."""
        if not self.has_teacher or not len(envs):
            return _Episodes(envs, {})
        columns = {"task": self._buffer.tasks[envs], "label": self._labels[envs]}
        if self._stages is not None:
            columns["stage"] = self._stages[envs]
        if self._withholds:
            columns["learn"] = self._learn[envs]
        return _Episodes(envs, columns)

    def _tell_tasks(self, told: dict[str, Any], *groups: _Episodes) -> None:
        """Add what the episodes of some environments are, unless environments say something under the same keys themselves."""
        for key in [key for key in groups[0].columns if key not in told] if groups else ():
            empty = groups[0].columns[key]
            told[key] = np.full(self.num_envs, None if empty.dtype == object else 0, dtype=empty.dtype)
            told[f"_{key}"] = np.zeros(self.num_envs, dtype=bool)
            for envs, columns in groups:
                if len(envs):
                    told[key][envs] = columns[key]
                    told[f"_{key}"][envs] = True

    # ---- results

    def _observations(self) -> Any:
        arrays = self._buffer.observations.arrays
        if not self._buffer.observations.fixed:
            return self._buffer.observations.copy()
        if not self.settings.copy:
            return arrays
        return arrays.copy() if isinstance(arrays, np.ndarray) else self._buffer.observations.copy()

    def _result(self, infos: dict[str, Any]) -> StepResult:
        buffer = self._buffer
        return self._observations(), buffer.rewards.copy(), buffer.terminated.copy(), buffer.truncated.copy(), infos

    def _merge(self, told: dict[str, Any], infos: list[EnvInfo], lost: IntArray | None = None) -> dict[str, Any]:
        for env, info in infos:
            told = self._add_info(told, info, env)
        if lost is not None and len(lost):
            for env in lost.tolist():
                told = self._add_info(told, {"worker_lost": True}, env)
        if self._decided:
            told["decisions"] = [*told.get("decisions", ()), *self._decided]
            self._decided = []
        return told

    def _tell_episodes(self, told: dict[str, Any], ended: IntArray) -> None:
        mask = np.zeros(self.num_envs, dtype=bool)
        mask[ended] = True
        returns = np.where(mask, self._buffer.returns, 0.0)
        lengths = np.where(mask, self._buffer.lengths, 0)
        told["episode"] = {"r": returns, "_r": mask, "l": lengths, "_l": mask.copy()}
        told["_episode"] = mask.copy()

    def _require(self, act: str, *states: State) -> None:
        """Refuse an act for which the environments are not ready."""
        if self.closed:
            raise Closed(f"{act}() after close().")
        if self._state in states:
            return
        if self._state in (State.STEPPING, State.RESETTING):
            raise AlreadyPending(act, self._state.value)
        raise SettingsError(f"{act}() is not possible now: {self._state.value}")


def _options(options: Any, num_envs: int) -> tuple[Sequence[dict[str, Any]], Any]:
    """The options of each environment, and the mask of those that are meant."""
    if isinstance(options, list | tuple):
        if len(options) != num_envs or not all(isinstance(each, dict) for each in options):
            raise SettingsError(f"options={options!r:.80} must be a dict, or a list of {num_envs} dicts.")
        return options, None
    if options is not None and not isinstance(options, dict):
        raise SettingsError(f"options={options!r:.80} must be a dict, or a list of {num_envs} dicts.")
    chosen = dict(options or {})
    mask = chosen.pop("reset_mask", None)
    return [chosen] * num_envs, mask


def _mask(mask: Any, num_envs: int) -> BoolArray:
    found = np.asarray(mask)
    if found.shape != (num_envs,) or found.dtype != np.bool_:
        raise SettingsError(f"reset_mask must hold {num_envs} booleans, got {found.shape} of {found.dtype}.")
    return found


def _seeds(seed: Any, num_envs: int, numbers: IntArray) -> list[int | None]:
    """One seed per environment: from one number `seed + env`, as Gymnasium does."""
    if seed is None:
        return [None] * len(numbers)
    if isinstance(seed, int | np.integer) and not isinstance(seed, bool):
        seed = range(int(seed), int(seed) + num_envs)
    try:
        each = [one if one is None else index(one) for one in seed]
    except TypeError:
        each = []
    if len(each) != num_envs or any(one is not None and one < 0 for one in each):
        raise SettingsError(f"seed={seed!r:.80} must be an integer of at least 0, or a list of {num_envs} of them or None.")
    return [each[env] for env in numbers.tolist()]
