"""Batched environments on a device: how fast they are, what a curriculum costs there, and how soon tasks are solved.

Runs on a CPU too (`--device cpu --quick`), for those who want to see that it runs. `--parts` chooses among speed, cost, six,
twenty, forty, noise and mazes, `--ways` among their curricula. A figure that is not reached in the time of a part is infinite.
"""

from __future__ import annotations

import argparse
import gc
import statistics
import time
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from numpy.typing import ArrayLike
from rich.console import Console
from rich.table import Table
from torch import Tensor

import cursus
from cursus.adapters.torch import DeviceTeacher
from cursus.agents import PPO
from cursus.agents.recorded import Recorded
from cursus.arena import find_arena_world
from cursus.curricula import Staged
from cursus.envs.maze import HELD_OUT
from cursus.envs.torch import TorchEnv, TorchKeys, TorchMaze
from cursus.statistics import Estimate
from cursus.tasks import Named, Product
from cursus.training.device import DeviceLearner
from reporting import Figures, main, table

SIZES = (4096, 16_384, 65_536, 262_144)
STEPS = 32
MILLION = 1_000_000
_BEFORE, _TOGETHER = 60, 4  # rollouts before anything is measured; and those that are measured together
KEYS = {"hidden": (128, 128), "learning_rate": 1e-3, "gamma": 0.99, "ent_coef": 0.01}


class SameKeys(TorchKeys):
    """An environment has a task of its own, whatever it is given: what curricula cost is compared in the same practice."""

    def _begin(self, begun: Tensor, tasks: Tensor) -> None:
        super()._begin(begun, torch.arange(len(tasks), device=tasks.device) % len(self._all_doors))


class NoTeacher:
    """Tasks drawn on the device, uniformly, and nothing else: what training costs without a curriculum."""

    def __init__(self, num_envs: int, size: int, device: torch.device) -> None:
        self.tasks = torch.randint(size, (num_envs,), device=device)
        self.learn = torch.ones(num_envs, dtype=torch.bool, device=device)
        self._next = torch.randint(size, (num_envs,), device=device)

    def step(self, ended: Tensor, **_: Any) -> None:
        """As `DeviceTeacher.step`."""
        self.tasks.copy_(torch.where(ended, self._next, self.tasks))

    def collect(self) -> None:
        """As `DeviceTeacher.collect`."""

    def exchange(self) -> None:
        """As `DeviceTeacher.exchange`."""


def agent_for(envs: TorchEnv, device: torch.device, seed: int = 0, **settings: Any) -> PPO:
    space = envs.single_observation_space
    return PPO(
        space.shape[0],
        num_actions=int(envs.single_action_space.n),  # type: ignore[union-attr]
        num_envs=envs.num_envs,
        n_steps=STEPS,
        n_epochs=2,
        batch_size=envs.num_envs * STEPS // 8,
        device=str(device),
        seed=seed,
        **{**KEYS, **settings},
    )


class Trainer:
    """PPO under a curriculum; or, where there is none, with so many tasks drawn on the device."""

    compiled = False

    def __init__(self, curriculum: cursus.Curriculum | int, envs: TorchEnv, seed: int, **settings: Any) -> None:
        self.envs, self.agent = envs, agent_for(envs, envs.device, seed, compiled=self.compiled, **settings)
        taught = cursus.Uniform(curriculum) if isinstance(curriculum, int) else curriculum
        self.learner = DeviceLearner(envs, self.agent, cursus.Teacher(taught, seed=seed))
        if isinstance(curriculum, int):
            drawn: Any = NoTeacher(envs.num_envs, curriculum, envs.device)
            self.learner._tickets = drawn
            self.learner._observations.copy_(envs.reset(drawn.tasks))
        self.tickets: Any = self.learner.tickets
        self.steps = 0

    def rollout(self, *, learn: bool = True) -> None:
        self.learner.play()
        metrics = self.agent.update_async() if learn else None
        self.tickets.exchange()
        if metrics is None:
            self.agent.rollout.clear()
        else:
            metrics()
        self.steps += self.learner.rollout_steps


def wait(device: torch.device) -> None:
    if device.type == "cuda":
        torch.cuda.synchronize(device)


