"""One loop for one environment or many: `num_envs` changes the speed of training, not its meaning."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from gymnasium.vector import AutoresetMode
from numpy.typing import NDArray

from cursus.agents import Agent
from cursus.agents.dice import dice_state, set_dice
from cursus.curricula import League
from cursus.errors import SettingsError
from cursus.metrics import CourseStatistics, CsvWriter, JsonlWriter, Rollup, Writers
from cursus.settings import check_count, check_kind, check_positive
from cursus.teacher import Teacher
from cursus.train.interrupt import Interrupt
from cursus.train.listener import Listener
from cursus.train.opponents import Opponents
from cursus.train.seats import Seats
from cursus.train.underway import UnderWay
from cursus.types import BoolArray, Decision, Tree
from cursus.vector import Processes, Serial

_ENTERED = {"phase": "next", "promotion": "to", "demotion": "to"}
"""Decisions that begin something new, and where their evidence says what."""


@dataclass
class Training:
    """How a training stands."""

    steps: int = 0
    """Steps of environments, over all of them."""
    episodes: int = 0
    updates: int = 0
    mean_return: float = float("nan")
    """Of the last 100 episodes; NaN before the first has ended."""
    success: tuple[float, float, float] | None = None
    """The success rate of the last 100 episodes, and its 95 % interval."""
    phase: str = ""
    """The present phase or stage."""
    steps_per_s: float = 0.0
    updates_per_s: float = 0.0
    completed: bool = False
    """Whether the course has reached its end."""
    figures: dict[str, float] = field(default_factory=dict)
    """The newest row of metrics."""


class Companion(Protocol):
    """Somebody who looks in after every step and has figures to add, such as an evaluation in the background."""

    def look_in(self, steps: int, save: Callable[[], Path | None]) -> dict[str, float]:
        """Figures for the metrics, if there are any; `save` writes a checkpoint."""


def train_agent(
    envs: Serial | Processes,
    agent: Agent,
    *,
    steps: int | None = None,
    updates_per_env_step: float = 1.0,
    warmup_steps: int = 1_000,
    report_every: int = 1_000,
    checkpoint_every: int = 20_000,
    seed: int = 0,
    run: str | Path | None = None,
    opponents: Opponents | None = None,
    forget_before: Collection[str] = (),
    companions: Sequence[Companion] = (),
    on_report: Callable[[Training], None] = lambda training: None,
) -> Training:
    """Train until so many steps of environments are done, those of a resumed run included, or the course is completed.

    `envs` come from `make_vec(…, curriculum=…, autoreset="same_step")`. In the first `warmup_steps` actions are random and
    nothing is learned. From then on there are `updates_per_env_step` gradient steps for every step of an environment, however
    many step together. In the phases named in `forget_before` the replay is emptied first and filled for `warmup_steps` again,
    without episodes that began earlier. With `opponents`, the environments have two seats, and they take the second one.

    With the `run` folder of `envs`, metrics go to it and checkpoints hold everything: a run that was made with `resume=True`
    goes on where the newest one was written; with `seed_episodes=True` too, in the middle of its episodes, and exactly as if
    it had never been stopped. An interrupt (Ctrl-C) waits for the end of a step and writes a last checkpoint.
    """
    for name, value in (("report_every", report_every), ("checkpoint_every", checkpoint_every)):
        check_count(name, value)
    if steps is not None:
        check_count("steps", steps)
    check_count("warmup_steps", warmup_steps, low=0)
    check_positive("updates_per_env_step", updates_per_env_step, zero=True)
    check_kind("agent", agent, Agent, "DDDQN(4, 2)")
    if envs.metadata["autoreset_mode"] is not AutoresetMode.SAME_STEP or envs.teacher is None:
        raise SettingsError('these environments will not do. Make them with make_vec(…, curriculum=…, autoreset="same_step").')
    loop = _Loop(envs, agent, envs.teacher, opponents)
    loop.plan(updates_per_env_step, warmup_steps, seed, None if run is None else Path(run), forget_before)
    with ExitStack() as stack, Interrupt() as interrupt:
        writers = loop.open_writers(stack)
        loop.begin()
        reported = saved = loop.now.steps
        try:
            while not loop.now.completed and (steps is None or loop.now.steps < steps) and not interrupt.asked:
                loop.step()
                more: dict[str, float] = {}
                for companion in companions:
                    more |= companion.look_in(loop.now.steps, loop.checkpoint)
                if loop.now.steps - reported >= report_every or more:
                    reported = loop.now.steps
                    loop.report(writers, more)
                    on_report(loop.now)
                if loop.now.steps - saved >= checkpoint_every:
                    saved = loop.now.steps
                    loop.checkpoint()
        finally:
            loop.checkpoint()
        if loop.now.steps > reported:
            loop.report(writers, {})
            on_report(loop.now)
    if interrupt.asked:
        raise KeyboardInterrupt
    return loop.now


class _Loop:
    """The state of a training between two steps."""

    def __init__(self, envs: Any, agent: Agent, teacher: Teacher, opponents: Opponents | None) -> None:
        self._envs, self._agent, self._teacher, self._opponents = envs, agent, teacher, opponents
        players = 1 if opponents is None else 2
        self._seats = Seats(envs.single_observation_space, envs.single_action_space, players=players)
        self._num_envs: int = envs.num_envs
        self._statistics = teacher.watch(CourseStatistics(teacher.curriculum))
        self._listener = teacher.watch(Listener(teacher.curriculum))
        self._rollup = Rollup()
        self._losses = Rollup(prefix="train/")
        self.now = Training()

    def plan(self, ratio: float, warmup_steps: int, seed: int, run: Path | None, forget_before: Collection[str]) -> None:
        """How to train, and from where if the run is a resumed one."""
        self._ratio, self._warmup_steps, self._run = ratio, warmup_steps, run
        self._forget_before = frozenset(forget_before)
        self._debt = 0.0
        self._learn_from = warmup_steps
        self._belongs = np.ones(self._num_envs, dtype=bool)  # to what is practised now, so that it may be remembered
        self._dice = np.random.default_rng(seed)
        self._seed = seed
        self._under_way = UnderWay(self._num_envs, self._joined(self._seats.blank(self._num_envs)))
        self._stopped_at: Tree = None
        if self._teacher.caller_state is not None:
            self._load(self._teacher.caller_state)

    def _joined(self, own: NDArray[Any]) -> NDArray[Any]:
        return own if self._opponents is None else self._seats.join(own, self._seats.blank(self._num_envs))

    def open_writers(self, stack: ExitStack) -> Writers | None:
        """Where metrics go, if there is a run folder."""
        if self._run is None:
            return None
        resumed = self.now.steps if self._stopped_at is not None else -1
        jsonl, csv = (kind(self._run / f"metrics{end}", resume=resumed) for kind, end in ((JsonlWriter, ".jsonl"), (CsvWriter, ".csv")))
        return stack.enter_context(Writers(jsonl, csv))

    def begin(self) -> None:
        """Reset all environments; in a resumed run, bring them to where they were."""
        seeds_itself = self._envs.seeds_episodes
        seed = None if seeds_itself else self._seed + self.now.steps
        self._observations, _ = self._envs.reset(seed=seed)
        fresh = np.ones(self._num_envs, dtype=bool)
        if self._stopped_at is not None and seeds_itself:
            self._observations, fresh = self._under_way.repeat(self._envs, self._observations, self._stopped_at)
            if fresh.any():
                self._observations, _ = self._envs.reset(options={"reset_mask": fresh})
        self._meet(fresh)
        self._timer = (time.perf_counter(), self.now.steps, self._agent.updates)

    def _meet(self, begun: BoolArray) -> None:
        """Opponents for the episodes that have begun in these environments."""
        if self._opponents is not None and begun.any():
            envs = np.flatnonzero(begun)
            tasks = self._teacher.tasks
            self._opponents.begin(envs, [tasks[task].params for task in self._envs.task_ids[envs].tolist()])

    def step(self) -> None:
        """One step of every environment, and the updates that are due for it."""
        own_view = self._seats.own(self._observations)
        if self.now.steps < self._warmup_steps:
            own = self._seats.random(self._num_envs, self._dice)
        else:
            own = self._agent.act_batch(own_view)
        actions = own
        if self._opponents is not None:
            actions = self._seats.join(own, self._opponents.act(self._seats.other(self._observations)))
        following, rewards, terminated, truncated, infos = self._envs.step(actions)
        ended = terminated | truncated
        last = self._seats.own(_last_observations(following, infos, ended))
        valid = None if self._belongs.all() else self._belongs
        self._agent.observe(own_view, own, rewards, last, terminated, truncated, valid)
        if self._run is not None:
            self._under_way.record(actions, ended)
        self._observations = following
        self.now.steps += self._num_envs
        if ended.any():
            self._rollup.add_vector(infos.get("final_info"))
            self._belongs |= ended
            self._hear(self._listener.take_decisions(), ended)
            self._meet(ended)
        if self.now.steps > self._learn_from:
            self._learn()

    def _learn(self) -> None:
        self._debt += self._num_envs * self._ratio
        while self._debt >= 1.0:
            self._losses.add(self._agent.update())
            self._debt -= 1.0
        self.now.updates = self._agent.updates

    def _hear(self, decisions: Sequence[Decision], ended: BoolArray) -> None:
        """Do what was decided, before anybody acts again."""
        if self._opponents is not None:
            self._opponents.listen(decisions)
        for decision in decisions:
            entered = decision.evidence.get(_ENTERED.get(decision.kind, ""))
            if entered in self._forget_before:
                self._agent.replay.clear()
                self._belongs = ended.copy()
                self._learn_from = self.now.steps + self._warmup_steps
                self._debt = 0.0
            self.now.completed |= decision.kind == "completion"

    # ---- telling

    def report(self, writers: Writers | None, more: Mapping[str, float]) -> None:
        """A row of metrics."""
        then, steps, updates = self._timer
        passed = max(time.perf_counter() - then, 1e-9)
        now = self.now
        now.steps_per_s = (now.steps - steps) / passed
        now.updates_per_s = (now.updates - updates) / passed
        self._timer = (time.perf_counter(), now.steps, now.updates)
        now.episodes, now.mean_return = self._listener.episodes, self._listener.mean_return
        now.success = self._listener.success
        index, now.phase = _place(self._teacher)
        now.figures = {
            "metric/agent_step": float(now.steps),
            "time/steps_per_s": now.steps_per_s,
            "time/updates_per_s": now.updates_per_s,
            "train/updates_per_env_step": self._ratio,
            "rollout/mean_return": now.mean_return,
            "rollout/episodes": float(now.episodes),
            **_named("rollout/success_", ("rate", "low", "high"), now.success),
            **({} if index is None else {"progress/phase_index": float(index)}),
            **self._rollup.report(),
            **self._losses.report(),
            **self._statistics.report(),
            **more,
        }
        if isinstance(self._teacher.curriculum, League):
            now.figures["progress/rating"] = self._teacher.curriculum.rating
        if writers is not None:
            writers.write(now.steps, now.figures)

    # ---- saving

    def checkpoint(self) -> Path | None:
        """One cut of agent, opponents, curriculum, tickets, episodes under way and counters."""
        return None if self._run is None else self._teacher.checkpoint(self._state())

    def _state(self) -> Tree:
        return {
            "agent": self._agent.state(),
            "opponents": None if self._opponents is None else self._opponents.state(),
            "under_way": self._under_way.state(self._observations),
            "steps": self.now.steps,
            "completed": self.now.completed,
            "learn_from": self._learn_from,
            "debt": self._debt,
            "belongs": self._belongs.copy(),
            "dice": dice_state(self._dice),
        }

    def _load(self, state: Tree) -> None:
        if len(state["belongs"]) != self._num_envs:
            raise SettingsError(f"this run has {len(state['belongs'])} environments, not {self._num_envs}: resume it with as many.")
        self._agent.load(state["agent"])
        if self._opponents is not None:
            self._opponents.load(state["opponents"])
        self._stopped_at = state["under_way"]
        self.now.steps, self.now.completed = int(state["steps"]), bool(state["completed"])
        self.now.updates = self._agent.updates
        self._learn_from, self._debt = int(state["learn_from"]), float(state["debt"])
        self._belongs = np.array(state["belongs"], dtype=bool)
        set_dice(self._dice, state["dice"])


def _last_observations(following: NDArray[Any], infos: Mapping[str, Any], ended: BoolArray) -> NDArray[Any]:
    """What followed, with the true last observation where an episode ended and another one has begun."""
    if not ended.any():
        return following
    last = following.copy()
    for env in np.flatnonzero(ended).tolist():
        last[env] = infos["final_obs"][env]
    return last


def _place(teacher: Teacher) -> tuple[int | None, str]:
    """The present phase or stage: its place and its name."""
    tables = teacher.curriculum.status()
    for table, column in (("phases", "phase"), ("stages", "stage")):
        for place, row in enumerate(tables.get(table, ())):
            if row.get("status") == "current":
                return place, str(row[column])
    return None, ""


def _named(prefix: str, names: Sequence[str], values: Sequence[float] | None) -> dict[str, float]:
    return {} if values is None else {f"{prefix}{name}": value for name, value in zip(names, values, strict=True)}
