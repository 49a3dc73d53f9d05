"""Whatever lies in a run folder: a command ends with lines for people, soon, and touches nothing outside of the folder."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any, TypeAlias
from zlib import crc32

import pytest

from cursus.cli import main
from cursus.errors import CursusError
from cursus.runs import checkpoint
from cursus.runs.checkpoint import holds_student, list_checkpoints
from cursus.training import train
from cursus.web.views import RunView, RunViews

Damage: TypeAlias = Callable[[Path], object]

SPEC: dict[str, Any] = {
    "agent": {"type": "DDDQN", "hidden": [8], "batch_size": 8, "buffer_size": 200},
    "curriculum": {
        "type": "Staged",
        "stages": ["near", "far"],
        "gate": {"type": "Window", "threshold": 0.3, "window": 20, "min_episodes": 20, "demote": 0.05},
        "tasks": {"type": "Named", "names": {"near": {"doors": 0}, "far": {"doors": 1}}},
    },
    "environment": {"id": "cursus/Keys-v0", "max_episode_steps": 12},
    "training": {"steps": 1200, "learning_starts": 50, "updates_per_env_step": 0.01, "report_every": 200},
    "evaluation": {"every": 0, "games": 2, "tasks": {"target": {"doors": 0}}, "background": False},
}

SHOW = [["show"], ["show", "--json"], ["explain"], ["explain", "--json"]]
REPLAY = [["explain", "--task", "0"], ["explain", "--what-if", "gate.threshold=0.8"], ["replay"], ["replay", "--json"], ["fit"]]
PLAY = [["evaluate", "--games", "2"], ["watch", "--games", "1"]]
MEET = [["tournament", "--games", "2"]]  # which this game, without opponents, is refused for
PLOT = [["train", "--num-workers", "0", "--set", "training.steps=1240", "--resume"]]
RESUME = [["train", "--num-workers", "0", "--set", "training.steps=1240", "--json", "--resume"]]
LOOK = [["runs"], ["plot"], ["compare"]]
COMMANDS = {
    "config.json": [*SHOW, *REPLAY, *RESUME, *LOOK],
    "status.json": [*SHOW, *RESUME, *LOOK],
    "events.jsonl": [*SHOW, *REPLAY, *RESUME, *LOOK],
    "train.json": [*PLAY, *MEET, *RESUME],
    "metrics.jsonl": PLOT,
    "metrics.csv": RESUME,
    "evaluations.jsonl": PLOT,
    "weights/best.safetensors": [*PLAY, *RESUME],
    "checkpoints": RESUME,
}
FILES = [name for name in COMMANDS if name != "checkpoints"]

pytestmark = pytest.mark.filterwarnings("always")


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A training with everything in its folder. Tests only look at it."""
    run = tmp_path_factory.mktemp("runs") / "run"
    train(SPEC, num_envs=2, num_workers=0, run=run)
    return run


@pytest.fixture
def run(whole: Path, tmp_path: Path) -> Iterator[Path]:
    """A copy that may be damaged; what lies outside of it is as before in the end."""
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "mine.txt").write_text("mine")
    yield Path(shutil.copytree(whole, tmp_path / "run"))
    assert [each.name for each in outside.iterdir()] == ["mine.txt"]
    assert (outside / "mine.txt").read_text() == "mine"


def ends_well(command: list[str], run: Path, capsys: pytest.CaptureFixture[str]) -> tuple[int, str, str]:
    """Call a command: it has an exit code, tells of errors in lines of its own, and steers no terminal."""
    code: Any = 0
    try:
        main([*command, str(run)])
    except SystemExit as ended:
        code = ended.code
    out, err = capsys.readouterr()
    assert code in (0, 1, 2)
    assert [line for line in err.splitlines() if not line.startswith("cursus: ")] == []
    assert [each for each in out + err if each != "\n" and not each.isprintable()] == []
    assert code != 2 or err
    assert len(err) < 5_000
    return code, out, err


