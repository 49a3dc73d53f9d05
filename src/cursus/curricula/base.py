"""Curriculum: the contract of what picks tasks, and how its tags are packed."""

from __future__ import annotations

import os
import re
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from itertools import accumulate
from operator import mul
from typing import Any, ClassVar, Literal, TypeVar

import numpy as np

from cursus._text import html, short_repr
from cursus.errors import SettingsError, StateError, TaskError
from cursus.randomness import TicketStream
from cursus.settings import describe
from cursus.tasks import TaskSpace, TaskSpaceLike, task_space
from cursus.types import BoolArray, Decision, Draw, Episodes, FloatArray, IntArray, RolloutScores, TaskSample, Tree

EVERYTHING = frozenset({"success", "score"})
"""What a curriculum may need of an episode beside its return and its length."""

_MOST_WEIGHTS = 1 << 24
_TAGS = 1 << 63


class Curriculum(ABC):
    """Arithmetic that picks tasks: numbers in, task ids out.

    A curriculum reads no clock, no file and no global randomness, starts nothing, and knows no environment. Settings
    are keyword arguments and stay as they are; everything else that it knows is its state. The contract, checked by
    `cursus.testing.check_curriculum`:

    - **The same state and stream give the same draws**, whether tickets are drawn one by one or hundreds at once.
    - **`update` gets every episode once, in the order in which they began**, and how they are cut into batches makes
      no difference. It returns the decisions that followed, each with its evidence.
    - **`load(state())` on a fresh copy continues exactly**: the same draws, the same decisions.
    - **The cost of a draw or an update does not grow with the number of tasks** (or only with its logarithm).
    - Tags are for the curriculum's own use: what `sample` writes, `update` gets back. An episode that another
      curriculum drew has the tag `FOREIGN_TAG`.

    Args:
        tasks: the task space, or what `cursus.tasks.task_space` makes one of: a number of tasks, a list of names or of
            parameters, a dict from names to parameters.
    """

    def __init__(self, tasks: TaskSpaceLike) -> None:
        self._tasks = task_space(tasks)
        self._owner: object | None = None
        self._process = os.getpid()
        self.was_taught = False
        """Whether a teacher that is closed by now has assigned tasks of this curriculum: it keeps what it has learned."""

    def move_here(self) -> None:
        """Be of this process: for who sent it here on purpose, to a teacher that decides instead of one where it was made."""
        self._process = os.getpid()
        for part in self.parts():
            part.move_here()

    def claim(self, owner: object) -> None:
        """Belong to one teacher, `owner`. A second one is refused: two authorities over one curriculum would drift apart."""
        if self._process != os.getpid():
            raise SettingsError(
                "this curriculum was made in another process and copied here, where it would decide by itself and drift apart "
                "from the other copies. One teacher, in the training process, decides for all environments: use "
                "cursus.make_vec(make_env, num_envs, curriculum=…), or for a VecEnv of Stable-Baselines3 wrap each environment "
                "in TaskHolder and the VecEnv in CurriculumVecEnvWrapper(venv, curriculum). Where a whole training runs in "
                "another process on purpose, send what makes the curriculum and make it there."
            )
        if self._owner is not None:
            raise SettingsError(
                "this curriculum belongs to another teacher, or occurs twice in this one. One teacher decides for all "
                "environments: use cursus.make_vec(make_env, num_envs, curriculum=…), or around a VecEnv of Stable-Baselines3 "
                "CurriculumVecEnvWrapper(venv, curriculum). For trainings apart, make a new curriculum for each."
            )
        self._owner = owner
        for index, part in enumerate(self.parts()):
            try:
                part.claim(owner)
            except SettingsError:
                for claimed in self.parts()[:index]:
                    claimed.release(owner)
                self._owner = None
                raise

    def release(self, owner: object) -> None:
        """Be free again, if `owner` is the teacher that this belongs to."""
        if self._owner is owner:
            self._owner = None
            for part in self.parts():
                part.release(owner)

    def parts(self) -> tuple[Curriculum, ...]:
        """The curricula that this one is made of."""
        return ()

    def __getstate__(self) -> dict[str, Any]:
        if self._owner is not None:
            raise SettingsError(
                "a curriculum that a teacher owns cannot be copied or sent to another process: the copy would decide "
                "from stale results. Workers receive tasks from the teacher."
            )
        return self.__dict__.copy()

    @property
    def score_bounds(self) -> tuple[float, float] | None:
        """Between which scores of episodes must lie, if it matters here; they are refused at the door."""
        found = [part.score_bounds for part in self.parts()]
        return next((bounds for bounds in found if bounds is not None), None)

    @property
    def needs(self) -> frozenset[str]:
        """Which of `"success"` and `"score"` it reads of episodes: without them a report is refused.

        Both, or what its parts need, unless a curriculum says otherwise. A score that is not given is the success.
        """
        parts = self.parts()
        return frozenset().union(*(part.needs for part in parts)) if parts else EVERYTHING

    @property
    def rollout_score(self) -> str | None:
        """Which score of a rollout it wants for each episode, a name in `cursus.curricula.scores.SCORES`; None if none.

        The learner hands them in with `Teacher.score`, and `update_scores` gets them.
        """
        wanted = sorted({part.rollout_score for part in self.parts()} - {None}, key=str)
        if len(wanted) > 1:
            raise SettingsError(
                f"curricula that are joined want different scores of rollouts, {' and '.join(map(str, wanted))}."
            )
        return wanted[0] if wanted else None

    @property
    def withholds(self) -> bool:
        """Whether some of its episodes are played to be scored alone, and must not be learned from; see `learns`."""
        return any(part.withholds for part in self.parts())

    def learns(self, tags: IntArray) -> BoolArray | None:
        """Whether episodes drawn with these `tags` are to be learned from, shape (n,); None if all are."""
        return None

    def peek(self, rng: TicketStream) -> Draw:
        """What `sample` would draw from `rng`, without anything having been drawn."""
        before = self.draw_state()
        try:
            return self.sample(rng)
        finally:  # also when it is interrupted
            self.restore_draws(before)

    def draw_state(self) -> Any:
        """What drawing changes; nothing in most curricula."""
        return [part.draw_state() for part in self.parts()]

    def restore_draws(self, before: Any) -> None:
        """Undo what drawing has changed since `draw_state` gave `before`."""
        for part, state in zip(self.parts(), before, strict=True):
            part.restore_draws(state)

    order: ClassVar[Literal["start", "task"]] = "start"
    """In which order results come to `update`: as episodes began (`"start"`), or `"task"`: of one task as they began, without
    waiting for those of other tasks. That is sooner where some tasks take much longer than others, and enough for who looks at
    each task by itself; what compares tasks with each other, or judges many together, needs the first."""

    @property
    def tasks(self) -> TaskSpace:
        """The space that the task ids belong to."""
        return self._tasks

    @abstractmethod
    def sample(self, rng: TicketStream) -> Draw:
        """Draw one task for each of the `len(rng)` tickets."""

    @abstractmethod
    def update(self, episodes: Episodes) -> list[Decision]:
        """Learn from a batch of `episodes`, in ticket order (see `order`), and say what was decided."""

    def update_scores(self, scores: RolloutScores) -> list[Decision]:
        """Learn from `scores` of rollouts, and say what was decided; refused unless `rollout_score` names some."""
        raise SettingsError(
            f"{type(self).__name__} reads no scores of rollouts, so teacher.score is not for it. Give scores=… to report."
        )

    def stages_of(self, tags: IntArray) -> list[str] | None:
        """The stage or phase that draws with these `tags` were for, shape (n,); None if there are no stages here."""
        return None

    @property
    def completed(self) -> bool | None:
        """Whether it has come to its end, told once by a decision of the kind `completion`; None if it has none.

        A curriculum that is completed goes on drawing: whoever trains may stop.
        """
        return None

    @abstractmethod
    def weights(self) -> FloatArray:
        """The share of each task in what would be drawn from here on; sums to 1."""

    @abstractmethod
    def state(self) -> Tree:
        """Everything that `load` needs to continue from here."""

    @abstractmethod
    def load(self, state: Tree) -> None:
        """Continue from a state; a `StateError` if it does not fit these settings."""

    CHANGEABLE: ClassVar[str] = ""
    """A pattern for the settings that `load_changed` can do with, such as `gate.*`."""

    def load_changed(self, state: Tree, changed: Sequence[str]) -> None:
        """Continue from a state that was saved with other settings, if it is clear what that means.

        Args:
            state: what `state` gave.
            changed: which settings are others than then, such as `gate.threshold`.
        """
        for setting in changed:
            if not re.fullmatch(self.CHANGEABLE, setting):
                raise SettingsError(
                    f"{setting} of {type(self).__name__} stays for a whole run: what was learned depends on it."
                )
        self._load_changed(state, changed)

    def _load_changed(self, state: Tree, changed: Sequence[str]) -> None:
        """Load, when only what is `CHANGEABLE` has changed."""
        self.load(state)

    def set_stage(self, stage: str, ticket: int) -> list[Decision]:
        """Go to the stage or phase of this name, because a person says so.

        Args:
            stage: its name.
            ticket: the number of the next ticket, for the decision.
        """
        raise SettingsError(f"{type(self).__name__} has no stages: {stage!r} cannot be set.")

    @abstractmethod
    def explain(self) -> str:
        """In words: what is practised now, why, and what is still missing for the next change."""

    def explain_task(self, task: int) -> str:
        """In words: what is known of one `task` (an id), and how often it is drawn."""
        self.tasks.check([task])
        if self.tasks.size > _MOST_WEIGHTS:
            return f"{self.tasks.name(task)}: one of {self.tasks.size:,} tasks"
        return f"{self.tasks.name(task)}: drawn {self.weights()[task] * self.tasks.size:.1f} × uniform"

    @abstractmethod
    def settings(self) -> Mapping[str, Any]:
        """The keyword arguments that make this curriculum again."""

    def status(self) -> dict[str, list[dict[str, Any]]]:
        """Tables for people and programs: name → rows, each a dict of plain JSON values."""
        return {}

    def metrics(self) -> dict[str, float]:
        """Numbers about this moment for rows of metrics, by name (see `cursus.metrics.DEFINITIONS`); those of its parts."""
        return {name: value for part in self.parts() for name, value in part.metrics().items()}

    def __repr__(self) -> str:
        return short_repr(self)

    def _repr_html_(self) -> str:
        """Words and tables, for notebooks."""
        return html(f"{self!r}\n\n{self.explain()}", self.status())

    def progress_of(self, tasks: IntArray) -> FloatArray | None:
        """The progress on each of these `tasks` (ids), if this curriculum measures it; NaN where it keeps no notes."""
        return None

    def task_sample(self, most: int = 4096) -> TaskSample | None:
        """What is known of up to `most` tasks (default 4096), always the same ones, if this curriculum keeps notes on tasks."""
        return None

    def _blank_weights(self) -> FloatArray:
        if self.tasks.size > _MOST_WEIGHTS:
            raise TaskError(f"{self.tasks!r} has {self.tasks.size:,} tasks, too many to list their weights.")
        return np.zeros(self.tasks.size)


