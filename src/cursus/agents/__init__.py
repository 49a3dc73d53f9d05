"""Agents: DDDQN, SAC and PPO, replay buffers, exploration noise, frozen policies. Needs `pip install "cursus-rl[agents]"`."""

from cursus import errors as _errors

try:
    import safetensors
    import torch
except ImportError as _error:
    raise _errors.MissingExtra.of(_error, "agents") from None

from cursus.agents.base import Agent
from cursus.agents.dddqn import DDDQN
from cursus.agents.off_policy import OffPolicyAgent
from cursus.agents.policy import Policy, load_policy
from cursus.agents.ppo import PPO
from cursus.agents.replay_buffer import Batch, ReplayBuffer
from cursus.agents.sac import SAC, ColouredNoise

del safetensors, torch

__all__ = [
    "DDDQN",
    "PPO",
    "SAC",
    "Agent",
    "Batch",
    "ColouredNoise",
    "OffPolicyAgent",
    "Policy",
    "ReplayBuffer",
    "load_policy",
]