def edit(name: str, change: Callable[[Any], object]) -> Damage:
    """Change what a JSON file holds; of a file of lines, its last one, by somebody who knows how to write checksums."""

    def damage(run: Path) -> None:
        path = run / name
        before, last = [], path.read_bytes()
        if path.suffix == ".jsonl":
            *before, last = path.read_bytes().splitlines(keepends=True)
        content = json.loads(last)
        change(content)
        text = json.dumps(content).encode()
        if name == "events.jsonl":
            text = signed(content)
        path.write_bytes(b"".join([*before, text, b"\n"]))

    return damage


def signed(event: dict[str, Any]) -> bytes:
    body = json.dumps({key: value for key, value in event.items() if key != "crc"}, separators=(",", ":"))[:-1].encode()
    return b'%b,"crc":"%08x"}' % (body, crc32(body))


def add(*events: dict[str, Any]) -> Damage:
    """Add events to the record, as if they had been written there."""

    def damage(run: Path) -> None:
        number = len((run / "events.jsonl").read_bytes().splitlines())
        with (run / "events.jsonl").open("ab") as file:
            file.writelines(signed({"n": number + index, **event}) + b"\n" for index, event in enumerate(events))

    return damage


def put(name: str, content: bytes) -> Damage:
    return lambda run: (run / name).write_bytes(content)


def sparse(name: str) -> Damage:
    def damage(run: Path) -> None:
        with (run / name).open("r+b") as file:
            file.truncate(1 << 41)

    return damage


def hollow(name: str) -> Damage:
    def damage(run: Path) -> None:
        with (run / name).open("wb") as file:
            file.truncate(1 << 36)

    return damage


def folder(name: str) -> Damage:
    def damage(run: Path) -> None:
        (run / name).unlink()
        (run / name).mkdir()

    return damage


def remove(name: str) -> Damage:
    return lambda run: (run / name).unlink()


def link(name: str, to: str) -> Damage:
    def damage(run: Path) -> None:
        (run / name).unlink()
        (run / name).symlink_to(to)

    return damage


DEEP = b"[" * 900 + b"]" * 900
DEEPER = b'{"a":' * 100_000 + b"1" + b"}" * 100_000
CONTENTS = {
    "empty": b"",
    "null": b"null\n",
    "a list": b"[]\n",
    "a number": b"5\n",
    "a giant number": b"9" * 100_000 + b"\n",
    "an object of nothing": b"{}\n",
    "rubbish": bytes(range(256)) * 10,
    "not UTF-8": b'{"step":1,"a":"\xff\xfe"}\n',
    "half a surrogate": b'{"step":1,"a":"\\ud800","\\udfff":1}\n',
    "nested": DEEP + b"\n",
    "nested deeper": DEEPER + b"\n",
    "a line without an end": b'{"step":' + b"1" * 1_000_000,
}


def damages() -> Iterator[tuple[str, list[list[str]], Damage]]:
    for name in FILES:
        for kind, content in CONTENTS.items():
            yield f"{name} holds {kind}", COMMANDS[name], put(name, content)
        yield f"{name} is missing", COMMANDS[name], remove(name)
        yield f"{name} is a folder", COMMANDS[name], folder(name)
        yield f"{name} is a link to nothing", COMMANDS[name], link(name, "nowhere")
        yield f"{name} is a link to itself", COMMANDS[name], link(name, Path(name).name)
        yield f"{name} is a link to endless zeros", COMMANDS[name], link(name, "/dev/zero")
        yield f"{name} has a terabyte of zeros behind it", COMMANDS[name], sparse(name)
        yield f"{name} is 64 GiB of zeros", COMMANDS[name], hollow(name)


