"""The loop of a Stable-Baselines3 algorithm over our environments, reporting to the training loop."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any

import numpy as np
from gymnasium.vector.utils import create_empty_array
from stable_baselines3.common.callbacks import BaseCallback
from stable_baselines3.common.logger import Logger

from cursus.adapters.sb3 import SB3VecEnv
from cursus.agents.base import check_finite, diverged
from cursus.errors import SettingsError
from cursus.training.evaluate import stacked
from cursus.training.learner import ActionLog
from cursus.training.loop import Loop
from cursus.types import Tree
from cursus.vector import Processes, Serial

if TYPE_CHECKING:
    from cursus.training.sb3.learner import SB3Learner

_MOST_STEPS = 2**62


def learn(learner: SB3Learner, loop: Loop) -> None:
    """Let the algorithm step and learn until the loop is over. Checkpoints and callbacks have their turn between rollouts."""
    vec_env = learner.vec_env
    if vec_env is None:
        raise SettingsError("this learner has no environments yet. Call take(envs) first.")
    if not vec_env.envs.settings.seed_episodes:
        vec_env.seed(learner.seed + loop.now.steps)
    callback = _LoopCallback(learner, vec_env, loop)
    learner.model.set_logger(callback.losses)
    steps = _MOST_STEPS if loop.steps_left is None else loop.steps_left
    if steps > 0 and not loop.is_over:
        with suppress(_StopLearning), _diverging(learner):
            learner.model.learn(steps, callback, log_interval=None, reset_num_timesteps=False)  # type: ignore[arg-type]
    callback.take_losses()


@contextmanager
def _diverging(learner: SB3Learner) -> Iterator[None]:
    """PyTorch refuses distributions whose parameters are no numbers: then the weights are none either."""
    try:
        yield
    except ValueError as error:
        if all(bool(each.isfinite().all()) for each in learner.model.policy.parameters()):
            raise
        raise diverged(learner.updates, "a weight", float("nan")) from error


class _StopLearning(Exception):
    """Ends learning between two rollouts."""


class LoggedVecEnv(SB3VecEnv):
    """Our environments for SB3. What was done in them since their episodes began is kept for a run that goes on."""

    def __init__(self, envs: Serial | Processes) -> None:
        super().__init__(envs)
        blank = create_empty_array(envs.single_action_space, envs.num_envs)
        self._action_log = ActionLog(envs.num_envs, np.asarray(blank))
        self._stopped_at: Tree = None
        self._seen: Any = create_empty_array(envs.single_observation_space, envs.num_envs)

    def reset(self) -> Any:
        """Begin everywhere; in a resumed run, go on with the episodes that were under way."""
        self._seen = super().reset()
        if self._stopped_at is not None and self.envs.settings.seed_episodes:
            self._seen, failed = self._action_log.repeat(self.envs, self._seen, self._stopped_at)
            if failed.any():
                self._seen, _ = self.envs.reset(options={"reset_mask": failed})
        self._stopped_at = None
        return self._seen

    def step_async(self, actions: Any) -> None:
        """Let the environments begin to step."""
        self._actions = actions
        super().step_async(actions)

    def step_wait(self) -> Any:
        """Observations, rewards, dones and infos, as SB3 expects them."""
        self._seen, rewards, dones, infos = super().step_wait()
        check_finite(self._seen)
        for env in np.flatnonzero(dones).tolist():
            check_finite(stacked([infos[env]["terminal_observation"]]), env)
        self._action_log.record(self._actions, dones)
        return self._seen, rewards, dones, infos

    def state(self) -> Tree:
        """The episodes under way; if they were not gone on with yet, as they were loaded."""
        return self._action_log.state(self._seen) if self._stopped_at is None else self._stopped_at

    def load(self, state: Tree) -> bool:
        """Go on with these at the next reset; whether there are more or fewer environments now, so that all begin anew."""
        changed = len(state["lengths"]) != self.num_envs
        self._stopped_at = None if changed else state
        return changed


class _LoopCallback(BaseCallback):
    """Tells the training loop what SB3 does, and ends a rollout, or learning, when it is over."""

    def __init__(self, learner: SB3Learner, vec_env: LoggedVecEnv, loop: Loop) -> None:
        super().__init__()
        self._learner, self._vec_env, self._loop = learner, vec_env, loop
        self._scorer = learner.make_scorer(vec_env)
        self.losses = Logger(folder=None, output_formats=[])
        """What updates measured."""

    def _on_rollout_start(self) -> None:
        """Everything that was collected has been learned from, so a cut here is whole."""
        self.take_losses()
        self._learner.begin_rollout()
        if self._loop.is_over:
            raise _StopLearning
        self._loop.pause()
        self._loop.stepping()

    def _on_step(self) -> bool:
        """One step of every environment is done; whether to go on with this rollout."""
        decisions = []
        if self._scorer is not None:
            self._scorer.step(*(self.locals[name] for name in ("rewards", "dones", "infos")))
        for env in np.flatnonzero(self.locals["dones"]).tolist():
            info = self.locals["infos"][env]
            self._loop.reporter.hear(info, self._loop.reporter.infos.add)
            decisions += info.get("decisions", ())
        self._loop.stepped(self.num_timesteps, decisions)
        self._loop.report_if_due()
        self._loop.stepping()
        return not (self._learner.on_policy and self._loop.is_stopped)

    def _on_rollout_end(self) -> None:
        """Hand in the scores of episodes that have ended, if the curriculum asks for them."""
        if self._scorer is not None:
            self._loop.apply(self._scorer.finish())

    def take_losses(self) -> None:
        """Put what updates measured since the last call into the metrics."""
        found = self.losses.name_to_value.items()
        losses = {name.rpartition("/")[2]: value for name, value in found if name != "train/n_updates"}
        for name, value in losses.items():
            if "loss" in name and not np.isfinite(value):
                raise diverged(self._learner.updates, name, value)
        self._loop.reporter.losses.add(losses)
        self.losses.dump()
