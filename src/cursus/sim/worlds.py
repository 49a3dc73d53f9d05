"""Simulated worlds to try a curriculum in, and curricula for them, by name."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from hashlib import blake2b
from inspect import signature
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import ArrayLike

from cursus.curricula import (
    ALPGMM,
    CURROT,
    EXP3S,
    PLR,
    RIAC,
    TSCL,
    CovarGMM,
    Curriculum,
    FastSlow,
    Learnability,
    LearningProgress,
    Phase,
    Phases,
    Pool,
    Regions,
    Scatter,
    Staged,
    Uniform,
    Wilson,
    Window,
)
from cursus.curricula.progress import Bidirectional
from cursus.errors import SettingsError
from cursus.settings import check_count, check_kind, check_share, describe, unknown
from cursus.sim.students import COIN, IMPOSSIBLE, KINDS, LEARNABLE, MASTERED, SimulatedStudents, TaskGraph
from cursus.tasks import Box, Buckets, Choice, Discrete, Generated, Named, Span, TaskSpace
from cursus.types import BoolArray, IntArray

_NAMED_TASKS = 10_000
_MOST_LISTED = 100_000  # generated tasks whose classes a curriculum may ask for, one by one
_REMEMBERED = 1 << 16
_POOL = 200
CLASS = "taskclass"
"""Where the params of a generated task name its class."""
_STUDENT_KEYS = [key for key in signature(SimulatedStudents).parameters if key not in ("graph", "kinds", "students", "seed")]


class World:
    """A graph of tasks, their kinds and lengths, and the settings of the simulated student.

    With `generated`, the nodes of the graph are *classes* of tasks: a generator makes each task, a class and a seed, from its
    id. The student knows classes, the curriculum sees tasks, of which there may be far more than any pool holds.

    Args:
        graph: which task needs which; with `generated`, which class of tasks needs which.
        kinds: for each task 0 learnable (default), 1 impossible, 2 mastered from the start, 3 a coin flip.
        lengths: steps of an episode, at least 1: one integer, or one for each task (default 1).
        failure_lengths: steps of an episode that fails (default: as `lengths`).
        student: settings of `SimulatedStudents` other than its defaults, such as `{"rate": 0.3}`.
        generated: number of generated tasks, at least one for each class (default None: classes are the tasks).
        tasks: the task space, of the size of the graph, where nothing is generated (default None: names such as `taskclass0`).
    """

    box: Box | None = None
    """The same tasks as a continuous space, in a world that has one."""
    has_critic: bool = False
    """Whether the learner has a critic, whose errors curricula can read, and can play episodes without learning from them."""

    def __init__(
        self,
        graph: TaskGraph,
        *,
        kinds: ArrayLike = 0,
        lengths: ArrayLike = 1,
        failure_lengths: ArrayLike | None = None,
        student: Mapping[str, Any] | None = None,
        generated: int | None = None,
        tasks: TaskSpace | None = None,
    ) -> None:
        check_kind("graph", graph, TaskGraph, "TaskGraph.chain(10)")
        if generated is not None:
            check_count("generated", generated, low=graph.size)
        self.graph = graph
        self.kinds = self._column("kinds", kinds, least=0)
        self.lengths = self._column("lengths", lengths, least=1)
        self.failure_lengths = self.lengths if failure_lengths is None else self._column("failure_lengths", failure_lengths, 1)
        if not np.isin(self.kinds, range(len(KINDS))).all():
            raise SettingsError(f"kinds must be integers from 0 to {len(KINDS) - 1} ({', '.join(KINDS)}), got {kinds!r:.60}.")
        self.student = dict(student or {})
        for key in self.student:
            if key not in _STUDENT_KEYS:
                raise SettingsError(f"student: {unknown(key, _STUDENT_KEYS)}")
        self.generated = generated
        if tasks is not None and (generated is not None or tasks.size != graph.size):
            raise SettingsError(
                f"tasks={tasks!r:.60} must have the {graph.size} tasks of the graph, and generated be left out."
            )
        self._given_tasks = tasks
        self.tasks = tasks or (self._name_tasks() if generated is None else self._generate_tasks(generated))
        self._class_of: dict[int, int] = {}
        self.learnable = self._find_learnable()
        """Which tasks can be learned: those of that kind, whose prerequisites can be learned or are mastered."""
        if not self.learnable.any():
            raise SettingsError("nothing can be learned in this world.")
        self.students(seed=0)

    def name(self, task: int) -> str:
        """`taskclass0`, `taskclass1`, …, for each `task` (or class) of the graph, with its kind where it is not learnable."""
        kind = int(self.kinds[task])
        return f"{CLASS}{task}" if kind == LEARNABLE else f"{CLASS}{task}_{KINDS[kind].upper()}"

    def _name_tasks(self) -> TaskSpace:
        """A world of many tasks has no names."""
        size = self.graph.size
        return Discrete(size) if size > _NAMED_TASKS else Named([self.name(task) for task in range(size)])

    def _generate_tasks(self, count: int) -> TaskSpace:
        """Each class is equally likely, and a task's label is the name of its class."""
        seeds = {"seed": Span(0, 2**31 - 1)}
        classes = [Buckets({CLASS: task, "seed": 0}, seeds, label=self.name(task)) for task in range(self.graph.size)]
        return Generated(Choice(classes), size=count)

    def classes_of(self, tasks: IntArray) -> IntArray:
        """The class of each of these `tasks` (ids), an index in the graph; the tasks themselves where none are generated."""
        if self.generated is None:
            return tasks
        return np.array([self._find_class(task) for task in tasks.tolist()], dtype=np.int64)

    def _find_class(self, task: int) -> int:
        found = self._class_of.get(task)
        if found is None:
            if len(self._class_of) >= _REMEMBERED:
                self._class_of.clear()
            found = self._class_of[task] = int(self.tasks.params(task)[CLASS])
        return found

    def _column(self, name: str, given: ArrayLike, least: int) -> IntArray:
        try:
            column = np.asarray(given)
        except ValueError:  # rows of different lengths
            column = np.asarray("")
        if column.shape not in ((), (self.graph.size,)) or column.dtype.kind not in "iu" or (column < least).any():
            raise SettingsError(f"{name} must be {self.graph.size} integers of at least {least}, got {given!r:.60}.")
        return np.broadcast_to(column, self.graph.size).astype(np.int64)

    def students(self, *, seed: int, students: int = 1, samples_per_epoch: int | None = None) -> SimulatedStudents:
        """Simulated students of this world.

        Args:
            seed: of their biases.
            students: number of students (default 1).
            samples_per_epoch: instead of the world's own setting (default: that).
        """
        more = {} if samples_per_epoch is None else {"samples_per_epoch": samples_per_epoch}
        return SimulatedStudents(self.graph, kinds=self.kinds, students=students, seed=seed, **{**self.student, **more})

    def _find_learnable(self) -> BoolArray:
        known = (self.kinds == LEARNABLE) | (self.kinds == MASTERED)
        for task in self.graph.order:
            if self.graph.prerequisites[task]:
                known[task] &= all(known[each] for each in self.graph.prerequisites[task])
        return np.asarray(known & (self.kinds == LEARNABLE))

    @property
    def digest(self) -> str:
        """A checksum of all settings, by which a run that is resumed knows its world."""
        columns = (self.kinds, self.lengths, self.failure_lengths, *self.graph.links())
        student = json.dumps([describe(self.student), self.generated], sort_keys=True).encode()
        return blake2b(student + b"".join(column.tobytes() for column in columns), digest_size=8).hexdigest()

    def settings(self) -> Mapping[str, Any]:
        """The keyword arguments."""
        return {
            "graph": self.graph,
            "kinds": self.kinds,
            "lengths": self.lengths,
            "failure_lengths": self.failure_lengths,
            "student": self.student,
            "generated": self.generated,
            "tasks": self._given_tasks,
        }


