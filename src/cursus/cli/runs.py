"""Commands that read a run folder: show, explain, replay and what-if. None touches the process that writes it."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any, Literal

from rich.box import SIMPLE_HEAD
from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.markup import escape
from rich.table import Table
from rich.text import Text

from cursus.analysis.history import QUIET_KINDS
from cursus.analysis.listing import age
from cursus.cli.own import find_own
from cursus.replay import curriculum_of, replay, what_if
from cursus.runs import RunFolder, read_decisions

_SHOWN_DECISIONS = 12
_MOST_ROWS, _MOST_COLUMNS = 1_000, 40
_LONGEST = 20_000
_DID = {
    "promotion": "promoted",
    "demotion": "demoted",
    "graduation": "graduated",
    "stage": "left by hand",
    "stay": "not decided",
}
_WOULD = {
    "promotion": "would have promoted",
    "demotion": "would have demoted",
    "graduation": "would have graduated",
    "stay": "would not have decided either",
}
_COLOURS = {
    "current": "bold cyan",
    "passed": "green",
    "graduated": "bold green",
    "forgotten": "bold red",
    "locked": "dim",
    "done": "green",
    "ahead": "dim",
    "promotion": "green",
    "graduation": "bold green",
    "demotion": "red",
    "forgetting": "red",
    "rehearsal": "cyan",
    "phase": "cyan",
    "focus": "cyan",
    "mix": "dim",
}


def show_data(run: Path) -> dict[str, Any]:
    """Everything that `cursus show` shows."""
    return {"run": str(run), **_status(run), "decisions": _decisions(run)}


def show(console: Console, run: Path) -> None:
    """Print how a run stands."""
    console.print(_overview(show_data(run)))


def follow(console: Console, run: Path) -> None:
    """Print how a run stands, again and again."""
    with Live(_overview(show_data(run)), console=console, refresh_per_second=2) as live:
        while True:
            time.sleep(1.0)
            live.update(_overview(show_data(run)))


def explain_task(run: Path, task: int) -> str:
    """What `cursus explain --task` says."""
    return curriculum_of(run).explain_task(task)


def explain_data(run: Path, settings: Sequence[str]) -> dict[str, Any]:
    """Everything that `cursus explain` says."""
    data: dict[str, Any] = {"run": str(run), "explain": _status(run)["explain"]}
    data["decisions"] = _decisions(run)
    if settings:
        data["what_if"] = {"settings": list(settings), "visits": [asdict(visit) for visit in what_if(run, settings)]}
    return data


def explain(console: Console, run: Path, settings: Sequence[str]) -> None:
    """Print why the curriculum is where it is, or what another gate would have decided."""
    data = explain_data(run, settings)
    if settings:
        _print_what_if(console, data["what_if"])
        return
    loud = [decision for decision in data["decisions"] if decision["kind"] not in QUIET_KINDS]
    if loud:
        console.print(_listed(loud))
    quiet = sum(decision["kind"] in QUIET_KINDS for decision in data["decisions"])
    if quiet:
        console.print(Text(f"({quiet} changes of mix and evictions are not listed; --json has them)", "dim"))
    console.print()
    console.print(Text(plain(data["explain"], keep_lines=True)))


def replay_data(run: Path, own: str | None) -> dict[str, Any]:
    """Everything that `cursus replay` says; `own` names a class of the user's or a function, `module:name`."""
    result = replay(run, None if own is None else find_own(own))
    return {
        "run": str(run),
        "same": result.same,
        "episodes": result.episodes,
        "draws": result.draws,
        "different_draws": result.different_draws,
        "decisions": len(result.recorded),
        "recorded": [asdict(decision) for decision in result.recorded],
        "replayed": [asdict(decision) for decision in result.replayed],
    }


def print_replay(console: Console, data: Mapping[str, Any]) -> None:
    """Print the comparison."""
    counted = f"{data['episodes']:,} episodes, {data['draws']:,} draws, {data['decisions']:,} decisions"
    if data["same"]:
        console.print(f"Replayed {counted}: all as recorded.")
        return
    console.print(f"Replayed {counted}: [bold red]not as recorded[/]. {data['different_draws']:,} draws differ.")
    for index, (before, now) in enumerate(zip(data["recorded"], data["replayed"], strict=False)):
        if before != now:
            console.print(f"first different decision, number {index}:")
            console.print(Text(f"  {plain(before['text'])}\n  {plain(now['text'])}"))
            break


def _status(run: Path) -> dict[str, Any]:
    folder = RunFolder(run)
    folder.read_config()
    return folder.read_status()


def _decisions(run: Path) -> list[dict[str, Any]]:
    wanted = ("kind", "ticket", "text", "evidence", "time")
    return [{key: decision[key] for key in wanted} for decision in read_decisions(run)]


