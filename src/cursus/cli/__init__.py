"""The command `cursus`."""

from __future__ import annotations

import json
import sys
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any, Literal

import tyro
from rich.console import Console
from tyro.conf import Positional, arg

import cursus
from cursus._platform import num_cores
from cursus.arena import REAL_WORLDS, SIMULATED_WORLDS
from cursus.arena.arena import EPISODES, SEEDS, TEACHERS
from cursus.arena.arena import WORLDS as ARENA_WORLDS
from cursus.cli import arena, comparison, examples, looking, page, runs, simulator
from cursus.cli.demo import run_demo
from cursus.cli.help import folded
from cursus.errors import ConfigError, CursusError, CursusWarning, MissingExtra
from cursus.metrics import OUTPUTS
from cursus.sim.presets import PRESETS
from cursus.sim.worlds import CURRICULA, WORLDS
from cursus.verbosity import quiet

Run = Annotated[Positional[Path], arg(metavar="RUN", help="A run folder.")]
Runs = Annotated[Positional[list[Path]], arg(metavar="RUN …", help="Run folders.", help_behavior_hint="(required)")]


def _flag(text: str, **more: Any) -> Any:
    """A switch that is off unless given."""
    return arg(help=text, help_behavior_hint="", **more)


Json = Annotated[bool, _flag("Print one JSON object for programs.", name="json")]

app = tyro.extras.SubcommandApp()
_DESCRIPTION = "Curriculum learning for parallel training. `cursus --version` says which version this is."


def _optional(metavar: str, text: str, default: str = "none", **more: Any) -> Any:
    """An option that is None unless given; the help says what holds then."""
    return arg(metavar=metavar, help=text, help_behavior_hint=f"(default: {default})", **more)


@app.command
def demo(
    out: Annotated[Path, arg(help="Where the run folders and the plot go.", metavar="FOLDER")] = Path("runs/demo"),
    config: Annotated[
        Path | None, _optional("FILE", "Curricula, agent and target in TOML or JSON, instead of our own.")
    ] = None,
    seeds: Annotated[int | None, _optional("INT", "How often each curriculum is tried.", "as the configuration says")] = None,
    as_json: Json = False,
) -> None:
    """See what a curriculum buys: an agent learns with one and without, for some minutes."""
    run_demo(_console(as_json), out, config, seeds, as_json=as_json)


@app.command
def example(
    name: Annotated[Positional[str | None], _optional("[NAME]", "Which one; without a name all are listed.")] = None,
    out: Annotated[Path, arg(help="Where it is copied to.", metavar="FOLDER")] = Path(),
    as_json: Json = False,
) -> None:
    """List the examples, or copy one to begin from: a script, a notebook, a configuration."""
    if name is None:
        found = [{**asdict(each), "path": str(each.path)} for each in examples.find_examples().values()]
        _print_json({"examples": found}) if as_json else examples.print_examples(_console())
        return
    copied, target = examples.copy_example(name, out)
    if as_json:
        _print_json({"copied": str(target), "install": copied.install, "run": copied.command})
    else:
        examples.print_copied(_console(), copied, target)


@app.command
def show(
    run: Run,
    follow: Annotated[bool, _flag("Keep looking until interrupted.")] = False,
    as_json: Json = False,
) -> None:
    """How a run stands: a row per stage, the labels in it, and all decisions."""
    if follow and as_json:
        raise ConfigError("--follow is for people, --json for programs: choose one.")
    if as_json:
        _print_json(runs.show_data(run))
    elif follow:
        runs.follow(_console(), run)
    else:
        runs.show(_console(), run)


@app.command
def explain(
    run: Run,
    what_if: Annotated[
        tyro.conf.UseAppendAction[list[str]],
        arg(help="Ask what another gate would have decided, such as gate.threshold=0.8.", metavar="NAME=VALUE"),
    ] = [],  # noqa: B006 – tyro reads it, nothing writes it
    task: Annotated[int | None, _optional("ID", "Say what is known of this one task.")] = None,
    as_json: Json = False,
) -> None:
    """Why the curriculum is where it is: every decision, and what the next one needs."""
    if task is not None:
        text = runs.explain_task(run, task)
        _print_json({"run": str(run), "task": task, "explain": text}) if as_json else _console().print(runs.plain(text))
    elif as_json:
        _print_json(runs.explain_data(run, what_if))
    else:
        runs.explain(_console(), run, what_if)


