"""Algorithms of Stable-Baselines3 instead of our loop: the same curriculum, environments, evaluations and run folder.

Their environments are ours, so nothing is ever stale. What of a training's settings applies:

- `steps`: an algorithm finishes what it collects between two updates. For on-policy ones (PPO, A2C) these are `n_steps` of
  every environment.
- `learning_starts` and `updates_per_env_step`: off-policy algorithms only (DQN, SAC, TD3, DDPG). The ratio is kept to within
  1 % for any number of environments.
- `clear_buffer` of a phase: off-policy ones only. Learning waits until `learning_starts` new steps have been seen.
- `mirror` and opponents that learn: ours alone.

A resumed run goes on in the middle of its episodes, on a CPU exactly as if it had never been stopped. Only where an on-policy
algorithm was stopped within a rollout (Ctrl-C, the end of its curriculum or of its time), the steps since its last update are
not learned from.
"""

from cursus.errors import MissingExtra

try:
    import stable_baselines3  # noqa: F401 – everything here needs it
except ImportError as error:
    raise MissingExtra.of(error, "agents,sb3") from None

from cursus.training.sb3.learner import SB3Learner, SB3Plan, recipes

__all__ = ["SB3Learner", "SB3Plan", "recipes"]
