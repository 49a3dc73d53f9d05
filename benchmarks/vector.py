"""Steps per second of vector environments, against their peers and against what the machine can do at most.

The limit is the same environments stepped bare, in a loop, one process per core (for the one that sleeps: one process per
environment). The limit *in step* is that of processes that wait for each other after every step, as those of any vector
environment must, and do nothing else. All contestants take turns in one run; a figure is the median over all rounds of the
ratio within a round, because the speed of a shared machine changes from second to second.
"""

from __future__ import annotations

import argparse
import mmap
import multiprocessing
import os
import statistics
import time
import warnings
from collections.abc import Callable
from typing import Any

import gymnasium
import numpy as np
from rich.console import Console
from rich.progress import Progress
from rich.table import Table

import cursus
from reporting import Figures, main, table
from worlds import WORLDS

warnings.filterwarnings("ignore")
PEERS = ("gym_sync", "gym_async", "sb3_dummy", "sb3_subproc", "puffer")
PUFFER_EVERY = 4  # rounds; its start takes longer than the rounds of all others
CORES = multiprocessing.cpu_count()
QUICK = (("cartpole", 16), ("cartpole", 64), ("empty", 64), ("minigrid", 16))


def actions_for(make: Callable[[], Any], num_envs: int) -> np.ndarray:
    env = make()
    count = int(env.action_space.n)
    env.close()
    return np.random.default_rng(0).integers(0, count, size=(997, num_envs))


class Barrier:
    """Where processes that step together wait for each other, by looking: the cheapest that there is on idle cores."""

    def __init__(self, processes: int) -> None:
        self._turns = memoryview(mmap.mmap(-1, processes * 64)).cast("q")

    def wait(self, process: int) -> None:
        turns, mine = self._turns, process * 8
        turns[mine] += 1
        while any(turns[other] < turns[mine] for other in range(0, len(turns), 8)):
            os.sched_yield()

    def leave(self, process: int) -> None:
        self._turns[process * 8] = 2**62


def bare(
    make: Callable[[], Any], seconds: float, begin: Any, out: Any, num_envs: int, process: int, barrier: Barrier | None
) -> None:
    """One process of a limit: environments in a loop, nothing else."""
    envs = [make() for _ in range(num_envs)]
    for number, env in enumerate(envs):
        env.reset(seed=number)
    actions = actions_for(make, num_envs).tolist()
    begin.wait()
    steps, start = 0, time.perf_counter()
    while time.perf_counter() - start < seconds:
        for row in actions[:50]:
            for env, action in zip(envs, row, strict=True):
                _, _, terminated, truncated, _ = env.step(action)
                if terminated or truncated:
                    env.reset()
            if barrier is not None:
                barrier.wait(process)
            steps += num_envs
            if time.perf_counter() - start > seconds:
                break
    if barrier is not None:
        barrier.leave(process)
    out.put(steps / (time.perf_counter() - start))


