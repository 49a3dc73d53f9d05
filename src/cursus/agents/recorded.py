"""Computations that are recorded as CUDA graphs, and the memory that feeds them.

Small networks are bound by the launches of their kernels, not by their arithmetic. A CUDA graph launches them all at once.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any, Generic, TypeAlias, TypeVar

import torch
from numpy.typing import NDArray
from torch import Tensor

Result = TypeVar("Result")
Column: TypeAlias = tuple[tuple[int, ...], torch.dtype]
"""Shape and dtype of an input."""

_WARM_UP = 3  # calls before a recording, so that libraries and optimisers have allocated what they keep
_ALIGNED_BYTES = 256  # as memory of its own would be


class Inputs:
    """Arrays on this side and tensors on the device, each in one block of memory, so that one copy brings them over."""

    def __init__(self, columns: Mapping[str, Column], device: torch.device) -> None:
        self._cuda = device.type == "cuda"
        size = sum(_aligned(_bytes(column)) for column in columns.values())
        self._here = torch.zeros(size, dtype=torch.uint8, pin_memory=self._cuda)
        self._there = self._here if device.type == "cpu" else torch.zeros_like(self._here, device=device)
        self._arrays: dict[str, NDArray[Any]] = {name: part.numpy() for name, part in _parts(self._here, columns).items()}
        self.tensors = _parts(self._there, columns)
        self._sent = torch.cuda.Event() if self._cuda else None  # type: ignore[no-untyped-call]

    def arrays(self) -> dict[str, NDArray[Any]]:
        """The arrays to fill before `send`."""
        if self._sent is not None:
            self._sent.synchronize()  # what was filled in before is on the device
        return self._arrays

    def send(self) -> Mapping[str, Tensor]:
        """What was filled in, on the device."""
        if self._there is not self._here:
            self._there.copy_(self._here, non_blocking=self._cuda)
        if self._sent is not None:
            self._sent.record(torch.cuda.current_stream(self._there.device))
        return self.tensors


class Recorded(Generic[Result]):
    """A function of tensors of fixed shapes, that are filled from arrays on this side or from tensors on the device.

    The function must do the same kernels on the same memory in every call: no branches on what tensors hold, no reading of
    values. On CUDA the first calls just run, then one is recorded, and from then on it is replayed: whatever it returns is
    overwritten by the next call. On other devices, or with `replayed=False`, it is called, and nothing else.

    >>> double = Recorded(lambda inputs: 2 * inputs["x"], {"x": ((3,), torch.float32)}, torch.device("cpu"))
    >>> double.inputs()["x"][:] = [1, 2, 3]
    >>> double().tolist()
    [2.0, 4.0, 6.0]
    >>> double.of({"x": torch.ones(3)}).tolist()
    [2.0, 2.0, 2.0]
    """

    def __init__(
        self,
        function: Callable[[Mapping[str, Tensor]], Result],
        columns: Mapping[str, Column],
        device: torch.device,
        *,
        replayed: bool = True,
    ) -> None:
        self._function = function
        self.source = Inputs(columns, device)
        """What a call is a function of."""
        self._stream = torch.cuda.Stream(device) if replayed and device.type == "cuda" else None  # type: ignore[no-untyped-call]
        self._recording: tuple[torch.cuda.CUDAGraph, Result] | None = None
        self._calls = 0

    def inputs(self) -> dict[str, NDArray[Any]]:
        """The arrays to fill before a call."""
        return self.source.arrays()

    def __call__(self) -> Result:
        """The function of what was filled in."""
        tensors = self.source.send()
        return self._function(tensors) if self._stream is None else self._replay(self._stream)

    def of(self, tensors: Mapping[str, Tensor]) -> Result:
        """The function of `tensors` that are on the device already."""
        if self._stream is None:
            return self._function(tensors)
        for name, tensor in self.source.tensors.items():
            if tensor.data_ptr() != tensors[name].data_ptr():
                tensor.copy_(tensors[name])
        return self._replay(self._stream)

    def _replay(self, stream: torch.cuda.Stream) -> Result:
        if self._calls < _WARM_UP:
            self._calls += 1
            return self._run_beside(stream)
        if self._recording is None:
            self._recording = self._record(stream)
        graph, result = self._recording
        graph.replay()
        return result

    def forget(self) -> None:
        """Record anew: something that the function works on lies elsewhere now."""
        self._recording, self._calls = None, 0

    def _record(self, stream: torch.cuda.Stream) -> tuple[torch.cuda.CUDAGraph, Result]:
        """What one call does, without doing it."""
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, stream=stream):
            result = self._function(self.source.tensors)
        return graph, result

    def _run_beside(self, stream: torch.cuda.Stream) -> Result:
        """Run on the stream that will record: what libraries set up for it is not part of the recording."""
        stream.wait_stream(torch.cuda.current_stream(stream.device))
        with torch.cuda.stream(stream):
            result = self._function(self.source.tensors)
        torch.cuda.current_stream(stream.device).wait_stream(stream)
        return result


def _bytes(column: Column) -> int:
    shape, dtype = column
    return math.prod(shape) * dtype.itemsize


def _aligned(size: int) -> int:
    return -(-size // _ALIGNED_BYTES) * _ALIGNED_BYTES


def _parts(block: Tensor, columns: Mapping[str, Column]) -> dict[str, Tensor]:
    """A tensor for each column inside a block of bytes, one after the other."""
    parts, begin = {}, 0
    for name, column in columns.items():
        shape, dtype = column
        parts[name] = block[begin : begin + _bytes(column)].view(dtype).view(shape)
        begin += _aligned(_bytes(column))
    return parts
