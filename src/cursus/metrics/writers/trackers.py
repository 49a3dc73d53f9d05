"""Writers for experiment trackers: TensorBoard event files and Weights & Biases."""

from __future__ import annotations

import os
import socket
import struct
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal, TypeAlias, get_args

from cursus.errors import MissingExtra, SettingsError
from cursus.metrics.writers.base import AppendFile, Writer, checked_row, finite
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


Mode: TypeAlias = Literal["offline", "online", "disabled"]


class WandbWriter(Writer):
    """A run of `wandb` whose files lie in `folder`. Nothing leaves this machine unless `mode` is `"online"`.

    An offline run is sent later with `wandb sync`. wandb wants steps that do not go back: it leaves out a row of an
    earlier step and says so.

    Args:
        project: the project that the run belongs to.
        name: the name of the run.
        folder: where wandb keeps its files; made if there is none.
        mode: `"offline"` (default), `"online"` or `"disabled"`.
    """

    def __init__(self, project: str, name: str, *, folder: str | Path, mode: Mode = "offline") -> None:
        if mode not in get_args(Mode):
            raise SettingsError(f"mode={mode!r} must be one of {', '.join(map(repr, get_args(Mode)))}.")
        try:
            import wandb
        except ImportError:
            raise MissingExtra("wandb", "wandb") from None
        if wandb.run is not None:
            raise SettingsError("a wandb run is open in this process already. Finish it first, or log to that one yourself.")
        Path(folder).mkdir(parents=True, exist_ok=True)  # wandb would choose another folder
        settings = wandb.Settings(silent=True, console="off")
        self._run: Any = wandb.init(project=project, name=name, mode=mode, dir=str(folder), settings=settings)

    def write(self, step: int, metrics: Mapping[str, float]) -> None:
        """Log a row."""
        self._run.log(finite(checked_row(step, metrics)), step=int(step))

    def flush(self) -> None:
        """Nothing to do: wandb's own process keeps what it was given."""

    def close(self) -> None:
        """Finish the run."""
        self._run.finish()