ODD: dict[str, Any] = {
    "none": None,
    "a string": "x\x1b[31m[/bold]",
    "a number": -1.5,
    "a giant number": 10**300,
    "a list": [[], {}],
    "an object": {"x": {}},
    "true": True,
}
KEYS = {
    "config.json": ["schema", "id", "seed", "max_lag", "ahead", "order", "curriculum", "fingerprint"],
    "status.json": ["curriculum", "tickets", "explain", "tables", "time"],
    "train.json": ["schema", "plan", "num_envs", "device"],
    "metrics.jsonl": ["step", "time", "rollout/mean_return"],
    "evaluations.jsonl": ["step", "evaluation/score"],
}


def wrong_types() -> Iterator[tuple[str, list[list[str]], Damage]]:
    for name, keys in KEYS.items():
        for key in keys:
            for kind, value in ODD.items():
                yield f"{name}: {key} is {kind}", COMMANDS[name], edit(name, lambda found, k=key, v=value: found.update({k: v}))


def inner(*path: str | int, value: Any) -> Callable[[Any], object]:
    def change(found: Any) -> None:
        for key in path[:-1]:
            found = found[key]
        found[path[-1]] = value

    return change


def nested(depth: int) -> Any:
    made: Any = 1
    for _ in range(depth):
        made = [made]
    return made


def saved(key: str, value: Any) -> Damage:
    """Change what the newest checkpoint says of the student, by somebody who knows how to write one."""

    def damage(run: Path) -> None:
        *_, newest = (each for each in list_checkpoints(run / "checkpoints") if holds_student(each))
        state = checkpoint.read(newest)
        state["caller"][key] = value
        newest.write_bytes(checkpoint.encode(state))

    return damage


