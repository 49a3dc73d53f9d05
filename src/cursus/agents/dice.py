"""The state of NumPy's random generators as plain values."""

from __future__ import annotations

from typing import Any

import numpy as np

from cursus.types import Tree


def dice_state(dice: np.random.Generator) -> Tree:
    """The state of a generator; its numbers are too long for other readers of JSON, so they travel as strings."""
    return _as_strings(dice.bit_generator.state)


def set_dice(dice: np.random.Generator, state: Tree) -> None:
    """Continue from such a state."""
    dice.bit_generator.state = _as_numbers(state)


def _as_strings(state: Any) -> Any:
    if isinstance(state, dict):
        return {key: _as_strings(value) for key, value in state.items()}
    return f"int:{state}" if isinstance(state, int) else state


def _as_numbers(state: Any) -> Any:
    if isinstance(state, dict):
        return {key: _as_numbers(value) for key, value in state.items()}
    return int(state[4:]) if isinstance(state, str) and state.startswith("int:") else state
