"""Training, evaluating and watching agents from the command line."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, replace
from math import isfinite
from pathlib import Path
from types import TracebackType
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn
from rich.table import Table

from cursus.agents import Policy, load_policy
from cursus.analysis import plot_training
from cursus.cli.output import command_name
from cursus.cli.page import served_beside
from cursus.cli.runs import literal
from cursus.cli.training_flags import from_flags
from cursus.errors import ConfigError, MissingExtra
from cursus.training import Callback, Score, Training, TrainResult, evaluate, train
from cursus.training.build import evaluation_env, evaluation_env_maker, evaluation_tasks, set_task_of, success_of
from cursus.training.evaluations import Evaluation
from cursus.training.opponents import check_fits, find_weights
from cursus.training.plan import Plan
from cursus.training.run import code_of, free_folder, plan_of
from cursus.training.tournament import Tournament, play_tournament
from cursus.training.video import record_video

_LEAST_WATCHED = 4


class LiveTraining(Callback):
    """A bar with everything that one wants to know, and a line for every change of phase and every evaluation."""

    def __init__(self, console: Console, *, quiet: bool = False) -> None:
        self._console, self._quiet = console, quiet
        self._bar = Progress(
            TextColumn("{task.description}"),
            BarColumn(),
            TextColumn("{task.percentage:>3.0f} %"),
            TimeElapsedColumn(),
            TextColumn("left"),
            TimeRemainingColumn(),
            TextColumn("{task.fields[told]}"),
            console=console,
            disable=quiet,
            transient=True,
        )
        self._phase = ""
        self._told: Evaluation | None = None
        self._unit, self._total = "steps", 0
        self._run: Path | None = None
        self._steps: int | None = None
        self.trust = ""
        """What a command on this run needs, if it names code of others."""

    def __enter__(self) -> LiveTraining:
        self._bar.__enter__()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._bar.__exit__(kind, error, trace)

    def begin(self, plan: Plan, run: Path) -> None:
        """The training is about to begin."""
        self._run, self._steps = run, plan.training.steps
        self.trust = " --trust" if code_of(plan) else ""
        episodes = [phase.episodes for phase in plan.phases]
        if plan.training.steps is not None:
            self._unit, self._total = "steps", plan.training.steps
        elif episodes and all(each is not None for each in episodes):
            self._unit, self._total = "episodes", sum(each or 0 for each in episodes)
        self._task = self._bar.add_task("warming up", total=self._total or None, told="")
        self.say(f"{literal(plan.agent.name)} in {literal(plan.environment.id)}; everything goes to [b]{literal(str(run))}[/b]")
        self.say(f"It ends {_end_of(plan)}.")

    def on_start(self, now: Training) -> None:
        """Say it, if there is nothing left to do."""
        if now.steps and (now.completed if self._steps is None else now.steps >= self._steps):
            self.say(f"This run is over, after {now.steps:,} steps. With --steps N it goes on until N are done.")

    def on_report(self, now: Training) -> None:
        """A row of metrics has come."""
        evaluation = now.evaluation
        if now.phase != self._phase:
            self.say(f"{now.steps:>10,} steps: [b]{literal(now.phase)}[/b]")
            self._phase = now.phase
        if evaluation is not None and evaluation is not self._told:
            self._told = evaluation
            for score in evaluation.scores:
                self.say(f"{evaluation.step:>10,} steps: {literal(score.text)}")
        done = now.steps if self._unit == "steps" else now.episodes
        self._bar.update(self._task, completed=done, description=literal(now.phase or "training"), told=_told(now))

    @contextmanager
    def interrupted(self) -> Iterator[None]:
        """Say how to go on after Ctrl-C."""
        try:
            yield
        except KeyboardInterrupt:
            if self._run is not None:
                command = f"{command_name()} train --resume {literal(str(self._run))}{self.trust}"
                self.say(f"Stopped. Go on from the newest checkpoint with: [b]{command}[/b]")
            raise

    def say(self, text: str) -> None:
        """A line above the bar."""
        if not self._quiet:
            self._console.print(text, soft_wrap=True)


def _end_of(plan: Plan) -> str:
    """When a training is over."""
    training = plan.training
    ends = [] if training.steps is None else [f"after {training.steps:,} steps"]
    ends += [] if training.minutes is None else [f"after {training.minutes:g} minutes"]
    if training.steps is None and (plan.phases or (plan.curriculum is not None and plan.curriculum.completed is not None)):
        ends.append("when its curriculum is completed")
    return " or ".join(ends)


def _told(now: Training) -> str:
    success = ""
    if now.success is not None:
        rate, low, high = now.success
        success = f"success {rate:.0%} ({low:.0%}–{high:.0%}) · "
    ratio = now.metrics.get("train/updates_per_env_step")
    per_step = "" if ratio is None else f" ({ratio:g} per step)"
    speed = f"{now.steps_per_s:,.0f} steps/s · {now.updates_per_s:,.0f} updates/s{per_step}"
    return f"{now.steps:,} steps · {now.episodes:,} episodes · {success}{speed}"


def run_training(
    console: Console,
    config: Path | None,
    *,
    num_envs: int | None,
    device: str | None,
    run: Path | None,
    resume: Path | None,
    settings: Sequence[str],
    algo: str | None = None,
    weights: Path | None = None,
    outputs: Sequence[str] = (),
    flags: Mapping[str, Any],
    num_workers: int | None,
    trust: bool,
    served: bool,
    as_json: bool,
) -> TrainResult:
    """Train, and say what came of it; `served` on a live page."""
    given = from_flags(config, resume=resume is not None, **flags)
    if given is None and resume is None:
        raise ConfigError("name a configuration, such as examples/hockey_shooting.toml, or --env ID, or --resume RUN.")
    if run is None and isinstance(given, Mapping):
        run = free_folder(given["environment"]["id"].rpartition("/")[2].rpartition(":")[2])
    own = resume is None or trust
    with ExitStack() as beside, importing_from_here(own), LiveTraining(console, quiet=as_json) as live, live.interrupted():

        def begin(plan: Plan, run: Path) -> None:
            live.begin(plan, run)
            if served:
                console.print(f"Live page: {beside.enter_context(served_beside(run))}", soft_wrap=True)
            else:
                live.say(f"To look at it live, in another terminal: {command_name()} serve {literal(str(run.parent))}")

        result = train(
            given,
            num_envs=num_envs,
            device=device,
            run=run,
            resume=resume,
            settings=settings,
            algo=algo,
            weights=weights,
            num_workers=num_workers,
            trust=trust,
            outputs=outputs,
            callbacks=[live],
            on_begin=begin,
        )
    if not as_json:
        _tell(console, result, live.trust)
    return result


def _tell(console: Console, result: TrainResult, trust: str) -> None:
    counted = f"{result.steps:,} steps, {result.episodes:,} episodes, {result.updates:,} updates"
    console.print(f"[b]{literal(result.run_name)}[/b]: {counted}; mean return {result.mean_return:.2f}")
    if not result.updates:
        console.print(
            "Nothing was learned: it ended before the first update. Off-policy agents begin after training.learning_starts "
            "steps, PPO learns after every agent.n_steps of each environment.",
            soft_wrap=True,
        )
    if result.best is not None:
        console.print(_table(result.best.scores, "The best weights, in episodes that they were not chosen by"))
    plot = draw(result.run)
    if plot is not None:
        console.print(f"Plot:    {literal(str(plot))}", soft_wrap=True)
    cursus = command_name()
    run = literal(str(result.run))
    for index, command in enumerate((f"evaluate {run}{trust}", f"watch {run}{trust}", f"explain {run}", f"serve {run}")):
        console.print(f"{'         ' if index else 'Next:    '}{cursus} {command}", soft_wrap=True)


def draw(run: Path) -> Path | None:
    """A plot of a run, where the library for it is installed and there is something to draw."""
    try:
        return plot_training(run)
    except MissingExtra:
        return None


def result_data(result: TrainResult) -> dict[str, Any]:
    """The same for programs."""
    return {
        "run": str(result.run),
        "run_name": result.run_name,
        "steps": result.steps,
        "episodes": result.episodes,
        "updates": result.updates,
        "mean_return": result.mean_return if isfinite(result.mean_return) else None,
        "completed": result.completed,
        "evaluations": [{"step": each.step, **each.metrics()} for each in result.evaluations],
        "best": None if result.best is None else result.best.metrics(),
    }


def _table(scores: Sequence[Score], title: str) -> Table:
    """Only the columns that say something: draws where there are such, success where the environment speaks of it."""
    table = Table(title=title, title_justify="left")
    matches = any(score.draws is not None for score in scores)
    succeeded = any(score.successes is not None for score in scores)
    columns = ["against" if matches else "task"]
    columns += ["won" if matches else "success", "95 %"] if succeeded else []
    columns += ["drawn", "lost"] if matches else []
    for column in (*columns, "episodes", "mean return"):
        table.add_column(column, justify="right" if column not in ("task", "against") else "left")
    for score in scores:
        low, high = score.success_interval or (0.0, 0.0)
        cells = [_share(score.success_rate), f"{low:.1%}–{high:.1%}"] if succeeded else []
        cells += [_share(score.draw_rate), _share(score.loss_rate)] if matches else []
        distinct = "" if score.distinct is None else f", {score.distinct} distinct"
        table.add_row(literal(score.name), *cells, f"{score.games:,}{distinct}", f"{score.mean_return:.2f}")
    return table


def _share(rate: float | None) -> str:
    return "" if rate is None else f"{rate:.1%}"


def run_evaluation(
    console: Console, run: Path, *, opponents: Sequence[str], games: int, seed: int, trust: bool, as_json: bool
) -> dict[str, Any]:
    """Play, count, and print."""
    with ExitStack() as stack:
        stack.enter_context(importing_from_here(trust))
        plan, policy, weights = _load(run, opponents, trust=trust)
        if not as_json:
            stack.enter_context(console.status(f"{games} episodes of each, with {literal(weights.name)} …"))
        first = evaluation_env(plan)
        check_fits(policy, first.observation_space, first.action_space, weights)
        first.close()
        scores = evaluate(policy, evaluation_env_maker(plan), evaluation_tasks(plan), games=games, seed=seed, **_reads(plan))
    if not as_json:
        console.print(_table(scores, f"{literal(str(weights))}, {games} episodes each"))
    return {
        "run": str(run),
        "weights": str(weights),
        **{name: value for score in scores for name, value in score.metrics().items()},
    }


def _reads(plan: Plan) -> dict[str, Any]:
    """How tasks reach an environment, and how the ends of episodes are read."""
    environment = plan.environment
    return {"success": success_of(environment), "score": environment.recipe.score, "set_task": set_task_of(plan)}


def run_video(
    console: Console,
    run: Path,
    *,
    out: Path | None,
    opponents: Sequence[str],
    games: int | None,
    seed: int,
    trust: bool,
    as_json: bool,
) -> dict[str, Any]:
    """Play, and make a video of it."""
    path = run / "watch.gif" if out is None else out
    with importing_from_here(trust), warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # what cannot be rendered is told in one line below
        plan, policy, weights = _load(run, opponents, trust=trust)
        env = evaluation_env(plan, render_mode="rgb_array")
    try:
        check_fits(policy, env.observation_space, env.action_space, weights)
        tasks = evaluation_tasks(plan)
        games = max(_LEAST_WATCHED, len(tasks)) if games is None else games
        made = record_video(policy, env, path, games=games, seed=seed, tasks=tasks, **_reads(plan))
    finally:
        env.close()
    if not as_json:
        results = ", ".join(made.outcomes)
        console.print(
            f"{made.seconds:.0f} s of play with {literal(weights.name)} ({results}): {literal(str(made.path))}", soft_wrap=True
        )
    return {
        "run": str(run),
        "video": str(made.path),
        "bytes": made.size,
        "seconds": made.seconds,
        "outcomes": list(made.outcomes),
    }


def run_tournament(
    console: Console, runs: Sequence[Path], *, games: int, seed: int, trust: bool, as_json: bool
) -> dict[str, Any]:
    """Play, rate, and print."""
    with ExitStack() as stack:
        stack.enter_context(importing_from_here(trust))
        if not as_json:
            stack.enter_context(console.status(f"{len(runs)} runs, {games} games of each match …"))
        found = play_tournament(runs, games=games, seed=seed, trust=trust)
    if not as_json:
        console.print(_ratings_table(found))
        console.print(_matches_table(found, games))
    return asdict(found)


def _ratings_table(found: Tournament) -> Table:
    table = Table(title="Ratings", title_justify="left")
    table.add_column("player")
    for column in ("rating", "95 %", "games"):
        table.add_column(column, justify="right")
    for each in found.ratings:
        interval = "fixed" if each.is_anchor else f"{each.low:.0f}–{each.high:.0f}"
        table.add_row(literal(each.name), f"{each.rating:.0f}", interval, f"{each.games:,}")
    return table


def _matches_table(found: Tournament, games: int) -> Table:
    table = Table(title=f"Matches, {games} games each", title_justify="left")
    for column in ("player", "against"):
        table.add_column(column)
    for column in ("won", "drawn", "lost"):
        table.add_column(column, justify="right")
    for each in found.matches:
        table.add_row(literal(each.one), literal(each.two), f"{each.wins:,}", f"{each.draws:,}", f"{each.losses:,}")
    return table


@contextmanager
def importing_from_here(allowed: bool) -> Iterator[None]:
    """Modules of environments may lie in the current folder, if that is `allowed`; installed ones come before them."""
    here = str(Path.cwd())
    if not allowed or here in sys.path:
        yield
        return
    sys.path.append(here)
    try:
        yield
    finally:
        sys.path.remove(here)


def _load(run: Path, opponents: Sequence[str], *, trust: bool) -> tuple[Plan, Policy, Path]:
    """How a run was configured, whom its policy is to play against now, its best policy, and the file that is in."""
    plan, _ = plan_of(run, trust=trust)
    if opponents:
        evaluation = replace(plan.evaluation, opponents=list(opponents), tasks=None)
        plan = replace(plan, evaluation=evaluation)
    weights = find_weights(run)
    return plan, load_policy(weights), weights