@app.command
def replay(
    run: Run,
    own: Annotated[
        str | None,
        _optional(
            "MODULE:NAME",
            "A curriculum class of your own, which gets the settings of the run, or a function that makes a curriculum.",
            "the class of the run",
            name="curriculum",
        ),
    ] = None,
    as_json: Json = False,
) -> None:
    """Feed the record of a run to its curriculum again; compare all draws and decisions."""
    data = runs.replay_data(run, own)
    if as_json:
        _print_json(data)
    else:
        runs.print_replay(_console(), data)
    if not data["same"]:
        raise SystemExit(1)


@app.command(name="runs")
def runs_(
    folder: Annotated[Positional[Path], arg(metavar="[FOLDER]", help="Where your runs are.")] = Path("runs"),
    as_json: Json = False,
) -> None:
    """List runs: state, curriculum, stage, episodes, success, and when they last moved."""
    found = looking.runs_data(folder)
    if as_json:
        _print_json({"runs": [asdict(each) for each in found]})
    else:
        looking.print_runs(_console(), folder, found)


Along = Annotated[
    Literal["episodes", "steps"] | None, _optional("OVER", "What runs along the plot: episodes or steps.", "episodes")
]
GroupedBy = Annotated[
    Literal["settings", "name"],
    arg(
        metavar="HOW",
        help="Which runs are seeds of the same: settings, those with equal ones; name, those whose folders differ in a number "
        "at the end.",
    ),
]


@app.command
def plot(
    run: Runs,
    out: Annotated[
        Path | None, _optional("FILE", "Where the plot goes.", "curriculum.png in the run; compared.png beside several")
    ] = None,
    over: Along = None,
    by: Annotated[
        Literal["stage", "label"] | None,
        _optional("GROUP", "Success and share of each stage, or of each label.", "stages where there are some"),
    ] = None,
    group_by: GroupedBy = "settings",
    as_json: Json = False,
) -> None:
    """Draw a run: stages, decisions, success, shares; or several, with bands over seeds."""
    path = looking.draw_plot(run, out, over, by, group_by)
    _print_json({"plot": str(path)}) if as_json else _console().print(runs.plain(f"plot: {path}"), soft_wrap=True)


Settings = Annotated[
    tyro.conf.UseAppendAction[list[str]],
    arg(name="set", help="Change a setting of the curriculum, such as focus=2 or progress.window=50.", metavar="NAME=VALUE"),
]
Worlds = ", ".join(WORLDS)
Curricula = ", ".join(CURRICULA)


