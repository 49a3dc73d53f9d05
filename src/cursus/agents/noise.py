"""Noise of different colours for exploration: every environment has a stream of its own."""

from __future__ import annotations

from typing import Literal, get_args

import numpy as np

from cursus.agents.dice import dice_state, set_dice
from cursus.errors import SettingsError, StateError
from cursus.settings import check_count
from cursus.types import BoolArray, FloatArray, Tree

Colour = Literal["white", "pink", "red"]
_EXPONENTS = {"white": 0.0, "pink": 1.0, "red": 2.0}


class ColouredNoise:
    """Normal numbers of shape `(num_envs, dimensions)` per step, whose power falls with the frequency to an exponent.

    White noise jitters, red noise wanders, pink noise (Eberhard et al. 2023) is in between. Each environment draws sequences
    of `length` steps of its own and begins another one with each episode, so that many environments explore as one would.
    """

    def __init__(self, colour: Colour, num_envs: int, dimensions: int, *, length: int = 256, seed: int = 0) -> None:
        if colour not in get_args(Colour):
            raise SettingsError(f"colour={colour!r} is not known. Allowed: {', '.join(get_args(Colour))}.")
        check_count("length", length, low=2)
        self._exponent = _EXPONENTS[colour]
        self._shape = (num_envs, dimensions, length)
        self._dice = np.random.default_rng(seed)
        self._sequences = np.zeros(self._shape)
        self._place = np.full(num_envs, length, dtype=np.int64)

    def sample(self) -> FloatArray:
        """The next number of every environment and dimension."""
        self._begin(self._place >= self._shape[2])
        now: FloatArray = self._sequences[np.arange(self._shape[0]), :, self._place]
        self._place += 1
        return now

    def restart(self, envs: BoolArray) -> None:
        """Begin new sequences where an episode has ended."""
        self._begin(envs)

    def _begin(self, envs: BoolArray) -> None:
        count = int(np.count_nonzero(envs))
        if count:
            self._sequences[envs] = self._draw(count)
            self._place[envs] = 0

    def _draw(self, count: int) -> FloatArray:
        """Sequences of unit variance with a spectrum of 1/f^exponent."""
        _, dimensions, length = self._shape
        if self._exponent == 0.0:
            return self._dice.normal(size=(count, dimensions, length))
        frequencies = np.fft.rfftfreq(length)
        frequencies[0] = frequencies[1]
        amplitudes = frequencies ** (-self._exponent / 2)
        real, imaginary = self._dice.normal(size=(2, count, dimensions, len(frequencies)))
        spectrum = (real + 1j * imaginary) * amplitudes
        spectrum[..., 0] = real[..., 0] * amplitudes[0] * np.sqrt(2)
        if length % 2 == 0:
            spectrum[..., -1] = real[..., -1] * amplitudes[-1] * np.sqrt(2)
        power = 2 * np.sum(amplitudes[1:] ** 2) + amplitudes[0] ** 2
        found: FloatArray = np.fft.irfft(spectrum, n=length, axis=-1) * length / np.sqrt(2 * power)
        return found

    def state(self) -> Tree:
        """The sequences, where each environment is in its own, and the random stream."""
        return {"sequences": self._sequences.copy(), "place": self._place.copy(), "dice": dice_state(self._dice)}

    def load(self, state: Tree) -> None:
        """Continue from a state of the same settings."""
        if np.shape(state["sequences"]) != self._shape:
            raise StateError(f"this noise is of shape {np.shape(state['sequences'])}, not {self._shape}.")
        self._sequences[:], self._place[:] = state["sequences"], state["place"]
        set_dice(self._dice, state["dice"])
