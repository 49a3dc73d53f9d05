"""The command `cursus`."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import tyro
from rich.console import Console
from tyro.conf import Positional, arg

from cursus.cli import looking
from cursus.cli.demo import run_demo
from cursus.errors import ConfigError, CursusError

Run = Annotated[Positional[Path], arg(metavar="RUN", help="A run folder.")]
Json = Annotated[bool, arg(name="json", help="Print one JSON object for programs.")]

app = tyro.extras.SubcommandApp()


@app.command
def demo(
    out: Annotated[Path, arg(help="Where the run folders and the plot go.", metavar="FOLDER")] = Path("runs/demo"),
    config: Annotated[Path | None, arg(help="Courses and student in TOML or JSON, instead of our own.")] = None,
    seeds: Annotated[int, arg(help="How many students each course teaches.")] = 5,
    as_json: Json = False,
) -> None:
    """See what a curriculum buys: simulated students in 8 environments, under four courses."""
    run_demo(_console(as_json), out, config, seeds, as_json=as_json)


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