def with_special(
    graph: TaskGraph,
    *,
    impossible: float = 0.0,
    mastered: float = 0.0,
    coin: float = 0.0,
    student: Mapping[str, Any] | None = None,
) -> World:
    """A world with special tasks beside those of a graph, which need nothing and which nothing needs.

    Args:
        graph: the learnable tasks.
        impossible: share of impossible tasks among all, in [0, 0.9] (default 0).
        mastered: share of tasks that are mastered from the start (default 0).
        coin: share of coin flips (default 0).
        student: settings of `SimulatedStudents` other than its defaults.
    """
    shares = {IMPOSSIBLE: impossible, MASTERED: mastered, COIN: coin}
    for kind, share in shares.items():
        check_share(KINDS[kind], share, high=0.9)
    left = 1.0 - sum(shares.values())
    if left <= 0:
        raise SettingsError(f"shares of {sum(shares.values()):g} leave nothing to be learned.")
    counts = {kind: max(round(share * graph.size / left), 1) if share else 0 for kind, share in shares.items()}
    kinds = [LEARNABLE] * graph.size + [kind for kind, count in counts.items() for _ in range(count)]
    return World(TaskGraph([*graph.prerequisites, *[()] * sum(counts.values())]), kinds=kinds, student=student)


def with_impossible(world: World, share: float) -> World:
    """The same `world` with impossible tasks beside the others, so that they are this `share` of all."""
    check_share("impossible_ratio", share, high=0.9)
    more = max(round(share * world.graph.size / (1.0 - share)), 1) if share else 0
    return World(
        TaskGraph([*world.graph.prerequisites, *[()] * more]),
        kinds=np.append(world.kinds, [IMPOSSIBLE] * more).astype(np.int64),
        lengths=np.append(world.lengths, [1] * more).astype(np.int64),
        failure_lengths=np.append(world.failure_lengths, [1] * more).astype(np.int64),
        student=world.student,
        generated=world.generated,
    )


