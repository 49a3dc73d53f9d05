"""Settings of known experiments with the simulator, by name."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

_LEGACY = {"world": "legacy", "generated": 1_000_000, "num_envs": 32}


def _pool(size: int, least: int, worst: float, progress: Mapping[str, Any]) -> dict[str, Any]:
    """A pool as in the system that these experiments are known from: no uniform share beside the weights."""
    shares = {"min_presentations": least, "worst_share": worst, "floor": 0.0}
    return {"type": "Pool", "size": size, **shares, "progress": {**progress}}


_RECIPE = {"type": "LegacyVMin", "ema_timescale": 0.1, "exploration_bonus": 0.2}

PRESETS: Mapping[str, Mapping[str, Any]] = {
    "recipe": {
        **_LEGACY,
        "num_epochs": 500,
        "samples_per_epoch": 10,
        "memory": "local",
        "curriculum": _pool(200, 20, 0.3, _RECIPE),
    },
    "defaults": {
        **_LEGACY,
        "world": {"world": "legacy", "student": {"transfer": 0.1, "forgetting": 0.1, "bias": 0.1}},
        "num_epochs": 100,
        "samples_per_epoch": 50,
        "memory": "shared",
        "curriculum": _pool(200, 5, 0.1, {"type": "LegacyVMin", "ema_timescale": 0.02}),
    },
    "large_chain": {
        **_LEGACY,
        "num_tasks": 25,
        "num_epochs": 2000,
        "samples_per_epoch": 10,
        "memory": "local",
        "curriculum": _pool(1000, 30, 0.3, _RECIPE),
    },
    "large_chain_focused": {
        **_LEGACY,
        "num_tasks": 25,
        "num_epochs": 2000,
        "samples_per_epoch": 10,
        "memory": "local",
        "curriculum": _pool(500, 300, 0.3, {"type": "Scatter"}) | {"focus": 1.0},
    },
}
"""Settings of `cursus simulate` by the name of an experiment: the recipe, the defaults and the two long chains of the existing
simulator, with its formulas of progress and its pools of generated tasks."""
