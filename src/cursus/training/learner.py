"""Our agents in a training loop: acting for all environments at once, learning while they step, opponents, warm-up."""

from __future__ import annotations

import warnings
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from gymnasium.vector import AutoresetMode
from numpy.typing import NDArray

from cursus.agents import PPO, Agent, OffPolicyAgent, Policy
from cursus.curricula.scores import RolloutScorer
from cursus.errors import EnvError, ResumeWarning, SettingsError
from cursus.metrics.writers import Writer
from cursus.randomness import rng_state, set_rng
from cursus.settings import check_count, check_kind, check_positive
from cursus.training.callbacks import Callback, Training, reading_state
from cursus.training.loop import Loop, LoopSettings
from cursus.training.opponents import Opponents, PlayerViews
from cursus.types import BoolArray, Tree
from cursus.vector import Processes, Serial

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

    def state(self, observations: Any) -> Tree:
        """The actions, and what is seen after them."""
        done = [self._actions[env, :length] for env, length in enumerate(self._lengths.tolist())]
        return {"lengths": self._lengths.copy(), "actions": np.concatenate(done), "observations": _copied(observations)}

    def repeat(self, envs: Any, observations: Any, state: Tree) -> tuple[Any, BoolArray]:
        """Bring environments that have just begun to where they were: what is seen, and where it did not work."""
        lengths = np.asarray(state["lengths"])
        logged = np.split(np.asarray(state["actions"]), np.cumsum(lengths)[:-1])
        failed = np.zeros(len(lengths), dtype=bool)
        for env in np.flatnonzero(lengths).tolist():
            try:
                observations = envs.repeat([env], [logged[env]])
            except EnvError:
                failed[env] = True
            while lengths[env] > self._actions.shape[1]:
                self._actions = np.concatenate([self._actions, np.zeros_like(self._actions)], axis=1)
            self._actions[env, : lengths[env]] = logged[env]
        failed |= _differ(observations, state["observations"])
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


def _copied(observations: Any) -> Any:
    if isinstance(observations, Mapping):
        return {key: _copied(each) for key, each in observations.items()}
    return np.array(observations)


def _differ(seen: Any, wanted: Any) -> Any:
    """In which environments another observation is seen than wanted."""
    if isinstance(seen, Mapping):
        return np.any([_differ(seen[key], wanted[key]) for key in seen], axis=0)
    return (seen != np.asarray(wanted)).reshape(len(seen), -1).any(axis=1)


