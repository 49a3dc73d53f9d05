"""Metrics as TensorBoard event files."""

from __future__ import annotations

import os
import socket
import struct
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from cursus.errors import MissingExtra
from cursus.metrics.writers._file import AppendFile
from cursus.metrics.writers.base import Writer, checked_row, finite
from cursus.settings import check_count

_LARGEST = 3.4028234e38
"""TensorBoard keeps single precision."""


class TensorBoardWriter(Writer):
    """Writes an event file into a folder, one event for every row; point `tensorboard --logdir` at it.

    The events are those of `tensorboardX`, the file is written here and at once: its `SummaryWriter` hands events to a
    thread, and once that thread has met a full disk, adding to its queue waits for ever.

    Args:
        folder: where the event file goes; made if there is none.
        resume: step of the checkpoint that the run goes on from: TensorBoard forgets later steps in the other files of the
            folder (default None).
    """

    def __init__(self, folder: str | Path, *, resume: int | None = None) -> None:
        if resume is not None:
            check_count("resume", resume, low=-1)
        try:
            from tensorboardX.proto import event_pb2, summary_pb2
            from tensorboardX.record_writer import masked_crc32c
        except ImportError:
            raise MissingExtra("tensorboardX", "tensorboard") from None
        self._events, self._summaries, self._checksum = event_pb2, summary_pb2, masked_crc32c
        # TensorBoard reads the files of a folder in the order of their names.
        name = f"events.out.tfevents.{time.time():.6f}.{socket.gethostname()}.{os.getpid()}"
        self._file = AppendFile(Path(folder) / name)
        try:
            self._append(file_version="brain.Event:2")
            if resume is not None:
                start = event_pb2.SessionLog(status=event_pb2.SessionLog.START)
                self._append(step=resume + 1, session_log=start)
        except BaseException:
            self._file.abandon()
            raise

    @property
    def path(self) -> Path:
        """The event file."""
        return self._file.path

    def write(self, step: int, metrics: Mapping[str, float]) -> None:
        """Add an event."""
        summary = self._summaries.Summary()
        for name, value in finite(checked_row(step, metrics)).items():
            if abs(value) <= _LARGEST:
                summary.value.add(tag=name, simple_value=value)
        self._append(step=int(step), summary=summary)

    def flush(self) -> None:
        """See all events through to the disk."""
        self._file.sync()

    def close(self) -> None:
        """Let go of the file, also when what waits cannot be written."""
        try:
            self._file.close()
        finally:
            self._file.abandon()

    def _append(self, **event: Any) -> None:
        """Add an event in TensorFlow's record format: length, its checksum, the event, its checksum."""
        data = self._events.Event(wall_time=time.time(), **event).SerializeToString()
        length = struct.pack("<Q", len(data))
        self._file.append(b"".join(part + struct.pack("<I", self._checksum(part)) for part in (length, data)))
