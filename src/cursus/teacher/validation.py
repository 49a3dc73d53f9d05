"""Validation of episode results: every column is checked at the door, before anything changes."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from cursus.errors import ResultError
from cursus.types import BoolArray, FloatArray, IntArray, rate_of

_MAX_LENGTH = 2**40
_LARGEST = 1e100  # whose square is still a number
FEW = 32
"""Up to so many numbers are looked at one by one, which is quicker than arrays are; more of them only to say what is wrong."""


class Results(NamedTuple):
    """The results of episodes, one entry per ticket in each column."""

    success: BoolArray
    returns: FloatArray
    lengths: IntArray
    scores: FloatArray | None
    """None where the score of an episode is its success."""
    successes: IntArray | None = None
    """Of several trials under one ticket; None where there was one."""
    trials: IntArray | None = None
    """How many there were; None where there was one."""

    def of_trials(self) -> tuple[IntArray, IntArray]:
        """Successes and trials, also where each ticket is one trial."""
        if self.successes is None or self.trials is None:
            return self.success.astype(np.int64), np.ones(len(self.success), dtype=np.int64)
        return self.successes, self.trials


def check_results(
    tickets: IntArray,
    success: ArrayLike | None,
    returns: ArrayLike,
    lengths: ArrayLike,
    scores: ArrayLike | None,
    score_bounds: tuple[float, float] | None,
    needs: frozenset[str],
    *,
    successes: ArrayLike | None = None,
    trials: ArrayLike | None = None,
) -> Results:
    """The results of these tickets as columns, or a `ResultError` that names the ticket and what is wrong with it.

    Success may be missing where nothing that a curriculum `needs` depends on it; it is false then. With `trials`, it is
    whether more than half of them succeeded, and the score is the share that did.
    """
    won = tried = None
    if successes is not None or trials is not None:
        won, tried = _trials(tickets, success, successes, trials)
        success = 2 * won > tried
        scores = rate_of(won, tried) if scores is None else scores
    if success is None:
        check_no_success(needs, scored=scores is not None)
        success = np.zeros(len(tickets), dtype=np.bool_)
    return Results(
        _booleans("success", success, tickets),
        _numbers("return", returns, tickets),
        _integers("length", lengths, tickets),
        None if scores is None else _numbers("score", scores, tickets, score_bounds or (-_LARGEST, _LARGEST)),
        won,
        tried,
    )


def _trials(
    tickets: IntArray, success: ArrayLike | None, successes: ArrayLike | None, trials: ArrayLike | None
) -> tuple[IntArray, IntArray]:
    """Successes and trials, where each ticket stands for several."""
    if success is not None:
        raise ResultError(
            "success=… and successes=… are two ways to say the same. Give successes=… and trials=…, or success=…."
        )
    if successes is None or trials is None:
        given, missing = ("trials", "successes") if successes is None else ("successes", "trials")
        raise ResultError(f"{given}=… needs {missing}=…: give how many trials each ticket stands for, and how many succeeded.")
    tried = _integers("trials", np.broadcast_to(trials, tickets.shape) if np.ndim(trials) == 0 else trials, tickets)
    won = _integers("successes", successes, tickets)
    wrong = (tried < 1) | (won > tried)
    if wrong.any():
        ticket, few, most = tickets[wrong][0], won[wrong][0], tried[wrong][0]
        raise ResultError(
            f"ticket {ticket} has {few} successes of {most} trials. Give at least one trial, and no more successes."
        )
    return won, tried


def check_scores(tickets: IntArray, scores: ArrayLike) -> FloatArray:
    """The scores of these tickets, or a `ResultError` that names the ticket and what is wrong with it."""
    return _numbers("score", scores, tickets)


def needs_success(needs: frozenset[str], *, scored: bool) -> bool:
    """Whether a curriculum that `needs` these cannot do without success, where episodes are `scored` or not."""
    return "success" in needs or ("score" in needs and not scored)


def check_no_success(needs: frozenset[str], *, scored: bool) -> None:
    """Refuse episodes without success, if the curriculum needs it."""
    if needs_success(needs, scored=scored):
        by_gate = "success" in needs
        reader = (
            "judges by it, as every gate does" if by_gate else "reads scores, which are the success unless scores=… is given"
        )
        raise ResultError(
            f"success is missing, but the curriculum {reader}. Give success=…, one boolean per ticket, or take a curriculum "
            'that needs none: LearningProgress(…, signal="return") reads returns, and one of your own says so in `needs`.'
        )


def _booleans(name: str, values: ArrayLike, tickets: IntArray) -> BoolArray:
    """True or false, 0 or 1, and nothing else."""
    column = _column(name, values, tickets)
    if column.dtype == np.bool_:
        return column
    if column.dtype.kind in "iuf":
        wrong = (column != 0) & (column != 1)
    else:
        wrong = np.array([not isinstance(each, bool | np.bool_) for each in column], dtype=bool)
    if wrong.any():
        raise ResultError(
            f"the {name} of ticket {tickets[wrong][0]} must be true or false, got {column[wrong][0]!r}. "
            "If the environment gives no such signal, say how success is to be read."
        )
    return column.astype(np.bool_)


def _numbers(
    name: str, values: ArrayLike, tickets: IntArray, bounds: tuple[float, float] = (-_LARGEST, _LARGEST)
) -> FloatArray:
    """Finite numbers within bounds."""
    column = _column(name, values, tickets)
    if column.dtype.kind not in "biuf":
        raise ResultError(f"{name}s must be numbers, got {values!r:.80}.")
    numbers = column.astype(np.float64)
    low, high = bounds
    if len(numbers) > FEW and bool(((low <= numbers) & (numbers <= high)).all()):
        return numbers
    for ticket, number in zip(tickets.tolist(), numbers.tolist(), strict=True):
        if low <= number <= high:
            continue
        if not math.isfinite(number):
            raise ResultError(f"the {name} of ticket {ticket} must be a finite number, got {number}.")
        raise ResultError(f"the {name} of ticket {ticket} must lie between {low:g} and {high:g}, got {number:g}.")
    return numbers


def _integers(name: str, values: ArrayLike, tickets: IntArray) -> IntArray:
    """Integers from 0 upwards, small enough that their sums stay exact."""
    numbers = _numbers(name, values, tickets)
    if len(numbers) > FEW:
        integers = numbers.astype(np.int64)
        if bool(((numbers >= 0) & (numbers <= _MAX_LENGTH) & (integers == numbers)).all()):
            return integers
    for ticket, number in zip(tickets.tolist(), numbers.tolist(), strict=True):
        if not (0 <= number <= _MAX_LENGTH and number.is_integer()):
            raise ResultError(f"the {name} of ticket {ticket} must be an integer from 0 to 2**40, got {number:g}.")
    return numbers.astype(np.int64)


def _column(name: str, values: ArrayLike, tickets: IntArray) -> NDArray[Any]:
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