def limit(make: Callable[[], Any], num_envs: int, seconds: float, sleeps: bool, in_step: bool = False) -> float:
    """Steps per second of bare environments, one process per core; `in_step`, they wait for each other after every step."""
    context = multiprocessing.get_context("fork")
    processes = num_envs if sleeps else CORES
    begin, out = context.Event(), context.SimpleQueue()
    barrier = Barrier(processes) if in_step else None
    share = max(num_envs // processes, 1)
    workers = [
        context.Process(target=bare, args=(make, seconds, begin, out, share, process, barrier)) for process in range(processes)
    ]
    for each in workers:
        each.start()
    time.sleep(0.05 + 0.01 * processes)
    begin.set()
    total = sum(out.get() for _ in workers)
    for each in workers:
        each.join()
    return total


class Contestant:
    """A vector environment, stepped for a while at a time."""

    def __init__(self, step: Callable[[Any], Any], close: Callable[[], Any], actions: np.ndarray, num_envs: int) -> None:
        self.step, self.close, self.actions, self.num_envs = step, close, actions, num_envs

    def run(self, seconds: float) -> float:
        steps, start = 0, time.perf_counter()
        while time.perf_counter() - start < seconds:
            for row in self.actions[:50]:
                self.step(row)
                steps += self.num_envs
                if time.perf_counter() - start > seconds:
                    break
        return steps / (time.perf_counter() - start)


def of_gymnasium(envs: Any, actions: np.ndarray) -> Contestant:
    envs.reset(seed=0)
    return Contestant(envs.step, envs.close, actions, envs.num_envs)


def of_sb3(envs: Any, actions: np.ndarray) -> Contestant:
    envs.reset()
    return Contestant(envs.step, envs.close, actions, envs.num_envs)


def build(name: str, world: str, num_envs: int) -> Contestant:
    make, actions = WORLDS[world], actions_for(WORLDS[world], num_envs)
    workers = num_envs if world == "sleep" else CORES
    if name.startswith("ours"):
        taught: dict[str, Any] = {}
        if name == "ours_taught":
            taught = {
                "curriculum": cursus.Staged(["a", "b", "c"], gate=cursus.Wilson(threshold=0.9)),
                "set_task": "ignore",
                "success": lambda info: False,
            }
        parent_steps = world != "sleep"
        return of_gymnasium(
            cursus.make_vec(
                make, num_envs, num_workers=workers - parent_steps, parent_steps=parent_steps, start_method="fork", **taught
            ),
            actions,
        )
    if name == "gym_sync":
        return of_gymnasium(gymnasium.vector.SyncVectorEnv([make] * num_envs), actions)
    if name == "gym_async":
        return of_gymnasium(gymnasium.vector.AsyncVectorEnv([make] * num_envs, context="fork"), actions)
    if name == "puffer":
        return puffer(make, num_envs, actions)
    from stable_baselines3.common.vec_env import DummyVecEnv, SubprocVecEnv

    if name == "sb3_dummy":
        return of_sb3(DummyVecEnv([make] * num_envs), actions)
    return of_sb3(SubprocVecEnv([make] * num_envs, start_method="fork"), actions)


def puffer(make: Callable[[], Any], num_envs: int, actions: np.ndarray) -> Contestant:
    import pufferlib.emulation
    import pufferlib.vector

    def creator(buf: Any = None, seed: int = 0) -> Any:
        return pufferlib.emulation.GymnasiumPufferEnv(env_creator=make, buf=buf, seed=seed)

    envs = pufferlib.vector.make(
        creator,
        num_envs=num_envs,
        backend=pufferlib.vector.Multiprocessing,
        num_workers=CORES,
        batch_size=num_envs,
        overwork=True,
    )
    envs.reset(seed=0)
    return Contestant(envs.step, envs.close, actions, num_envs)


def measure(console: Console, arguments: argparse.Namespace) -> Figures:
    """Shares of the limit and ratios to peers, for six environments and three sizes."""
    pairs = QUICK if arguments.quick else [(world, n) for world in WORLDS for n in (4, 16, 64)]
    figures: Figures = {}
    with Progress(console=console, transient=True) as progress:
        work = progress.add_task("measuring", total=len(pairs))
        for world, num_envs in pairs:
            progress.update(work, description=f"{world}, {num_envs} environments")
            figures.update(compare(world, num_envs, arguments, console))
            progress.advance(work)
    costs = {name: value for name, value in figures.items() if name.startswith("curriculum_cost_") and name.endswith("_64")}
    chosen = "curriculum_cost_minigrid_64"
    figures["curriculum_cost_64"] = costs.get(chosen, next(iter(costs.values())))
    return figures


def compare(world: str, num_envs: int, arguments: argparse.Namespace, console: Console) -> Figures:
    contestants = {"ours": build("ours", world, num_envs)}
    cost = extra_cost(contestants["ours"], world, num_envs)
    for name in PEERS:
        if name == "puffer":
            continue
        try:
            contestants[name] = build(name, world, num_envs)
        except Exception as error:
            console.print(f"{name} cannot run {world}: {type(error).__name__}: {error}", style="yellow")
    seconds = arguments.seconds * (2 if world in ("minigrid", "burn", "sleep") else 1)
    sleeps = world == "sleep"
    speeds: dict[str, list[float]] = {name: [] for name in ["limit", "limit_in_step", *contestants, "puffer"]}
    for turn in range(arguments.rounds):
        speeds["limit"].append(limit(WORLDS[world], num_envs, seconds, sleeps))
        for name, contestant in contestants.items():
            speeds[name].append(contestant.run(seconds))
            if name == "ours" and not sleeps:  # processes that sleep cannot wait for each other by looking
                speeds["limit_in_step"].append(limit(WORLDS[world], num_envs, seconds, sleeps, in_step=True))
        starts_anew = turn % PUFFER_EVERY == 0
        speeds["puffer"].append(one_round_of_puffer(world, num_envs, seconds, console) if starts_anew else 0.0)
    for contestant in contestants.values():
        contestant.close()

    def ratio(other: str) -> float:
        return statistics.median(mine / theirs for mine, theirs in zip(speeds["ours"], speeds[other], strict=True) if theirs)

    ours = speeds["ours"]
    here = f"{world}_{num_envs}"
    figures = {
        f"limit_{here}": ratio("limit"),
        f"steps_per_second_{here}": statistics.median(ours),
        f"spread_{here}": (max(ours) - min(ours)) / statistics.median(ours),
        f"curriculum_cost_{here}": cost,
    }
    if not sleeps:
        figures[f"limit_in_step_{here}"] = ratio("limit_in_step")
    for peer in PEERS:
        if any(speeds.get(peer, ())):
            figures[f"ratio_{peer}_{here}"] = ratio(peer)
    return figures


def extra_cost(plain: Contestant, world: str, num_envs: int) -> float:
    """What share of the speed a curriculum takes: many turns, since the difference is smaller than the noise."""
    taught = build("ours_taught", world, num_envs)
    slower = []
    for turn in range(60 if num_envs == 64 else 20):
        order = (plain, taught) if turn % 2 == 0 else (taught, plain)
        speeds = {id(each): each.run(0.08) for each in order}
        slower.append(speeds[id(taught)] / speeds[id(plain)])
    taught.close()
    return 1 - statistics.median(slower)


def one_round_of_puffer(world: str, num_envs: int, seconds: float, console: Console) -> float:
    """Its idle workers burn their cores, so it is made anew for every turn and closed after it."""
    try:
        contestant = build("puffer", world, num_envs)
    except Exception as error:
        console.print(f"puffer cannot run {world}: {type(error).__name__}: {error}", style="yellow")
        return 0.0
    contestant.run(seconds / 10)
    speed = contestant.run(seconds)
    contestant.close()
    return speed


def tables(figures: Figures) -> list[Table]:
    made = table(
        "Ours, as a share of the limit and as a multiple of its peers",
        "environment",
        "number",
        "steps/s",
        "of the limit",
        "in step",
        *PEERS,
        "curriculum costs",
    )
    for world in WORLDS:
        for num_envs in (4, 16, 64):
            if f"limit_{world}_{num_envs}" in figures:
                here = f"{world}_{num_envs}"
                ratios = [figures.get(f"ratio_{peer}_{here}") for peer in PEERS]
                made.add_row(
                    world,
                    str(num_envs),
                    f"{figures[f'steps_per_second_{here}']:,.0f}",
                    f"{figures[f'limit_{here}']:.2f}",
                    f"{figures[f'limit_in_step_{here}']:.2f}" if f"limit_in_step_{here}" in figures else "–",
                    *("–" if ratio is None else f"{ratio:.1f} ×" for ratio in ratios),
                    f"{figures[f'curriculum_cost_{here}']:.1%}",
                )
    return [made]


if __name__ == "__main__":
    main(measure, tables, rounds=11, seconds=0.15, quick=False)
