"""The ledger of a run: an append-only file of events, one JSON object per line, and one of the columns of large events.

Every event has a number `n`, and its line ends with a checksum of what stands before it. An event of the kind `resume` says
that those from number `cut` on were superseded: they stay in the file and count nowhere.
"""

from __future__ import annotations

import fcntl
import json
import math
import os
import time
import weakref
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any
from zlib import crc32

import numpy as np
from numpy.typing import NDArray

from cursus._files import end_of_lines, make_folder, open_to_write
from cursus.errors import LedgerError, SettingsError
from cursus.runs import checkpoint, columns
from cursus.runs.folder import RunFolder
from cursus.runs.record import holds_run, next_number
from cursus.types import Tree
from cursus.verbosity import log

_FLUSH_BYTES = 1 << 16
_FLUSH_SECONDS = 1.0
_STATUS_SECONDS = 1.0
_STATUS_COST_SHARE = 20  # a status that takes long to make is made so much more seldom
_LOCK_TRIES, _LOCK_PAUSE_S = 5, 0.01


class Ledger:
    """The writer of a run's events. One at a time may hold a run.

    Events are gathered and written together: when 64 KiB have come together, when a second has passed, and after a
    decision. What was written survives the death of the process; the end of a line that was cut off is removed when
    the run is opened again.

    Writing happens at the door: whoever makes a change looks at `due_at` *before* it, so that a full disk is an error
    that changed nothing. The call can be made again when there is room.

    Args:
        folder: the run; use `create` or `reopen`, which look at what it holds.
    """

    due_at: float
    """The moment (`time.monotonic`) from which on what has been gathered should be flushed."""

    def __init__(self, folder: RunFolder) -> None:
        self.folder = folder
        self._lock = _take_lock(folder)
        self._lines, self._blocks = _Appended(), _Appended()  # that of columns is opened when the first are written
        try:
            self._lines.open(open_to_write(folder.events, os.O_WRONLY | os.O_APPEND))
            make_folder(folder.checkpoints)
        except LedgerError:
            self._let_go()
            raise
        self._process = os.getpid()
        self._next = 0
        self._run_id = ""
        self._status_due = 0.0
        self._saved_at = -1
        self.recorded = 0
        """The number behind the last event that was found in the file."""
        self._forgotten = weakref.finalize(self, _close_handles, self._lock, self._blocks, self._lines, self._process)
        self.due_at = time.monotonic() + _FLUSH_SECONDS

    @classmethod
    def create(cls, path: str | Path, config: Mapping[str, Any]) -> Ledger:
        """Begin a new run in a folder that holds none; one that ended before its first assignment counts as none.

        Args:
            path: the folder, made if there is none.
            config: the settings of the run, written as `config.json`.
        """
        folder = RunFolder(path)
        _make_folder(folder.path)
        ledger = cls(folder)
        try:
            if holds_run(folder):
                raise LedgerError(
                    f"{folder.path} already holds a run. Give resume=True to go on with it (cursus train: --resume "
                    f"{folder.path}), or choose another folder."
                )
            for left in checkpoint.list_checkpoints(folder.checkpoints):
                left.unlink()
            os.ftruncate(ledger._lines.handle, 0)
            folder.columns.unlink(missing_ok=True)
            ledger._run_id = config.get("id", "")
            text = json.dumps(dict(config), indent=2) + "\n"
            checkpoint.write_atomically(folder.config, text.encode())
        except BaseException:
            ledger._let_go()
            raise
        return ledger

    @classmethod
    def reopen(cls, path: str | Path) -> tuple[Ledger, int]:
        """Open the run in the folder `path` to go on with it; also gives how many bytes of a torn last line were removed."""
        folder = RunFolder(path)
        config = folder.read_config()
        if not folder.events.exists():
            raise LedgerError(f"{folder.path} has no events.jsonl: there is nothing to resume.")
        ledger = cls(folder)
        try:
            ledger._run_id = config.get("id", "")
            removed = _repair(folder.events)
            ledger.recorded = next_number(folder.events)
            behind = [checkpoint.position_of(path) + 1 for path in checkpoint.list_checkpoints(folder.checkpoints)]
            ledger._next = max([ledger.recorded, *behind])  # a checkpoint that is set aside stays so
            for each in (folder.path, folder.checkpoints):
                checkpoint.sweep(each)
        except BaseException:
            ledger._let_go()
            raise
        return ledger, removed

    @property
    def position(self) -> int:
        """The number of the next event."""
        return self._next

    @property
    def is_ahead(self) -> bool:
        """Whether something was recorded, by this process, that the newest checkpoint does not hold."""
        return self._lines.handle >= 0 and self._process == os.getpid() and self._next != self._saved_at

    def write(self, event: str, fields: Mapping[str, Any], *, urgent: bool = False) -> None:
        """Add an event, which reaches the file with the next flush.

        Args:
            event: its kind, one word.
            fields: what it says: plain values or arrays.
            urgent: whether the next flush is due at once (default False).
        """
        arrays = {name: value for name, value in fields.items() if isinstance(value, np.ndarray)}
        large = {name: value for name, value in arrays.items() if value.size >= columns.LARGE and value.ndim == 1}
        if large:
            small = {name: value for name, value in fields.items() if name not in large}
            fields = {**small, "columns": self._write_columns(large)}
        told = "".join([f',"{name}":{_encoded(value)}' for name, value in fields.items()])
        body = f'{{"n":{self._next},"event":"{event}"{told}'.encode()
        self._lines.add(b'%b,"crc":"%08x"}\n' % (body, crc32(body)))
        if urgent or self._lines.waiting + self._blocks.waiting >= _FLUSH_BYTES:
            self.due_at = 0.0
        self._next += 1

    def _write_columns(self, large: Mapping[str, NDArray[Any]]) -> dict[str, Any]:
        if self._blocks.handle < 0:
            self._blocks.open(open_to_write(self.folder.columns, os.O_WRONLY | os.O_APPEND))
        block, reference = columns.pack(large, at=self._blocks.end)
        self._blocks.add(block)
        return reference

    def flush(self) -> None:
        """Write everything that has been gathered: columns first, so that what a line names is there."""
        self._check_process()
        for file, path in ((self._blocks, self.folder.columns), (self._lines, self.folder.events)):
            try:
                file.write()
            except OSError as error:
                raise LedgerError(
                    f"{path} cannot be written: {error.strerror}. Nothing is lost: what is missing waits in "
                    "memory. Make room and go on, or flush again."
                ) from error
        self.due_at = time.monotonic() + _FLUSH_SECONDS

    def sync(self) -> None:
        """Flush, and see it through to the disk."""
        self.flush()
        if self._blocks.handle >= 0:
            os.fsync(self._blocks.handle)
        os.fsync(self._lines.handle)

    def write_status(self, make: Callable[[], Mapping[str, Any]], *, force: bool = False) -> None:
        """Replace the status by what `make` gives, at most once a second unless `force`, and seldomer if it is slow to make."""
        now = time.monotonic()
        if self._process == os.getpid() and (force or now >= self._status_due):
            text = json.dumps({**make(), "time": time.time()})
            checkpoint.write_atomically(self.folder.status, text.encode(), durable=False)
            self._status_due = now + max(_STATUS_SECONDS, _STATUS_COST_SHARE * (time.monotonic() - now))

    def write_checkpoint(self, state: dict[str, Tree]) -> Path:
        """Write a checkpoint with this state, the id of the run, and the position in the ledger that it belongs to."""
        whole = {"run": self._run_id, "position": self._next, **state}
        path = checkpoint.write(self.folder.checkpoints, self._next, whole, student=state.get("caller") is not None)
        self.write("checkpoint", {"file": path.name})
        self._saved_at = self._next
        return path

    def close(self) -> None:
        """Flush and let go of the run. If the flush fails the run is kept, and closing can be tried again."""
        if self._lines.handle < 0:
            return
        if self._process == os.getpid():
            self.flush()
        self._let_go()

    def abandon(self) -> None:
        """Let go of the run without writing what has been gathered."""
        if self._lines.handle >= 0:
            self._let_go()

    def _let_go(self) -> None:
        if (forgotten := getattr(self, "_forgotten", None)) is not None:
            forgotten.detach()
        _close_handles(self._lock, self._blocks, self._lines)
        self._lock = self._blocks.handle = self._lines.handle = -1

    def _check_process(self) -> None:
        if self._process != os.getpid():
            raise LedgerError(
                f"the run {self.folder.path} is written by process {self._process}, this is {os.getpid()}: a forked "
                "process must not write to it. Workers receive tasks; only the training process has a teacher."
            )


