"""Off-policy training loop for one environment or many: `num_envs` changes the speed of training, not its meaning."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import numpy as np
from gymnasium.vector import AutoresetMode
from numpy.typing import NDArray

from cursus.agents import Agent
from cursus.errors import EnvError, ResumeWarning, SettingsError
from cursus.randomness import rng_state, set_rng
from cursus.settings import check_count, check_kind, check_positive
from cursus.teacher import Teacher
from cursus.training.callbacks import Callback, Interrupt, Reporter, Training, entered, reading_state
from cursus.training.opponents import Opponents, PlayerViews
from cursus.types import BoolArray, Decision, Tree
from cursus.vector import Processes, Serial
from cursus.vector.task_interface import EPISODE_KEYS

_FIRST_LENGTH = 256


class ActionLog:
    """The actions of every environment since its episode began.

    An episode is known by its ticket, from which its seed follows, and by its actions: repeating them brings an environment
    back to where it was. So a checkpoint needs no state of any environment.
    """

    def __init__(self, num_envs: int, blank: NDArray[Any]) -> None:
        self._lengths = np.zeros(num_envs, dtype=np.int64)
        self._actions = np.zeros((num_envs, _FIRST_LENGTH, *blank.shape[1:]), dtype=blank.dtype)
        self._rows = np.arange(num_envs)

    def record(self, actions: NDArray[Any], ended: BoolArray) -> None:
        """One step of every environment, and where it was the last of its episode."""
        if self._lengths.max() == self._actions.shape[1]:
            self._actions = np.concatenate([self._actions, np.zeros_like(self._actions)], axis=1)
        self._actions[self._rows, self._lengths] = actions
        self._lengths += 1
        self._lengths[ended] = 0

    def state(self, observations: NDArray[Any]) -> Tree:
        """The actions, and what is seen after them."""
        done = [self._actions[env, :length] for env, length in enumerate(self._lengths.tolist())]
        return {"lengths": self._lengths.copy(), "actions": np.concatenate(done), "observations": observations.copy()}

    def repeat(self, envs: Any, observations: NDArray[Any], state: Tree) -> tuple[NDArray[Any], BoolArray]:
        """Bring environments that have just begun to where they were: what is seen, and where it did not work."""
        lengths, wanted = np.asarray(state["lengths"]), np.asarray(state["observations"])
        logged = np.split(np.asarray(state["actions"]), np.cumsum(lengths)[:-1])
        failed = np.zeros(len(lengths), dtype=bool)
        for env in np.flatnonzero(lengths).tolist():
            try:
                observations = envs.repeat([env], [logged[env]])
            except EnvError:
                failed[env] = True
            self._actions[env, : lengths[env]] = logged[env]
        failed |= (observations != wanted).any(axis=1)
        self._lengths[:] = lengths
        if failed.any():
            warnings.warn(
                f"{np.count_nonzero(failed)} episodes that were under way are restarted: these environments are not "
                "deterministic given seed and actions.",
                ResumeWarning,
                stacklevel=2,
            )
            self._lengths[failed] = 0
        return observations, failed


def train_agent(
    envs: Serial | Processes,
    agent: Agent,
    *,
    steps: int | None = None,
    minutes: float | None = None,
    updates_per_env_step: float = 1.0,
    learning_starts: int = 1_000,
    report_every: int = 1_000,
    checkpoint_every: int = 20_000,
    seed: int = 0,
    run: str | Path | None = None,
    opponents: Opponents | None = None,
    clear_buffer_before: Collection[str] = (),
    callbacks: Sequence[Callback] = (),
    on_report: Callable[[Training], None] = lambda training: None,
) -> Training:
    """Train until so many steps of environments are done, or the curriculum is completed.

    In the first `learning_starts` steps actions are random and nothing is learned. From then on there are
    `updates_per_env_step` gradient steps for every step of an environment, however many step together.

    A run that was made with `resume=True` goes on where its newest checkpoint was written; with `seed_episodes=True` too, in
    the middle of its episodes, and exactly as if it had never been stopped. Ctrl-C and SIGTERM wait for the end of a step, and
    a last checkpoint is written.

    Args:
        envs: environments from `make_vec(…, curriculum=…, autoreset="same_step")`.
        agent: what learns.
        steps: steps of environments in all, those of a resumed run included (default: until the curriculum is completed).
        minutes: stop after so much time as well, above 0; how far it gets then depends on the machine (default no limit).
        updates_per_env_step: replay ratio, at least 0 (default 1).
        learning_starts: steps before learning begins, at least 0 (default 1,000).
        report_every: steps between two rows of metrics, at least 1 (default 1,000).
        checkpoint_every: steps between two checkpoints, at least 1 (default 20,000).
        seed: of random actions, and of environments that are not seeded by their episodes (default 0).
        run: the run folder of `envs`, for metrics and checkpoints (default none are written).
        opponents: who plays on the other side, where environments have views of two players (default nobody).
        clear_buffer_before: names of phases before which the replay buffer is emptied; learning waits for `learning_starts`
            again, and episodes that began earlier are not stored (default none).
        callbacks: called after every step of all environments (default none).
        on_report: called with how the training stands after every row of metrics (default nothing).
    """
    for name, value in (("report_every", report_every), ("checkpoint_every", checkpoint_every)):
        check_count(name, value)
    if steps is not None:
        check_count("steps", steps)
    if minutes is not None:
        check_positive("minutes", minutes)
    check_count("learning_starts", learning_starts, low=0)
    check_positive("updates_per_env_step", updates_per_env_step, zero=True)
    check_kind("agent", agent, Agent, "DDDQN(4, 2)")
    if envs.metadata["autoreset_mode"] is not AutoresetMode.SAME_STEP or not envs.has_teacher:
        raise SettingsError(
            'envs must have a teacher and reset in the same step. Use make_vec(…, curriculum=…, autoreset="same_step").'
        )
    loop = _Loop(envs, agent, envs.teacher, opponents)
    loop.plan(updates_per_env_step, learning_starts, seed, None if run is None else Path(run), clear_buffer_before)
    with ExitStack() as stack, Interrupt() as interrupt:
        loop.begin(stack)
        saved = loop.now.steps
        until = None if minutes is None else time.monotonic() + 60 * minutes
        whole = True
        try:
            while not loop.now.completed and (steps is None or loop.now.steps < steps) and interrupt.asked is None:
                if until is not None and time.monotonic() > until:
                    break
                whole = False
                loop.step()
                whole = True
                more: dict[str, float] = {}
                for callback in callbacks:
                    more |= callback.after_step(loop.now.steps, loop.checkpoint)
                if loop.now.steps - loop.reporter.reported >= report_every or more:
                    loop.report(more)
                    on_report(loop.now)
                if loop.now.steps - saved >= checkpoint_every:
                    saved = loop.now.steps
                    loop.checkpoint()
        finally:
            if whole:  # a step that was interrupted half-way is nothing to go on from
                with interrupt.saving():
                    loop.checkpoint()
        if loop.now.steps > loop.reporter.reported:
            loop.report({})
            on_report(loop.now)
    interrupt.stop()
    return loop.now


class _Loop:
    """The state of a training between two steps."""

    def __init__(self, envs: Any, agent: Agent, teacher: Teacher, opponents: Opponents | None) -> None:
        self._envs, self._agent, self._teacher, self._opponents = envs, agent, teacher, opponents
        players = 1 if opponents is None else 2
        self._views = PlayerViews(envs.single_observation_space, envs.single_action_space, players=players)
        self._num_envs: int = envs.num_envs
        self.reporter = Reporter(teacher)
        self.now = Training()

    def plan(
        self, ratio: float, learning_starts: int, seed: int, run: Path | None, clear_buffer_before: Collection[str]
    ) -> None:
        """How to train, and from where if the run is a resumed one."""
        self._ratio, self._learning_starts, self._run = ratio, learning_starts, run
        self._clear_buffer_before = frozenset(clear_buffer_before)
        self._updates_due = 0.0
        self._steps_stored = 0  # steps since the beginning, or since the replay was emptied
        self._belongs = np.ones(self._num_envs, dtype=bool)  # to what is practised now, so that it may be remembered
        self._rng = np.random.default_rng(seed)
        self._seed = seed
        self._action_log = ActionLog(self._num_envs, self._joined(self._views.blank(self._num_envs)))
        self._stopped_at: Tree = None
        if self._teacher.caller_state is not None:
            with reading_state():
                self._load(self._teacher.caller_state)

    def _joined(self, own: NDArray[Any]) -> NDArray[Any]:
        return own if self._opponents is None else self._views.join(own, self._views.blank(self._num_envs))

    def begin(self, stack: ExitStack) -> None:
        """Reset all environments; in a resumed run, bring them to where they were."""
        self.reporter.open(stack, self._run)
        seeds_itself = self._envs.settings.seed_episodes
        seed = None if seeds_itself else self._seed + self.now.steps
        self._observations, infos = self._envs.reset(seed=seed)
        fresh = np.ones(self._num_envs, dtype=bool)
        self._apply_decisions(infos.get("decisions", ()), fresh)
        if self._stopped_at is not None and seeds_itself:
            with reading_state():
                self._observations, fresh = self._action_log.repeat(self._envs, self._observations, self._stopped_at)
            if fresh.any():
                self._observations, infos = self._envs.reset(options={"reset_mask": fresh})
                self._apply_decisions(infos.get("decisions", ()), fresh)
        self._meet(fresh)
        self.reporter.start(self.now)

    def report(self, more: Mapping[str, float]) -> None:
        """A row of metrics."""
        self.reporter.report(self.now, self._ratio, more)

    def _meet(self, begun: BoolArray) -> None:
        """Opponents for the episodes that have begun in these environments."""
        if self._opponents is not None and begun.any():
            envs = np.flatnonzero(begun)
            tasks = self._teacher.tasks
            self._opponents.begin(envs, [tasks[task].params for task in self._envs.task_ids[envs].tolist()])

    def step(self) -> None:
        """One step of every environment, and the updates that are due for it."""
        own_view = self._views.own(self._observations)
        if self.now.steps < self._learning_starts:
            own = self._views.random(self._num_envs, self._rng)
        else:
            own = self._agent.act_batch(own_view)
        actions = own
        if self._opponents is not None:
            actions = self._views.join(own, self._opponents.act(self._views.other(self._observations)))
        next_observations, rewards, terminated, truncated, infos = self._envs.step(actions)
        ended = terminated | truncated
        last = self._views.own(_last_observations(next_observations, infos, ended))
        valid = None if self._belongs.all() else self._belongs
        self._agent.observe(own_view, own, rewards, last, terminated, truncated, valid)
        if self._run is not None:
            self._action_log.record(actions, ended)
        self._observations = next_observations
        self.now.steps += self._num_envs
        self._steps_stored += self._num_envs if valid is None else int(np.count_nonzero(valid))
        if ended.any():
            self.reporter.infos.add_vector(_own_infos(infos.get("final_info") or {}))
            self._belongs |= ended
            self._apply_decisions(infos.get("decisions", ()), ended)
            self._meet(ended)
        if self._steps_stored > self._learning_starts and len(self._agent.replay_buffer):
            self._learn()

    def _learn(self) -> None:
        self._updates_due += self._num_envs * self._ratio
        while self._updates_due >= 1.0:
            self.reporter.losses.add(self._agent.update())
            self._updates_due -= 1.0
        self.now.updates = self._agent.updates

    def _apply_decisions(self, decisions: Sequence[Decision], ended: BoolArray) -> None:
        """Do what was decided, before anybody acts again."""
        if self._opponents is not None:
            self._opponents.apply(decisions)
        for decision in decisions:
            if entered(decision) in self._clear_buffer_before:
                self._agent.replay_buffer.clear()
                self._belongs = ended.copy()
                self._steps_stored, self._updates_due = 0, 0.0
            self.now.completed |= decision.kind == "completion"

    # ---- saving

    def checkpoint(self) -> Path | None:
        """One cut of agent, opponents, curriculum, tickets, episodes under way and counters."""
        return None if self._run is None else self._teacher.checkpoint(self._state())

    def _state(self) -> Tree:
        return {
            "agent": self._agent.state(),
            "opponents": None if self._opponents is None else self._opponents.state(),
            "action_log": self._action_log.state(self._observations),
            "steps": self.now.steps,
            "completed": self.now.completed,
            "steps_stored": self._steps_stored,
            "updates_due": self._updates_due,
            "belongs": self._belongs.copy(),
            "rng": rng_state(self._rng),
            "reporter": self.reporter.state(),
        }

    def _load(self, state: Tree) -> None:
        if len(state["belongs"]) != self._num_envs:
            raise SettingsError(
                f"this run has {len(state['belongs'])} environments, not {self._num_envs}: resume it with as many."
            )
        self._agent.load(state["agent"])
        if self._opponents is not None:
            self._opponents.load(state["opponents"])
        self._stopped_at = state["action_log"]
        self.now.steps, self.now.completed = int(state["steps"]), bool(state["completed"])
        self.now.updates = self._agent.updates
        self._steps_stored, self._updates_due = int(state["steps_stored"]), float(state["updates_due"])
        self._belongs = np.array(state["belongs"], dtype=bool)
        set_rng(self._rng, state["rng"])
        self.reporter.load(state["reporter"])


def _last_observations(next_observations: NDArray[Any], infos: Mapping[str, Any], ended: BoolArray) -> NDArray[Any]:
    """What followed, with the true last observation where an episode ended and another one has begun."""
    if not ended.any():
        return next_observations
    last = next_observations.copy()
    for env in np.flatnonzero(ended).tolist():
        last[env] = infos["final_obs"][env]
    return last


def _own_infos(infos: Mapping[str, Any]) -> dict[str, Any]:
    """What the environments say themselves; ids and names are no metrics."""
    ours = (*EPISODE_KEYS, *(f"_{key}" for key in EPISODE_KEYS))
    return {key: value for key, value in infos.items() if key not in ours}
