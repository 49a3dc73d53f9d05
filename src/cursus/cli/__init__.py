"""The command `cursus`."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any, Literal

import tyro
from rich.console import Console
from tyro.conf import Positional, arg

from cursus.cli import laboratory, looking
from cursus.cli.demo import run_demo
from cursus.cli.students import run_students
from cursus.errors import ConfigError, CursusError, MissingExtra

Run = Annotated[Positional[Path], arg(metavar="RUN", help="A run folder.")]
Json = Annotated[bool, arg(name="json", help="Print one JSON object for programs.")]

app = tyro.extras.SubcommandApp()


@app.command
def demo(
    out: Annotated[Path, arg(help="Where the run folders and the plot go.", metavar="FOLDER")] = Path("runs/demo"),
    config: Annotated[Path | None, arg(help="Curricula, agent and target in TOML or JSON, instead of our own.")] = None,
    seeds: Annotated[int | None, arg(help="How often each curriculum is tried. Default: as the configuration says.")] = None,
    as_json: Json = False,
) -> None:
    """See what a curriculum buys: an agent learns for real, with a curriculum and without one, in about two minutes."""
    run_demo(_console(as_json), out, config, seeds, as_json=as_json)


@app.command
def students(
    out: Annotated[Path, arg(help="Where the run folders and the plot go.", metavar="FOLDER")] = Path("runs/students"),
    config: Annotated[Path | None, arg(help="Courses and student in TOML or JSON, instead of our own.")] = None,
    seeds: Annotated[int, arg(help="How many students each course teaches.")] = 5,
    as_json: Json = False,
) -> None:
    """The same in seconds and without an agent: simulated students in 8 environments, under four courses."""
    run_students(_console(as_json), out, config, seeds, as_json=as_json)


@app.command
def show(
    run: Run,
    follow: Annotated[bool, arg(help="Keep looking until interrupted.")] = False,
    as_json: Json = False,
) -> None:
    """How a run stands: a row per stage, the labels in it, and all decisions."""
    if follow and as_json:
        raise ConfigError("--follow is for people, --json for programs: choose one.")
    if as_json:
        _print_json(looking.show_data(run))
    elif follow:
        looking.follow(_console(), run)
    else:
        looking.show(_console(), run)


@app.command
def explain(
    run: Run,
    what_if: Annotated[
        tyro.conf.UseAppendAction[list[str]],
        arg(help="Ask what another gate would have decided, such as gate.threshold=0.8.", metavar="NAME=VALUE"),
    ] = [],  # noqa: B006 – tyro reads it, nothing writes it
    task: Annotated[int | None, arg(help="Say what is known of this one task.", metavar="ID")] = None,
    as_json: Json = False,
) -> None:
    """Why the course is where it is: every decision with its reason, and what the next one still needs."""
    if task is not None:
        text = looking.explain_task(run, task)
        _print_json({"run": str(run), "task": task, "explain": text}) if as_json else _console().print(looking.plain(text))
    elif as_json:
        _print_json(looking.explain_data(run, what_if))
    else:
        looking.explain(_console(), run, what_if)


@app.command
def replay(run: Run, as_json: Json = False) -> None:
    """Feed the record of a run to its curriculum again, and compare every draw and decision."""
    data = looking.replay_data(run)
    if as_json:
        _print_json(data)
    else:
        looking.print_replay(_console(), data)
    if not data["same"]:
        raise SystemExit(1)


Settings = Annotated[
    tyro.conf.UseAppendAction[list[str]],
    arg(name="set", help="Change a setting of the curriculum, such as focus=2 or progress.window=50.", metavar="NAME=VALUE"),
]
Worlds = ", ".join(laboratory.WORLDS)
Courses = ", ".join(laboratory.COURSES)


@app.command
def simulate(
    config: Annotated[Positional[Path | None], arg(metavar="CONFIG", help="Settings in TOML or JSON.")] = None,
    world: Annotated[str | None, arg(help=f"One of {Worlds}; a graph.json; or fitted:RUN. Default: chain.")] = None,
    num_tasks: Annotated[int | None, arg(help="How many tasks. Default: 10.")] = None,
    impossible_ratio: Annotated[float, arg(help="The share of impossible tasks beside the others.")] = 0.0,
    curriculum: Annotated[str | None, arg(help=f"One of {Courses}. Default: learning_progress.")] = None,
    settings: Settings = [],  # noqa: B006 – tyro reads it, nothing writes it
    num_epochs: Annotated[int | None, arg(help="How many epochs. Default: 500.")] = None,
    samples_per_epoch: Annotated[int | None, arg(help="Episodes per environment and epoch. Default: 5.")] = None,
    num_envs: Annotated[int | None, arg(help="How many environments. Default: 8.")] = None,
    num_workers: Annotated[int, arg(help="Worker processes beside this one.")] = 0,
    seed: Annotated[int | None, arg(help="Default: 0.")] = None,
    run: Annotated[Path, arg(help="The run folder.", metavar="FOLDER")] = Path("runs/simulated"),
    resume: Annotated[bool, arg(help="Go on from the newest checkpoint of that folder.")] = False,
    outputs: Annotated[
        tyro.conf.UseAppendAction[list[Literal["csv", "tensorboard", "wandb"]]],
        arg(name="output", help="Write metrics there too, beside metrics.jsonl."),
    ] = [],  # noqa: B006
    as_json: Json = False,
) -> None:
    """Try a curriculum in seconds: a training run in every respect, with a student made of equations for an agent."""
    given = {
        "world": world, "num_tasks": num_tasks, "curriculum": curriculum, "num_epochs": num_epochs,
        "samples_per_epoch": samples_per_epoch, "num_envs": num_envs, "seed": seed,
    }  # fmt: skip
    result = laboratory.run_simulation(
        _console(as_json), laboratory.read_settings(config, given), settings, run=run, resume=resume, num_workers=num_workers,
        impossible_ratio=impossible_ratio, outputs=outputs,
    )  # fmt: skip
    if as_json:
        _print_json(laboratory.simulation_data(result))


@app.command
def compare(
    curricula: Annotated[str, arg(help=f"Which, separated by commas: {Courses}.")] = "uniform,fixed,staged,learning_progress",
    worlds: Annotated[
        str, arg(aliases=("--world",), help=f"Where, by commas: {Worlds}; a graph.json; fitted:RUN.")
    ] = "chain,tree,impossible",
    seeds: Annotated[int, arg(help="How many students each course teaches.")] = 20,
    episodes: Annotated[int, arg(help="How long each student practises.")] = 20_000,
    num_tasks: Annotated[int, arg(help="How many tasks a world has.")] = 10,
    processes: Annotated[int, arg(help="How many processes; 0 for all cores.")] = 0,
    out: Annotated[Path | None, arg(help="Where pictures go.", metavar="FOLDER")] = None,
    as_json: Json = False,
) -> None:
    """Courses side by side: area under the competence curve, regret, waste and false promotions, with intervals."""
    rows = laboratory.run_comparison(
        _console(as_json), _listed(curricula), _listed(worlds), seeds=seeds, episodes=episodes, num_tasks=num_tasks,
        processes=processes or len(os.sched_getaffinity(0)), out=out,
    )  # fmt: skip
    if as_json:
        _print_json(laboratory.comparison_data(rows))


@app.command
def fit(
    run: Run,
    graph: Annotated[str, arg(help="Which task needs which: chain, or a graph.json.")] = "chain",
    samples_per_epoch: Annotated[int, arg(help="Episodes after which the student is taken to have learned from them.")] = 40,
    as_json: Json = False,
) -> None:
    """Find a student made of equations that learns about as the agent of a real run did."""
    found = laboratory.run_fit(_console(as_json), run, graph, samples_per_epoch)
    if as_json:
        _print_json(laboratory.fit_data(found))


Overrides = Annotated[
    tyro.conf.UseAppendAction[list[str]],
    arg(name="set", help="Change a setting, such as training.steps=100000 or agent.learning_rate=1e-3.", metavar="NAME=VALUE"),
]
Against = Annotated[
    tyro.conf.UseAppendAction[list[str]],
    arg(name="opponent", help="Whom to play against: weak, strong or none. Default: both."),
]


@app.command
def train(
    config: Annotated[Positional[Path | None], arg(metavar="CONFIG", help="A training in TOML or JSON; see examples/.")] = None,
    num_envs: Annotated[int | None, arg(help="How many environments in step. Default: 8.")] = None,
    device: Annotated[str | None, arg(help="cpu, cuda or cuda:1. Default: cpu.")] = None,
    run: Annotated[Path | None, arg(help="The run folder. Default: a new one under runs/.", metavar="FOLDER")] = None,
    resume: Annotated[Path | None, arg(help="Go on with this run, from its newest checkpoint.", metavar="RUN")] = None,
    settings: Overrides = [],  # noqa: B006 – tyro reads it, nothing writes it
    algo: Annotated[str | None, arg(help="Instead of its agent: DDDQN, SAC, or sb3:PPO, sb3:SAC, … of SB3.")] = None,
    num_workers: Annotated[int | None, arg(help="Worker processes beside this one. Default: the cores less one.")] = None,
    as_json: Json = False,
) -> None:
    """Train an agent under a curriculum: phases, opponents, self-play, checkpoints, evaluation."""
    training = _with_agents()
    result = training.run_training(
        _console(as_json),
        config,
        num_envs=num_envs,
        device=device,
        run=run,
        resume=resume,
        settings=settings,
        algo=algo,
        num_workers=num_workers,
        as_json=as_json,
    )
    if as_json:
        _print_json(training.result_data(result))


@app.command
def evaluate(
    run: Run,
    opponents: Against = [],  # noqa: B006
    games: Annotated[int, arg(help="Games against each; both sides begin half of them.")] = 200,
    seed: Annotated[int, arg(help="The same seed gives the same games.")] = 0,
    as_json: Json = False,
) -> None:
    """Wins, draws and losses of the best weights of a run, with confidence intervals."""
    data = _with_agents().run_evaluation(_console(as_json), run, opponents=opponents, games=games, seed=seed, as_json=as_json)
    if as_json:
        _print_json(data)


@app.command
def watch(
    run: Run,
    out: Annotated[Path | None, arg(help="Where the video goes. Default: watch.gif in the run.", metavar="FILE")] = None,
    opponents: Against = [],  # noqa: B006
    games: Annotated[int, arg(help="How many games.")] = 4,
    seed: Annotated[int, arg(help="Which games.")] = 0,
    as_json: Json = False,
) -> None:
    """Make a video (GIF) of games with the best weights of a run."""
    data = _with_agents().run_video(
        _console(as_json), run, out=out, opponents=opponents, games=games, seed=seed, as_json=as_json
    )
    if as_json:
        _print_json(data)


def _with_agents() -> Any:
    """The part that needs torch, which takes seconds to load."""
    try:
        from cursus.cli import training
    except ImportError as error:
        raise MissingExtra(error.name or "torch", "agents,hockey") from None
    return training


def _listed(text: str) -> list[str]:
    return [each.strip() for each in text.split(",") if each.strip()]


def main(arguments: Sequence[str] | None = None) -> None:
    """The entry point: errors are one line, and what to do about them."""
    try:
        app.cli(prog="cursus", description="Curriculum learning for parallel training.", args=arguments)
    except CursusError as error:
        for line in str(error).splitlines():
            print(f"cursus: {looking.plain(line)}", file=sys.stderr)
        raise SystemExit(2) from None
    except KeyboardInterrupt:
        print("cursus: interrupted", file=sys.stderr)
        raise SystemExit(130) from None


def _console(to_stderr: bool = False) -> Console:
    return Console(stderr=to_stderr, highlight=False)


def _print_json(data: Any) -> None:
    print(json.dumps(data, indent=2))