def rate(rollout: Callable[[], object], steps: int, device: torch.device, seconds: float) -> float:
    """Million steps per second."""
    for _ in range(6):  # the first are recorded
        rollout()
    wait(device)
    count, begin = 0, time.perf_counter()
    while time.perf_counter() - begin < seconds or count < 3:
        rollout()
        count += 1
        wait(device)
    return count * steps / (time.perf_counter() - begin) / MILLION


def measure_speed(device: torch.device, sizes: tuple[int, ...], seconds: float) -> Iterator[tuple[str, float]]:
    """Environments alone, with tickets, with a policy, with learning."""
    tasks = Product(doors=range(7))
    for size in sizes:
        steps = size * STEPS
        for with_tickets in (False, True):
            envs = TorchKeys(size, tasks, device=device)
            tickets: Any = NoTeacher(size, tasks.size, device)
            if with_tickets:
                tickets = DeviceTeacher(cursus.Teacher(cursus.Uniform(tasks)), size, STEPS, device=device)
            envs.reset(tickets.tasks)
            actions = torch.randint(4, (STEPS, size), device=device)
            playing = _walking(envs, tickets, actions, device)

            def rollout(playing: Any = playing, tickets: Any = tickets) -> None:
                playing()
                tickets.exchange()

            yield f"{'tickets' if with_tickets else 'envs'}_msteps_s_{size}", rate(rollout, steps, device, seconds)
        yield from _with_policy(TorchKeys(size, tasks, device=device), steps, seconds)
        gc.collect()


def _with_policy(envs: TorchEnv, steps: int, seconds: float) -> Iterator[tuple[str, float]]:
    """A rollout on the device; with what the host then does, one after the other; and training, in which both overlap."""
    trainer = Trainer(cursus.Uniform(Product(doors=range(7))), envs, 0)
    together = rate(lambda: trainer.rollout(learn=False), steps, envs.device, seconds)
    times = []
    for _ in range(20):
        wait(envs.device)
        begin = time.perf_counter()
        trainer.learner.play()
        wait(envs.device)
        times.append(time.perf_counter() - begin)
        trainer.agent.rollout.clear()
        trainer.tickets.exchange()
    yield f"rollout_msteps_s_{envs.num_envs}", steps / statistics.median(times) / MILLION
    yield f"rollout_exchange_msteps_s_{envs.num_envs}", together
    yield f"ppo_msteps_s_{envs.num_envs}", rate(trainer.rollout, steps, envs.device, seconds)


def _walking(envs: TorchEnv, tickets: Any, actions: Tensor, device: torch.device) -> Recorded[None]:
    seen = envs.observe()

    def walk(acts: Tensor) -> None:
        came = envs.step(acts)
        ended = came.terminated | came.truncated
        tickets.step(ended, rewards=came.rewards, success=came.success)
        seen.copy_(envs.begin(ended, tickets.tasks))

    walking: Any = torch.compile(walk, fullgraph=True, dynamic=False) if Trainer.compiled else walk

    def walk_all(_: object) -> None:
        for acts in actions:
            walking(acts)

    return Recorded(walk_all, {}, device)


def staged(count: int) -> Staged:
    """The real tasks in their order, as somebody who knows it gives it."""
    gate = cursus.Wilson(threshold=0.6, window=400, min_episodes=200)
    return Staged(Named({f"{doors} doors": {"doors": doors} for doors in range(count)}), gate=gate)


def measure_cost(device: torch.device, size: int, rounds: int) -> Iterator[tuple[str, float]]:
    """What a curriculum adds to the time of training, rollouts by turns with those of the same training without one.

    Behind 0 to 20 doors episodes take some 70 steps once the policy is good: 30,000 of them end in a rollout.
    """
    few = Product(doors=range(21))
    curricula: dict[str, cursus.Curriculum | int] = {
        "none": 21,
        "uniform": cursus.Uniform(few),
        "staged": staged(21),
        "learning_progress": cursus.LearningProgress(few),
        "learning_progress_10k": cursus.LearningProgress(21 * 477),
        "learning_progress_1m": cursus.LearningProgress(21 * 47_620),
    }
    trainers = {}
    for name, curriculum in curricula.items():
        trainers[name] = Trainer(curriculum, SameKeys(size, few, device=device), 0)
        for _ in range(_BEFORE):
            trainers[name].rollout()
    times: dict[str, list[float]] = {name: [] for name in trainers}
    exchanges: dict[str, list[float]] = {name: [] for name in trainers}
    for _ in range(rounds):
        for name, trainer in trainers.items():
            wait(device)
            begin = time.perf_counter()
            for _ in range(_TOGETHER):
                trainer.rollout()
            wait(device)
            times[name].append(1000 * (time.perf_counter() - begin) / _TOGETHER)
            trainer.learner.play()
            wait(device)
            begin = time.perf_counter()
            trainer.tickets.exchange()
            exchanges[name].append(1000 * (time.perf_counter() - begin))
            trainer.agent.update()
    yield "cost_ends_per_rollout", trainers["staged"].tickets.teacher.counts.finished / (_BEFORE + (_TOGETHER + 1) * rounds)
    yield "cost_ms_per_rollout", statistics.median(times["none"])
    for name, each in times.items():
        if name != "none":
            ratios = [100 * (mine / plain - 1) for mine, plain in zip(each, times["none"], strict=True)]
            yield f"cost_exchange_ms_{name}", statistics.median(exchanges[name])
            yield f"cost_percent_{name}", statistics.median(ratios)