@app.command
def simulate(
    config: Annotated[Positional[Path | None], _optional("[CONFIG]", "Settings in TOML or JSON.")] = None,
    preset: Annotated[
        str | None, _optional("STR", f"Begin with the settings of a known experiment: {', '.join(PRESETS)}.")
    ] = None,
    world: Annotated[str | None, _optional("STR", f"One of {Worlds}; a graph.json; or fitted:RUN.", "chain")] = None,
    num_tasks: Annotated[int | None, _optional("INT", "Number of tasks.", "10")] = None,
    generated: Annotated[
        int | None,
        _optional("INT", "Take these tasks as classes, in which so many tasks are generated.", "10000 for a pool, else none"),
    ] = None,
    impossible_ratio: Annotated[float, arg(help="Share of impossible tasks beside the others.")] = 0.0,
    curriculum: Annotated[
        str | None, _optional("STR", f"One of {Curricula}; or your own, module:name.", "learning_progress")
    ] = None,
    pool_size: Annotated[int | None, _optional("INT", "Tasks in the pool, for --curriculum pool.", "200")] = None,
    min_presentations: Annotated[
        int | None, _optional("INT", "Results that a task brings before it may leave the pool.", "25")
    ] = None,
    worst_share: Annotated[float | None, _optional("FLOAT", "Share of the pool that may leave it.", "0.4")] = None,
    memory: Annotated[
        Literal["local", "shared"] | None,
        _optional(
            "KIND",
            "local or shared: environments take tasks by themselves from this memory, as in vector environments that are not "
            "ours.",
            "none, the parent assigns",
        ),
    ] = None,
    settings: Settings = [],  # noqa: B006 – tyro reads it, nothing writes it
    num_epochs: Annotated[int | None, _optional("INT", "Number of epochs.", "500")] = None,
    samples_per_epoch: Annotated[int | None, _optional("INT", "Steps of each environment in an epoch.", "5")] = None,
    num_envs: Annotated[int | None, _optional("INT", "Number of environments.", "8")] = None,
    num_workers: Annotated[int, arg(help="Worker processes beside this one.")] = 0,
    seed: Annotated[int | None, _optional("INT", "Of draws and results.", "0")] = None,
    run: Annotated[Path, arg(help="The run folder.", metavar="FOLDER")] = Path("runs/simulated"),
    resume: Annotated[bool, _flag("Go on from the newest checkpoint of that folder.")] = False,
    outputs: Annotated[
        tyro.conf.UseAppendAction[list[str]],
        arg(name="output", metavar="STR", help=f"Write metrics there too, beside metrics.jsonl: {', '.join(OUTPUTS)}."),
    ] = [],  # noqa: B006
    no_label_statistics: Annotated[bool, _flag("Leave statistics by label out of the metrics.")] = False,
    as_json: Json = False,
) -> None:
    """Try a curriculum on a simulated student: a training run in every other respect."""
    given = {
        "world": world,
        "num_tasks": num_tasks,
        "generated": generated,
        "curriculum": curriculum,
        "pool_size": pool_size,
        "min_presentations": min_presentations,
        "worst_share": worst_share,
        "memory": memory,
        "num_epochs": num_epochs,
        "samples_per_epoch": samples_per_epoch,
        "num_envs": num_envs,
        "seed": seed,
    }
    result = simulator.run_simulation(
        _console(as_json),
        simulator.read_simulation(config, given, preset),
        settings,
        run=run,
        resume=resume,
        num_workers=num_workers,
        impossible_ratio=impossible_ratio,
        outputs=outputs,
        label_statistics=not no_label_statistics,
    )
    if as_json:
        _print_json(simulator.simulation_data(result))


@app.command
def compare(
    given: Annotated[
        Positional[list[Path]],
        _optional(
            "[CONFIG | RUN …]",
            "Settings in TOML or JSON, with curricula and worlds of your own; or run folders: then these are compared, and "
            "nothing is simulated.",
        ),
    ] = [],  # noqa: B006 – tyro reads it, nothing writes it
    curricula: Annotated[
        str | None,
        _optional(
            "NAMES",
            f"By commas: {Curricula}, greedy, frontier; or your own, module:name: a class, or a function of a world and a "
            "number of episodes.",
            "uniform,fixed,staged,learning_progress",
        ),
    ] = None,
    worlds: Annotated[
        str | None,
        _optional("NAMES", f"By commas: {Worlds}; a graph.json; fitted:RUN.", "chain,tree,impossible", aliases=("--world",)),
    ] = None,
    seeds: Annotated[
        int | None, _optional("INT", "Simulated students per curriculum; 20 in three worlds take some minutes.", "20")
    ] = None,
    episodes: Annotated[int | None, _optional("INT", "Episodes of each student.", "20000")] = None,
    num_tasks: Annotated[int | None, _optional("INT", "Number of tasks of a world.", "10")] = None,
    num_envs: Annotated[int | None, _optional("INT", "Number of environments.", "8")] = None,
    speed: Annotated[
        Literal["environments", "curriculum", "vectorised"] | None,
        _optional(
            "SPEED",
            "environments: through environments and a teacher, as in training; curriculum: through the curriculum alone; "
            "vectorised: all seeds at once, for uniform, learning_progress and oracles.",
            "curriculum",
        ),
    ] = None,
    processes: Annotated[int, arg(help="Number of processes; 0 for all cores.")] = 0,
    out: Annotated[
        Path | None, _optional("FOLDER", "For plots and summary.json; and, with --speed environments, for runs.")
    ] = None,
    group_by: GroupedBy = "settings",
    over: Along = None,
    baseline: Annotated[
        str | None, _optional("GROUP", "The kind of runs that the others are compared with.", "uniform, or the first")
    ] = None,
    as_json: Json = False,
) -> None:
    """Compare curricula on simulated students, or real runs over seeds; with intervals."""
    simulated = {
        "curricula": curricula,
        "worlds": worlds,
        "seeds": seeds,
        "episodes": episodes,
        "num_tasks": num_tasks,
        "num_envs": num_envs,
        "speed": speed,
    }
    if given and not given[0].is_file():
        _refuse("--{} is for simulated students, not for runs.", simulated)
        console = _console(as_json)
        found = looking.compare_folders(
            console, looking.folders_among(given), by=group_by, over=over, baseline=baseline, out=out
        )
        if as_json:
            _print_json(looking.runs_comparison_data(found))
        return
    _refuse("--{} is for runs, not for simulated students.", {"over": over, "baseline": baseline})
    if len(given) > 1:
        raise ConfigError(f"{given[0]} is a configuration: give one, or run folders alone.")
    rows = comparison.run_comparison(
        _console(as_json),
        comparison.read_comparison(given[0] if given else None, simulated),
        processes=processes or num_cores(),
        out=out,
    )
    if as_json:
        _print_json(comparison.comparison_data(rows))