class _Appended:
    """A file that is only added to. What a failed or interrupted write leaves is written with the next one."""

    def __init__(self) -> None:
        self.handle = -1
        self._gathered: list[bytes] = []
        self.waiting = 0
        """Bytes that are gathered and not written."""
        self._size = 0

    def open(self, handle: int) -> None:
        """Begin to write to a file, behind what it holds."""
        self.handle, self._size = handle, os.fstat(handle).st_size

    @property
    def end(self) -> int:
        """Where the next bytes will begin; known where nobody else writes, and the file was not cut since it was opened."""
        return self._size + self.waiting

    def add(self, data: bytes) -> None:
        """Gather `data`."""
        self._gathered.append(data)
        self.waiting += len(data)

    def write(self) -> None:
        """Write everything that has been gathered."""
        if self.handle < 0:
            return
        data = b"".join(self._gathered)
        before = os.fstat(self.handle).st_size
        try:
            written = 0
            while written < len(data):
                written += os.write(self.handle, data[written:])
        finally:
            # The file knows best what has reached it, also when a signal interrupted the write.
            self._size = os.fstat(self.handle).st_size
            left = data[self._size - before :]
            self._gathered[:] = [left] if left else []
            self.waiting = len(left)


class NullLedger:
    """The ledger of a run without a folder: nothing is recorded."""

    due_at = math.inf
    position = recorded = 0
    is_ahead = False

    def write(self, event: str, fields: Mapping[str, Any], *, urgent: bool = False) -> None:
        """Record nothing of `event`, `fields` and `urgent`."""

    def flush(self) -> None:
        """There is nothing to write."""

    def sync(self) -> None:
        """There is nothing to write."""

    def write_status(self, make: Callable[[], Mapping[str, Any]], *, force: bool = False) -> None:
        """Nobody can look at this run from outside: neither `make` nor `force` matters."""

    def write_checkpoint(self, state: dict[str, Tree]) -> Path:
        """Refuse: there is no folder."""
        raise SettingsError("a teacher without a run folder has nowhere to save. Give it run=….")

    def close(self) -> None:
        """There is nothing to let go of."""

    def abandon(self) -> None:
        """There is nothing to let go of."""