DECISION = {
    "event": "decision",
    "kind": "promotion",
    "ticket": 3,
    "text": "so",
    "evidence": {"from": "a", "to": "b"},
    "time": 1.0,
}
ASSIGN = {"event": "assign", "first": 0, "env": [0], "task": [0], "tag": [0]}
FINISH = {"event": "finish", "ticket": [0], "success": [1], "return": [1.0], "length": [1]}
CURRICULUM = ("curriculum",)
PLAN = ("plan",)
INSIDE: dict[str, tuple[str, Damage]] = {
    "a table of no rows": ("status.json", edit("status.json", inner("tables", "stages", value=[]))),
    "a table that is a string": ("status.json", edit("status.json", inner("tables", "stages", value="rows"))),
    "rows that are numbers": ("status.json", edit("status.json", inner("tables", "stages", value=[1, 2]))),
    "rates that are strings": ("status.json", edit("status.json", inner("tables", "stages", 0, "success", value="[/]high"))),
    "a mix that is a list": ("status.json", edit("status.json", inner("tables", "stages", 0, "mix", value=[1]))),
    "a title that steers": ("status.json", edit("status.json", inner("tables", "\x1b[31m[/x]", value=[{"[/y]\x07": 1}]))),
    "labels without a stage": ("status.json", edit("status.json", inner("tables", "labels", value=[{"label": 1}]))),
    "a million rows": ("status.json", edit("status.json", inner("tables", "stages", value=[{"a": 1}] * 300_000))),
    "ten thousand columns": (
        "status.json",
        edit("status.json", inner("tables", "stages", value=[{str(each): each for each in range(10_000)}])),
    ),
    "an endless explanation": ("status.json", edit("status.json", inner("explain", value="x" * 5_000_000))),
    "tickets that are strings": ("status.json", edit("status.json", inner("tickets", "assigned", value="many"))),
    "a curriculum of an unknown type": ("config.json", edit("config.json", inner(*CURRICULUM, "type", value="os.system"))),
    "a curriculum that is a function": ("config.json", edit("config.json", inner(*CURRICULUM, "gate", value="os:system"))),
    "a type that is a list": ("config.json", edit("config.json", inner(*CURRICULUM, "type", value=[1]))),
    "tasks without number": (
        "config.json",
        edit("config.json", inner("curriculum", value={"type": "LearningProgress", "tasks": {"type": "Discrete", "n": 2**61}})),
    ),
    "an endless range": (
        "config.json",
        edit(
            "config.json",
            inner(
                "curriculum",
                value={
                    "type": "Uniform",
                    "tasks": {"type": "Discrete", "n": 2**40},
                    "ids": {"type": "range", "start": 0, "stop": 2**40},
                },
            ),
        ),
    ),
    "items that are no table": (
        "config.json",
        edit("config.json", inner(*CURRICULUM, "tasks", "names", value={"type": "dict", "items": 5})),
    ),
    "a curriculum nested in itself": (
        "config.json",
        edit("config.json", inner(*CURRICULUM, "tasks", "names", value=nested(400))),
    ),
    "a window of 10**15": ("config.json", edit("config.json", inner(*CURRICULUM, "gate", "window", value=10**15))),
    "levels of another folder": (
        "config.json",
        edit("config.json", inner(*CURRICULUM, "tasks", value={"type": "Levels", "folder": "/dev"})),
    ),
    "a decision without its fields": ("events.jsonl", add({"event": "decision"})),
    "a decision of numbers": ("events.jsonl", add({**DECISION, "kind": 1, "text": 2, "ticket": "x", "evidence": []})),
    "a decision that steers": ("events.jsonl", add({**DECISION, "text": "\x1b[31m[/x]\n\r\x9b", "kind": "\x07"})),
    "a decision to nowhere": ("events.jsonl", add(DECISION)),
    "a decision without evidence": ("events.jsonl", add({**DECISION, "evidence": {}})),
    "a decision with deep evidence": ("events.jsonl", add({**DECISION, "evidence": {"to": nested(400)}})),
    "a decision in the far future": ("events.jsonl", add({**DECISION, "time": 1e300, "ticket": 10**300})),
    "an assignment of other tickets": ("events.jsonl", add(ASSIGN)),
    "an assignment of no lists": ("events.jsonl", add({**ASSIGN, "first": 124, "task": 5, "tag": None})),
    "an assignment of strings": ("events.jsonl", add({**ASSIGN, "first": 124, "task": ["x"], "env": ["y"]})),
    "an assignment of half a ticket": ("events.jsonl", add({**ASSIGN, "first": 124.0})),
    "an assignment of unknown tasks": ("events.jsonl", add({**ASSIGN, "first": 124, "task": [10**30]})),
    "a result of nothing": ("events.jsonl", add({**FINISH, "ticket": [10**30]})),
    "a result of strings": ("events.jsonl", add({**FINISH, "return": ["x"], "ticket": ["x"]})),
    "a result that is nested": ("events.jsonl", add({**FINISH, "ticket": [[[]]]})),
    "an exchange of nonsense": ("events.jsonl", add({"event": "exchange", "first": None, "ticket": {}, "lost": "x"})),
    "settings of nothing": ("events.jsonl", add({"event": "settings", "settings": None})),
    "settings of another curriculum": (
        "events.jsonl",
        add({"event": "settings", "settings": {"max_lag": "x", "curriculum": {"type": "Uniform", "tasks": 5}}}),
    ),
    "a stage that is not": ("events.jsonl", add({"event": "set_stage", "stage": ["x"], "ticket": None})),
    "a resume from the future": ("events.jsonl", add({"event": "resume", "cut": 10**18})),
    "a resume from before": ("events.jsonl", add({"event": "resume", "cut": -5})),
    "a resume of text": ("events.jsonl", add({"event": "resume", "cut": "all"})),
    "an unknown event": ("events.jsonl", add({"event": "\x1b[31m", "kind": None})),
    "no agent": ("train.json", edit("train.json", inner(*PLAN, "agent", value=[]))),
    "an agent of another world": ("train.json", edit("train.json", inner(*PLAN, "agent", "type", value="sb3:os.system"))),
    "an agent without limits": ("train.json", edit("train.json", inner(*PLAN, "agent", "hidden", value=[2**40, 2**40]))),
    "a buffer without limits": ("train.json", edit("train.json", inner(*PLAN, "agent", "buffer_size", value=10**15))),
    "an environment that is not": ("train.json", edit("train.json", inner(*PLAN, "environment", "id", value="Nothing-v0"))),
    "an environment of a number": ("train.json", edit("train.json", inner(*PLAN, "environment", "id", value=5))),
    "an environment that steers": ("train.json", edit("train.json", inner(*PLAN, "environment", "id", value="\x1b[31m/[/x]"))),
    "settings of no environment": (
        "train.json",
        edit("train.json", inner(*PLAN, "environment", "settings", value={"x\x1b": 1})),
    ),
    "an evaluation of nothing": ("train.json", edit("train.json", inner(*PLAN, "evaluation", "tasks", value={"t": 5}))),
    "an evaluation that steers": (
        "train.json",
        edit("train.json", inner(*PLAN, "evaluation", "tasks", value={"\x1b[/x]": {"doors": 0}})),
    ),
    "a plan of the older system": ("train.json", edit("train.json", inner("plan", value={"curriculum": {"phases": [1, {}]}}))),
    "a plan nested in itself": (
        "train.json",
        edit("train.json", inner(*PLAN, "environment", "settings", value={"a": nested(400)})),
    ),
    "a thousand environments more": ("train.json", edit("train.json", inner("num_envs", value=10**12))),
    "a device of another world": ("train.json", edit("train.json", inner("device", value="meta"))),
    "metrics that steer": ("metrics.jsonl", edit("metrics.jsonl", inner("train/loss \x1b[31m$[/x]", value=1.0))),
    "metrics that are strings": ("metrics.jsonl", edit("metrics.jsonl", inner("rollout/success_low", value="x"))),
    "an evaluation without a score": ("evaluations.jsonl", edit("evaluations.jsonl", lambda row: row.pop("evaluation/score"))),
    "weights of another kind": ("weights/best.safetensors", put("weights/0x.safetensors", b"")),
    "a checkpoint of rubbish": ("checkpoints", put("checkpoints/999999999999-student.ckpt", bytes(range(256)))),
    "a checkpoint of zeros": ("checkpoints", hollow("checkpoints/000000000235-student.ckpt")),
    "a checkpoint that is a folder": ("checkpoints", lambda run: (run / "checkpoints/000000000999.ckpt").mkdir()),
    **{
        f"a checkpoint whose {key} is {value!r}": ("checkpoints", saved(key, value))
        for key in ("agent", "action_log", "steps", "belongs", "rng", "reporter")
        for value in (None, "x")
    },
    "no checkpoints": ("checkpoints", lambda run: shutil.rmtree(run / "checkpoints")),
}