def with_generated(world: World, count: int) -> World:
    """The same `world` with its tasks as classes, and a `count` of tasks that are generated in them."""
    return World(**{**world.settings(), "generated": count, "tasks": None})


def _mixed(size: int) -> World:
    quarter = max(size // 4, 1)
    return with_special(
        TaskGraph.independent(quarter), impossible=0.25, mastered=0.25, coin=0.25, student={"rate": 0.1 * quarter}
    )


WORLDS: Mapping[str, Callable[[int], World]] = {
    "chain": lambda size: World(TaskGraph.chain(size)),
    "tree": lambda size: World(TaskGraph.tree(size)),
    "grid": lambda size: World(TaskGraph.grid(max(round(size**0.5), 1), max(round(size**0.5), 1))),
    "dag": lambda size: World(TaskGraph.random(size)),
    "forgetting": lambda size: World(TaskGraph.chain(size), student={"forgetting": 4.0}),
    "impossible": lambda size: with_special(TaskGraph.chain(size), impossible=0.1),
    "mastered": lambda size: with_special(TaskGraph.chain(size), mastered=0.3),
    "coins": lambda size: with_special(TaskGraph.chain(size), coin=0.3),
    "mixed": _mixed,
    "generated": lambda size: World(TaskGraph.chain(size), generated=1000 * size),
    "legacy": lambda size: World(TaskGraph.reversed_chain(size), student={"transfer_from": "dependents", "observed": "reward"}),
}
"""Worlds by name, each made for a number of tasks. `generated` is a chain of classes, with a thousand generated tasks for
each. `legacy` is the existing simulator: a chain whose last task is learned
first, and a reward of one half plus competence."""


def make_world(name: str, size: int = 10) -> World:
    """The world of this `name` (one of `WORLDS`) with about `size` learnable tasks (default 10)."""
    if name not in WORLDS:
        raise SettingsError(f"world {name!r} is not known. Allowed: {', '.join(WORLDS)}.")
    check_count("size", size)
    return WORLDS[name](size)


CurriculumFactory: TypeAlias = Callable[[World, int], Curriculum]
"""Makes a curriculum for a world and a number of episodes."""


def _by_depth(world: World) -> dict[str, list[int]]:
    """Stages of equal depth in the graph, laid out by someone who knows which tasks can be learned."""
    depths = np.where(world.learnable, world.graph.depths(), -1)
    if world.generated is not None:
        if world.generated > _MOST_LISTED:
            raise SettingsError(
                f"stages list their tasks, and {world.generated:,} generated ones are too many: at most {_MOST_LISTED:,}. "
                "Give fewer, or use uniform, learning_progress or pool."
            )
        depths = depths[world.classes_of(np.arange(world.generated))]
    return {f"depth {depth}": np.flatnonzero(depths == depth).tolist() for depth in range(int(depths.max()) + 1)}


def _fixed(world: World, episodes: int) -> Curriculum:
    stages = list(_by_depth(world).items())
    share = max(episodes // len(stages), 1)
    ends = [share] * (len(stages) - 1) + [None]
    return Phases(
        [Phase(name, Uniform(world.tasks, ids=ids), episodes=end) for (name, ids), end in zip(stages, ends, strict=True)]
    )


def _staged(world: World, gate: Wilson | Window) -> Curriculum:
    return Staged(_by_depth(world), tasks=world.tasks, gate=gate)


def _plr(world: World) -> Curriculum:
    """By the errors of a critic where there is one, else by learnability."""
    return PLR(world.tasks) if world.has_critic else PLR(world.tasks, score="learnability")


def _in_box(kind: Callable[[Box], Curriculum]) -> CurriculumFactory:
    """For worlds that have their tasks as a box."""

    def make(world: World, episodes: int) -> Curriculum:
        if world.box is None:
            raise SettingsError(
                f"{getattr(kind, '__name__', kind)} practises a continuous space, and this world has no box. Use the "
                "world gate, cartpole, lander or walker of the arena, or a world of your own with a box."
            )
        return kind(world.box)

    return make


IN_BOX: Mapping[str, CurriculumFactory] = {
    "regions": _in_box(Regions),
    "alp_gmm": _in_box(ALPGMM),
    "covar_gmm": _in_box(CovarGMM),
    "riac": _in_box(RIAC),
    "currot": _in_box(CURROT),
    "uniform_box": _in_box(Uniform),
}
"""Those of the curricula that practise the box of a world. `uniform_box` is what the others are to be compared with: a box has
other tasks than the grid that `uniform` practises."""

CURRICULA: Mapping[str, CurriculumFactory] = {
    "hardest": lambda world, episodes: Uniform(world.tasks, ids=list(_by_depth(world).values())[-1]),
    "uniform": lambda world, episodes: Uniform(world.tasks),
    "fixed": _fixed,
    "staged": lambda world, episodes: _staged(world, Wilson(threshold=0.7)),
    "staged_window": lambda world, episodes: _staged(world, Window(threshold=0.7)),
    "learning_progress": lambda world, episodes: LearningProgress(world.tasks),
    "pool": lambda world, episodes: Pool(world.tasks, size=min(_POOL, world.tasks.size)),
    "fast_slow": lambda world, episodes: LearningProgress(world.tasks, progress=FastSlow(), focus=1.0, floor=0.2),
    "bidirectional": lambda world, episodes: LearningProgress(world.tasks, progress=Bidirectional()),
    "scatter": lambda world, episodes: LearningProgress(world.tasks, progress=Scatter(), focus=1.0),
    "tscl": lambda world, episodes: TSCL(world.tasks),
    "tscl_window": lambda world, episodes: TSCL(world.tasks, algorithm="window"),
    "exp3": lambda world, episodes: EXP3S(world.tasks),
    "learnability": lambda world, episodes: Learnability(world.tasks),
    "plr": lambda world, episodes: _plr(world),
    **IN_BOX,
}
"""Curricula by name. `pool` holds 200 tasks, or all where there are fewer. `plr` scores tasks by the errors of a critic in real
training, and by learnability where there is none. `regions`, `alp_gmm`, `covar_gmm`, `riac`, `currot` and `uniform_box` are for
the box of a world that has one. `hardest` is no curriculum at all: the tasks of the greatest depth alone, from the start."""


CurriculumLike: TypeAlias = str | Curriculum | type[Curriculum] | CurriculumFactory
"""A name in `CURRICULA`; a curriculum; a class, which is given the `tasks` of the world; or a function of a world and a number
of episodes."""


def make_curriculum(curriculum: CurriculumLike, world: World, episodes: int) -> Curriculum:
    """The `curriculum` (see `CurriculumLike`) for a `world` and a number of `episodes`; refused if it does not fit."""
    if isinstance(curriculum, str):
        if curriculum not in CURRICULA:
            raise SettingsError(f"curriculum {curriculum!r} is not known. Allowed: {', '.join(CURRICULA)}.")
        return CURRICULA[curriculum](world, episodes)
    made = _made(curriculum, world, episodes)
    if not isinstance(made, Curriculum):
        raise SettingsError(f"{_name(curriculum)} gave a {type(made).__name__}, which is no curriculum.")
    if made.tasks.size not in [space.size for space in (world.tasks, world.box) if space is not None]:
        raise SettingsError(f"the curriculum has {made.tasks.size} tasks, the world {world.tasks.size}.")
    if not world.has_critic and (made.rollout_score is not None or made.withholds):
        raise SettingsError(
            f"{type(made).__name__} reads scores of rollouts, or has episodes that must not be learned from: a simulated "
            'student has no critic and learns from everything. Give it score="learnability", robust=False or evaluate=False.'
        )
    return made


def _made(curriculum: Curriculum | type[Curriculum] | CurriculumFactory, world: World, episodes: int) -> Any:
    if isinstance(curriculum, Curriculum):
        return curriculum
    is_class = isinstance(curriculum, type)
    try:
        return curriculum(tasks=world.tasks) if is_class else curriculum(world, episodes)  # type: ignore[call-arg, arg-type]
    except TypeError as error:
        wanted = "tasks=…" if is_class else "a world and a number of episodes"
        raise SettingsError(
            f"{_name(curriculum)} cannot be called with {wanted}: {error}. Give a function of a world and a number of episodes "
            "that makes the curriculum."
        ) from error


def _name(curriculum: Any) -> str:
    return str(getattr(curriculum, "__name__", curriculum))
