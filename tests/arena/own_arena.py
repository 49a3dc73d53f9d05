"""A teacher and worlds of a user's own, as a file of theirs would have them."""

from __future__ import annotations

import multiprocessing
import os

import cursus
from cursus.arena import TrainingWorld
from cursus.sim import TaskGraph, World


class Backwards(cursus.Uniform):
    """A curriculum class that no configuration knows."""


def last_task(world: World, episodes: int) -> cursus.Curriculum:
    return cursus.Uniform(world.tasks, ids=[world.tasks.size - 1])


def deadly(world: World, episodes: int) -> cursus.Curriculum:
    """Kills whatever process of an arena it is in."""
    if multiprocessing.parent_process() is not None:
        os._exit(9)
    return cursus.Uniform(world.tasks)


def points_of_the_box(world: World, episodes: int) -> cursus.Curriculum:
    assert world.box is not None
    return cursus.Uniform(world.box)


def short_rooms() -> TrainingWorld:
    tasks = cursus.tasks.Named({"room": {"doors": 0}, "door": {"doors": 1}, "locked": {"doors": 1, "kind": "impossible"}})
    agent = {"n_steps": 32, "batch_size": 64, "n_epochs": 2, "learning_rate": 1e-3}
    return TrainingWorld("cursus/Keys-v0", tasks, order=[[0], [1]], steps=2000, num_envs=4, agent=agent)


def short_chain() -> World:
    return World(TaskGraph.chain(3))


def no_world() -> int:
    return 3
