"""Reasoning Gym: its generators of reasoning problems as a task space, of which dataset and level are the label."""

from __future__ import annotations

import sys
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass, fields, replace
from hashlib import blake2b
from typing import Any, TypeAlias

import numpy as np

from cursus.errors import MissingExtra, SettingsError, TaskError
from cursus.randomness import check_seed
from cursus.settings import check_count, unknown
from cursus.tasks.base import MOST_TASKS, TaskSpace
from cursus.tasks.discrete import distinct
from cursus.types import IntArray

try:
    from reasoning_gym.factory import CURRICULA, DATASETS
except ImportError as error:
    raise MissingExtra.of(error, "reasoning-gym") from None

_BY_HASH = frozenset({"isomorphic_strings", "polynomial_multiplication", "ransom_note", "word_ladder"})
"""Datasets whose questions follow the order of sets of strings, which is another one in every process."""
_OURS = ("seed", "size")
_KEPT = 1024

_Levels: TypeAlias = int | Sequence[int] | None


@dataclass(frozen=True, slots=True)
class _Block:
    """The questions of one level of a dataset."""

    dataset: str
    level: int
    config: Any

    @property
    def label(self) -> str:
        return f"{self.dataset}, level {self.level}"


class ReasoningGym(TaskSpace):
    """Questions of Reasoning Gym by dataset, level and number; the parameters of a task are its question, answer and metadata.

    **Levels** are those of the curriculum that Reasoning Gym has for the dataset: at level k each of its attributes is at level
    k, or at its highest. A range reaches from the easiest value to that of its level, as is usual there, so that a level holds
    what is below it, and more. Levels that change nothing are left out, and so are those that the dataset itself refuses. A
    dataset without a curriculum has level 0 alone, its defaults.

    **Questions** are generated when they are asked for. One is a function of `seed`, dataset, level and number: what other
    datasets there are makes no difference to it. Tasks are numbered level by level, and in a level dataset by dataset.

    Args:
        datasets: names of datasets, or a dict from names to levels of their own, as in `levels`.
        levels: how many levels of each dataset, counted from the easiest, or a list of them (default None: all).
        per_level: how many questions each level of a dataset has, at least 1 (default 1000).
        seed: of all questions, from 0 to 2**64 - 1 (default 0).
        configs: by dataset, values of its configuration that stay the same at every level (default None: none).

    >>> space = ReasoningGym(["chain_sum", "leg_counting"], levels=3, per_level=500, seed=1)
    >>> len(space), space[0].label, space[2999].label
    (3000, 'chain_sum, level 0', 'leg_counting, level 2')
    >>> problem = space[0].params
    >>> problem["question"], problem["answer"]
    ('State the final answer to the following arithmetic problem: 4 - 1 =', '3')
    >>> space.score(0, problem["answer"]), space.score(0, "many") < 1
    (1.0, True)

    Dataset and level are what learning progress, stages and prompts go by:

    >>> import cursus
    >>> curriculum = cursus.Prompts(space.size, labels=space.label_counts)
    >>> stages = cursus.Staged(tasks=space)
    """

    def __init__(
        self,
        datasets: Sequence[str] | Mapping[str, _Levels],
        *,
        levels: _Levels = None,
        per_level: int = 1000,
        seed: int = 0,
        configs: Mapping[str, Mapping[str, Any]] | None = None,
    ) -> None:
        check_count("per_level", per_level)
        self._given = (datasets, levels, configs)
        self._per_level, self._seed = int(per_level), check_seed(seed)
        wanted = _wanted(datasets, levels)
        fixed = {name: dict(values) for name, values in (configs or {}).items()}
        for name in fixed:
            if name not in wanted:
                raise SettingsError(f"configs names a dataset that is not in the space: {unknown(name, wanted)}")
        blocks = [block for name, some in wanted.items() for block in self._blocks_of(name, some, fixed.get(name, {}))]
        self._blocks = sorted(blocks, key=lambda block: block.level)
        super().__init__(len(self._blocks) * self._per_level)
        if self.size > MOST_TASKS:
            raise SettingsError(f"per_level={per_level} is too many: ids go up to 2**62.")
        self._datasets: dict[int, Any] = {}
        self._entries: OrderedDict[int, dict[str, Any]] = OrderedDict()

    def _blocks_of(self, name: str, wanted: _Levels, fixed: Mapping[str, Any]) -> list[_Block]:
        """The levels of a dataset that are listed; or else those that are possible and differ from the one before."""
        _check_fields(name, fixed)
        if isinstance(wanted, Sequence):
            return [self._block(name, level, fixed) for level in _checked_levels(name, wanted)]
        if wanted is not None:
            check_count("levels", wanted)
        blocks: list[_Block] = []
        refused: SettingsError | None = None
        for level in range(_level_count(name)):
            if len(blocks) == wanted:
                break
            try:
                block = self._block(name, level, fixed)
            except SettingsError as error:
                refused = error
                continue
            if not blocks or replace(block.config, seed=blocks[-1].config.seed) != blocks[-1].config:
                blocks.append(block)
        if refused is not None and not blocks:
            raise SettingsError(f"no level of {name} is possible: {refused}")
        return blocks

    def _block(self, name: str, level: int, fixed: Mapping[str, Any]) -> _Block:
        """One level of a dataset, or a `SettingsError` that says why the dataset refuses it."""
        own = {"seed": self._seed_of(name, level), "size": self._per_level}
        try:
            if name in CURRICULA:
                curriculum = CURRICULA[name]()
                curriculum.set_global_level(level)
                config = replace(curriculum.generate_configuration(own), **fixed)
            else:
                config = DATASETS[name][1](**own, **fixed)
            getattr(config, "validate", lambda: None)()  # a few configurations have none
        except (AssertionError, TypeError, ValueError) as error:
            raise SettingsError(
                f"level {level} of {name} is refused by Reasoning Gym: {str(error) or 'it does not say why'}. Leave it out, or "
                f"set what it asks for with configs={{{name!r}: …}}."
            ) from None
        return _Block(name, level, config)

    def _seed_of(self, name: str, level: int) -> int:
        """A seed of its own for every level: question `i` is made from seed + i, so that those of neighbours would overlap."""
        digest = blake2b(f"{self._seed} {name} {level}".encode(), digest_size=4).digest()
        return int.from_bytes(digest, "little") >> 1  # NumPy takes up to 32 bits

    @property
    def label_counts(self) -> dict[str, int]:
        """How many questions have each label, in the order of the tasks: the `labels` of `cursus.Prompts`."""
        return {block.label: self._per_level for block in self._blocks}

    def label(self, task: int) -> str:
        """Dataset and level."""
        return self._blocks[task // self._per_level].label

    def name(self, task: int) -> str:
        """Dataset, level, and number of the question."""
        return f"{self.label(task)}, {task % self._per_level}"

    def labels(self, tasks: IntArray) -> tuple[list[str], IntArray]:
        """As in the base class, without a loop over the tasks."""
        blocks, which, _ = distinct(np.asarray(tasks, dtype=np.int64) // self._per_level)
        return [self._blocks[block].label for block in blocks.tolist()], which

    def stages(self) -> dict[str, Sequence[int]]:
        """The levels, each of all datasets that have it."""
        stages: dict[str, range] = {}
        for number, block in enumerate(self._blocks):
            name, start = f"level {block.level}", number * self._per_level
            first = stages[name].start if name in stages else start
            stages[name] = range(first, start + self._per_level)
        return dict(stages)

    def config(self, task: int) -> Any:
        """The configuration of Reasoning Gym from which the `task` (an id) is generated."""
        return deepcopy(self._blocks[int(self.check([task])[0]) // self._per_level].config)

    def params(self, task: int) -> dict[str, Any]:
        """What Reasoning Gym generates: `question`, `answer` and `metadata`, the caller's to change."""
        return deepcopy(self._entry(task))

    def score(self, task: int, answer: str | None) -> float:
        """What the dataset gives for an `answer` to the `task` (an id): 1 if it is right, less otherwise.

        An answer on which the dataset's own scoring fails, as some do on what is no number, scores 0. Some datasets evaluate
        answers as Python expressions: score those of a model where it can do no harm.
        """
        task = int(self.check([task])[0])
        entry, dataset = self._entry(task), self._dataset(task // self._per_level)
        try:
            return float(dataset.score_answer(answer, entry))
        except Exception:  # whatever a text can bring about in the code of a dataset
            self._check_scoring(task, dataset, entry)
            return 0.0

    def _check_scoring(self, task: int, dataset: Any, entry: dict[str, Any]) -> None:
        """Refuse a dataset that cannot score its own answer either: then the given one was not to blame."""
        try:
            dataset.score_answer(entry["answer"], entry)
        except Exception as error:
            raise TaskError(
                f"Reasoning Gym cannot score task {task} ({self.name(task)}), not even its own answer: {error!r}."
            ) from error

    def _entry(self, task: int) -> dict[str, Any]:
        """Question, answer and metadata; those used last are kept, as every answer of a group is scored by them."""
        if task in self._entries:
            self._entries.move_to_end(task)
            return self._entries[task]
        block, number = divmod(task, self._per_level)
        try:
            entry: dict[str, Any] = self._dataset(block)[number]
        except Exception as error:
            raise TaskError(
                f"Reasoning Gym cannot generate task {task} ({self.name(task)}): {error!r}. Give another seed, leave the level "
                f"out, or change its configuration with configs={{…}}: {self._blocks[block].config}."
            ) from error
        self._entries[task] = entry
        if len(self._entries) > _KEPT:
            self._entries.popitem(last=False)
        return entry

    def _dataset(self, block: int) -> Any:
        if block not in self._datasets:
            made = self._blocks[block]
            self._datasets[block] = DATASETS[made.dataset][0](deepcopy(made.config))
        return self._datasets[block]

    @property
    def fingerprint(self) -> str:
        """A checksum of all configurations, and of a question of each dataset: another version may generate others."""
        digest, seen = blake2b(digest_size=8), set()
        for number, block in enumerate(self._blocks):
            digest.update(f"{block.label} {block.config!r}\n".encode())
            if block.dataset not in seen:
                seen.add(block.dataset)
                digest.update(str(self._entry(number * self._per_level)["question"]).encode())
        return digest.hexdigest()

    def settings(self) -> Mapping[str, Any]:
        """`datasets`, `levels`, `per_level`, `seed`, and `configs` if there are some."""
        datasets, levels, configs = self._given
        some = {} if configs is None else {"configs": configs}
        return {"datasets": datasets, "levels": levels, "per_level": self._per_level, "seed": self._seed, **some}

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_datasets": {}, "_entries": OrderedDict()}


def _wanted(datasets: Sequence[str] | Mapping[str, _Levels], levels: _Levels) -> dict[str, _Levels]:
    """The levels that are wanted, by the names of datasets that exist."""
    if isinstance(datasets, str) or not isinstance(datasets, Sequence | Mapping) or not datasets:
        raise SettingsError(f"datasets={datasets!r:.80} must be a list of names, such as ['chain_sum', 'leg_counting'].")
    found: dict[str, _Levels] = {}
    for name in datasets:
        if name not in DATASETS:
            raise SettingsError(f"there is no such dataset in Reasoning Gym: {unknown(str(name), DATASETS)}")
        if name in found:
            raise SettingsError(f"dataset {name!r} is named twice.")
        if name in _BY_HASH and sys.flags.hash_randomization:
            raise SettingsError(
                f"the questions of {name!r} depend on how Python hashes strings, which differs between processes, so that "
                "a task would not be the same after a restart. Start Python with PYTHONHASHSEED=0, or leave the dataset out."
            )
        found[name] = datasets[name] if isinstance(datasets, Mapping) else levels
    return found


def _level_count(name: str) -> int:
    """How many levels a dataset has: as many as its longest attribute."""
    if name not in CURRICULA:
        return 1
    return max((len(attribute.levels) for attribute in CURRICULA[name]().attributes.values()), default=1)


def _check_fields(name: str, fixed: Mapping[str, Any]) -> None:
    allowed = [field.name for field in fields(DATASETS[name][1]) if field.name not in _OURS]
    for key in fixed:
        if key not in allowed:
            raise SettingsError(f"configs[{name!r}]: {unknown(str(key), allowed)}")


def _checked_levels(name: str, wanted: Sequence[int]) -> list[int]:
    """These levels of a dataset, easiest first, if there are such."""
    if isinstance(wanted, str) or not wanted:
        raise SettingsError(f"levels={wanted!r:.80} must be a number of levels, or a list of them such as [0, 2, 4].")
    there = _level_count(name)
    for level in wanted:
        check_count("levels", level, low=0)
        if level >= there:
            why = "" if name in CURRICULA else ", as Reasoning Gym has no curriculum for it"
            raise SettingsError(f"{name} has no level {level}{why}. Its levels run from 0 to {there - 1}.")
    if len(set(wanted)) < len(wanted):
        raise SettingsError(f"levels={list(wanted)} names a level twice.")
    return sorted(map(int, wanted))
