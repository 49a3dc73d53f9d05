"""Coloured exploration noise: white, pink or red, an independent stream for every environment."""

from __future__ import annotations

from typing import Literal, get_args

import numpy as np

from cursus.errors import SettingsError, StateError
from cursus.randomness import rng_state, set_rng
from cursus.settings import check_count
from cursus.types import BoolArray, FloatArray, Tree

Colour = Literal["white", "pink", "red"]
_EXPONENTS = {"white": 0.0, "pink": 1.0, "red": 2.0}


class ColouredNoise:
    """Normal numbers of shape `(num_envs, dimensions)` per step, whose power falls with the frequency to an exponent.

    White noise jitters, red noise wanders, pink noise (Eberhard et al. 2023) is in between. Each environment draws sequences
    of its own and begins another one with each episode, so that many environments explore as one would.

    Args:
        colour: `"white"`, `"pink"` or `"red"`.
        num_envs: number of environments.
        dimensions: number of values per environment and step.
        length: steps of one sequence, at least 2; after them another one is drawn (default 256).
        seed: seed of the random stream (default 0).
    """

    def __init__(self, colour: Colour, num_envs: int, dimensions: int, *, length: int = 256, seed: int = 0) -> None:
        if colour not in get_args(Colour):
            raise SettingsError(f"colour={colour!r} is not known. Allowed: {', '.join(get_args(Colour))}.")
        check_count("length", length, low=2)
        self._exponent = _EXPONENTS[colour]
        self._shape = (num_envs, dimensions, length)
        self._rng = np.random.default_rng(seed)
        self._sequences = np.zeros(self._shape)
        self._index = np.full(num_envs, length, dtype=np.int64)

    def sample(self) -> FloatArray:
        """The next value of every environment and dimension, of shape `(num_envs, dimensions)`."""
        self._begin(self._index >= self._shape[2])
        now: FloatArray = self._sequences[np.arange(self._shape[0]), :, self._index]
        self._index += 1
        return now

    def restart(self, envs: BoolArray) -> None:
        """Begin new sequences in `envs`, a mask of shape `(num_envs,)`: where an episode has ended."""
        self._begin(envs)

    def _begin(self, envs: BoolArray) -> None:
        count = int(np.count_nonzero(envs))
        if count:
            self._sequences[envs] = self._draw(count)
            self._index[envs] = 0

    def _draw(self, count: int) -> FloatArray:
        """Sequences of unit variance with a spectrum of 1/f^exponent."""
        _, dimensions, length = self._shape
        if self._exponent == 0.0:
            return self._rng.normal(size=(count, dimensions, length))
        frequencies = np.fft.rfftfreq(length)
        frequencies[0] = frequencies[1]
        amplitudes = frequencies ** (-self._exponent / 2)
        real, imaginary = self._rng.normal(size=(2, count, dimensions, len(frequencies)))
        spectrum = (real + 1j * imaginary) * amplitudes
        spectrum[..., 0] = real[..., 0] * amplitudes[0] * np.sqrt(2)
        if length % 2 == 0:
            spectrum[..., -1] = real[..., -1] * amplitudes[-1] * np.sqrt(2)
        power = 2 * np.sum(amplitudes[1:] ** 2) + amplitudes[0] ** 2
        found: FloatArray = np.fft.irfft(spectrum, n=length, axis=-1) * length / np.sqrt(2 * power)
        return found

    def state(self) -> Tree:
        """The sequences, the index of each environment in its own, and the random stream."""
        return {"sequences": self._sequences.copy(), "index": self._index.copy(), "rng": rng_state(self._rng)}

    def load(self, state: Tree) -> None:
        """Continue from a state of the same settings."""
        if np.shape(state["sequences"]) != self._shape:
            raise StateError(f"this noise is of shape {np.shape(state['sequences'])}, not {self._shape}.")
        self._sequences[:], self._index[:] = state["sequences"], state["index"]
        set_rng(self._rng, state["rng"])