CASES = [*damages(), *wrong_types(), *((name, COMMANDS[file], damage) for name, (file, damage) in INSIDE.items())]


@pytest.mark.parametrize(("commands", "damage"), [case[1:] for case in CASES], ids=[case[0] for case in CASES])
def test_a_damaged_folder_ends_no_command_with_a_traceback(
    run: Path, capsys: pytest.CaptureFixture[str], commands: list[list[str]], damage: Damage
) -> None:
    damage(run)
    for command in commands:
        ends_well(command, run, capsys)


@pytest.mark.parametrize("damage", [case[2] for case in CASES], ids=[case[0] for case in CASES])
def test_a_damaged_folder_is_told_to_the_live_page(run: Path, damage: Damage) -> None:
    damage(run)
    runs = RunViews(run.parent)
    json.loads(runs.data())
    view = RunView("run", run)
    told = json.loads(view.data())
    assert told["name"] == "run"
    assert len(view.data()) < 5_000_000
    assert not [note for note in told["notes"] if "cannot be shown" in note]
    with suppress(CursusError):
        json.loads(view.what_if(0.5))


def test_a_whole_folder_is_shown_replayed_played_and_resumed(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for command in [*SHOW, *REPLAY, *PLAY, *PLOT, *RESUME]:
        assert ends_well(command, run, capsys)[0] == 0, command


# ---- what could be waited for

CALL = """
import sys
from cursus.cli import main
from cursus.errors import CursusError
for command in {commands!r}:
    print(*command, file=sys.stderr, flush=True)
    try:
        main([*command])
    except SystemExit:
        pass
"""


def test_a_pipe_in_the_place_of_a_file_is_not_waited_for(whole: Path, tmp_path: Path) -> None:
    commands = []
    for index, name in enumerate((*FILES, ".lock", "checkpoints/999999999999-student.ckpt")):
        run = Path(shutil.copytree(whole, tmp_path / str(index)))
        (run / name).unlink(missing_ok=True)
        os.mkfifo(run / name)
        commands += [[*command, str(run)] for command in COMMANDS.get(name, RESUME)]
    done = subprocess.run(
        [sys.executable, "-c", CALL.format(commands=commands)], capture_output=True, text=True, timeout=100, check=False
    )
    assert (done.returncode, "Traceback" in done.stderr) == (0, False), done.stderr


@pytest.mark.skipif(os.getuid() == 0, reason="root may read everything")
@pytest.mark.parametrize("name", FILES)
def test_a_file_that_may_not_be_read_is_told(run: Path, capsys: pytest.CaptureFixture[str], name: str) -> None:
    (run / name).chmod(0)
    for command in COMMANDS[name]:
        ends_well(command, run, capsys)


# ---- links that lead outside


@pytest.mark.parametrize("name", ["checkpoints", "weights"])
def test_a_folder_that_is_a_link_is_not_written_to(run: Path, capsys: pytest.CaptureFixture[str], name: str) -> None:
    shutil.rmtree(run / name)
    (run / name).symlink_to(run.parent / "outside")
    code, _, err = ends_well(RESUME[0], run, capsys)
    assert code == 2
    assert f"{run / name}" in err
    assert "link" in err or "no checkpoint" in err


@pytest.mark.parametrize("name", ["events.jsonl", "metrics.jsonl", "metrics.csv", "evaluations.jsonl", ".lock"])
@pytest.mark.parametrize("hard", [False, True])
def test_a_file_that_grows_is_not_written_through_a_link(
    run: Path, capsys: pytest.CaptureFixture[str], name: str, hard: bool
) -> None:
    target = run.parent / "target"
    (run / name).rename(target)
    before = target.read_bytes()
    (run / name).hardlink_to(target) if hard else (run / name).symlink_to(target)
    code, _, err = ends_well(PLOT[0], run, capsys)
    assert code == 2
    assert "link" in err
    assert target.read_bytes() == before


REPLACED = {
    "status.json": PLOT,
    "train.json": PLOT,
    "training.png": PLOT,
    "watch.gif": PLAY,
    "fit.json": [["fit"]],
    "weights/last.safetensors": PLOT,
}


@pytest.mark.parametrize("name", REPLACED)
def test_a_file_that_is_replaced_takes_the_place_of_a_link(run: Path, capsys: pytest.CaptureFixture[str], name: str) -> None:
    target = run.parent / "target"
    if (run / name).exists():
        (run / name).rename(target)
    else:
        target.write_bytes(b"mine")
    before = target.read_bytes()
    (run / name).symlink_to(target)
    for command in REPLACED[name]:
        assert ends_well(command, run, capsys)[0] == 0
    assert not (run / name).is_symlink()
    assert target.read_bytes() == before


def test_the_run_folder_itself_may_be_a_link(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    given = run.parent / "given"
    given.symlink_to(run)
    for command in [*SHOW, *REPLAY, *PLAY, *RESUME]:
        assert ends_well(command, given, capsys)[0] == 0, command
