"""The state of a Stable-Baselines3 model as arrays and plain values, never pickled."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from stable_baselines3.common.base_class import BaseAlgorithm
from stable_baselines3.common.vec_env import VecNormalize

from cursus.errors import StateError
from cursus.randomness import rng_state, set_rng
from cursus.types import Tree

_COUNTERS = ("num_timesteps", "_n_updates", "_n_calls", "_episode_num", "exploration_rate")


def model_state(model: BaseAlgorithm, *, replay_buffer: bool) -> dict[str, Tree]:
    """Weights, optimisers, counters, random streams and, if there are any, statistics of `VecNormalize`.

    Args:
        model: any algorithm.
        replay_buffer: whether that of an off-policy algorithm comes along.
    """
    made: Any = model
    buffer = getattr(model, "replay_buffer", None) if replay_buffer else None
    normalise = model.get_vec_normalize_env()
    return {
        "algo": type(model).__name__,
        "parameters": {name: _written(each) for name, each in model.get_parameters().items()},
        "variables": {name: _array(getattr(model, name)) for name in made._get_torch_save_params()[1]},
        "counters": {name: getattr(model, name) for name in _COUNTERS if name in vars(model)},
        "replay_buffer": None if buffer is None else _buffer_state(buffer),
        "normalise": None if normalise is None else _statistics(normalise),
        "rng": {
            "torch": torch.get_rng_state().numpy(),
            "numpy": np.random.get_state(legacy=False),  # noqa: NPY002 – it is what SB3 draws from
            "actions": rng_state(made.action_space.np_random),
        },
    }


def load_model(model: BaseAlgorithm, state: Tree) -> None:
    """Continue from what `model_state` gave for a model of the same algorithm and settings."""
    made: Any = model
    try:
        if state["algo"] != type(model).__name__:
            raise ValueError(f"it is one of {state['algo']}")
        made.set_parameters({name: _read(each, model, name) for name, each in state["parameters"].items()})
        for name, array in state["variables"].items():
            getattr(model, name).data.copy_(torch.as_tensor(array))
        for name, value in state["counters"].items():
            setattr(model, name, value)
        if state["replay_buffer"] is not None:
            _load_buffer(made.replay_buffer, state["replay_buffer"])
        normalise = model.get_vec_normalize_env()
        if (normalise is None) != (state["normalise"] is None):
            without = normalise is None
            what = "Wrap them in it again" if without else "Leave it away"
            raise ValueError(f"its environments were {'' if without else 'not '}wrapped in VecNormalize. {what}")
        if normalise is not None:
            _load_statistics(normalise, state["normalise"])
        torch.set_rng_state(torch.as_tensor(state["rng"]["torch"], dtype=torch.uint8))
        np.random.set_state(state["rng"]["numpy"])  # noqa: NPY002
        set_rng(made.action_space.np_random, state["rng"]["actions"])
    except (AttributeError, IndexError, KeyError, RuntimeError, TypeError, ValueError) as error:
        raise StateError(f"this is not the state of a {type(model).__name__} with these settings: {error}.") from error


def _array(tensor: torch.Tensor) -> NDArray[Any]:
    return tensor.detach().cpu().numpy().copy()


def _written(state: Mapping[str, Any]) -> Tree:
    """The state of a network, or what an optimiser remembers of each parameter."""
    if "param_groups" not in state:
        return {name: _array(tensor) for name, tensor in state.items()}
    memory = state["state"].items()
    return {str(index): {key: _array(torch.as_tensor(value)) for key, value in each.items()} for index, each in memory}


def _read(saved: Tree, model: BaseAlgorithm, name: str) -> dict[str, Any]:
    fresh = model.get_parameters()[name]
    if "param_groups" not in fresh:
        return {key: torch.as_tensor(array) for key, array in saved.items()}
    memory = {int(index): {key: torch.as_tensor(value) for key, value in each.items()} for index, each in saved.items()}
    return {"state": memory, "param_groups": fresh["param_groups"]}


def _columns(buffer: Any) -> dict[str, NDArray[Any]]:
    """Every array of a replay buffer that has a row per step, those of dictionaries by `name.key`."""
    found: dict[str, NDArray[Any]] = {}
    for name, value in vars(buffer).items():
        parts = {f"{name}.{key}": part for key, part in value.items()} if isinstance(value, dict) else {name: value}
        found |= {
            key: part for key, part in parts.items() if isinstance(part, np.ndarray) and part.shape[:1] == (buffer.buffer_size,)
        }
    return found


def _buffer_state(buffer: Any) -> Tree:
    filled = buffer.buffer_size if buffer.full else buffer.pos
    columns = {name: column[:filled] for name, column in _columns(buffer).items()}
    return {"pos": buffer.pos, "full": buffer.full, "rows": buffer.buffer_size, "columns": columns}


def _load_buffer(buffer: Any, state: Tree) -> None:
    if state["rows"] != buffer.buffer_size:
        raise ValueError(f"it has a replay buffer of {state['rows']} rows, not {buffer.buffer_size}")
    buffer.pos, buffer.full = int(state["pos"]), bool(state["full"])
    for name, column in _columns(buffer).items():
        column[: len(state["columns"][name])] = state["columns"][name]


def _moments(env: VecNormalize) -> dict[str, Any]:
    """The running means of returns and of each part of the observations."""
    seen: Any = getattr(env, "obs_rms", None) or {}
    parts = seen if isinstance(seen, dict) else {"": seen}
    return {"returns": env.ret_rms, **{f"observations.{key}": each for key, each in parts.items()}}


def _statistics(env: VecNormalize) -> Tree:
    moments = {name: {"mean": each.mean, "var": each.var, "count": each.count} for name, each in _moments(env).items()}
    return {name: {key: np.asarray(value, dtype=np.float64) for key, value in each.items()} for name, each in moments.items()}


def _load_statistics(env: VecNormalize, state: Tree) -> None:
    for name, each in _moments(env).items():
        each.mean, each.var, each.count = state[name]["mean"], state[name]["var"], float(state[name]["count"])
