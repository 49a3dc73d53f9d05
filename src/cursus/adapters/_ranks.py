"""The ranks of a job as seen from rank 0 and from the others: messages of a fixed shape up, answers down, and who is gone."""

from __future__ import annotations

import os
import socket
from contextlib import suppress
from datetime import timedelta
from typing import Any

import numpy as np
import torch
import torch.distributed as dist
from torch.distributed.distributed_c10d import _get_default_store

from cursus.errors import SettingsError, WorkerError
from cursus.types import IntArray

_TAG = 0x6375
_LAST_WORDS = timedelta(seconds=10)  # until somebody listens to why a rank gives up
_VERDICT = timedelta(seconds=3)  # until rank 0, if it lives, has said who is gone
_JOIN = "was gone or did not answer while the ranks joined"


class Ranks:
    """The ranks of a process group, of which rank 0 is asked by all others.

    The messages of one exchange are a gather and a scatter by single sends and receives: so rank 0 knows whose failed.

    Args:
        group: the process group, None for that of all ranks.
        number: of those that this process has made, the same on every rank.
    """

    def __init__(self, group: dist.ProcessGroup | None, number: int) -> None:
        if not (dist.is_available() and dist.is_initialized()):
            raise SettingsError(
                "there is no process group. Call torch.distributed.init_process_group() first; torchrun starts scripts."
            )
        self._group, self._key = group, f"cursus/{number}/gone"
        self.rank, self.size = dist.get_rank(group), dist.get_world_size(group)
        if self.rank < 0:
            raise SettingsError("this process is not in the group that was given.")
        on_cpu = "cpu:" in dist.get_backend_config(group)
        self._device = torch.device("cpu") if on_cpu else torch.device("cuda", torch.cuda.current_device())
        self._peers = [rank if group is None else dist.get_global_rank(group, rank) for rank in range(self.size)]
        self._names = [f"rank {rank}" for rank in range(self.size)]

    def name(self, rank: int) -> str:
        """A `rank` with its host and process."""
        return self._names[rank]

    # ---- joining

    def meet(self, told: dict[str, Any]) -> list[dict[str, Any]]:
        """What every rank has `told`, on every rank."""
        everyone: list[Any] = [None] * self.size
        mine = {**told, "name": f"rank {self.rank} ({socket.gethostname()}:{os.getpid()})"}
        try:
            dist.all_gather_object(everyone, mine, group=self._group)
        except RuntimeError as error:
            raise WorkerError(f"a rank {_JOIN}: {error}") from error
        self._names = [each["name"] for each in everyone]
        return everyone

    def share(self, thing: Any) -> Any:
        """The `thing` of rank 0, on every rank. It travels as the pickle of the group's own broadcast."""
        found = [thing]
        try:
            dist.broadcast_object_list(found, src=self._peers[0], group=self._group)
        except RuntimeError as error:
            raise WorkerError(f"a rank {_JOIN}: {error}") from error
        return found[0]

    # ---- one exchange

    def ask(self, words: IntArray, answer: IntArray, beside: bytes = b"") -> None:
        """Of the other ranks: send `words` to rank 0, and what goes `beside` them, and wait for its `answer`."""
        try:
            awaited, into = self._receive(answer, 0)
            sent = [self._send(each, 0) for each in ([words, _words(beside)] if beside else [words])]
            awaited.wait()  # then it has what was sent, or does not want it any more
            del sent
        except RuntimeError as error:
            raise self._without_owner(error) from error
        _fill(answer, into)

    def hear(self, rows: IntArray) -> None:
        """Of rank 0: the words of each other rank, into its row of `rows`."""
        awaited = [(rank, *self._receive(rows[rank], rank)) for rank in range(1, self.size)]
        for rank, work, into in awaited:
            try:
                work.wait()
            except RuntimeError as error:
                raise WorkerError(_gone(self._names[rank], error)) from error
            _fill(rows[rank], into)

    def reply(self, rows: IntArray) -> None:
        """Of rank 0: to each other rank its row of `rows`."""
        works = [(rank, self._try_to_send(rows[rank], rank)) for rank in range(1, self.size)]
        for rank, work in works:
            try:
                if isinstance(work, RuntimeError):
                    raise work
                work.wait()
            except RuntimeError as error:
                raise WorkerError(_gone(self._names[rank], error)) from error

    def send_bytes(self, data: bytes, rank: int) -> None:
        """Send `data` to another `rank`, which knows how many bytes they are."""
        try:
            self._send(_words(data), rank).wait()
        except RuntimeError as error:
            raise self._lost(rank, error) from error

    def receive_bytes(self, count: int, rank: int) -> bytes:
        """So many bytes (`count`) from another `rank`."""
        words = np.zeros(-(-count // 8), dtype=np.int64)
        try:
            work, into = self._receive(words, rank)
            work.wait()
        except RuntimeError as error:
            raise self._lost(rank, error) from error
        _fill(words, into)
        return words.tobytes()[:count]

    # ---- who is gone

    def give_up(self, why: str, rows: IntArray | None = None) -> None:
        """Of rank 0: say to everybody `why` this ends, by answers (`rows`) and by the store, as far as they are reached."""
        with suppress(RuntimeError):
            _get_default_store().set(self._key, why)
        works = [] if rows is None else [self._try_to_send(rows[rank], rank) for rank in range(1, self.size)]
        for work in works:
            if not isinstance(work, RuntimeError):
                with suppress(RuntimeError):
                    work.wait(_LAST_WORDS)

    def last_words(self, words: IntArray) -> None:
        """Of the other ranks: send `words` and wait for nothing."""
        with suppress(RuntimeError):
            self._send(words, 0).wait(_LAST_WORDS)

    def _lost(self, rank: int, error: RuntimeError) -> WorkerError:
        return WorkerError(_gone(self._names[rank], error)) if self.rank == 0 else self._without_owner(error)

    def _without_owner(self, error: RuntimeError) -> WorkerError:
        """Rank 0 does not answer: because of another rank, as it has said in the store, or because it is gone itself."""
        with suppress(RuntimeError):  # also that the store was in its process
            store = _get_default_store()
            store.wait([self._key], _VERDICT)
            return WorkerError(store.get(self._key).decode())
        return WorkerError(_gone(f"{self._names[0]}, which has the teacher,", error))

    # ---- tensors

    def _send(self, words: IntArray, rank: int) -> Any:
        return dist.isend(torch.from_numpy(words).to(self._device), self._peers[rank], group=self._group, tag=_TAG)

    def _try_to_send(self, words: IntArray, rank: int) -> Any:
        try:
            return self._send(words, rank)
        except RuntimeError as error:
            return error

    def _receive(self, words: IntArray, rank: int) -> tuple[Any, torch.Tensor]:
        into = (
            torch.from_numpy(words)
            if self._device.type == "cpu"
            else torch.empty(len(words), dtype=torch.int64).to(self._device)
        )
        return dist.irecv(into, self._peers[rank], group=self._group, tag=_TAG), into


def _fill(words: IntArray, received: torch.Tensor) -> None:
    if received.device.type != "cpu":
        words[:] = received.cpu().numpy()


def _words(data: bytes) -> IntArray:
    return np.frombuffer(data.ljust(-(-len(data) // 8) * 8, b"\0"), dtype=np.int64).copy()


def _gone(name: str, error: RuntimeError) -> str:
    if "imed out" in str(error):
        return f"{name} does not answer within the timeout of the process group: it hangs, or is not in step with the others."
    return (
        f"{name} is gone. What it was told last, and why it ended, is in its own output; start the job again to resume the run."
    )