def _encoded(value: Any) -> str:
    """JSON of a value; columns, which are most of what is written, by the shortest way."""
    if type(value) is int:
        return repr(value)
    if isinstance(value, np.ndarray) and value.ndim == 1 and value.dtype.kind in "biuf":
        return f"[{','.join(map(repr, _plain(value)))}]"
    return json.dumps(value, separators=(",", ":"), default=_plain)


def _plain(value: Any) -> Any:
    """An array as JSON values (booleans as 0 and 1), or a NumPy scalar as a plain one."""
    if isinstance(value, np.generic):
        return value.item()
    if not isinstance(value, np.ndarray):
        raise TypeError(f"a {type(value).__name__} cannot be written to the ledger. Evidence holds plain JSON values.")
    return value.view(np.int8).tolist() if value.dtype == np.bool_ else value.tolist()


def _repair(path: Path) -> int:
    """Cut off a last line that was not written to its end; how many bytes that were."""
    try:
        with path.open("r+b") as file:
            size = os.fstat(file.fileno()).st_size
            whole = end_of_lines(file.fileno())
            if whole < size:
                file.truncate(whole)
                os.fsync(file.fileno())
            return size - whole
    except (OSError, ValueError) as error:
        raise LedgerError(f"{path} cannot be read: {getattr(error, 'strerror', error)}.") from error


def _close_handles(lock: int, blocks: _Appended, lines: _Appended, process: int = -1) -> None:
    """Let go of a run; if its ledger was forgotten, not closed, also write what it had gathered."""
    if process == os.getpid():
        try:
            blocks.write()
            lines.write()
        except OSError as error:
            log.error("[curriculum] the last events of a run that was not closed are lost: %s", error.strerror)
    for handle in (blocks.handle, lines.handle, lock):
        if handle >= 0:
            os.close(handle)
    _HELD.pop(lock, None)


_HELD: dict[int, tuple[int, int]] = {}
"""The locks that this process holds: handle → device and inode of the file."""


def is_open(folder: RunFolder) -> bool:
    """Whether a process holds the run in `folder`, to write to it."""
    try:
        handle = os.open(folder.lock, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK)
    except OSError:
        return False
    try:
        fcntl.flock(handle, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except OSError:
        return True
    finally:
        os.close(handle)  # with it goes the lock, which a writer waits for
    return False


def _take_lock(folder: RunFolder) -> int:
    """A lock that the kernel lets go of when its holder dies, and that forked workers do not keep."""
    handle = open_to_write(folder.lock, os.O_RDWR)
    found = os.fstat(handle)
    identity = (found.st_dev, found.st_ino)
    try:
        _lock_soon(handle)
    except OSError:
        os.close(handle)
        if identity in _HELD.values():
            raise LedgerError(f"the run {folder.path} is already open in this process. Close its teacher first.") from None
        raise LedgerError(f"another process is writing to the run {folder.path}. Wait for it, or end it.") from None
    _HELD[handle] = identity
    return handle


def _lock_soon(handle: int) -> None:
    """Lock a file that somebody may hold for a moment, to see whether a run is open."""
    for _ in range(_LOCK_TRIES - 1):
        with suppress(OSError):
            return fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        time.sleep(_LOCK_PAUSE_S)
    return fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)


def _leave_locks() -> None:
    """A forked process shares the locks of its parent, which would last as long as it lives: it gives its share back.

    The handle stays taken, by nothing, so that a number which others may remember is not used again.
    """
    for handle in _HELD:
        nothing = os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC)
        os.dup2(nothing, handle, inheritable=False)
        os.close(nothing)
    _HELD.clear()


os.register_at_fork(after_in_child=_leave_locks)


def _make_folder(path: Path) -> None:
    try:
        path.mkdir(parents=True, exist_ok=True)
    except (OSError, ValueError) as error:
        raise LedgerError(f"the run folder {str(path)!r} cannot be made: {error}.") from error
