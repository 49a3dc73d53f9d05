"""Cells of the arena: one teacher in one world with one seed. A cell of real training is an ordinary run folder."""

from __future__ import annotations

import copy
import json
import os
import shutil
import signal
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from contextlib import suppress
from dataclasses import asdict, dataclass
from multiprocessing import get_context
from multiprocessing.connection import Connection
from pathlib import Path
from threading import Thread
from typing import Any

import numpy as np

from cursus._files import Shape, make_folder, read_object
from cursus.analysis import RunHistory
from cursus.arena.worlds import TrainingWorld
from cursus.curricula import Curriculum
from cursus.errors import SettingsError, WorkerError
from cursus.runs.checkpoint import list_checkpoints, write_atomically
from cursus.settings import describe
from cursus.sim import World, simulate_curriculum
from cursus.sim.students import KINDS, LEARNABLE
from cursus.sim.worlds import CurriculumLike, make_curriculum
from cursus.types import IntArray
from cursus.verbosity import quiet

EVALUATIONS = 10
"""How often the policy is evaluated in a training, at equal distances."""

_GAMES = 60  # of one evaluation, over all tasks together
_FEWEST_GAMES = 2  # of a task
_REPORTS = 40
_NEVER = 10**9
_SHAPE: dict[Any, Shape] = {"settings": dict, "result": {"curve": list, "shares": dict}}


@dataclass(frozen=True)
class CellResult:
    """What came of one teacher in one world with one seed."""

    curve: list[tuple[float, float]]
    """Where it was measured, in steps (simulated students: in episodes), and the success or competence there."""
    shares: dict[str, float]
    """The share of all steps that went to tasks of each kind."""

    @property
    def area(self) -> float:
        """The mean over the curve."""
        return float(np.mean([value for _, value in self.curve]))

    @property
    def final(self) -> float:
        """The end of the curve."""
        return self.curve[-1][1]

    @property
    def wasted(self) -> float:
        """The share of steps that went to tasks that cannot be learned."""
        return sum(share for kind, share in self.shares.items() if kind != KINDS[LEARNABLE])


@dataclass(frozen=True)
class Cell:
    """One teacher in one world with one seed; called, it is trained or simulated, unless that has been done before.

    Args:
        world_name: what the world is called here.
        teacher: what the curriculum is called here.
        maker: what makes the curriculum, see `cursus.sim.worlds.CurriculumLike`.
        world: a `TrainingWorld`, or a world of simulated students.
        seed: of everything.
        folder: of the arena.
        episodes: of a simulated student.
    """

    world_name: str
    teacher: str
    maker: CurriculumLike
    world: World
    seed: int
    folder: Path
    episodes: int

    @property
    def name(self) -> str:
        """Of its files."""
        return f"{_as_file(self.world_name)}-{_as_file(self.teacher)}-{self.seed}"

    @property
    def run(self) -> Path:
        """The run folder, where there is real training."""
        return self.folder / "runs" / self.name

    @property
    def path(self) -> Path:
        """Where the result is written when it is known."""
        return self.folder / "cells" / f"{self.name}.json"

    def curriculum(self) -> Curriculum:
        """A curriculum that has seen nothing yet."""
        if isinstance(self.world, TrainingWorld):
            made = make_curriculum(self.maker, self.world, self.world.episodes)
        else:
            made = make_curriculum(self.maker, self.world, self.episodes)
        return type(made)(**copy.deepcopy(dict(made.settings()))) if made is self.maker else made

    def settings(self) -> dict[str, Any]:
        """Everything that the result depends on, but for code."""
        if isinstance(self.world, TrainingWorld):
            return {**_plan(self.world, self.seed), "curriculum": describe(self.curriculum()), "num_envs": self.world.num_envs}
        shared = {"world": self.world.digest, "seed": self.seed, "episodes": self.episodes}
        return {**shared, "curriculum": describe(self.curriculum())}

    def known(self) -> CellResult | None:
        """The result, if it is known; an error if it is that of other settings."""
        try:
            found = read_object(self.path, _SHAPE)
        except FileNotFoundError:
            return None
        except (OSError, ValueError) as error:
            raise SettingsError(f"{self.path} cannot be read: {error}. Remove it, and the cell is done again.") from error
        if _text(found["settings"]) != _text(self.settings()):
            raise SettingsError(f"{self.path} is the result of other settings. Choose another folder, or remove this one.")
        return CellResult([(float(x), float(y)) for x, y in found["result"]["curve"]], found["result"]["shares"])

    def __call__(self) -> CellResult:
        """The result: what is known, or else what comes of it now."""
        found = self.known()
        if found is not None:
            return found
        found = self._train(self.world) if isinstance(self.world, TrainingWorld) else self._simulate()
        make_folder(self.path.parent)
        written = {"settings": self.settings(), "result": asdict(found)}
        write_atomically(self.path, (json.dumps(written) + "\n").encode())
        return found

    def _train(self, world: TrainingWorld) -> CellResult:
        """Train, or go on where a training was stopped."""
        from cursus.training import train  # torch takes seconds to load

        curriculum = self.curriculum()
        begun = (self.run / "train.json").exists() and bool(list_checkpoints(self.run / "checkpoints"))
        with quiet():
            if begun and not self._is_over(world):
                train(resume=self.run, curriculum=curriculum, num_workers=0, trust=True)  # the user has named its environment
            elif not begun:
                shutil.rmtree(self.run, ignore_errors=True)
                plan = _plan(world, self.seed)
                train(plan, run=self.run, curriculum=curriculum, num_envs=world.num_envs, num_workers=0)
        history = RunHistory(self.run)
        steps, rates = history.evaluations()
        kinds = world.kinds_of(history.episodes.task, curriculum.tasks)
        return CellResult(list(zip(steps.tolist(), rates.tolist(), strict=True)), _shares(kinds, history.episodes.length))

    def _is_over(self, world: TrainingWorld) -> bool:
        """Whether the policy was evaluated at the end already."""
        steps, _ = RunHistory(self.run).evaluations()
        return len(steps) > 0 and steps[-1] >= world.steps

    def _simulate(self) -> CellResult:
        found = simulate_curriculum(self.world, self.curriculum(), episodes=self.episodes, seed=self.seed)
        shares = _shares(self.world.kinds, found.practised * self.world.lengths)
        distance = self.episodes / max(len(found.curve), 1)
        curve = [(index * distance, value) for index, value in enumerate(found.curve)]
        return CellResult([*curve, (float(self.episodes), found.final)], shares)


