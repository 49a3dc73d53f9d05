"""Rollup: from the infos of environments to one row of metrics per epoch, in constant memory."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from cursus.settings import check_count, check_kind
from cursus.types import BoolArray, Tree

_SUMMED = "this_epoch"
_OWN = "rollup/"
_DEEPEST = 32
_NUMBERS = "biuf"
_ARRAYS = (np.ndarray, np.generic)
_TEXTS = (str, bytes, bytearray, memoryview)


class Rollup:
    """Takes the infos of environments and gives, once per epoch, a mean or a sum for every key.

    Nested keys are joined with `/`. Keys that speak of `this_epoch` are counts and are summed, everything else is
    averaged. What is not a number (text, `None`, arrays of several)
    or not finite is left out and counted, so that nothing goes missing unseen: `rollup/values` were taken,
    `rollup/skipped` were not, `rollup/not_finite` of these because they are not finite.

    Args:
        prefix: put before keys that do not begin with it (default `"env_"`).
        max_keys: number of keys that are kept in an epoch, at least 1 (default 10,000); `rollup/dropped_keys` counts the
            values of further ones.

    >>> rollup = Rollup()
    >>> rollup.add({"score": 1.0, "episode": {"l": 20}, "samples_this_epoch": 2})
    >>> rollup.add({"score": 0.0, "samples_this_epoch": 3, "map": "maze"})
    >>> metrics = rollup.report()
    >>> metrics["env_score"], metrics["env_episode/l"], metrics["env_samples_this_epoch"], metrics["rollup/skipped"]
    (0.5, 20.0, 5.0, 1.0)
    """

    def __init__(self, *, prefix: str = "env_", max_keys: int = 10_000) -> None:
        check_kind("prefix", prefix, str, "'env_', or '' for none")
        check_count("max_keys", max_keys)
        self._prefix = prefix
        self._max_keys = max_keys
        self._begin()

    def _begin(self) -> None:
        self._sums: dict[str, float] = {}
        self._counts: dict[str, int] = {}
        self._skipped = self._not_finite = self._dropped = 0

    # ---- saving

    def state(self) -> Tree:
        """What has come in since the last report."""
        names = list(self._sums)
        left_out = [self._skipped, self._not_finite, self._dropped]
        sums, counts = [self._sums[name] for name in names], [self._counts[name] for name in names]
        return {"names": names, "sums": sums, "counts": counts, "left_out": left_out}

    def load(self, state: Tree) -> None:
        """Continue from a `state`."""
        self._sums = dict(zip(state["names"], state["sums"], strict=True))
        self._counts = dict(zip(state["names"], state["counts"], strict=True))
        self._skipped, self._not_finite, self._dropped = state["left_out"]

    # ---- what comes in

    def add(self, info: Mapping[str, Any] | None) -> None:
        """Take the `info` of one environment."""
        if info is not None:
            check_kind("info", info, Mapping, "{'score': 1.0}: the info of one environment")
            self._take_all("", info, _DEEPEST)

    def add_vector(self, infos: Mapping[str, Any] | None) -> None:
        """Take the `infos` of a Gymnasium vector environment: arrays with one row per environment.

        Where there is a mask `_key` (or one for the dict that the key is in), only the rows that it marks count.
        """
        if infos is not None:
            check_kind("infos", infos, Mapping, "what the step of a vector environment gives")
            self._take_arrays("", infos, None, _DEEPEST)

    def _take_all(self, path: str, info: Mapping[str, Any], deeper: int) -> None:
        for key, value in info.items():
            self._take(f"{path}{key}", value, deeper)

    def _take(self, name: str, value: Any, deeper: int) -> None:
        if isinstance(value, Mapping) and deeper:
            self._take_all(f"{name}/", value, deeper - 1)
        elif (number := _number(value)) is None:
            self._skipped += 1
        else:
            self._count(name, number, 1)

    def _take_arrays(self, path: str, infos: Mapping[str, Any], outer: BoolArray | None, deeper: int) -> None:
        for key, value in infos.items():
            if _is_mask(infos, key):
                continue
            name = f"{path}{key}"
            mask = infos[f"_{key}"] if _is_mask(infos, f"_{key}") else outer
            if isinstance(value, Mapping) and deeper:
                self._take_arrays(f"{name}/", value, mask, deeper - 1)
            elif isinstance(value, np.ndarray) and value.ndim:
                self._take_rows(name, value, mask, deeper)
            else:
                self._take(name, value, 0)

    def _take_rows(self, name: str, values: np.ndarray[Any, Any], mask: BoolArray | None, deeper: int) -> None:
        if mask is not None and mask.shape != values.shape[:1]:
            self._skipped += 1
            return
        rows = values if mask is None else values[mask]
        if rows.dtype.kind == "O":
            for value in rows:
                self._take(name, value, deeper)
        elif rows.dtype.kind in _NUMBERS and rows.size == len(rows):
            self._take_numbers(name, rows.reshape(-1))
        else:
            self._skipped += len(rows)

    def _take_numbers(self, name: str, values: np.ndarray[Any, Any]) -> None:
        with np.errstate(over="ignore"):
            numbers = values.astype(np.float64)
            finite = numbers[np.isfinite(numbers)]
            total = float(finite.sum())
        self._refuse(len(numbers) - len(finite))
        if len(finite):
            self._count(name, total, len(finite))

    def _count(self, name: str, total: float, count: int) -> None:
        if not name.startswith(self._prefix):
            name = self._prefix + name
        after = self._sums.get(name, 0.0) + total
        if not math.isfinite(after):
            self._refuse(count)
        elif name.startswith(_OWN):
            self._skipped += count
        elif name not in self._counts and len(self._counts) >= self._max_keys:
            self._dropped += count
        else:
            self._sums[name] = after
            self._counts[name] = self._counts.get(name, 0) + count

    def _refuse(self, count: int) -> None:
        self._skipped += count
        self._not_finite += count

    # ---- what goes out

    def report(self) -> dict[str, float]:
        """The metrics of the epoch that ends here; the next one begins with nothing."""
        metrics = {name: total if _SUMMED in name else total / self._counts[name] for name, total in self._sums.items()}
        metrics[f"{_OWN}values"] = float(sum(self._counts.values()))
        metrics[f"{_OWN}skipped"] = float(self._skipped)
        metrics[f"{_OWN}not_finite"] = float(self._not_finite)
        metrics[f"{_OWN}dropped_keys"] = float(self._dropped)
        self._begin()
        return metrics


def _number(value: Any) -> float | None:
    """What a value is as one number; None if it is none. Booleans are 0 and 1."""
    if isinstance(value, float):
        return float(value)
    if isinstance(value, _TEXTS):
        return None
    if isinstance(value, _ARRAYS):
        if value.size != 1 or value.dtype.kind not in _NUMBERS:
            return None
        value = value.item()
    try:
        return float(value)
    except OverflowError:
        return math.inf
    except Exception:  # whatever a foreign type, such as a tensor of several numbers, answers with
        return None


def _is_mask(infos: Mapping[str, Any], key: Any) -> bool:
    """Whether this key is the mask of another one: `_key` beside `key`, with a boolean for every environment."""
    if not isinstance(key, str) or not key.startswith("_") or key[1:] not in infos:
        return False
    mask = infos.get(key)
    return isinstance(mask, np.ndarray) and mask.dtype == np.bool_ and mask.ndim == 1
