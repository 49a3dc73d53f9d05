"""What a staged curriculum keeps after graduation, and how often it goes back in a stage that is hard.

Simulated students practise ten tasks, a stage each, in worlds where practice of one takes from the others and in one where it
does not. Then two stages: the second has a success rate of 5 %, or none before 3,000 episodes of it.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable

import numpy as np
from rich.console import Console
from rich.progress import Progress
from rich.table import Table

import cursus
from cursus.curricula import Curriculum, Rehearsal
from cursus.randomness import TicketStream
from cursus.sim import TaskGraph
from practice_worlds import WORLDS, Graph, World
from reporting import Figures, main, table

GATE = cursus.Wilson(threshold=0.7)
PLACES: dict[str, Callable[[], World]] = {
    "interference": WORLDS["interference"],
    "little_interference": lambda: Graph(TaskGraph.chain(10), interference=0.0005),
    "five_stages": lambda: Graph(TaskGraph.chain(5), interference=0.002),
    "forgetting": WORLDS["forgetting"],
    "no_interference": WORLDS["chain_10"],
}


def _staged(size: int, **settings: object) -> Curriculum:
    return cursus.Staged([str(task) for task in range(size)], gate=GATE, **settings)  # type: ignore[arg-type]


CURRICULA: dict[str, Callable[[int], Curriculum]] = {
    "uniform": cursus.Uniform,
    "staged": _staged,
    "staged_half": lambda size: _staged(size, rehearsal=Rehearsal(after_graduation=0.5)),
    "staged_without": lambda size: _staged(size, rehearsal=None),
}
DEMOTING: dict[str, Callable[[], cursus.Staged]] = {
    "default": lambda: cursus.Staged(["a", "b"], gate=cursus.Wilson(threshold=0.8)),
    "without_watch": lambda: cursus.Staged(["a", "b"], gate=cursus.Wilson(threshold=0.8), forgetting=None),
    "never": lambda: cursus.Staged(["a", "b"], gate=cursus.Wilson(threshold=0.8, demote=None)),
}


def practise(world: World, curriculum: Curriculum, seed: int) -> tuple[float, float]:
    """The mean competence over the time and the competence in the end; of all tasks."""
    world.start(1)
    rng, area = np.random.default_rng(seed), []
    for ticket in range(0, world.episodes, world.envs):
        draw = curriculum.sample(TicketStream(seed, ticket, world.envs))
        tasks = draw.tasks[None, :]
        won = world.play(tasks, rng.random(tasks.shape))[0] > 0.5
        curriculum.update(cursus.Episodes.of(won, draw.tasks, draw.tags, first_ticket=ticket))
        world.learn(tasks)
        area.append(float(world.mean()[0]))
    return float(np.mean(area)), area[-1]


def climb(curriculum: cursus.Staged, episodes: int, seed: int, *, blind: int | None) -> tuple[int, int]:
    """Demotions, and episodes until graduation, where the second stage succeeds at 5 %, or at 90 % after `blind` of its own."""
    rng, practised, demotions = np.random.default_rng(seed), 0, 0
    for ticket in range(episodes):
        draw = curriculum.sample(TicketStream(seed, ticket, 1))
        second = int(draw.tasks[0]) == 1
        practised += second
        rate = (0.05 if blind is None else 0.9 * (practised > blind)) if second else 0.95
        decisions = curriculum.update(cursus.Episodes.of(rng.random(1) < rate, draw.tasks, draw.tags, first_ticket=ticket))
        demotions += sum(each.kind == "demotion" for each in decisions)
        if curriculum.graduated:
            return demotions, ticket + 1
    return demotions, episodes


def measure(console: Console, arguments: argparse.Namespace) -> Figures:
    """Competence with and without rehearsal, demotions, and episodes until a blind stage is passed."""
    figures: Figures = {}
    with Progress(console=console, transient=True) as progress:
        work = progress.add_task("practising", total=len(PLACES) * len(CURRICULA) + len(DEMOTING))
        for place, make_world in PLACES.items():
            for name, make in CURRICULA.items():
                world = make_world()
                found = [practise(world, make(world.size), seed) for seed in range(arguments.seeds)]
                areas, ends = np.mean(found, axis=0).tolist()
                figures |= {f"{place}_{name}_area": areas, f"{place}_{name}_end": ends}
                progress.advance(work)
        for name, make_staged in DEMOTING.items():
            hard = [climb(make_staged(), 20_000, seed, blind=None)[0] for seed in range(arguments.seeds)]
            passed = [climb(make_staged(), 20_000, seed, blind=3000) for seed in range(arguments.seeds)]
            figures[f"{name}_demotions"] = float(np.mean(hard))
            figures[f"{name}_blind_demotions"], figures[f"{name}_blind_episodes"] = np.mean(passed, axis=0).tolist()
            progress.advance(work)
    return figures


def tables(figures: Figures) -> list[Table]:
    kept = table("Mean competence over the time / in the end", "world", *CURRICULA)
    for place in PLACES:
        kept.add_row(
            place, *(f"{figures[f'{place}_{name}_area']:.2f} / {figures[f'{place}_{name}_end']:.2f}" for name in CURRICULA)
        )
    columns = ("demotions", "blind_demotions", "blind_episodes")
    flaps = table("Demotions in 20,000 episodes at 5 %, and until a stage that is blind for 3,000 is passed", "rule", *columns)
    for name in DEMOTING:
        flaps.add_row(name, *(f"{figures[f'{name}_{column}']:.0f}" for column in columns))
    return [kept, flaps]


if __name__ == "__main__":
    main(measure, tables, seeds=5)
