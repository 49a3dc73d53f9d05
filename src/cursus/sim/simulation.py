"""A simulated run: the loop of a training run, with a student made of equations in the place of the agent."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Literal, get_args

import numpy as np

from cursus.adapters.gymnasium import RemoteCurriculumEnv
from cursus.curricula import Curriculum
from cursus.errors import MissingExtra, SettingsError
from cursus.metrics import CsvWriter, CurriculumStatistics, JsonlWriter, Rollup, TensorBoardWriter, WandbWriter, Writer, Writers
from cursus.randomness import Purpose, TicketStream, check_seed
from cursus.remote import Hub, Seat
from cursus.remote.channel.shared import MemoryKind
from cursus.settings import check_count
from cursus.sim.dependency import DependencyStudents
from cursus.sim.env import TaskDependencyEnv
from cursus.sim.worlds import World
from cursus.teacher import Teacher
from cursus.teacher.resume import compare_settings
from cursus.types import FloatArray, IntArray, Tree
from cursus.vector import make_vec

Output = Literal["csv", "tensorboard", "wandb"]
_SHOWN_TASKS = 100
MASTERY = 0.9
"""The competence from which on a task counts as mastered."""


class SimulatedStudent:
    """The agent of a simulated run: it acts for all environments at once, and learns from the episodes that ended."""

    def __init__(self, students: DependencyStudents, num_envs: int, seed: int) -> None:
        self._students = students
        self._num_envs, self._seed = num_envs, check_seed(seed)
        self.steps = 0

    def act_batch(self, tasks: IntArray) -> FloatArray:
        """Skill and luck for each environment."""
        luck = TicketStream(self._seed, self.steps * self._num_envs, self._num_envs, purpose=Purpose.RESULTS).uniform()
        self.steps += 1
        return np.stack([self._students.skills(tasks[None])[0], luck], axis=1)

    def learn(self, tasks: IntArray) -> None:
        """Take in episodes of these tasks."""
        if len(tasks):
            self._students.practise(tasks[None])

    @property
    def competence(self) -> FloatArray:
        """What the student can do, by task."""
        own: FloatArray = self._students.competence[0]
        return own

    def state(self) -> Tree:
        """Everything that `load` needs."""
        return {"students": self._students.state(), "steps": self.steps}

    def load(self, state: Tree) -> None:
        """Continue from a state."""
        self._students.load(state["students"])
        self.steps = int(state["steps"])


@dataclass
class Simulation:
    """What a simulated run brought."""

    run: str | None
    epochs: int = 0
    episodes: int = 0
    competence: FloatArray = field(default_factory=lambda: np.empty(0))
    curve: list[float] = field(default_factory=list)
    """The mean competence over learnable tasks after each epoch."""
    practised: IntArray = field(default_factory=lambda: np.empty(0, dtype=np.int64))
    """Episodes of each task."""
    figures: dict[str, float] = field(default_factory=dict)
    """The metrics of the last epoch."""

    @property
    def area(self) -> float:
        """The mean of the curve."""
        return float(np.mean(self.curve)) if self.curve else 0.0


def simulate(
    world: World,
    curriculum: Curriculum,
    *,
    epochs: int = 100,
    samples_per_epoch: int = 10,
    num_envs: int = 8,
    num_workers: int = 0,
    seed: int = 0,
    run: str | Path | None = None,
    resume: bool = False,
    memory: MemoryKind | None = None,
    checkpoint_every: int = 50,
    outputs: Sequence[Output] = (),
    on_epoch: Callable[[Simulation, Teacher], None] = lambda simulation, teacher: None,
) -> Simulation:
    """Let a student practise in many environments under a curriculum, for so many epochs of `samples_per_epoch` steps each.

    This is a training run in every respect but its agent: the same vector environments, teacher, ledger, checkpoints and
    metrics. With `memory`, environments take their tasks by themselves from a remote teacher in that memory, as in vector
    environments that are not ours; without, the parent assigns. With `run`, metrics go to `metrics.jsonl` in that folder, and
    to the other `outputs` beside it.
    """
    for name, value in (("epochs", epochs), ("samples_per_epoch", samples_per_epoch), ("num_envs", num_envs)):
        check_count(name, value)
    check_count("checkpoint_every", checkpoint_every)
    if curriculum.tasks.size != world.tasks.size:
        raise SettingsError(f"the curriculum has {curriculum.tasks.size} tasks, the world {world.tasks.size}.")
    _check_outputs(run, outputs)
    per_epoch = world.student.get("samples_per_epoch", samples_per_epoch * num_envs)
    student = SimulatedStudent(world.students(seed=seed, samples_per_epoch=per_epoch), num_envs, seed)
    settings = {"world": world.digest, "seed": seed, "num_envs": num_envs, "samples_per_epoch": samples_per_epoch}
    result = Simulation(None if run is None else str(run), practised=np.zeros(world.tasks.size, dtype=np.int64))
    envs, teacher, hub = _make_envs(world, curriculum, num_envs, num_workers, seed, run, resume, memory)
    with _closing(envs, hub, teacher):
        statistics = teacher.observe(CurriculumStatistics(curriculum))
        if teacher.caller_state is not None:
            _load(teacher.caller_state, settings, student, result)
        with _open_writers(run, student.steps * num_envs if resume else None, outputs) as out:
            tasks, _ = envs.reset(seed=seed)
            while result.epochs < epochs:
                rollup = Rollup(prefix="env_")
                for _ in range(samples_per_epoch):
                    tasks = _step(envs, hub, student, tasks, result, rollup)
                result.epochs += 1
                result.competence = student.competence.copy()
                result.curve.append(float(student.competence[world.learnable].mean()))
                result.figures = {**rollup.report(), **statistics.report(), **_figures(world, student, result, num_envs)}
                out.write(student.steps * num_envs, result.figures)
                if run is not None and (result.epochs % checkpoint_every == 0 or result.epochs == epochs):
                    teacher.checkpoint(_state(settings, student, result))
                on_epoch(result, teacher)
    return result


@contextmanager
def _closing(envs: Any, hub: Hub | None, teacher: Teacher) -> Iterator[None]:
    """Close all in the end, whatever happens; the environments first, which may have something to say."""
    try:
        yield
    finally:
        envs.close()
        if hub is not None:
            hub.close()
        teacher.close()


def _step(
    envs: Any, hub: Hub | None, student: SimulatedStudent, tasks: IntArray, result: Simulation, rollup: Rollup
) -> IntArray:
    """One step of all environments; the tasks that they do next."""
    now = np.asarray(tasks)
    following, _, terminated, truncated, infos = envs.step(student.act_batch(now))
    ended = now[terminated | truncated]
    student.learn(ended)
    np.add.at(result.practised, ended, 1)
    result.episodes += len(ended)
    if "final_info" in infos:
        rollup.add_vector(infos["final_info"])
    if hub is not None:
        hub.drain()
    return np.asarray(following).copy()


def _make_envs(
    world: World,
    curriculum: Curriculum,
    num_envs: int,
    num_workers: int,
    seed: int,
    run: str | Path | None,
    resume: bool,
    memory: MemoryKind | None,
) -> tuple[Any, Teacher, Hub | None]:
    make_env = partial(TaskDependencyEnv, world)
    shared: dict[str, Any] = {"num_workers": num_workers, "seed": seed, "autoreset": "same_step"}
    if memory is None:
        envs = make_vec(make_env, num_envs, curriculum=curriculum, score="score", run=run, resume=resume, **shared)
        assert envs.teacher is not None  # noqa: S101 – a curriculum has one
        return envs, envs.teacher, None
    again = resume and run is not None
    teacher = Teacher.resume(curriculum, str(run)) if again else Teacher(curriculum, seed=seed, run=run)
    hub = Hub(teacher, memory=memory, members=max(num_envs, 64))
    makers = [partial(_make_remote, make_env, hub.seat()) for _ in range(num_envs)]
    return make_vec(makers, **shared), teacher, hub


def _make_remote(make_env: Callable[[], TaskDependencyEnv], seat: Seat) -> RemoteCurriculumEnv:
    return RemoteCurriculumEnv(make_env(), seat, score="score")


def _figures(world: World, student: SimulatedStudent, result: Simulation, num_envs: int) -> dict[str, float]:
    competence, learnable = student.competence, student.competence[world.learnable]
    figures = {
        "metric/epoch": float(result.epochs),
        "metric/agent_step": float(student.steps * num_envs),
        "overview/mean_performance": float(learnable.mean()),
        "overview/max_performance": float(learnable.max()),
        "overview/tasks_above_threshold": float((learnable >= MASTERY).sum()),
        "env_task_dependency/min_performance": float(learnable.min()),
        "env_task_dependency/performance_std": float(learnable.std()),
        "env_task_dependency/total_samples": float(result.episodes),
    }
    for task in range(min(world.tasks.size, _SHOWN_TASKS)):
        figures[f"env_task_dependency/task_{task}_performance"] = float(competence[task])
        figures[f"env_task_dependency/task_{task}_samples"] = float(result.practised[task])
    return figures


class _Nowhere(Writer):
    """For runs without a folder."""

    def write(self, step: int, figures: Mapping[str, float]) -> None:
        """Nothing is written."""

    def flush(self) -> None:
        """Nothing is there."""

    def close(self) -> None:
        """Nothing is open."""


def _check_outputs(run: str | Path | None, outputs: Sequence[Output]) -> None:
    """Refuse outputs that cannot be, before anything is made."""
    unknown = [name for name in outputs if name not in get_args(Output)]
    if unknown:
        raise SettingsError(f"output {unknown[0]!r} is not known. Allowed: {', '.join(get_args(Output))}.")
    if outputs and run is None:
        raise SettingsError("outputs lie in the run folder: give run=….")
    for name, module in (("tensorboard", "tensorboardX"), ("wandb", "wandb")):
        if name in outputs and find_spec(module) is None:
            raise MissingExtra(module, name)


def _open_writers(run: str | Path | None, step: int | None, outputs: Sequence[Output]) -> Writer:
    """Where metrics go; a resumed run goes on after `step`."""
    if run is None:
        return _Nowhere()
    folder = Path(run)
    others: list[Writer] = []
    if "csv" in outputs:
        others.append(CsvWriter(folder / "metrics.csv", resume=step))
    if "tensorboard" in outputs:
        others.append(TensorBoardWriter(folder / "tensorboard", resume=step))
    if "wandb" in outputs:
        others.append(WandbWriter("cursus", folder.name, folder=folder))
    return Writers(JsonlWriter(folder / "metrics.jsonl", resume=step), *others)


def _state(settings: Mapping[str, Any], student: SimulatedStudent, result: Simulation) -> Tree:
    return {
        "settings": dict(settings),
        "student": student.state(),
        "epochs": result.epochs,
        "episodes": result.episodes,
        "curve": np.array(result.curve),
        "practised": result.practised.copy(),
    }


def _load(state: Mapping[str, Any], settings: dict[str, Any], student: SimulatedStudent, result: Simulation) -> None:
    compare_settings(dict(state["settings"]), settings)
    student.load(state["student"])
    result.epochs, result.episodes = int(state["epochs"]), int(state["episodes"])
    result.curve = np.asarray(state["curve"]).tolist()
    result.practised = np.array(state["practised"], dtype=np.int64)
    result.competence = student.competence.copy()
