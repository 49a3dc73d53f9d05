"""Worlds of the arena: small environments in which an agent is really trained, and worlds of simulated students."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from cursus.envs import cartpole, gate
from cursus.errors import SettingsError
from cursus.settings import check_count, unknown
from cursus.sim import TaskGraph, World, make_world, with_special
from cursus.sim.students import COIN, IMPOSSIBLE, LEARNABLE, MASTERED
from cursus.tasks import Box, Named, Product, TaskSpace
from cursus.types import IntArray

_LENGTH = 40  # steps of an episode, about: for curricula that ask how many there will be


class TrainingWorld(World):
    """A world in which an agent is trained: an environment, its tasks, which of them can be learned and in which order.

    To a curriculum it is a world like those of simulated students: `tasks`, `kinds`, `learnable`, and a `graph` in which every
    stage of the order by hand needs the one before.

    Args:
        env: id of the environment, as `gymnasium.make` takes it; with the module that registers it, `"my_game:Env-v0"`.
        tasks: what can be practised; a finite space.
        order: ids of the tasks that can be learned, in stages, the easiest first: an order by hand. They are what is evaluated.
        kind: from the params of a task to what it is: 0 it can be learned, 1 impossible, 2 trivial, 3 success by chance
            (default: 0 for every task in the order, 1 for the others).
        steps: of all environments together, of one training (default 100,000).
        num_envs: number of environments (default 16).
        agent: the table `agent` of the training (default PPO as it is).
        box: the same tasks as a continuous space, for curricula that practise one (default None).

    >>> world = TrainingWorld("cursus/Keys-v0", Named({"a": {"doors": 0}, "b": {"doors": 1}}), order=[[0], [1]])
    >>> world.graph.depths().tolist(), world.steps
    ([0, 1], 100000)
    """

    has_critic = True

    def __init__(
        self,
        env: str,
        tasks: TaskSpace,
        *,
        order: Sequence[Sequence[int]],
        kind: Callable[[Any], int] | None = None,
        steps: int = 100_000,
        num_envs: int = 16,
        agent: Mapping[str, Any] | None = None,
        box: Box | None = None,
    ) -> None:
        check_count("steps", steps)
        check_count("num_envs", num_envs)
        self.env, self.steps, self.num_envs = env, int(steps), int(num_envs)
        self.agent = {"type": "PPO", **(agent or {})}
        self.order = [list(stage) for stage in order]
        self.box = box
        real = {task for stage in self.order for task in tasks.check(stage).tolist()}
        if not real or not all(self.order):
            raise SettingsError(f"order={order!r:.60} must be lists of ids, one for each stage, none of them empty.")
        self._kind = kind
        needed: list[Sequence[int]] = [()] * tasks.size
        for before, stage in zip(self.order, self.order[1:], strict=False):
            for task in stage:
                needed[task] = before
        kinds = [LEARNABLE if task in real else IMPOSSIBLE for task in range(tasks.size)]
        if kind is not None:
            kinds = [kind(tasks.params(task)) for task in range(tasks.size)]
            odd = sorted(real ^ {task for task in range(tasks.size) if kinds[task] == LEARNABLE})
            if odd:
                raise SettingsError(f"tasks that can be learned, and no others, belong in the order; look at {odd[:5]}.")
        super().__init__(TaskGraph(needed), kinds=kinds, tasks=tasks)

    @property
    def episodes(self) -> int:
        """About how many episodes a training has."""
        return max(self.steps // _LENGTH, 1)

    def with_steps(self, steps: int) -> TrainingWorld:
        """The same world with trainings of so many `steps`."""
        shared = {"kind": self._kind, "num_envs": self.num_envs, "agent": self.agent, "box": self.box}
        return TrainingWorld(self.env, self.tasks, order=self.order, steps=steps, **shared)  # type: ignore[arg-type]

    def kinds_of(self, tasks: IntArray, space: TaskSpace) -> IntArray:
        """What each of these `tasks` (ids of this `space`, the world's own or its box) is."""
        if space.size == self.tasks.size:
            return self.kinds[tasks]
        if self._kind is None:
            raise SettingsError("this world does not know the kinds of tasks of another space: give it a kind.")
        return np.array([self._kind(space.params(task)) for task in tasks.tolist()], dtype=np.int64)

    def targets(self) -> dict[str, Any]:
        """What is evaluated: the params of all tasks that can be learned, by name."""
        return {self.tasks.name(task): self.tasks.params(task) for stage in self.order for task in stage}


# ---- worlds of our own


_KEYS_KINDS = {"real": LEARNABLE, "impossible": IMPOSSIBLE, "trivial": MASTERED, "coin": COIN}
_POSITIONS = [-0.75, -0.5, -0.25, 0.0, 0.25, 0.5, 0.75]
_WIDTHS = [1.6, 0.6, 0.3, 0.15, 0.1, 0.05, 0.0]
_GRIDS = [("empty", 5), ("empty", 8), ("door_key", 5), ("door_key", 6), ("door_key", 8)]
_POLES = [1.3, 0.8, 0.4, 0.2, 0.1]
_FORCES = [12.0, 6.0, 3.0, 1.5, 0.0]


def keys_world() -> TrainingWorld:
    """0 to 6 doors among 8 impossible tasks, 4 trivial ones and 4 coin flips."""
    names: dict[str, dict[str, Any]] = {f"{doors} doors": {"doors": doors} for doors in range(7)}
    names |= {f"locked {number}": {"doors": 6, "kind": "impossible"} for number in range(8)}
    names |= {f"trivial {number}": {"kind": "trivial"} for number in range(4)}
    names |= {f"coin {number}": {"kind": "coin", "chance": 0.2 + 0.2 * number} for number in range(4)}
    agent = {"learning_rate": 1e-3, "batch_size": 256, "gamma": 0.97, "ent_coef": 0.01}
    order = [[doors] for doors in range(7)]
    return TrainingWorld("cursus/Keys-v0", Named(names), order=order, kind=_kind_of_keys, steps=120_000, agent=agent)


def _kind_of_keys(params: Mapping[str, Any]) -> int:
    return _KEYS_KINDS[params.get("kind", "real")]


def rooms_world() -> TrainingWorld:
    """0 to 24 doors in 1,024 batched environments, among 96 impossible tasks, 32 trivial ones and 32 coin flips."""
    names: dict[str, dict[str, Any]] = {f"{doors} doors": {"doors": doors} for doors in range(25)}
    names |= {f"locked {number}": {"doors": 1 + number % 24, "kind": "impossible"} for number in range(96)}
    names |= {f"trivial {number}": {"kind": "trivial"} for number in range(32)}
    names |= {f"coin {number}": {"kind": "coin"} for number in range(32)}
    agent = {"hidden": [128, 128], "learning_rate": 1e-3, "ent_coef": 0.01}
    settings: dict[str, Any] = {"order": [[doors] for doors in range(25)], "kind": _kind_of_keys, "agent": agent}
    return TrainingWorld("cursus/TorchKeys-v0", Named(names), steps=14_000_000, num_envs=1024, **settings)


def gate_world() -> TrainingWorld:
    """Gates at 7 places, of 7 widths, of which 3 are too narrow."""
    tasks = Product(width=_WIDTHS, position=_POSITIONS)
    order = [list(range(row * 7, row * 7 + 7)) for row in range(4)]
    agent = {"learning_rate": 1e-3, "batch_size": 256, "gamma": 0.97, "ent_coef": 0.01}
    return TrainingWorld(
        "cursus/Gate-v0", tasks, order=order, kind=_kind_of_gate, steps=60_000, agent=agent, box=_box(gate.BOUNDS)
    )


def _kind_of_gate(params: Mapping[str, float]) -> int:
    return LEARNABLE if params["width"] > 2 * gate.RADIUS else IMPOSSIBLE


def cartpole_world() -> TrainingWorld:
    """Poles of 5 lengths on carts of 5 strengths, one of them none."""
    tasks = Product(force=_FORCES, length=_POLES)
    order = [list(range(row * 5, row * 5 + 5)) for row in range(4)]
    agent = {"learning_rate": 1e-3, "batch_size": 256}
    return TrainingWorld(
        "cursus/CartPole-v0", tasks, order=order, kind=_kind_of_cartpole, steps=40_000, agent=agent, box=_box(cartpole.BOUNDS)
    )


def _kind_of_cartpole(params: Mapping[str, float]) -> int:
    return LEARNABLE if params["force"] >= cartpole.LEAST_FORCE else IMPOSSIBLE


def minigrid_world() -> TrainingWorld:
    """MiniGrid's empty rooms, doors with keys and chains of rooms, among doors whose key is missing."""
    import cursus.envs.minigrid  # noqa: F401 – a missing library is named before anything is trained

    levels = {f"{level} {size}": {"level": level, "size": size} for level, size in _GRIDS}
    levels |= {f"rooms {rooms}": {"level": "rooms", "rooms": rooms} for rooms in (2, 3, 4)}
    levels |= {f"locked {size}": {"level": "door_key", "size": size, "key": False} for size in (5, 6, 7, 8)}
    agent = {"learning_rate": 1e-3, "batch_size": 256, "gamma": 0.98, "ent_coef": 0.01}
    order = [[0, 1], [2, 5], [3, 6], [4, 7]]
    return TrainingWorld("cursus/MiniGrid-v0", Named(levels), order=order, kind=_kind_of_minigrid, steps=120_000, agent=agent)


def _kind_of_minigrid(params: Mapping[str, Any]) -> int:
    return LEARNABLE if params.get("key", True) else IMPOSSIBLE


def lander_world() -> TrainingWorld:
    """LunarLander: gravity of 4 strengths, wind of 3, and a main engine that works, stutters, or is broken."""
    from cursus.envs import lander  # loads Box2D

    tasks = Product(engine=[1.0, 0.7, 0.0], gravity=[3.0, 6.0, 9.0, 12.0], wind=[0.0, 8.0, 16.0])
    order = [list(range(row * 3, row * 3 + 3)) for row in range(8)]
    agent = {"learning_rate": 1e-3, "batch_size": 256, "ent_coef": 0.01}
    return TrainingWorld(
        "cursus/LunarLander-v0", tasks, order=order, kind=_kind_of_lander, steps=300_000, agent=agent, box=_box(lander.BOUNDS)
    )


def _kind_of_lander(params: Mapping[str, float]) -> int:
    return LEARNABLE if params["engine"] >= 0.5 else IMPOSSIBLE


def walker_world() -> TrainingWorld:
    """BipedalWalker: stumps of 6 heights at 3 distances, of which the highest cannot be climbed."""
    from cursus.envs import walker  # loads Box2D

    tasks = Product(height=[0.0, 0.2, 0.4, 0.8, 1.4, 3.0], spacing=[6.0, 3.0, 1.5])
    order = [list(range(row * 3, row * 3 + 3)) for row in range(5)]
    return TrainingWorld(
        "cursus/BipedalWalker-v0", tasks, order=order, kind=_kind_of_walker, steps=1_000_000, box=_box(walker.BOUNDS)
    )


def _kind_of_walker(params: Mapping[str, float]) -> int:
    return LEARNABLE if params["height"] <= 2.0 else IMPOSSIBLE


def _box(bounds: Mapping[str, tuple[float, float]]) -> Box:
    low, high = zip(*bounds.values(), strict=True)
    return Box(list(low), list(high), names=list(bounds))


REAL_WORLDS: Mapping[str, Callable[[], TrainingWorld]] = {
    "keys": keys_world,
    "gate": gate_world,
    "cartpole": cartpole_world,
    "minigrid": minigrid_world,
    "rooms": rooms_world,
    "lander": lander_world,
    "walker": walker_world,
}
"""Worlds of real training by name."""

LONG_WORLDS = ("rooms", "lander", "walker")
"""Those that take many minutes: left out unless they are named, or all are asked for."""

SIMULATED_WORLDS: Mapping[str, Callable[[], World]] = {
    "chain": lambda: make_world("chain", 20),
    "tree": lambda: make_world("tree", 31),
    "forgetting": lambda: make_world("forgetting", 10),
    "noise": lambda: with_special(TaskGraph.independent(16), impossible=0.25, mastered=0.25, coin=0.25, student={"rate": 0.1}),
}
"""Worlds of simulated students by name: a chain of 20 tasks, a tree of 31, a chain that is forgotten, and 16 tasks among as
many impossible, mastered and random ones."""


def find_arena_world(name: str) -> World:
    """The world of the arena of this `name`."""
    known = {**REAL_WORLDS, **SIMULATED_WORLDS}
    if name not in known:
        raise SettingsError(f"world {unknown(name, known)}")
    return known[name]()
