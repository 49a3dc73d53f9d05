"""Simulated runs: the loop of a training run through real vector environments, with a simulated student for an agent."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces
from numpy.typing import ArrayLike

from cursus.adapters.gymnasium import RemoteCurriculumEnv
from cursus.curricula import Curriculum
from cursus.errors import SettingsError, TaskError
from cursus.metrics import CurriculumStatistics, Rollup, Writer, check_outputs, make_writers
from cursus.randomness import Purpose, TicketStream, check_seed
from cursus.remote import Hub, Seat
from cursus.remote.channel.shared import MemoryKind
from cursus.settings import check_count
from cursus.sim.results import MASTERY, Recorder, Simulation
from cursus.sim.students import CONSTANT, SimulatedStudents, observed_reward
from cursus.sim.worlds import CLASS, World, make_curriculum
from cursus.teacher import Teacher
from cursus.teacher.resume import changed_settings
from cursus.types import FloatArray, IntArray, Tree
from cursus.vector import make_vec
from cursus.verbosity import quiet

_SHOWN_TASKS = 100


class TaskDependencyEnv(gymnasium.Env[Any, Any]):
    """Observes which task is to be done, or of which class it is where tasks are generated.

    An action is how well the student can do it, and its luck this time.
    So the student lives where a learner lives, in the training process, and acts for all environments at once; nothing here
    learns. Success is decided when the shorter of a task's two lengths (of success and failure) is over: the luck must be
    below the skill. An impossible task fails whatever is done, a mastered one succeeds, a coin flip is decided by luck alone.

    Args:
        world: the tasks, their kinds and lengths.
    """

    metadata = {"render_modes": []}  # noqa: RUF012 – Gymnasium's own convention

    def __init__(self, world: World) -> None:
        self._kinds, self._lengths = world.kinds, (world.failure_lengths, world.lengths)
        self.observation_space = spaces.Discrete(len(self._kinds))
        self.action_space = spaces.Box(-np.inf, np.inf, (2,), np.float64)
        self._graded = world.student.get("observed") == "reward"
        self._noise = float(world.student.get("noise", 0.01))
        self._generated = world.generated is not None
        self._task = 0
        self._left = 0
        self._result: dict[str, Any] | None = None

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        """Begin the task in `options["task"]`, or task 0; the `seed` changes nothing."""
        super().reset(seed=seed)
        given = (options or {}).get("task")
        self._task = 0 if given is None else int(given.params[CLASS] if self._generated else given.id)
        if not 0 <= self._task < len(self._kinds):
            raise TaskError(f"task {self._task} is not in this world of {len(self._kinds)} tasks.")
        self._left = int(min(lengths[self._task] for lengths in self._lengths))
        self._result = None
        return self._task, {}

    def step(self, action: ArrayLike) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        """Go one step with an `action` of skill and luck."""
        if self._left <= 0:
            raise gymnasium.error.ResetNeeded("this episode is over, or none has begun: call reset() first.")
        self._left -= 1
        if self._left == 0 and self._result is None:
            self._result = self._decide(*np.asarray(action, dtype=np.float64).tolist())
            lengths = [int(each[self._task]) for each in self._lengths]
            self._left = lengths[self._result["is_success"]] - min(lengths)
        if self._left > 0 or self._result is None:
            return self._task, 0.0, False, False, {}
        return self._task, self._result["score"], True, False, self._result

    def _decide(self, skill: float, luck: float) -> dict[str, Any]:
        kind = int(self._kinds[self._task])
        success = luck < CONSTANT.get(kind, skill)
        score = float(success)
        if self._graded and kind not in CONSTANT:
            score = float(observed_reward(np.array([skill]), np.array([luck]), self._noise)[0])
        return {"is_success": success, "score": score, "task_dependency": {"reward": score, "skill": skill}}


class _Agent:
    """The agent of a simulated run: it acts for all environments at once, and learns from the episodes that ended."""

    def __init__(self, students: SimulatedStudents, num_envs: int, seed: int) -> None:
        self.students = students
        self._num_envs, self._seed = num_envs, check_seed(seed)
        self.steps = 0

    def act_batch(self, tasks: IntArray) -> FloatArray:
        """Skill and luck for each environment."""
        luck = TicketStream(self._seed, self.steps * self._num_envs, self._num_envs, purpose=Purpose.RESULTS).uniform()
        self.steps += 1
        return np.stack([self.students.skills(tasks[None])[0], luck], axis=1)

    def learn(self, tasks: IntArray) -> None:
        """Learn from episodes of these tasks."""
        if len(tasks):
            self.students.practise(tasks[None])

    def state(self) -> Tree:
        """Everything that `load` needs."""
        return {"students": self.students.state(), "steps": self.steps}

    def load(self, state: Tree) -> None:
        """Continue from a state."""
        self.students.load(state["students"])
        self.steps = int(state["steps"])


@quiet()
def simulate(
    world: World,
    curriculum: Curriculum | str,
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
    outputs: Sequence[str] = (),
    label_statistics: bool = True,
    on_epoch: Callable[[Simulation, Teacher], None] = lambda simulation, teacher: None,
) -> Simulation:
    """Let one student practise under a curriculum, through vector environments and a teacher.

    This is a training run in every respect but its agent: the same vector environments, teacher, ledger, checkpoints and
    metrics.

    Args:
        world: tasks and student.
        curriculum: a curriculum for the tasks of the world, or the name of one in `CURRICULA`.
        epochs: how many (default 100).
        samples_per_epoch: steps of each environment in an epoch (default 10).
        num_envs: number of environments (default 8).
        num_workers: worker processes; 0 for none (default).
        seed: of draws and results (default 0).
        run: folder for the ledger, checkpoints and `metrics.jsonl` (default: none).
        resume: go on from the newest checkpoint in `run` (default False).
        memory: `"local"` or `"shared"`: environments take their tasks by themselves from a hub in that memory, as in vector
            environments that are not ours (default: the parent assigns).
        checkpoint_every: epochs between checkpoints (default 50).
        outputs: further writers of metrics in `run`, see `cursus.metrics.make_writers`: `"csv"`, `"tensorboard"`, `"wandb"`
            (default none).
        label_statistics: whether metrics hold statistics by label (default True).
        on_epoch: called after each epoch with the simulation so far and the teacher.
    """
    for name, value in (("epochs", epochs), ("samples_per_epoch", samples_per_epoch), ("num_envs", num_envs)):
        check_count(name, value)
    check_count("checkpoint_every", checkpoint_every)
    curriculum = make_curriculum(curriculum, world, epochs * samples_per_epoch * num_envs)
    check_outputs(outputs)
    if memory == "local" and num_workers > 0:
        raise SettingsError(
            f"a local memory is that of one process: give num_workers=0, or memory='shared', not {num_workers=}."
        )
    if outputs and run is None:
        raise SettingsError("outputs lie in the run folder: give run=….")
    per_epoch = world.student.get("samples_per_epoch", samples_per_epoch * num_envs)
    agent = _Agent(world.students(seed=seed, samples_per_epoch=per_epoch), num_envs, seed)
    settings = {"world": world.digest, "seed": seed, "num_envs": num_envs, "samples_per_epoch": samples_per_epoch}
    result = Simulation(run=None if run is None else str(run))
    recorder = Recorder(result, world, agent.students)
    envs, teacher, hub = _make_envs(world, curriculum, num_envs, num_workers, seed, run, resume, memory)
    with _closing(envs, hub, teacher):
        statistics = teacher.observe(CurriculumStatistics(curriculum, by_label=label_statistics))
        if teacher.caller_state is not None:
            _load(teacher.caller_state, settings, agent, recorder, result)
        elif run is not None:  # so that a kill before the next one takes the student back with its curriculum
            teacher.checkpoint(_state(settings, agent, recorder, result))
        after = agent.steps * num_envs if resume else None
        with _NullWriter() if run is None else make_writers(run, outputs, resume=after) as out:
            tasks, _ = envs.reset(seed=seed)
            while result.epochs < epochs:
                rollup = Rollup(prefix="env_")
                for _ in range(samples_per_epoch):
                    tasks = _step(envs, hub, agent, np.asarray(tasks), curriculum, recorder, rollup)
                result.epochs += 1
                recorder.sum_up()
                result.curve.append(result.final)
                result.metrics = {**rollup.report(), **statistics.report(), **curriculum.metrics()}
                result.metrics |= _metrics(world, agent, result, num_envs)
                out.write(agent.steps * num_envs, result.metrics)
                if run is not None and (result.epochs % checkpoint_every == 0 or result.epochs == epochs):
                    teacher.checkpoint(_state(settings, agent, recorder, result))
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
    envs: Any,
    hub: Hub | None,
    agent: _Agent,
    tasks: IntArray,
    curriculum: Curriculum,
    recorder: Recorder,
    rollup: Rollup,
) -> IntArray:
    """One step of all environments; the tasks that they do next."""
    next_tasks, _, terminated, truncated, infos = envs.step(agent.act_batch(tasks))
    recorder.judge(curriculum, infos.get("decisions", ()) if hub is None else hub.drain())
    ended = tasks[terminated | truncated]
    recorder.practise(ended)
    agent.learn(ended)
    if "final_info" in infos:
        rollup.add_vector(infos["final_info"])
    return np.asarray(next_tasks).copy()


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
        return envs, envs.teacher, None
    again = resume and run is not None
    teacher = Teacher.resume(curriculum, str(run)) if again else Teacher(curriculum, seed=seed, run=run)
    hub = Hub(teacher, memory=memory, members=max(num_envs, 64))
    makers = [partial(_make_remote, make_env, hub.seat()) for _ in range(num_envs)]
    return make_vec(makers, **shared), teacher, hub


def _make_remote(make_env: Callable[[], TaskDependencyEnv], seat: Seat) -> RemoteCurriculumEnv:
    return RemoteCurriculumEnv(make_env(), seat, score="score")


def _metrics(world: World, agent: _Agent, result: Simulation, num_envs: int) -> dict[str, float]:
    competence, learnable = result.competence, result.competence[world.learnable]
    metrics = {
        "metric/agent_step": float(agent.steps * num_envs),
        "overview/mean_performance": float(learnable.mean()),
        "overview/max_performance": float(learnable.max()),
        "overview/tasks_above_threshold": float((learnable >= MASTERY).sum()),
        "env_task_dependency/min_performance": float(learnable.min()),
        "env_task_dependency/performance_std": float(learnable.std()),
        "env_task_dependency/total_samples": float(result.episodes),
    }
    for task in range(min(world.graph.size, _SHOWN_TASKS)):
        metrics[f"env_task_dependency/task_{task}_performance"] = float(competence[task])
        metrics[f"env_task_dependency/task_{task}_samples"] = float(result.practised[task])
    return metrics


class _NullWriter(Writer):
    """For runs without a folder."""

    def write(self, step: int, metrics: Mapping[str, float]) -> None:
        """Nothing is written."""

    def flush(self) -> None:
        """Nothing is there."""

    def close(self) -> None:
        """Nothing is open."""


def _state(settings: Mapping[str, Any], agent: _Agent, recorder: Recorder, result: Simulation) -> Tree:
    return {
        "settings": dict(settings),
        "agent": agent.state(),
        "recorder": recorder.state(),
        "epochs": result.epochs,
        "curve": np.array(result.curve),
    }


def _load(state: Mapping[str, Any], settings: dict[str, Any], agent: _Agent, recorder: Recorder, result: Simulation) -> None:
    if changes := changed_settings(dict(state["settings"]), settings):
        listed = "; ".join(map(str, changes[:5]))
        raise SettingsError(f"these settings are not those of the run: {listed}. Use the same, or start a new run.")
    agent.load(state["agent"])
    recorder.load(state["recorder"])
    result.epochs, result.curve = int(state["epochs"]), np.asarray(state["curve"]).tolist()
