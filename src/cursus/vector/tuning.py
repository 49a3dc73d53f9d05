"""`autotune`: finds by trying how many worker processes suit some environments on this machine."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass
from itertools import cycle
from typing import Any

import gymnasium

from cursus.errors import SettingsError
from cursus.vector.env_group import MakeEnv
from cursus.vector.make import make_vec

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
    if not seconds > 0:
        raise SettingsError(f"seconds={seconds!r} must be a positive number.")
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
    ways = _ways(total, len(os.sched_getaffinity(0)), waits=busy < _WAITS)
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