def _overview(data: Mapping[str, Any]) -> RenderableType:
    tickets = data["tickets"]
    head = Text.assemble((plain(data["run"]), "bold"), f"  {plain(data['curriculum'])}, as of {age(data['time'])} ago")
    counts = (
        f"{tickets['assigned']:,} tickets = {tickets['finished']:,} finished + {tickets['lost']:,} lost + "
        f"{tickets['withdrawn']:,} withdrawn + {tickets['in_flight']:,} in flight"
    )
    parts: list[RenderableType] = [head, counts]
    parts += [as_table(name, rows) for name, rows in data["tables"].items() if rows and not _repeats(name, data)]
    loud = [each for each in data["decisions"] if each["kind"] not in QUIET_KINDS]
    if loud:
        parts.append(Text(f"\nThe last {min(len(loud), _SHOWN_DECISIONS)} of {len(loud)} decisions", "italic"))
        parts.append(_listed(loud[-_SHOWN_DECISIONS:]))
    return Group(*parts)


def _repeats(name: str, data: Mapping[str, Any]) -> bool:
    """Labels say nothing new where every stage is one label."""
    return name == "labels" and all(row.get("stage") == row.get("label") for row in data["tables"]["labels"])


def as_table(title: str, rows: Sequence[Mapping[str, Any]]) -> Table:
    """Rows of plain values as a table; columns that are empty throughout are left out, and what comes after very many."""
    more = f", the first {_MOST_ROWS:,} of {len(rows):,}" if len(rows) > _MOST_ROWS else ""
    rows = rows[:_MOST_ROWS]
    heading = Text(f"\n{plain(title).capitalize()}{more}")
    table = Table(title=heading, title_justify="left", box=SIMPLE_HEAD, pad_edge=False, padding=(0, 1, 0, 0))
    columns = [name for name in rows[0] if any(row.get(name) is not None for row in rows)][:_MOST_COLUMNS]
    merged = {"low", "high"} <= set(columns)
    shown = [name for name in columns if not (merged and name in ("low", "high"))]
    for name in shown:
        is_number = all(isinstance(row.get(name), int | float | None) for row in rows)
        side: Literal["left", "right"] = "right" if is_number else "left"
        table.add_column(Text(plain(name.replace("_", " "))), justify=side, overflow="fold", no_wrap=is_number)
    for row in rows:
        cells = [_cell(name, row, merged) for name in shown]
        table.add_row(*cells)
    return table


def _cell(name: str, row: Mapping[str, Any], merged: bool) -> Text:
    value = row.get(name)
    if value is None:
        return Text("–", "dim")
    if name == "success" and merged and all(isinstance(row.get(each), int | float) for each in (name, "low", "high")):
        return Text(f"{value:.2f} ({row['low']:.2f}–{row['high']:.2f})")
    if name == "mix" and isinstance(value, int | float):
        return Text(f"{value:.0%}")
    if isinstance(value, float):
        return Text(f"{value:.2g}" if 0 < abs(value) < 0.1 else f"{value:.2f}")
    if isinstance(value, int):
        return Text(str(value) if name == "task" else f"{value:,}")
    text = str(value)
    return Text(plain(text), _COLOURS.get(text, ""))


def _print_what_if(console: Console, answer: Mapping[str, Any]) -> None:
    console.print(Text(f"What if {plain(', '.join(answer['settings']))}?", "bold"))
    for visit in answer["visits"]:
        was = _verdict(_DID, visit["decided"], visit["after"])
        colour = "" if visit["decided"] == visit["would_decide"] else "yellow"
        would = (_would(visit), colour)
        console.print(Text.assemble((plain(visit["stage"]), "bold"), f", {visit['episodes']:,} episodes: {was}; ", would))
        console.print(Text(f"    {plain(visit['reason'])}", "dim"))
    console.print("\nEach visit is judged on the episodes that were drawn for it; what would have followed is unknown.")


def _verdict(words: Mapping[str, str], kind: str, after: int | None) -> str:
    said = words.get(kind, kind)
    return said if after is None else f"{said} after {after:,}"


def _would(visit: Mapping[str, Any]) -> str:
    """What the other gate would have done: what it did not do is named where the recorded one did it."""
    if visit["would_decide"] == "stay" and visit["decided"] in ("promotion", "demotion", "graduation"):
        return f"would not have {_WOULD[visit['decided']].removeprefix('would have ')}"
    return _verdict(_WOULD, visit["would_decide"], visit["would_after"])


def _listed(decisions: Sequence[Mapping[str, Any]]) -> Table:
    """Decisions below each other, their words beside their tickets."""
    table = Table.grid(padding=(0, 2, 0, 0))
    table.add_column(justify="right", no_wrap=True)
    table.add_column(overflow="fold")
    for each in decisions:
        table.add_row(Text(f"ticket {each['ticket']:,}", "dim"), _coloured(each))
    return table


def _coloured(decision: Mapping[str, Any]) -> Text:
    return Text(plain(decision["text"]), _COLOURS.get(decision["kind"], ""))


def plain(text: str, *, keep_lines: bool = False) -> str:
    """Text from a file without characters that could steer a terminal, and not endless."""
    if len(text) > _LONGEST:
        text = f"{text[:_LONGEST]} … and {len(text) - _LONGEST:,} characters more"
    return "".join(each if each.isprintable() or (keep_lines and each == "\n") else f"\\x{ord(each):02x}" for each in text)


def literal(text: str) -> str:
    """The same for text with markup around it: what looks like markup is shown as it is."""
    return escape(plain(text))