# ---- how soon


class Exam:
    """How often the policy, as it is, succeeds in some tasks; it explores as in training."""

    def __init__(self, agent: PPO, envs: TorchEnv, limit: int) -> None:
        self._agent, self._envs, self._limit = agent, envs, limit
        device = envs.device
        self._random = torch.Generator(device=device).manual_seed(1)
        self._noise = torch.zeros((envs.num_envs, agent.noise_size), device=device)
        self._seen = torch.zeros((envs.num_envs, envs.single_observation_space.shape[0]), device=device)
        self._memory = torch.zeros((envs.num_envs, agent.memory.shape[1]), device=device)
        self._over = torch.zeros(envs.num_envs, dtype=torch.bool, device=device)
        self._won = torch.zeros(envs.num_envs, dtype=torch.bool, device=device)
        self._tasks = torch.arange(envs.num_envs, device=device)
        self._stepping = Recorded(self._step, {}, device)

    def _step(self, _: object) -> None:
        _, actions, memory = self._agent.explore(self._seen, self._noise, self._memory)
        self._memory.copy_(memory)
        came = self._envs.step(actions)
        self._won |= came.success & ~self._over
        self._over |= came.terminated | came.truncated
        self._seen.copy_(came.observations)

    def rates(self, num_tasks: int) -> list[float]:
        """For each task, the share of episodes that succeeded."""
        for blank in (self._won, self._over, self._memory):
            blank.zero_()
        tasks = self._tasks % num_tasks
        self._seen.copy_(self._envs.reset(tasks))
        for _ in range(self._limit):
            self._noise.exponential_(generator=self._random)
            self._stepping()
        return [float(self._won[tasks == task].float().mean()) for task in range(num_tasks)]


@dataclass
class Curve:
    """How a training went."""

    steps: list[int] = field(default_factory=list)
    seconds: list[float] = field(default_factory=list)
    rates: list[float] = field(default_factory=list)

    def first(self, level: float) -> tuple[float, float]:
        """Seconds and million steps until the level was reached, NaN where it was not."""
        reached = [index for index, rate in enumerate(self.rates) if rate >= level]
        return (self.seconds[reached[0]], self.steps[reached[0]] / MILLION) if reached else (np.nan, np.nan)

    @property
    def area(self) -> float:
        """Under the curve over steps, from 0 to 1."""
        steps, rates = np.array([0, *self.steps]), np.array([0.0, *self.rates])
        return float(np.sum(np.diff(steps) * (rates[1:] + rates[:-1]) / 2) / steps[-1])


