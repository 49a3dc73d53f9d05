"""Batched environments: as tensors on one device, thousands at once. Needs `pip install "cursus-rl[agents]"`."""

from cursus import errors as _errors

try:
    import torch
except ImportError as _error:
    raise _errors.MissingExtra.of(_error, "agents") from None

from cursus.envs.torch.base import TorchEnv, TorchStep
from cursus.envs.torch.keys import TorchKeys
from cursus.envs.torch.maze import TorchMaze

del torch

__all__ = ["TorchEnv", "TorchKeys", "TorchMaze", "TorchStep"]
