"""Checking the results of episodes at the door."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cursus.errors import ResultError
from cursus.types import BoolArray, FloatArray, IntArray

_MOST = 2**40
_LARGEST = 1e100  # whose square is still a number


def truth(values: Any, tickets: IntArray) -> BoolArray:
    """A column of successes: true or false, 0 or 1, and nothing else."""
    column = _column("success", values, tickets)
    if column.dtype == np.bool_:
        return column
    if column.dtype.kind in "iuf":
        wrong = (column != 0) & (column != 1)
    else:
        wrong = np.array([not isinstance(each, bool | np.bool_) for each in column], dtype=bool)
    if wrong.any():
        raise ResultError(
            f"the success of ticket {tickets[wrong][0]} is {column[wrong][0]!r}: it must be true or false. "
            "If the environment gives no such signal, say how success is to be read."
        )
    return column.astype(np.bool_)


def finite(name: str, values: Any, tickets: IntArray, bounds: tuple[float, float] = (-_LARGEST, _LARGEST)) -> FloatArray:
    """A column of finite numbers within bounds."""
    column = _column(name, values, tickets)
    if column.dtype.kind not in "biuf":
        raise ResultError(f"{name}s must be numbers, not {values!r:.80}.")
    numbers = column.astype(np.float64)
    low, high = bounds
    for ticket, number in zip(tickets.tolist(), numbers.tolist(), strict=True):
        if low <= number <= high:
            continue
        if not math.isfinite(number):
            raise ResultError(f"the {name} of ticket {ticket} is {number}: it must be a finite number.")
        raise ResultError(f"the {name} of ticket {ticket} is {number:g}: it must lie between {low:g} and {high:g}.")
    return numbers


def whole(name: str, values: Any, tickets: IntArray) -> IntArray:
    """A column of whole numbers from 0 upwards, small enough that their sums stay exact."""
    numbers = finite(name, values, tickets)
    for ticket, number in zip(tickets.tolist(), numbers.tolist(), strict=True):
        if not (0 <= number <= _MOST and number.is_integer()):
            raise ResultError(f"the {name} of ticket {ticket} is {number:g}: not a whole number from 0 to 2**40.")
    return numbers.astype(np.int64)


def _column(name: str, values: Any, tickets: IntArray) -> NDArray[Any]:
    if values is None:
        raise ResultError(f"the {name} of {len(tickets)} episode(s) is missing. Give one value per ticket.")
    try:
        column = np.asarray(values)
    except ValueError:
        column = np.empty(0)
    if column.ndim == 0:
        column = column.reshape(1)
    if column.shape != tickets.shape:
        raise ResultError(f"{len(tickets)} ticket(s) but {name} has shape {column.shape}. Give one value per ticket.")
    return column