class AgentLearner:
    """One of our agents as a learner.

    Off-policy agents learn *while* environments step: the updates that are due after a step are done during the next one. So
    acting is one step behind, on every machine and for every number of workers alike.

    Args:
        envs: environments from `make_vec(…, curriculum=…, autoreset="same_step")`.
        agent: what learns.
        updates_per_env_step: replay ratio of an off-policy agent, at least 0.
        learning_starts: steps with random actions before an off-policy agent learns, at least 0.
        seed: of random actions (default 0).
        opponents: who plays on the other side, where environments have views of two players (default nobody).
    """

    def __init__(
        self,
        envs: Serial | Processes,
        agent: Agent,
        *,
        updates_per_env_step: float,
        learning_starts: int,
        seed: int = 0,
        opponents: Opponents | None = None,
    ) -> None:
        check_count("learning_starts", learning_starts, low=0)
        check_positive("updates_per_env_step", updates_per_env_step, zero=True)
        check_kind("agent", agent, Agent, "DDDQN(4, 2)")
        if envs.metadata["autoreset_mode"] is not AutoresetMode.SAME_STEP:
            raise SettingsError('envs must reset in the same step. Use make_vec(…, curriculum=…, autoreset="same_step").')
        self._envs, self._agent, self._opponents, self._seed = envs, agent, opponents, seed
        self._off_policy = agent if isinstance(agent, OffPolicyAgent) else None
        self._on_policy = agent if isinstance(agent, PPO) else None
        self.updates_per_env_step: float | None = None if self._off_policy is None else updates_per_env_step
        self._learning_starts = learning_starts
        players = 1 if opponents is None else 2
        self._scorer: RolloutScorer | None = None
        if envs.has_teacher and (wanted := envs.teacher.rollout_score) is not None:
            if self._on_policy is None:
                raise SettingsError(
                    f"{type(envs.teacher.curriculum).__name__} reads {wanted}, a score of rollouts, and {type(agent).__name__} "
                    'has none. Train with PPO, or let it read results: score="learnability".'
                )
            self._scorer = RolloutScorer(wanted, envs.num_envs)
        self._views = PlayerViews(envs.single_observation_space, envs.single_action_space, players=players)
        self._num_envs: int = envs.num_envs
        self._updates_due = 0.0
        self._steps = 0
        self._steps_stored = agent.steps  # those since the beginning, or since the replay was emptied
        self._belongs = np.ones(self._num_envs, dtype=bool)  # to what is practised now, so that it may be remembered
        self._ended = np.ones(self._num_envs, dtype=bool)
        self._rng = np.random.default_rng(seed)
        blank = self._views.blank(self._num_envs)
        self._action_log = ActionLog(self._num_envs, blank if opponents is None else self._views.join(blank, blank))
        self._stopped_at: Tree = None

    @property
    def updates(self) -> int:
        """Gradient steps so far."""
        return self._agent.updates

    def freeze(self) -> Policy:
        """What acts, as it is now."""
        return self._agent.freeze()

    def save_weights(self, path: Path) -> None:
        """Those of the whole agent, from which a policy can be loaded too."""
        self._agent.save_weights(path)

    def learn(self, loop: Loop) -> None:
        """Step and learn until it is over."""
        loop.stepping()
        self._steps = loop.now.steps
        self._begin(loop)
        loop.stepped(self._steps, ())
        while not loop.is_over:
            loop.stepping()
            self._step(loop)
            loop.pause()

    def _begin(self, loop: Loop) -> None:
        """Reset all environments; in a resumed run, bring them to where they were."""
        seeds_itself = self._envs.settings.seed_episodes
        self._observations, infos = self._envs.reset(seed=None if seeds_itself else self._seed + self._steps)
        fresh = self._ended = np.ones(self._num_envs, dtype=bool)
        loop.apply(infos.get("decisions", ()))
        if self._stopped_at is not None and seeds_itself and len(self._stopped_at["lengths"]) == self._num_envs:
            with reading_state():
                self._observations, fresh = self._action_log.repeat(self._envs, self._observations, self._stopped_at)
            if fresh.any():
                self._ended = fresh
                self._observations, infos = self._envs.reset(options={"reset_mask": fresh})
                loop.apply(infos.get("decisions", ()))
        self._stopped_at = None
        if self._scorer is not None:
            self._scorer.forget(fresh)
        if self._on_policy is not None:
            self._on_policy.forget(fresh)
        self._meet(fresh)

    def _step(self, loop: Loop) -> None:
        """One step of every environment, and meanwhile the updates that are due for the one before."""
        own_view = self._views.own(self._observations)
        if self._off_policy is not None and self._steps < self._learning_starts:
            own = self._views.random(self._num_envs, self._rng)
        else:
            own = self._agent.act_batch(own_view)
        actions = own
        if self._opponents is not None:
            actions = self._views.join(own, self._opponents.act(self._views.other(self._observations)))
        learn, tickets, tasks = self._envs.learn, self._envs.tickets, self._envs.task_ids
        self._envs.step_async(actions)
        self._update_meanwhile(loop)
        next_observations, rewards, terminated, truncated, infos = self._envs.step_wait()
        ended = terminated | truncated
        last = self._views.own(_last_observations(next_observations, infos, ended))
        valid = None if self._belongs.all() and learn.all() else self._belongs & learn
        self._agent.observe(own_view, own, rewards, last, terminated, truncated, valid)
        if self._scorer is not None:
            lost = infos.get("_worker_lost", np.zeros(self._num_envs, dtype=bool))
            self._scorer.step(rewards, ended, np.where(lost, -1, tickets), tasks)
        self._action_log.record(actions, ended)
        self._observations, self._ended = next_observations, ended
        self._steps += self._num_envs
        self._steps_stored += self._num_envs if valid is None else int(np.count_nonzero(valid))
        if ended.any():
            loop.reporter.hear(infos.get("final_info") or {}, loop.reporter.infos.add_vector)
            self._belongs |= ended
        loop.stepped(self._steps, infos.get("decisions", ()))
        if ended.any():
            self._meet(ended)
        if self._on_policy is not None and self._on_policy.rollout_full:
            if self._scorer is not None:
                loop.apply(self._envs.teacher.score(*self._scorer.finish(*self._on_policy.rollout_values())))
            loop.reporter.losses.add(self._on_policy.update())
        elif self._steps_stored > self._learning_starts:
            self._updates_due += self._num_envs * (self.updates_per_env_step or 0.0)

    def _update_meanwhile(self, loop: Loop) -> None:
        """The updates that are due, while the environments step."""
        due = int(self._updates_due)
        if self._off_policy is not None and due and len(self._off_policy.replay_buffer):
            loop.reporter.losses.add(self._off_policy.update(due))
            self._updates_due -= due

    def _meet(self, begun: BoolArray) -> None:
        """Opponents for the episodes that have begun in these environments."""
        if self._opponents is not None and begun.any():
            envs = np.flatnonzero(begun)
            tasks = self._envs.teacher.tasks
            self._opponents.begin(envs, [tasks[task].params for task in self._envs.task_ids[envs].tolist()])

    def clear_buffer(self) -> None:
        """Forget what was seen, and learn again after `learning_starts`; episodes under way are not stored."""
        if self._off_policy is not None:
            self._off_policy.replay_buffer.clear()
            self._belongs = self._ended.copy()
            self._steps_stored, self._updates_due = 0, 0.0

    # ---- saving

    def state(self) -> Tree:
        """The agent, and everything that is under way."""
        return {
            "agent": self._agent.state(),
            "opponents": None if self._opponents is None else self._opponents.state(),
            "action_log": self._action_log.state(self._observations),
            "steps_stored": self._steps_stored,
            "updates_due": self._updates_due,
            "belongs": self._belongs.copy(),
            "rng": rng_state(self._rng),
            "scorer": None if self._scorer is None else self._scorer.state(),
        }

    def load(self, state: Tree) -> None:
        """Continue from a state; with another number of environments, episodes under way begin anew."""
        self._agent.load(state["agent"])
        if self._opponents is not None and state["opponents"] is not None:
            self._opponents.load(state["opponents"])
        self._stopped_at = state["action_log"]
        self._steps_stored, self._updates_due = int(state["steps_stored"]), float(state["updates_due"])
        if len(state["belongs"]) == self._num_envs:
            self._belongs = np.array(state["belongs"], dtype=bool)
        set_rng(self._rng, state["rng"])
        if self._scorer is not None and state["scorer"] is not None:
            self._scorer.load(state["scorer"])