def check_is_curriculum(curriculum: Any) -> None:
    """Refuse what is no `curriculum`; where tasks were given instead, show the curricula that practise them."""
    if isinstance(curriculum, Curriculum):
        return
    if isinstance(curriculum, type) and issubclass(curriculum, Curriculum):
        name = curriculum.__name__
        raise SettingsError(f"curriculum={name} is a class. Give one of its objects: {name}(…).")
    given = f"{curriculum!r:.80}"
    try:
        space = task_space(curriculum)
    except SettingsError:
        raise SettingsError(f"curriculum={given} is not a curriculum. Give one, such as Staged(['walk', 'run']).") from None
    raise SettingsError(
        f"curriculum={given} says what is practised ({space.size:,} tasks), not how. Give Staged({given}) to practise them "
        f"in this order, or LearningProgress({given}) to practise those on which progress is made."
    )


Tags = TypeVar("Tags", int, IntArray)


class TagLayout:
    """How the 63 bits of a tag are shared: fields of fixed sizes, from the lowest, and above them the rest.

    All tags are packed and unpacked here, and a value that does not fit is an error instead of another tag.

    >>> layout = TagLayout(label=100, stage=8)
    >>> tags = layout.pack(np.array([3, 4]), np.array([1, 1]), rest=2)
    >>> [each.tolist() for each in layout.unpack(tags)]
    [[3, 4], [1, 1], [2, 2]]
    """

    def __init__(self, **sizes: int) -> None:
        self._sizes = sizes
        self._strides = list(accumulate(sizes.values(), mul, initial=1))
        self._room = _TAGS // self._strides[-1]

    def check(self, **counts: int) -> None:
        """Refuse more values of a field than there is room for."""
        for name, count in counts.items():
            if count > self._sizes[name]:
                raise SettingsError(f"{count:,} {name}s are too many: at most {self._sizes[name]:,} are possible.")

    def pack(self, *fields: IntArray | int, rest: IntArray | int) -> IntArray:
        """Tags from one value or array for each field, and for the rest."""
        most = rest if isinstance(rest, int) else int(rest.max(initial=0))
        if most >= self._room:
            raise StateError(
                f"a tag has no room for {most:,} above the fields {', '.join(self._sizes)}: fewer curricula inside each "
                "other, or fewer parts in them, are possible."
            )
        tags = sum(column * stride for column, stride in zip((*fields, rest), self._strides, strict=True))
        return np.asarray(tags, dtype=np.int64)

    def span(self, *fields: int, rest: int) -> range:
        """All tags with these values in the fields after the first, and any value in the first."""
        start = int(self.pack(0, *fields, rest=rest))
        return range(start, start + self._strides[1])

    def unpack(self, tags: Tags) -> list[Tags]:
        """The fields of a tag or of many, and the rest."""
        fields: list[Tags] = []
        for size in self._sizes.values():
            tags, field = divmod(tags, size)
            fields.append(field)
        fields.append(tags)
        return fields


def one_task_space(curricula: Mapping[str, Curriculum]) -> TaskSpace:
    """The space that all of these share, or a `SettingsError` that names the one that differs."""
    (first, chosen), *others = curricula.items()
    for name, other in others:
        if other.tasks is not chosen.tasks and describe(other.tasks) != describe(chosen.tasks):
            raise SettingsError(
                f"{name} practises {other.tasks!r}, {first} practises {chosen.tasks!r}: "
                "curricula that are joined must share one task space."
            )
    return chosen.tasks


def take(state: Tree, *names: str) -> list[Any]:
    """The named entries of a state, or a `StateError` that says what is missing."""
    if not isinstance(state, Mapping) or set(state) != set(names):
        found = sorted(state) if isinstance(state, Mapping) else type(state).__name__
        raise StateError(f"this state holds {found}, expected {sorted(names)}: it belongs to other settings.")
    return [state[name] for name in names]