def _plan(world: TrainingWorld, seed: int) -> dict[str, Any]:
    """The configuration of a training, as `cursus train` reads it, but for the curriculum."""
    targets = world.targets()
    evaluation = {"every": max(world.steps // EVALUATIONS, 1), "games": max(_GAMES // len(targets), _FEWEST_GAMES)}
    return {
        "seed": seed,
        "agent": world.agent,
        "environment": {"id": world.env},
        "training": {"steps": world.steps, "report_every": max(world.steps // _REPORTS, 1), "checkpoint_every": _NEVER},
        "evaluation": {**evaluation, "background": False, "tasks": targets},
    }


def _shares(kinds: IntArray, steps: IntArray) -> dict[str, float]:
    """The share of these steps that went to tasks of each kind."""
    whole = max(int(steps.sum()), 1)
    return {name: float(steps[kinds == kind].sum() / whole) for kind, name in enumerate(KINDS)}


def _text(settings: Mapping[str, Any]) -> str:
    return json.dumps(settings, sort_keys=True)


def _as_file(name: str) -> str:
    return "".join(each if each.isalnum() or each == "_" else "-" for each in name)


# ---- many of them


def run_cells(cells: Sequence[Cell], jobs: int) -> Iterator[tuple[Cell, CellResult]]:
    """Do all cells, so many at a time, each in a process; in the order in which they are done.

    Args:
        cells: what is to be done.
        jobs: number of processes; 1 for this one alone.
    """
    if jobs == 1:
        yield from ((cell, cell()) for cell in cells)
        return
    context = get_context("spawn")
    theirs, ours = context.Pipe(duplex=False)
    pool = ProcessPoolExecutor(jobs, mp_context=context, initializer=_end_with_parent, initargs=(theirs,))
    try:
        doing = {pool.submit(cell): cell for cell in cells}
        for done in as_completed(doing):
            yield doing[done], done.result()
    except BaseException as error:
        ours.close()
        if isinstance(error, BrokenProcessPool):
            raise WorkerError(
                "a process of the arena was killed, perhaps for want of memory. The same command goes on where it was; with "
                "fewer jobs it needs less."
            ) from error
        raise
    finally:
        pool.shutdown(cancel_futures=True)
        ours.close()
        theirs.close()


def _end_with_parent(pipe: Connection) -> None:
    """When the arena is stopped or killed, its processes end at once: the next arena will want their run folders."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    Thread(target=_wait_for_end, args=(pipe,), daemon=True).start()


def _wait_for_end(pipe: Connection) -> None:
    with suppress(EOFError, OSError):
        pipe.recv_bytes()
    os._exit(1)
