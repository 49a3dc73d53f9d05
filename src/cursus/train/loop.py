"""One loop for one environment or many: `num_envs` changes the speed of training, not its meaning."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from gymnasium.vector import AutoresetMode
from numpy.typing import NDArray

from cursus.agents import Agent
from cursus.errors import SettingsError
from cursus.metrics import CourseStatistics, JsonlWriter, Rollup, Writers
from cursus.settings import check_count, check_kind, check_positive
from cursus.teacher import Teacher
from cursus.types import BoolArray, Tree
from cursus.vector import Processes, Serial

_REMEMBERED = 100


@dataclass
class Training:
    """How a training stands."""

    steps: int = 0
    """Steps of environments, over all of them."""
    episodes: int = 0
    updates: int = 0
    returns: deque[float] = field(default_factory=lambda: deque(maxlen=_REMEMBERED))
    """Of the last 100 episodes."""
    steps_per_s: float = 0.0
    updates_per_s: float = 0.0
    figures: dict[str, float] = field(default_factory=dict)
    """The newest row of metrics."""

    @property
    def mean_return(self) -> float:
        """Of the last 100 episodes; NaN before the first has ended."""
        return float(np.mean(self.returns)) if self.returns else float("nan")


def train(
    envs: Serial | Processes,
    agent: Agent,
    *,
    steps: int,
    updates_per_env_step: float = 1.0,
    warmup_steps: int = 1_000,
    report_every: int = 1_000,
    checkpoint_every: int = 20_000,
    seed: int = 0,
    run: str | Path | None = None,
    on_report: Callable[[Training], None] = lambda training: None,
) -> Training:
    """Train until so many steps of environments are done, those of a resumed run included.

    `envs` come from `make_vec(…, autoreset="same_step")`. In the first `warmup_steps` actions are random and nothing is
    learned. From then on there are `updates_per_env_step` gradient steps for every step of an environment, however many step
    together. With the `run` folder of `envs`, metrics go to `metrics.jsonl` in it and checkpoints hold everything: a run that
    was made with `resume=True` goes on where the newest one was written. An interrupt (Ctrl-C) writes a last checkpoint.
    """
    for name, value in (("steps", steps), ("report_every", report_every), ("checkpoint_every", checkpoint_every)):
        check_count(name, value)
    check_count("warmup_steps", warmup_steps, low=0)
    check_positive("updates_per_env_step", updates_per_env_step, zero=True)
    check_kind("agent", agent, Agent, "DDDQN(4, 2)")
    if envs.metadata["autoreset_mode"] is not AutoresetMode.SAME_STEP:
        raise SettingsError('these environments reset in another step. Make them with make_vec(…, autoreset="same_step").')
    loop = _Loop(envs, agent, updates_per_env_step, warmup_steps, seed, run)
    with ExitStack() as stack:
        writers = loop.open_writers(stack)
        loop.begin()
        reported = saved = loop.now.steps
        try:
            while loop.now.steps < steps:
                loop.step()
                if loop.now.steps - reported >= report_every:
                    reported = loop.now.steps
                    loop.report(writers)
                    on_report(loop.now)
                if loop.now.steps - saved >= checkpoint_every:
                    saved = loop.now.steps
                    loop.checkpoint()
        finally:
            loop.checkpoint()
    return loop.now


class _Loop:
    """The state of a training between two steps."""

    def __init__(self, envs: Any, agent: Agent, ratio: float, warmup_steps: int, seed: int, run: str | Path | None) -> None:
        self._envs, self._agent = envs, agent
        self._ratio, self._warmup_steps = ratio, warmup_steps
        self._teacher: Teacher | None = envs.teacher
        self._run = None if run is None else Path(run)
        self._statistics = None if self._teacher is None else self._teacher.watch(CourseStatistics(self._teacher.curriculum))
        self._seed = seed
        self._debt = 0.0
        self._rollup = Rollup()
        self._losses = Rollup(prefix="train/")
        self._timer = (time.perf_counter(), 0, 0)
        self.now = Training()
        if self._teacher is not None and self._teacher.caller_state is not None:
            self._load(self._teacher.caller_state)
        self._resumed_at = self.now.steps

    def open_writers(self, stack: ExitStack) -> Writers | None:
        """Where metrics go, if there is a run folder."""
        if self._run is None:
            return None
        resumed = self._resumed_at if self._resumed_at else -1
        return stack.enter_context(Writers(JsonlWriter(self._run / "metrics.jsonl", resume=resumed)))

    def begin(self) -> None:
        """Reset all environments; in a resumed run with a seed of its own, so that it does not repeat the beginning."""
        self._observations, _ = self._envs.reset(seed=self._seed + self.now.steps)
        self._envs.action_space.seed(self._seed + self.now.steps)
        self._returns = np.zeros(len(self._observations))
        self._timer = (time.perf_counter(), self.now.steps, self._agent.updates)

    def step(self) -> None:
        """One step of every environment, and the updates that are due for it."""
        warm = self.now.steps >= self._warmup_steps
        actions = self._agent.act_batch(self._observations) if warm else self._envs.action_space.sample()
        following, rewards, terminated, truncated, infos = self._envs.step(actions)
        ended = terminated | truncated
        last = _last_observations(following, infos, ended)
        self._agent.observe(self._observations, np.asarray(actions), rewards, last, terminated, truncated)
        self._observations = following
        self.now.steps += len(rewards)
        self._returns += rewards
        if ended.any():
            self._count_episodes(infos, ended)
        if warm:
            self._debt += len(rewards) * self._ratio
            while self._debt >= 1.0:
                self._losses.add(self._agent.update())
                self._debt -= 1.0
        self.now.updates = self._agent.updates

    def _count_episodes(self, infos: Mapping[str, Any], ended: BoolArray) -> None:
        self.now.episodes += int(ended.sum())
        self._rollup.add_vector(infos.get("final_info"))
        self.now.returns.extend(self._returns[ended].tolist())
        self._returns[ended] = 0.0

    def report(self, writers: Writers | None) -> None:
        """A row of metrics."""
        then, steps, updates = self._timer
        passed = max(time.perf_counter() - then, 1e-9)
        self.now.steps_per_s = (self.now.steps - steps) / passed
        self.now.updates_per_s = (self.now.updates - updates) / passed
        self._timer = (time.perf_counter(), self.now.steps, self.now.updates)
        course = {} if self._statistics is None else self._statistics.report()
        self.now.figures = {
            "metric/agent_step": float(self.now.steps),
            "time/steps_per_s": self.now.steps_per_s,
            "time/updates_per_s": self.now.updates_per_s,
            "train/updates_per_env_step": self._ratio,
            "rollout/mean_return": self.now.mean_return,
            **self._rollup.report(),
            **self._losses.report(),
            **course,
        }
        if writers is not None:
            writers.write(self.now.steps, self.now.figures)

    # ---- saving

    def checkpoint(self) -> None:
        """One cut of agent, curriculum, tickets and counters."""
        if self._teacher is not None and self._run is not None:
            self._teacher.checkpoint(self._state())

    def _state(self) -> Tree:
        return {
            "agent": self._agent.state(),
            "steps": self.now.steps,
            "episodes": self.now.episodes,
            "returns": list(self.now.returns),
            "debt": self._debt,
        }

    def _load(self, state: Tree) -> None:
        self._agent.load(state["agent"])
        self.now.steps, self.now.episodes = int(state["steps"]), int(state["episodes"])
        self.now.updates = self._agent.updates
        self.now.returns.extend(state["returns"])
        self._debt = float(state["debt"])


def _last_observations(following: NDArray[Any], infos: Mapping[str, Any], ended: BoolArray) -> NDArray[Any]:
    """What followed, with the true last observation where an episode ended and another one has begun."""
    if not ended.any():
        return following
    last = following.copy()
    for env in np.flatnonzero(ended).tolist():
        last[env] = infos["final_obs"][env]
    return last