@app.command(name="arena")
def arena_(
    teachers: Annotated[
        str | None,
        _optional(
            "NAMES",
            f"By commas: {Curricula}; or your own, module:name: a class, or a function of a world and a number of episodes.",
            ",".join(TEACHERS),
        ),
    ] = None,
    worlds: Annotated[
        str | None,
        _optional(
            "NAMES",
            f"By commas: {', '.join([*REAL_WORLDS, *SIMULATED_WORLDS])}; or your own, module:name: a function that makes one.",
            ",".join(ARENA_WORLDS),
        ),
    ] = None,
    seeds: Annotated[int | None, _optional("INT", "Trainings of each teacher in each world.", str(SEEDS))] = None,
    steps: Annotated[int | None, _optional("INT", "Steps of each training.", "the world's own")] = None,
    episodes: Annotated[int | None, _optional("INT", "Episodes of each simulated student.", str(EPISODES))] = None,
    folder: Annotated[
        Path, arg(help="Where everything goes; what is done there already is not done again.", metavar="FOLDER")
    ] = Path("arena"),
    quick: Annotated[bool, _flag("A look in minutes: fewer teachers, worlds, seeds and steps.")] = False,
    everything: Annotated[bool, _flag("All teachers in all worlds: hours; it can be stopped and goes on.", name="all")] = False,
    jobs: Annotated[int, arg(help="Processes; each trains on one core.")] = 2,
    as_json: Json = False,
) -> None:
    """Compare teachers in real training and on simulated students, over worlds and seeds."""
    given = {"teachers": teachers, "worlds": worlds, "seeds": seeds, "steps": steps, "episodes": episodes}
    made = arena.make_arena(given, folder, quick=quick, everything=everything)
    arena.run_arena(_console(as_json), made, jobs)
    if as_json:
        _print_json(made.data())


@app.command
def serve(
    folder: Annotated[Positional[Path], arg(metavar="[FOLDER]", help="Where your runs are, or one run.")] = Path("runs"),
    host: Annotated[str, arg(help="The address to listen at. Other machines can look only with the token that is printed.")] = (
        "127.0.0.1"
    ),
    port: Annotated[int, arg(help="The port; 0 for any that is free.")] = 8400,
    token: Annotated[str | None, _optional("TEXT", "With --host: what others must know.", "a new one")] = None,
) -> None:
    """Show runs on a live page in a browser; runs are only read."""
    page.serve(_console(), folder, host, port, token)


