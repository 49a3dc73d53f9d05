"""Writers for experiment trackers: TensorBoard event files, Weights & Biases, and trackio."""

from __future__ import annotations

import os
import secrets
import socket
import struct
import time
from collections.abc import Mapping
from contextlib import redirect_stdout
from io import StringIO
from pathlib import Path
from typing import Any, Literal, TypeAlias, get_args

from cursus.errors import LedgerError, MissingExtra, SettingsError
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

_SENDS_AWAY = ("TRACKIO_SPACE_ID", "TRACKIO_SERVER_URL")
"""Variables by which trackio logs to another machine."""


class WandbWriter(Writer):
    """A run of `wandb` whose files lie in `folder`. Nothing leaves this machine unless `mode` is `"online"`.

    An offline run is sent later with `wandb sync`. A run that is resumed goes on under the same id. wandb can take no row
    back: what it was given before stays, and is not given again. The id, and the steps that it was given, are in
    `wandb/steps.txt`.

    Args:
        project: the project that the run belongs to.
        name: the name of the run.
        folder: where wandb keeps its files; made if there is none.
        mode: `"offline"` (default), `"online"` or `"disabled"`.
        resume: step of the checkpoint that the run goes on from, or -1 to begin anew (default None: begin anew).
    """

    def __init__(
        self, project: str, name: str, *, folder: str | Path, mode: Mode = "offline", resume: int | None = None
    ) -> None:
        if resume is not None:
            check_count("resume", resume, low=-1)
        if mode not in get_args(Mode):
            raise SettingsError(f"mode={mode!r} must be one of {', '.join(map(repr, get_args(Mode)))}.")
        try:
            import wandb
        except ImportError:
            raise MissingExtra("wandb", "wandb") from None
        if wandb.run is not None:
            raise SettingsError("a wandb run is open in this process already. Finish it first, or log to that one yourself.")
        Path(folder).mkdir(parents=True, exist_ok=True)  # wandb would choose another folder
        self._steps = _GivenSteps(Path(folder) / "wandb" / "steps.txt", "wandb", again=resume is not None and resume >= 0)
        again = "allow" if mode == "online" else None  # nobody can be asked offline, where the same id is enough
        settings = wandb.Settings(silent=True, console="off")
        try:
            self._run: Any = wandb.init(
                project=project, name=name, id=self._steps.id, resume=again, mode=mode, dir=str(folder), settings=settings
            )
        except BaseException:
            self._steps.close()
            raise

    @property
    def id(self) -> str:
        """The id of the run, the same after a resume."""
        return self._steps.id

    def write(self, step: int, metrics: Mapping[str, float]) -> None:
        """Log a row, unless one of this step or a later one was logged before."""
        row = finite(checked_row(step, metrics))
        if self._steps.claim(int(step)):
            self._run.log(row, step=int(step))

    def flush(self) -> None:
        """Nothing to do: wandb's own process keeps what it was given."""

    def close(self) -> None:
        """Finish the run."""
        try:
            self._run.finish()
        finally:
            self._steps.close()


class TrackioWriter(Writer):
    """A run of `trackio` on this machine, which `trackio show` shows beside all others of its project.

    It lies where trackio keeps everything, not in the run folder, so that runs can be compared: in the folder that the
    environment variable `TRACKIO_DIR` names, else in the cache of Hugging Face. Nothing of it leaves this machine: a variable
    that would have trackio send it away is refused. (Who is logged in at Hugging Face is asked for the name there by trackio
    itself, unless `HF_HUB_OFFLINE=1` is set.)

    A run that is resumed goes on, and no row is given to it twice. trackio can take no row back, and writes in a thread of
    its own: after a kill the rows of the last half second may be missing there.

    Args:
        project: the project that the run belongs to.
        name: the name of the run, to which an id is added: trackio finds a run again by its name, and names come twice.
        folder: where the id, and the steps that trackio was given, are kept, in `trackio/steps.txt`; made if there is none.
        resume: step of the checkpoint that the run goes on from, or -1 to begin anew (default None: begin anew).
    """

    def __init__(self, project: str, name: str, *, folder: str | Path, resume: int | None = None) -> None:
        if resume is not None:
            check_count("resume", resume, low=-1)
        for variable in _SENDS_AWAY:
            if os.environ.get(variable):
                raise SettingsError(
                    f"{variable} is set: trackio would send this run away. Unset it; `trackio sync` sends runs."
                )
        try:
            import trackio
            from trackio.context_vars import current_run
        except ImportError as error:
            raise MissingExtra.of(error, "trackio") from None
        if current_run.get() is not None:
            raise SettingsError("a trackio run is open in this process already. Finish it first, or log to that one yourself.")
        again = resume is not None and resume >= 0
        self._trackio: Any = trackio
        self._steps = _GivenSteps(Path(folder) / "trackio" / "steps.txt", "trackio", again=again)
        try:
            with redirect_stdout(StringIO()):  # trackio prints where a dashboard could be
                self._run: Any = trackio.init(
                    project=project,
                    name=f"{name}-{self._steps.id}",
                    resume="allow" if again else "never",
                    embed=False,
                    auto_log_cpu=False,
                    auto_log_gpu=False,
                )
        except BaseException:
            self._steps.close()
            raise

    @property
    def name(self) -> str:
        """The name of the run in trackio, the same after a resume."""
        return str(self._run.name)

    def write(self, step: int, metrics: Mapping[str, float]) -> None:
        """Log a row, unless one of this step or a later one was logged before."""
        row = finite(checked_row(step, metrics))
        if self._steps.claim(int(step)):
            self._run.log(row, step=int(step))

    def flush(self) -> None:
        """Nothing to do: trackio's own thread writes what it was given within half a second."""

    def close(self) -> None:
        """Finish the run."""
        try:
            with redirect_stdout(StringIO()):
                self._trackio.finish()
        finally:
            self._steps.close()


class _GivenSteps:
    """The id of a run and the steps that were given to its tracker, a line each, which survive the death of the process."""

    def __init__(self, path: Path, tracker: str, *, again: bool) -> None:
        self._file = AppendFile(path)
        try:
            self._file.repair()
            lines = [line.decode(errors="replace").strip() for line in self._file.lines()] if again else []
            if lines and not (lines[0].isalnum() and all(line.isdecimal() for line in lines[1:])):
                raise LedgerError(f"{path} is damaged: it must hold the id of a run of {tracker}, and steps. Remove it.")
            self.id = lines[0] if lines else secrets.token_hex(4)
            self._last = int(lines[-1]) if len(lines) > 1 else -1
            if not lines:
                self._file.replace([f"{self.id}\n".encode()])
        except BaseException:
            self._file.abandon()
            raise

    def claim(self, step: int) -> bool:
        """Whether a row of this step is still to be given; it counts as given from here on.

        So before it is: a row that is missing after a kill is better than one that is there twice.
        """
        if step <= self._last:
            return False
        self._last = step
        self._file.append(f"{step}\n".encode())
        return True

    def close(self) -> None:
        """Let go of the file."""
        self._file.abandon()
