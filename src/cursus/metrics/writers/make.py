"""Writers by name: where the metrics of a run go, the same for trainings and simulated runs."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from importlib.util import find_spec
from pathlib import Path

from cursus._files import make_folder
from cursus.errors import MissingExtra, SettingsError
from cursus.metrics.writers.base import Writer
from cursus.metrics.writers.csv import CsvWriter
from cursus.metrics.writers.jsonl import JsonlWriter, Writers
from cursus.metrics.writers.trackers import TensorBoardWriter, TrackioWriter, WandbWriter
from cursus.settings import unknown

OUTPUTS = ("csv", "tensorboard", "trackio", "wandb")
"""Names of writers that `make_writers` can add to the JSON lines."""
_LIBRARIES = {"tensorboard": "tensorboardX", "trackio": "trackio", "wandb": "wandb"}


def check_outputs(outputs: Sequence[str]) -> None:
    """Refuse `outputs` of which one is not known, or whose library is not installed, before anything is made."""
    if isinstance(outputs, str):
        raise SettingsError(f"outputs={outputs!r} must be a list of names, such as {[outputs]}.")
    for name in outputs:
        if name not in OUTPUTS:
            raise SettingsError(f"output {unknown(str(name), OUTPUTS)}")
        if name in _LIBRARIES and find_spec(_LIBRARIES[name]) is None:
            raise MissingExtra(_LIBRARIES[name], name)


def make_writers(run: str | Path, outputs: Sequence[str] = (), *, resume: int | None = None) -> Writers:
    """Writers of metrics into the folder of a run: `metrics.jsonl`, and beside it what `outputs` names.

    Args:
        run: the run folder.
        outputs: `"csv"` (`metrics.csv`), `"tensorboard"` (an event file in `tensorboard/`), `"trackio"` (a run in the project
            `cursus` of trackio, on this machine) and `"wandb"` (an offline run in `wandb/`), each at most once (default none).
        resume: step of the checkpoint that the run goes on from: rows of later steps are taken back, with -1 all (default
            None: rows are added to those that are there).

    >>> import tempfile
    >>> from cursus.metrics import read_metrics
    >>> with tempfile.TemporaryDirectory() as run:
    ...     with make_writers(run, ["csv"]) as writers:
    ...         writers.write(100, {"env_score": 0.5})
    ...     [row["step"] for row in read_metrics(run + "/metrics.jsonl")]
    [100]
    """
    check_outputs(outputs)
    with ExitStack() as opened:
        main = opened.enter_context(JsonlWriter(Path(run) / "metrics.jsonl", resume=resume))
        others = [opened.enter_context(_make(name, Path(run), resume)) for name in OUTPUTS if name in outputs]
        opened.pop_all()  # none of them has failed: the writers close them all
    return Writers(main, *others)


def _make(name: str, run: Path, resume: int | None) -> Writer:
    if name == "csv":
        return CsvWriter(run / "metrics.csv", resume=resume)
    if name == "tensorboard":
        return TensorBoardWriter(make_folder(run / "tensorboard"), resume=resume)
    if name == "trackio":
        make_folder(run / "trackio")
        return TrackioWriter("cursus", run.resolve().name, folder=run, resume=resume)
    make_folder(run / "wandb")  # where wandb puts its files
    return WandbWriter("cursus", run.resolve().name, folder=run, resume=resume)