def _last_observations(next_observations: NDArray[Any], infos: Mapping[str, Any], ended: BoolArray) -> NDArray[Any]:
    """What followed, with the true last observation where an episode ended and another one has begun."""
    if not ended.any():
        return next_observations
    last = next_observations.copy()
    for env in np.flatnonzero(ended).tolist():
        last[env] = infos["final_obs"][env]
    return last


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
    writers: Sequence[Writer] = (),
) -> Training:
    """Train for so many steps of environments, or until the curriculum is completed.

    In the first `learning_starts` steps actions of an off-policy agent are random and nothing is learned. From then on there
    are `updates_per_env_step` gradient steps for every step of an environment, however many step together.

    It may be called again, with the same environments: then it goes on for as many steps more. A run that was made with
    `resume=True` goes on where its newest checkpoint was written; with `seed_episodes=True` too, in the middle of its episodes,
    and exactly as if it had never been stopped. Ctrl-C and SIGTERM wait for the end of a step, and save a last checkpoint.

    Args:
        envs: environments from `make_vec(…, curriculum=…, autoreset="same_step")`.
        agent: what learns.
        steps: steps of environments, those before an interruption included (default: until the curriculum is completed).
        minutes: stop after so much time as well, above 0; how far it gets then depends on the machine (default no limit).
        updates_per_env_step: replay ratio of an off-policy agent, at least 0 (default 1).
        learning_starts: steps before an off-policy agent learns, at least 0 (default 1,000).
        report_every: steps between two rows of metrics, at least 1 (default 1,000).
        checkpoint_every: steps between two checkpoints, at least 1 (default 20,000).
        seed: of random actions, and of environments that are not seeded by their episodes (default 0).
        run: the run folder of `envs`, for metrics and checkpoints (default none are written).
        opponents: who plays on the other side, where environments have views of two players (default nobody).
        clear_buffer_before: names of phases before which the replay buffer is emptied; learning waits for `learning_starts`
            again, and episodes that began earlier are not stored (default none).
        callbacks: told of steps, decisions and rows of metrics (default none).
        writers: further writers of metrics (default none).
    """
    learner = AgentLearner(
        envs,
        agent,
        updates_per_env_step=updates_per_env_step,
        learning_starts=learning_starts,
        seed=seed,
        opponents=opponents,
    )
    for callback in callbacks:
        check_kind("callbacks", callback, Callback, "instances of subclasses of cursus.training.Callback")
    settings = LoopSettings(steps, minutes, report_every, checkpoint_every, seed, frozenset(clear_buffer_before))
    told = [*([] if opponents is None else [opponents]), *callbacks]
    return Loop(envs.teacher, learner, settings, run=run, callbacks=told, writers=writers).run()