def train(trainer: Trainer, exam: Exam, num_tasks: int, steps: int, looks: int, until: float = 2.0) -> Curve:
    """Train, and look how it stands so often; exams take none of the time that is counted."""
    curve, spent, device = Curve(), 0.0, trainer.envs.device
    every = max(steps // looks // trainer.learner.rollout_steps, 1)
    while trainer.steps < steps:
        wait(device)
        begin = time.perf_counter()
        for _ in range(every):
            trainer.rollout()
        wait(device)
        spent += time.perf_counter() - begin
        curve.steps.append(trainer.steps)
        curve.seconds.append(spent)
        curve.rates.append(statistics.fmean(exam.rates(num_tasks)))
        if curve.rates[-1] >= until:
            break
    return curve


def compiled_before(trainer_for: Callable[[int], Trainer], seeds: int) -> Iterator[tuple[int, Trainer]]:
    """A trainer for each seed, after one that is thrown away: what is compiled for all of them takes no time of theirs."""
    first = trainer_for(0)
    for _ in range(5):
        first.rollout()
    del first
    for seed in range(seeds):
        gc.collect()  # recordings of the one before hold memory
        yield seed, trainer_for(seed)


def keys_exam(trainer: Trainer, doors: int, count: int = 1024) -> Exam:
    return Exam(trainer.agent, TorchKeys(count, Product(doors=[doors]), device=trainer.envs.device, seed=9), 24 * (doors + 1))


def measure_solve(
    device: torch.device, seeds: int, doors: int, size: int, steps: int, looks: int, level: float, chosen: Collection[str]
) -> Iterator[tuple[str, float]]:
    """So many rooms, alone, uniformly, in stages, by learning progress: seconds and steps until they are solved.

    An exam takes longer than a rollout: the `looks` say how exact the time is, and how long the measuring takes.
    """
    ways: dict[str, Callable[[], cursus.Curriculum]] = {
        "alone": lambda: cursus.Uniform(Product(doors=[doors])),
        "uniform": lambda: cursus.Uniform(Product(doors=range(doors + 1))),
        "staged": lambda: staged(doors + 1),
        "learning_progress": lambda: cursus.LearningProgress(Product(doors=range(doors + 1))),
    }
    for name in chosen or ways:
        found = []

        def trainer_for(seed: int, make: Callable[[], cursus.Curriculum] = ways[name]) -> Trainer:
            curriculum = make()
            return Trainer(curriculum, TorchKeys(size, curriculum.tasks, device=device, seed=seed), seed)

        for seed, trainer in compiled_before(trainer_for, seeds):
            found.append(train(trainer, keys_exam(trainer, doors), 1, steps, looks, level).first(level))
            yield f"solve_{doors}_{name}_s_seed_{seed}", found[-1][0]
        seconds, spent = np.nan_to_num(np.array(found), nan=np.inf).T
        yield f"solve_{doors}_{name}_solved", float(np.isfinite(seconds).mean())
        yield from _middle(f"solve_{doors}_{name}_s", seconds)
        yield from _middle(f"solve_{doors}_{name}_msteps", spent)


def _middle(name: str, values: ArrayLike) -> Iterator[tuple[str, float]]:
    """The interquartile mean over seeds, with its interval; infinite where too many have never come so far."""
    if np.isfinite(values).all():
        estimate = Estimate.of(values)
        yield from ((name, estimate.value), (f"{name}_low", estimate.low), (f"{name}_high", estimate.high))
    else:
        yield name, float(np.median(values))


def measure_noise(device: torch.device, seeds: int, steps: int, chosen: Collection[str]) -> Iterator[tuple[str, float]]:
    """Area under the success behind 24 doors, over steps: 1,024 environments, the tasks of the arena's world of rooms."""
    tasks = find_arena_world("rooms").tasks
    ways: dict[str, Callable[[], cursus.Curriculum]] = {
        "uniform": lambda: cursus.Uniform(tasks),
        "learning_progress": lambda: cursus.LearningProgress(tasks),
        "by_hand": lambda: staged(25),
    }
    for name in chosen or ways:
        curves = []
        for seed in range(seeds):
            curriculum = ways[name]()
            trainer = Trainer(curriculum, TorchKeys(1024, curriculum.tasks, device=device, seed=seed), seed)
            curves.append(train(trainer, keys_exam(trainer, 24, 256), 1, steps, 40))
        areas = Estimate.of([curve.area for curve in curves])
        yield f"noise_area_{name}", areas.value
        yield f"noise_area_{name}_low", areas.low
        yield f"noise_area_{name}_high", areas.high
        yield f"noise_msteps_to_half_{name}", float(np.median([np.nan_to_num(c.first(0.5)[1], nan=np.inf) for c in curves]))


def mazes() -> list[dict[str, Any]]:
    """Walls anywhere, from none to 60, and labyrinths: 92,000 levels, none of them held out."""
    walls = [{"kind": "walls", "walls": count, "seed": seed} for count in range(0, 61, 2) for seed in range(2000)]
    return walls + [{"kind": "labyrinth", "seed": seed} for seed in range(30_000)]


def measure_mazes(
    device: torch.device, seeds: int, size: int, steps: int, chosen: Collection[str]
) -> Iterator[tuple[str, float]]:
    """Mean solve rate of the mazes that are held out: for a policy with a memory, and for one that sees its trail instead."""
    levels = Named({f"{number}": level for number, level in enumerate(mazes())})
    held = Named({name: {"name": name} for name in HELD_OUT})
    recurrent = {"hidden": (128,), "gru_size": 128}
    ways: dict[str, tuple[Callable[[Any], cursus.Curriculum], dict[str, Any]]] = {
        "recurrent": (cursus.Uniform, recurrent),
        "recurrent_learnability": (cursus.curricula.Learnability, recurrent),
        "recurrent_learning_progress": (cursus.LearningProgress, recurrent),
        "trail": (cursus.Uniform, {"hidden": (256, 256)}),
    }
    for name in chosen or ways:
        make, networks = ways[name]
        settings = {**networks, "gamma": 0.995, "learning_rate_steps": int(1.05 * steps)}
        trail, curves = "gru_size" not in networks, []

        def trainer_for(seed: int, make: Any = make, trail: bool = trail, settings: Any = settings) -> Trainer:
            return Trainer(make(levels), TorchMaze(size, levels, trail=trail, device=device), seed, **settings)

        for seed, trainer in compiled_before(trainer_for, seeds):
            exam = Exam(trainer.agent, TorchMaze(8 * 64, held, trail=trail, device=device), 250)
            curves.append(train(trainer, exam, len(HELD_OUT), steps, 25))
            yield f"maze_{name}_solve_rate_seed_{seed}", curves[-1].rates[-1]
            yield f"maze_{name}_s_to_0.8_seed_{seed}", curves[-1].first(0.8)[0]
        yield f"maze_{name}_solve_rate_at_the_end", statistics.fmean(curve.rates[-1] for curve in curves)
        yield f"maze_{name}_s_to_0.8", float(np.median([np.nan_to_num(c.first(0.8)[0], nan=np.inf) for c in curves]))
        yield f"maze_{name}_msteps_s", statistics.fmean(c.steps[-1] / c.seconds[-1] / MILLION for c in curves)


def measure(console: Console, arguments: argparse.Namespace) -> Figures:
    """Everything, or the parts that are named."""
    cursus.set_verbosity("warning")
    device, quick = torch.device(arguments.device), arguments.quick
    torch.set_float32_matmul_precision("high")
    seeds, Trainer.compiled = arguments.seeds, arguments.compiled
    ways = list(filter(None, arguments.ways.split(",")))

    def solve(doors: int, size: int, steps: int, looks: int, level: float) -> Iterator[tuple[str, float]]:
        return measure_solve(device, seeds, doors, 64 if quick else size, 20_000 if quick else steps, looks, level, ways)

    parts: dict[str, Callable[[], Iterator[tuple[str, float]]]] = {
        "speed": lambda: measure_speed(device, (64,) if quick else SIZES, 0.1 if quick else 1.0),
        "cost": lambda: measure_cost(device, 64 if quick else 65_536, 2 if quick else 6),
        "six": lambda: solve(6, 4096, 60 * MILLION, 150, 0.5),
        "twenty": lambda: solve(20, 16_384, 150 * MILLION, 40, 0.8),
        "forty": lambda: solve(40, 16_384, 400 * MILLION, 60, 0.8),
        "noise": lambda: measure_noise(device, seeds, 100_000 if quick else 14 * MILLION, ways),
        "mazes": lambda: measure_mazes(device, seeds, 64 if quick else 16_384, 4000 if quick else 160 * MILLION, ways),
    }
    figures: Figures = {}
    for part in arguments.parts.split(","):
        begin = time.perf_counter()
        for name, value in parts[part]():
            figures[name] = value
            console.print(f"{time.perf_counter() - begin:7.1f} s  {name} {value:.3f}")
    return figures


def tables(figures: Figures) -> list[Table]:
    made = table("On a device", "what", "figure")
    for name, value in figures.items():
        made.add_row(name.replace("_", " "), f"{value:,.3f}")
    return [made]


if __name__ == "__main__":
    main(
        measure,
        tables,
        device="cuda",
        parts="speed,cost,six,twenty,forty,noise,mazes",
        ways="",
        seeds=3,
        quick=False,
        compiled=False,
    )
