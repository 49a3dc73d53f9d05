"""Metrics as a run of Weights & Biases."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal, TypeAlias, get_args

from cursus.errors import MissingExtra, SettingsError
from cursus.metrics.writers.base import Writer, checked_row, finite

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