def _refuse(text: str, options: Mapping[str, Any]) -> None:
    """Refuse options that mean nothing here, if they were given."""
    for name, value in options.items():
        if value is not None:
            raise ConfigError(text.format(name.replace("_", "-")))


@app.command
def fit(
    run: Run,
    graph: Annotated[str, arg(help="Which task needs which: chain, or a graph.json.")] = "chain",
    samples_per_epoch: Annotated[int, arg(help="Episodes after which the student is taken to have learned from them.")] = 40,
    as_json: Json = False,
) -> None:
    """Fit a simulated student that learns about as the agent of a real run did."""
    found = simulator.run_fit(_console(as_json), run, graph, samples_per_epoch)
    if as_json:
        _print_json(simulator.fit_data(found))


Overrides = Annotated[
    tyro.conf.UseAppendAction[list[str]],
    arg(name="set", help="Change a setting, such as training.steps=100000 or agent.learning_rate=1e-3.", metavar="NAME=VALUE"),
]
Trust = Annotated[bool, arg(help="Allow a run to name code that is imported, such as the module of its environment.")]
Against = Annotated[
    tyro.conf.UseAppendAction[list[str]],
    arg(name="opponent", help="Games: whom to play against, such as weak or checkpoint:PATH (a file of weights, or a run)."),
]


@app.command
def train(
    config: Annotated[Positional[Path | None], _optional("[CONFIG]", "A training in TOML or JSON; see examples/.")] = None,
    num_envs: Annotated[int | None, _optional("INT", "Number of environments.", "8")] = None,
    device: Annotated[str | None, _optional("STR", "cpu, cuda or cuda:1.", "cpu")] = None,
    run: Annotated[Path | None, _optional("FOLDER", "The run folder.", "a new one under runs/")] = None,
    resume: Annotated[Path | None, _optional("RUN", "Go on with this run, from its newest checkpoint.")] = None,
    settings: Overrides = [],  # noqa: B006 – tyro reads it, nothing writes it
    algo: Annotated[
        str | None,
        _optional(
            "STR",
            "What learns: DDDQN, SAC, PPO; sb3:PPO, sb3:SAC, … of SB3; sb3:TQC, … of sb3-contrib.",
            "the file's, else PPO",
        ),
    ] = None,
    env: Annotated[str | None, _optional("ID", "Instead of a file: an environment, such as my_game:Env-v0.")] = None,
    levels: Annotated[Path | None, _optional("FOLDER", "With --env: levels to practise, a sub-folder for each stage.")] = None,
    stages: Annotated[str | None, _optional("NAMES", "With --env: stages by commas, the easiest first.")] = None,
    start: Annotated[str | None, _optional("STAGE", "The stage to begin in.", "the first")] = None,
    threshold: Annotated[float | None, _optional("FLOAT", "Success rate that promotes.", "0.7")] = None,
    mixing: Annotated[
        str | None, _optional("MIXING", "How much of earlier stages: adaptive, none, or a share such as 0.2.", "adaptive")
    ] = None,
    held_out: Annotated[
        str | None, _optional("FOLDER", "Levels that are only evaluated in.", "held_out among the levels, if it is there")
    ] = None,
    steps: Annotated[
        int | None, _optional("INT", "Steps of all environments; with --resume in all.", "until the curriculum is completed")
    ] = None,
    seed: Annotated[int | None, _optional("INT", "Everything follows from it.", "0")] = None,
    begin_from: Annotated[
        Path | None, _optional("PATH", "Begin with these weights: a file, or the best ones of a run.", name="from")
    ] = None,
    output: Annotated[
        str, arg(help="Further forms of the metrics, by commas: tensorboard, trackio, wandb.", metavar="NAMES")
    ] = "",
    num_workers: Annotated[int | None, _optional("INT", "Worker processes beside this one.", "the cores less one")] = None,
    served: Annotated[bool, _flag("Show it on a live page meanwhile, see `cursus serve`.", name="serve")] = False,
    trust: Trust = False,
    as_json: Json = False,
) -> None:
    """Train an agent in an environment: under a curriculum, in phases, against opponents, or plainly."""
    training = _with_agents()
    chosen = {"training.steps": steps, "seed": seed}
    result = training.run_training(
        _console(as_json),
        config,
        num_envs=num_envs,
        device=device,
        run=run,
        resume=resume,
        settings=[*settings, *(f"{name}={value}" for name, value in chosen.items() if value is not None)],
        algo=algo,
        weights=begin_from,
        outputs=[name.strip() for name in output.split(",") if name.strip()],
        flags={
            "env": env,
            "levels": levels,
            "stages": stages,
            "start": start,
            "threshold": threshold,
            "mixing": mixing,
            "held_out": held_out,
        },
        num_workers=num_workers,
        trust=trust,
        served=served,
        as_json=as_json,
    )
    if as_json:
        _print_json(training.result_data(result))


