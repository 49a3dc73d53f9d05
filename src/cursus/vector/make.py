"""`make_vec`: many copies of an environment as one vector environment."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass
from itertools import cycle
from pathlib import Path
from typing import Any, Literal, cast

import gymnasium
from gymnasium.vector import AutoresetMode

from cursus._platform import num_cores
from cursus.curricula import Curriculum
from cursus.curricula.base import check_is_curriculum
from cursus.errors import SettingsError
from cursus.settings import check_count, check_kind, check_positive
from cursus.teacher import Teacher
from cursus.vector.base import Autoreset, OnWorkerLoss, VectorSettings
from cursus.vector.env_group import MakeEnv, check_env
from cursus.vector.processes import Processes
from cursus.vector.serial import Serial
from cursus.vector.task_interface import SUCCESS_KEYS, ReadScore, ReadSuccess, SetTask, TaskInterface
from cursus.verbosity import quiet


def make_vec(
    make_env: str | Callable[[], gymnasium.Env[Any, Any]] | Sequence[MakeEnv],
    num_envs: int | None = None,
    *,
    curriculum: Curriculum | None = None,
    run: str | Path | None = None,
    resume: bool = False,
    seed: int | None = None,
    set_task: SetTask = None,
    success: ReadSuccess = SUCCESS_KEYS,
    score: ReadScore = None,
    num_workers: int | None = None,
    parent_steps: bool = True,
    start_method: str | None = None,
    autoreset: Autoreset | AutoresetMode = "next_step",
    info_keys: Sequence[str] | Literal["all"] | None = None,
    record_episodes: bool = False,
    seed_episodes: bool = False,
    copy: bool = True,
    on_worker_loss: OnWorkerLoss = "raise",
    timeout_s: float | None = 60.0,
) -> Serial | Processes:
    """Many copies of an environment as a `gymnasium.vector.VectorEnv`, with a curriculum or without.

    With a `curriculum`, every episode practises the task that its teacher assigned.

    Args:
        make_env: a function that makes one environment, a list of such functions, or the id of a registered environment.
        num_envs: number of environments, at least 1 (default None: the length of the list, or 1).
        curriculum: what chooses the tasks; it belongs to the teacher of these environments until they are closed (default
            None: there are no tasks).
        run: folder in which everything is recorded (default None: nothing is).
        resume: whether to go on with the run in this folder, if there is one (default False); see `Teacher.resume`.
        seed: keys all draws of the curriculum, and at the first reset environment i gets `seed + i`; an integer from 0
            (default None: 0 for the curriculum, no seed for the environments).
        set_task: function of environment and task that sets a task (default None: it travels in
            `reset(options={"task": task})`, and an environment that does not read it is an error); `"ignore"` for environments
            to which all tasks may be the same.
        success: key of the final info that says whether an episode succeeded, a sequence of keys (the first present is used),
            or a function of the final info, which also has return and length as `info["episode"]["r"]` and `["l"]` (default
            `"is_success"`, then `"success"`).
        score: key of the final info, or function of it, for curricula with a finer measure (default None: the success).
        num_workers: worker processes, from 0, which means that this process steps all environments (default None: the number of
            cores less one, and no more than there are environments for).
        parent_steps: whether this process steps a share of the environments while the workers step theirs (default True).
        start_method: `"fork"`, `"forkserver"` or `"spawn"` (default None: `"forkserver"` where there is one).
        autoreset: when an environment whose episode has ended begins the next one: at the `"next_step"` (default), in the
            `"same_step"`, or when `reset` is called (`"disabled"`); or Gymnasium's `AutoresetMode`.
        info_keys: keys of infos that are kept at every step, or `"all"`; other infos stay with their environment except the
            final ones (default None: none).
        record_episodes: whether `infos["episode"]` tells return and length of episodes that end (default False).
        seed_episodes: whether every episode is seeded by its ticket, so that the same ticket begins the same way in any
            environment, and again in a resumed run (default False).
        copy: whether observations are copied out of the shared buffer; without, they change with the next step (default True).
        on_worker_loss: `"raise"` a `WorkerError` when a worker dies or hangs (default), or `"restart"` it.
        timeout_s: seconds within which a worker must answer, or None for no limit (default 60).
    """
    makers = _makers(make_env, num_envs)
    if curriculum is not None:
        check_is_curriculum(curriculum)
    if run is not None:
        check_kind("run", run, (str, os.PathLike), '"runs/first"')
    if info_keys is not None and info_keys != "all":
        check_kind("info_keys", info_keys, (list, tuple), '["coins", "health"] or "all"')
        info_keys = tuple(info_keys)
    if isinstance(autoreset, AutoresetMode):
        autoreset = cast(Autoreset, autoreset.name.lower())
    if num_workers is None:
        num_workers = min(max(num_cores() - 1, 0 if parent_steps else 1), len(makers))
    settings = VectorSettings(
        num_workers=num_workers,
        parent_steps=parent_steps,
        start_method=start_method,
        autoreset=autoreset,
        seed=seed,
        info_keys=info_keys or (),
        copy=copy,
        record_episodes=record_episodes,
        seed_episodes=seed_episodes,
        on_worker_loss=on_worker_loss,
        timeout_s=timeout_s,
    )
    interface, teacher = None, None
    if curriculum is not None:
        interface = TaskInterface(curriculum.tasks, set_task=set_task, success=success, score=score, needs=curriculum.needs)
        teacher = Teacher(curriculum, seed=seed, run=run, resume=resume)
        teacher.expect_envs(len(makers))
    elif run is not None or resume or seed_episodes:
        raise SettingsError("run, resume and seed_episodes are for a curriculum: give one, or leave them out.")
    try:
        if parent_steps and (num_workers == 0 or len(makers) == 1):
            return Serial(makers, settings, interface=interface, teacher=teacher)
        return Processes(makers, settings, interface=interface, teacher=teacher)
    except BaseException:
        if teacher is not None:
            teacher.close()
        raise


def _makers(make_env: Any, num_envs: int | None) -> list[MakeEnv]:
    if isinstance(make_env, Sequence) and not isinstance(make_env, str):
        for each in make_env:
            _check_maker(each)
        if not make_env or num_envs not in (None, len(make_env)):
            raise SettingsError(f"{len(make_env)} makers for num_envs={num_envs}: give one function per environment.")
        return list(make_env)
    check_count("num_envs", 1 if num_envs is None else num_envs)
    if isinstance(make_env, str):
        try:
            spec = gymnasium.spec(make_env)  # found here, so that workers need not have registered it
        except gymnasium.error.Error as error:
            raise SettingsError(f"there is no environment {make_env!r}: {error}") from None
        return [lambda: gymnasium.make(spec)] * (num_envs or 1)
    _check_maker(make_env)
    return [make_env] * (num_envs or 1)


def _check_maker(make_env: Any) -> None:
    if isinstance(make_env, gymnasium.vector.VectorEnv):
        check_env(make_env)
    if isinstance(make_env, gymnasium.Env):
        raise SettingsError(
            f"got the environment {make_env}: give the function that makes it, such as {type(make_env).__name__}."
        )
    if not callable(make_env):
        raise SettingsError(f"make_env={make_env!r:.80} must be a function, a list of functions, or the id of an environment.")


_WAITS = 0.5  # an environment that uses less of its time than this waits for something
_WORTH = 1.05  # more processes must be this much faster than fewer ones
_ACTIONS = 16
_WARM_UP = 0.2  # of the time of a trial


@dataclass(frozen=True)
class Trial:
    """One way to run the environments, and how fast it was."""

    num_workers: int
    """Worker processes."""
    parent_steps: bool
    """Whether this process stepped a share of its own."""
    steps_per_second: float
    """Steps of single environments per second."""

    @property
    def settings(self) -> dict[str, Any]:
        """What makes `make_vec` do the same."""
        return {"num_workers": self.num_workers, "parent_steps": self.parent_steps}

    def __str__(self) -> str:
        who = "this process alone"
        if self.num_workers:
            workers = f"{self.num_workers} worker{'s' * (self.num_workers > 1)}"
            who = f"{workers} {'and' if self.parent_steps else 'beside'} this process"
        return f"{self.steps_per_second:>12,.0f} steps/s  {who}"


@dataclass(frozen=True)
class Tuning(Mapping[str, Any]):
    """What `autotune` found: the settings of the best trial, to be handed to `make_vec` with `**`."""

    best: Trial
    """The one that was chosen."""
    trials: tuple[Trial, ...]
    """All of them, in the order in which they were made."""

    def __getitem__(self, name: str) -> Any:
        return self.best.settings[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self.best.settings)

    def __len__(self) -> int:
        return len(self.best.settings)

    def __str__(self) -> str:
        return "\n".join(f"{trial}{'   ← chosen' if trial == self.best else ''}" for trial in self.trials)


@quiet()
def autotune(
    make_env: str | Callable[[], gymnasium.Env[Any, Any]] | Sequence[MakeEnv],
    num_envs: int | None = None,
    *,
    seconds: float = 1.0,
    **settings: Any,
) -> Tuning:
    """The fastest way to run these environments on this machine, found by stepping them with random actions.

    Tried are this process alone, more and more processes up to the number of cores, with this one and beside it, and, if
    the environments wait rather than work, still more, up to one for each. More processes are chosen only if they are worth it.

    Args:
        make_env: as in `make_vec`.
        num_envs: as in `make_vec` (default None).
        seconds: how long each trial takes, beside the time that its processes need to start; above 0 (default 1).
        settings: others of `make_vec`; a curriculum is copied, and so learns nothing here.

        tuning = cursus.autotune(make_env, 64)
        print(tuning)
        envs = cursus.make_vec(make_env, 64, **tuning)
    """
    check_positive("seconds", seconds)
    if chosen := {"num_workers", "parent_steps", "run", "resume"} & set(settings):
        raise SettingsError(f"{', '.join(sorted(chosen))}: autotune finds the first two, and records nothing.")

    def attempt(num_workers: int, parent_steps: bool) -> tuple[Trial, float]:
        own = {**settings, "curriculum": deepcopy(settings.get("curriculum"))}
        envs = make_vec(make_env, num_envs, num_workers=num_workers, parent_steps=parent_steps, **own)
        try:
            speed, busy = _measure(envs, seconds)
        finally:
            envs.close()
        return Trial(num_workers, parent_steps, speed), busy

    alone, busy = attempt(0, True)
    total = len(make_env) if isinstance(make_env, Sequence) and not isinstance(make_env, str) else num_envs or 1
    ways = _ways(total, num_cores(), waits=busy < _WAITS)
    trials = (alone, *(attempt(*way)[0] for way in ways))
    best = alone
    for trial in trials:
        if trial.steps_per_second > best.steps_per_second * (_WORTH if trial.num_workers > best.num_workers else 1.0):
            best = trial
    return Tuning(best, trials)


def _ways(num_envs: int, cores: int, *, waits: bool) -> list[tuple[int, bool]]:
    """Numbers of workers to try beside none, and whether the parent steps too; few processes first."""
    counts = {cores} | {2**power for power in range(1, cores.bit_length()) if 2**power < cores}
    if waits:
        counts |= {4 * cores, num_envs}
    possible = sorted(count for count in counts if 1 < count <= num_envs)
    return [(count - parent_steps, parent_steps) for count in possible for parent_steps in (True, False)]


def _measure(envs: Any, seconds: float) -> tuple[float, float]:
    """Steps per second, and which share of the time this process was busy."""
    envs.action_space.seed(0)
    actions = cycle([envs.action_space.sample() for _ in range(_ACTIONS)])
    envs.reset(seed=0)
    _step(envs, actions, seconds * _WARM_UP)
    busy = time.process_time()
    rounds, lasted = _step(envs, actions, seconds)
    return rounds * envs.num_envs / lasted, (time.process_time() - busy) / lasted


def _step(envs: Any, actions: Iterator[Any], seconds: float) -> tuple[int, float]:
    """Step for a while; how often, and for how long."""
    rounds, begun = 0, time.perf_counter()
    while (lasted := time.perf_counter() - begun) < seconds or not rounds:
        envs.step(next(actions))
        rounds += 1
    return rounds, lasted