@app.command
def evaluate(
    run: Run,
    opponents: Against = [],  # noqa: B006
    games: Annotated[int, arg(help="Episodes of each task, or games against each opponent.")] = 200,
    seed: Annotated[int, arg(help="The same seed gives the same episodes.")] = 0,
    trust: Trust = False,
    as_json: Json = False,
) -> None:
    """Success and return of the best weights of a run, with confidence intervals; in a game wins, draws and losses."""
    data = _with_agents().run_evaluation(
        _console(as_json), run, opponents=opponents, games=games, seed=seed, trust=trust, as_json=as_json
    )
    if as_json:
        _print_json(data)


@app.command
def watch(
    run: Run,
    out: Annotated[Path | None, _optional("FILE", "Where the video goes.", "watch.gif in the run")] = None,
    opponents: Against = [],  # noqa: B006
    games: Annotated[int | None, _optional("INT", "How many episodes.", "one of each task, at least 4")] = None,
    seed: Annotated[int, arg(help="Which episodes.")] = 0,
    trust: Trust = False,
    as_json: Json = False,
) -> None:
    """Make a video (GIF) of episodes with the best weights of a run."""
    data = _with_agents().run_video(
        _console(as_json), run, out=out, opponents=opponents, games=games, seed=seed, trust=trust, as_json=as_json
    )
    if as_json:
        _print_json(data)


@app.command
def tournament(
    run: Runs,
    games: Annotated[int, arg(help="Games of each match; who is player one, and who begins, is shared equally.")] = 100,
    seed: Annotated[int, arg(help="The same seed gives the same games.")] = 0,
    trust: Trust = False,
    as_json: Json = False,
) -> None:
    """Play runs of a game against each other and against its scripted players; ratings with intervals."""
    data = _with_agents().run_tournament(_console(as_json), run, games=games, seed=seed, trust=trust, as_json=as_json)
    if as_json:
        _print_json(data)


def _with_agents() -> Any:
    """The part that needs torch, which takes seconds to load."""
    try:
        from cursus.cli import training
    except ImportError as error:
        raise MissingExtra.of(error, "agents,hockey") from None
    return training


def main(arguments: Sequence[str] | None = None) -> None:
    """The entry point: errors are one line, and what to do about them; so are warnings."""
    given = sys.argv[1:] if arguments is None else list(arguments)
    if given == ["--version"]:
        print(f"cursus {cursus.__version__}")
        return
    try:
        with warnings.catch_warnings(), quiet(), folded(given):
            warnings.simplefilter("always", CursusWarning)
            warnings.showwarning = _print_warning
            app.cli(prog="cursus", description=_DESCRIPTION, args=given, config=(tyro.conf.FlagCreatePairsOff,))
    except (CursusError, OSError, MemoryError) as error:
        for line in (str(error) or type(error).__name__).splitlines():
            print(f"cursus: {runs.plain(line)}", file=sys.stderr)
        raise SystemExit(2) from None
    except KeyboardInterrupt:
        print("cursus: interrupted", file=sys.stderr)
        raise SystemExit(130) from None


def _print_warning(message: Warning | str, *where: Any, **more: Any) -> None:
    print(f"cursus: {runs.plain(str(message))}", file=sys.stderr)


def _console(to_stderr: bool = False) -> Console:
    return Console(stderr=to_stderr, highlight=False)


def _print_json(data: Any) -> None:
    print(json.dumps(data, indent=2))
