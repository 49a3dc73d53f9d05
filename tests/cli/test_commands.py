import json
import os
import pty
import shutil
import signal
import subprocess
import sys
from pathlib import Path
from zlib import crc32

import pytest

from cursus import AdaptiveMixing, Mixture, Phases, Stage, Staged, Teacher, Uniform, Wilson, Window
from cursus.cli import main
from cursus.cli.output import in_terminal
from cursus.curricula import FixedMixing, NoMixing, Phase
from cursus.sim import TaskGraph, World
from cursus.tasks import Box, Levels, Named, Product
from rollouts import Rollouts

COMMAND = shutil.which("cursus", path=Path(sys.executable).parent)
STAGES = ["walk", "run", "fly"]


@pytest.fixture(autouse=True)
def plain_terminal(monkeypatch):
    """A wide terminal without colours, whatever the tests run in."""
    monkeypatch.setenv("COLUMNS", "300")
    for name in ("FORCE_COLOR", "TTY_COMPATIBLE", "TTY_INTERACTIVE"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def cursus(capsys):
    """Call the command: exit code, standard output, standard error."""

    def call(*arguments):
        code = 0
        try:
            main([str(each) for each in arguments])
        except SystemExit as ended:
            code = ended.code
        out, err = capsys.readouterr()
        return code, out, err

    return call


def chain(size):
    """A world that is learned in some hundred episodes, with fast wins and slow losses."""
    student = {"start": 0.02, "rate": 0.05, "transfer": 0.05, "forgetting": 0.005, "samples_per_epoch": 1}
    return World(TaskGraph.chain(size), lengths=20, failure_lengths=60, student=student)


def practise(run, curriculum, episodes, world=None, seed=1):
    """A real run: simulated rollouts under a real teacher."""
    with Teacher(curriculum, seed=seed, run=run) as teacher:
        rollouts = Rollouts(teacher, world or chain(curriculum.tasks.size), num_envs=4)
        while rollouts.episodes < episodes:
            rollouts.advance()
    return run


def practise_one_by_one(run, curriculum, results):
    with Teacher(curriculum, run=run) as teacher:
        for success in results:
            given = teacher.assign([0])
            teacher.report(given.tickets, success=[success], returns=[0.0], lengths=[1])
    return run


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """A student who was promoted twice and then graduated. Tests only look at it."""
    gate = Wilson(threshold=0.7, window=50, confidence=0.98, min_episodes=30)
    curriculum = Staged(STAGES, gate=gate, mixing=AdaptiveMixing(), rehearsal=None)
    return practise(tmp_path_factory.mktemp("runs") / "first", curriculum, 800)


@pytest.fixture
def broken_run(run, tmp_path):
    """A copy that a test may damage."""
    return Path(shutil.copytree(run, tmp_path / "broken"))


def write_events(path, events):
    """Write events as somebody would who knows how."""
    lines = []
    for event in events:
        body = json.dumps({key: value for key, value in event.items() if key != "crc"}, separators=(",", ":"))[:-1].encode()
        lines.append(b'%b,"crc":"%08x"}\n' % (body, crc32(body)))
    path.write_bytes(b"".join(lines))


def one_line(text):
    lines = text.strip().split("\n")
    assert len(lines) == 1, text
    assert lines[0].startswith("cursus: ")
    return lines[0]


def as_json(answer):
    code, out, err = answer
    assert (code, err) == (0, "")
    return json.loads(out)


# ---- show


def test_show_says_where_every_stage_and_every_ticket_is(cursus, run):
    code, out, err = cursus("show", run)
    assert (code, err) == (0, "")
    assert "800 tickets = 800 finished + 0 lost + 0 withdrawn + 0 in flight" in out
    rows = {line.split()[0]: line for line in out.split("\n") if line.split()[:1] and line.split()[0] in STAGES}
    assert list(rows) == STAGES
    assert "passed" in rows["walk"]
    assert "graduated" in rows["fly"]
    assert "The last 4 of 4 decisions" in out
    assert "promoted from 'walk' to 'run'" in out
    assert "graduated from the last stage 'fly'" in out


def test_show_cuts_nothing_off_in_a_terminal_of_80_columns(cursus, run, monkeypatch):
    _, wide, _ = cursus("show", run)
    monkeypatch.setenv("COLUMNS", "80")
    _, narrow, _ = cursus("show", run)
    assert max(len(line) for line in narrow.split("\n")) <= 80
    assert characters_in_tables(narrow) == characters_in_tables(wide)


def characters_in_tables(text):
    """What stands in the cells of all tables, in whatever way it is wrapped."""
    rows = "".join(line for line in text.split("\n") if line.startswith(("│", "┃")))
    return sorted(each for each in rows if each not in "│┃ ")


def test_show_as_json_has_everything(cursus, run):
    data = as_json(cursus("show", run, "--json"))
    assert set(data) == {"run", "curriculum", "tickets", "explain", "tables", "time", "decisions"}
    assert (data["run"], data["curriculum"]) == (str(run), "Staged")
    tickets = data["tickets"]
    assert tickets["assigned"] == tickets["finished"] + tickets["lost"] + tickets["withdrawn"] + tickets["in_flight"]
    assert [row["stage"] for row in data["tables"]["stages"]] == STAGES
    assert sum(row["episodes"] for row in data["tables"]["stages"]) == tickets["finished"] == 800
    kinds = [each["kind"] for each in data["decisions"] if each["kind"] != "mix"]
    assert kinds == ["promotion", "promotion", "graduation", "completion"]
    assert all(set(each) == {"kind", "ticket", "text", "evidence", "time"} for each in data["decisions"])


def test_show_follows_a_run_until_it_is_interrupted(run):
    screen, terminal = pty.openpty()
    following = subprocess.Popen([COMMAND, "show", run, "--follow"], stdout=terminal, stderr=terminal)
    try:
        os.close(terminal)
        seen = b""
        while b"graduated from" not in seen:
            seen += os.read(screen, 4096)
        following.send_signal(signal.SIGINT)
        while b"interrupted" not in seen:
            seen += os.read(screen, 4096)
        assert following.wait(timeout=30) == 130
    finally:
        following.kill()
        following.wait()
        os.close(screen)
    assert b"Traceback" not in seen


# ---- explain


def test_explain_gives_every_decision_and_what_comes_next(cursus, run):
    code, out, err = cursus("explain", run)
    assert (code, err) == (0, "")
    assert out.index("promoted from 'walk' to 'run'") < out.index("promoted from 'run' to 'fly'")
    assert "Stage 3 of 3, 'fly', graduated." in out
    assert "are not listed" in out


def test_explain_as_json_lists_changes_of_mix_too(cursus, run):
    data = as_json(cursus("explain", run, "--json"))
    assert set(data) == {"run", "explain", "decisions"}
    assert data["explain"].startswith("Stage 3 of 3, 'fly', graduated.")
    assert {each["kind"] for each in data["decisions"]} == {"promotion", "graduation", "completion", "mix"}


def test_what_if_with_the_recorded_gate_gives_the_recorded_decisions(cursus, run):
    visits = as_json(cursus("explain", run, "--what-if", "gate.threshold=0.7", "--json"))["what_if"]["visits"]
    assert [(visit["stage"], visit["decided"]) for visit in visits] == [
        ("walk", "promotion"),
        ("run", "promotion"),
        ("fly", "graduation"),
    ]
    for visit in visits:
        assert (visit["would_decide"], visit["would_after"]) == (visit["decided"], visit["after"])
        assert 0 < visit["after"] <= visit["episodes"]


def test_what_if_with_the_recorded_gate_tells_of_a_demotion_after_graduation(cursus, tmp_path):
    gate = Window(threshold=0.7, window=20, min_episodes=20, early=None, trend=None, demote=0.3, demote_after=20)
    curriculum = Staged(["walk", "run"], gate=gate, mixing=NoMixing(), forgetting=None, rehearsal=None)
    run = practise_one_by_one(tmp_path / "run", curriculum, [True] * 45 + [False] * 40)
    decisions = as_json(cursus("show", run, "--json"))["decisions"]
    assert [each["kind"] for each in decisions] == ["promotion", "graduation", "completion", "demotion"]
    asked = as_json(cursus("explain", run, "--what-if", "gate.threshold=0.7", "--json"))
    visit = asked["what_if"]["visits"][1]
    assert (visit["stage"], visit["decided"]) == ("run", "demotion")
    assert visit["after"] == decisions[3]["evidence"]["episodes"]
    assert (visit["would_decide"], visit["would_after"]) == (visit["decided"], visit["after"])


def test_what_if_knows_that_a_stage_is_not_given_up_while_the_one_before_is_mastered(cursus, tmp_path):
    gate = Window(threshold=0.7, window=20, min_episodes=20, early=None, trend=None, demote=0.3, demote_after=60)
    curriculum = Staged(["walk", "run"], gate=gate, mixing=FixedMixing(0.5))
    with Teacher(curriculum, run=tmp_path / "run") as teacher:
        for _ in range(400):
            given = teacher.assign([0])
            teacher.report(given.tickets, success=given.tasks == 0, returns=[0.0], lengths=[1])
    visit = as_json(cursus("explain", tmp_path / "run", "--what-if", "gate.threshold=0.7", "--json"))["what_if"]["visits"][1]
    assert (visit["stage"], visit["decided"], visit["would_decide"]) == ("run", "stay", "stay")


def test_what_if_with_a_stricter_gate_never_decides_earlier(cursus, run):
    data = as_json(cursus("explain", run, "--what-if", "gate.threshold=0.9", "--json"))
    assert data["what_if"]["settings"] == ["gate.threshold=0.9"]
    visits = data["what_if"]["visits"]
    assert [visit["would_decide"] for visit in visits[:2]] == ["stay", "stay"]
    assert all(visit["would_after"] is None or visit["would_after"] > visit["after"] for visit in visits)
    assert "promotion needs a lower 98% bound of 0.90" in visits[0]["reason"]


def test_what_if_takes_several_settings_and_prints_each_visit(cursus, run):
    code, out, err = cursus("explain", run, "--what-if", "gate.type=EProcess", "--what-if", "gate.threshold=0.5")
    assert (code, err) == (0, "")
    assert "What if gate.type=EProcess, gate.threshold=0.5?" in out
    assert out.count("would have promoted after") == 2
    assert "against a rate of 0.50 or less" in out


def test_what_if_finds_the_gate_of_one_stage(cursus, tmp_path):
    curriculum = Staged([Stage("walk", gate=Wilson(threshold=0.6)), "run"])
    run = practise(tmp_path / "run", curriculum, 300)
    asked = as_json(cursus("explain", run, "--what-if", "stages.walk.gate.threshold=0.9", "--json"))
    walk, *_ = asked["what_if"]["visits"]
    assert (walk["decided"], walk["would_decide"]) == ("promotion", "stay")


# ---- replay


def test_replay_comes_out_as_recorded(cursus, run):
    data = as_json(cursus("replay", run, "--json"))
    counted = f"800 episodes, 800 draws, {data['decisions']} decisions"
    assert cursus("replay", run) == (0, f"Replayed {counted}: all as recorded.\n", "")
    assert data["same"] is True
    assert data["recorded"] == data["replayed"]
    assert (data["episodes"], data["draws"], data["different_draws"]) == (800, 800, 0)
    assert len(data["recorded"]) == data["decisions"]


def _levels(folder):
    for stage in ("easy", "hard"):
        (folder / stage).mkdir(parents=True)
        for name in ("a", "b"):
            (folder / stage / f"{name}.json").write_text(json.dumps({"metadata": {"generator": name}}))
    return Levels(folder, stages=["easy", "hard"])


CURRICULA = {
    "uniform": lambda _: Uniform(Named({"walk": {"speed": 1}, "run": {"speed": 2}})),
    "box": lambda _: Uniform(Box([0.0, 0.0], [1.0, 2.0], names=["friction", "mass"]), ids=[0, 1, 2]),
    "product": lambda _: Staged(tasks=Product(size=[5, 9], lava=[False, True]), gate=Window(threshold=0.5)),
    "an axis called type": lambda _: Staged(tasks=Product(type=["ice", "lava"])),
    "params with a type": lambda _: Uniform(Named({"walk": {"type": "hill"}, "run": {"type": "track"}})),
    "levels": lambda folder: Staged(tasks=_levels(folder / "levels"), gate=Window(threshold=0.5)),
    "groups": lambda _: Staged({"easy": range(2), "hard": range(2, 4)}, tasks=4),
    "sequence": lambda _: Phases([Phase("a", Uniform(3, ids=[0]), episodes=50), Phase("b", Staged(tasks=3))]),
    "mixture": lambda _: Mixture(Uniform(3), Staged(tasks=3, gate=Window(threshold=0.5)), share=0.3),
}


@pytest.mark.parametrize("name", CURRICULA)
def test_a_run_of_every_kind_of_curriculum_is_replayed_as_recorded(cursus, tmp_path, name):
    curriculum = CURRICULA[name](tmp_path)
    graph = TaskGraph.independent(min(curriculum.tasks.size, 10))
    world = World(graph, lengths=3, failure_lengths=50, student={"start": 0.8, "rate": 0.0})
    run = practise(tmp_path / "run", curriculum, 300, world)
    assert as_json(cursus("replay", run, "--json"))["same"] is True


def test_a_resumed_run_is_replayed_as_recorded(cursus, tmp_path):
    def curriculum():
        return Staged(STAGES, gate=Window(threshold=0.6))

    with Teacher(curriculum(), seed=2, run=tmp_path / "run") as teacher:
        rollouts = Rollouts(teacher, chain(3), num_envs=4)
        for episodes in (150, 250):
            while rollouts.episodes < episodes:
                rollouts.advance()
            if episodes == 150:
                teacher.checkpoint(rollouts.state())
    with Teacher.resume(curriculum(), tmp_path / "run") as teacher:
        rollouts = Rollouts(teacher, chain(3), num_envs=4)
        while rollouts.episodes < 400:
            rollouts.advance()
    data = as_json(cursus("replay", tmp_path / "run", "--json"))
    assert data["same"] is True
    assert data["episodes"] == rollouts.episodes >= 400


def test_replay_tells_when_a_record_was_changed(cursus, broken_run):
    events = broken_run / "events.jsonl"
    lines = [json.loads(line) for line in events.read_text().splitlines()]
    first = next(line for line in lines if line["event"] == "assign")
    first["task"][0] = 2
    write_events(events, lines)
    code, out, _ = cursus("replay", broken_run)
    assert code == 1
    assert "not as recorded. 1 draws differ." in out


def test_replay_shows_the_first_decision_that_differs(cursus, broken_run):
    config = json.loads((broken_run / "config.json").read_text())
    config["curriculum"]["gate"]["threshold"] = 0.6
    (broken_run / "config.json").write_text(json.dumps(config))
    code, out, _ = cursus("replay", broken_run)
    assert code == 1
    assert "first different decision, number 0:\n  promoted from 'walk' to 'run'" in out
    assert "at least 0.70" in out
    assert "at least 0.60" in out
    assert cursus("replay", broken_run, "--json")[0] == 1


# ---- as a command


def test_the_installed_command_works_in_a_process_of_its_own(run):
    shown = subprocess.run([COMMAND, "show", run, "--json"], capture_output=True, text=True, timeout=60, check=True)
    assert shown.stderr == ""
    assert json.loads(shown.stdout)["tickets"]["finished"] == 800
    missing = subprocess.run([COMMAND, "show", run / "no"], capture_output=True, text=True, timeout=60, check=False)
    assert (missing.returncode, missing.stdout) == (2, "")
    assert "is not a run" in one_line(missing.stderr)


@pytest.mark.parametrize("command", [["--help"], ["show", "--help"], ["explain", "--help"], ["compare", "--help"]])
def test_help_is_at_hand(cursus, command):
    code, out, err = cursus(*command)
    assert (code, err) == (0, "")
    assert "usage: cursus" in out.lower()


def test_an_unknown_command_lists_those_there_are(cursus):
    code, out, err = cursus("shwo")
    assert (code, out) == (2, "")
    for name in ("demo", "compare", "show", "explain", "replay"):
        assert name in err


# ---- errors


@pytest.mark.parametrize("command", ["show", "explain", "replay"])
def test_a_missing_folder_is_one_line_and_exit_code_2(cursus, tmp_path, command):
    code, out, err = cursus(command, tmp_path / "nowhere")
    assert (code, out) == (2, "")
    assert f"{tmp_path}/nowhere is not a run" in one_line(err)


@pytest.mark.parametrize("command", ["show", "explain", "replay"])
def test_a_folder_that_is_no_run_is_one_line_and_exit_code_2(cursus, tmp_path, command):
    (tmp_path / "notes.txt").write_text("mine")
    code, out, err = cursus(command, tmp_path)
    assert (code, out) == (2, "")
    assert f"{tmp_path} is not a run" in one_line(err)


@pytest.mark.parametrize("command", ["show", "explain", "replay"])
@pytest.mark.parametrize("content", ["", "{broken", "[]", "null"])
def test_a_config_that_is_no_object_is_one_line_and_exit_code_2(cursus, broken_run, command, content):
    (broken_run / "config.json").write_text(content)
    code, out, err = cursus(command, broken_run)
    assert (code, out) == (2, "")
    assert f"{broken_run} is not a run" in one_line(err)


@pytest.mark.parametrize(
    ("file", "command"),
    [
        ("config.json", ["replay"]),
        ("config.json", ["explain", "--what-if", "gate.threshold=0.8"]),
        ("status.json", ["show"]),
        ("status.json", ["explain"]),
    ],
)
def test_a_file_of_a_run_that_lacks_its_parts_is_one_line_and_exit_code_2(cursus, broken_run, file, command):
    (broken_run / file).write_text("{}")
    code, out, err = cursus(command[0], broken_run, *command[1:])
    assert (code, out) == (2, "")
    assert str(broken_run) in one_line(err)


@pytest.mark.parametrize("line", ["garbage", "[]", '{"n": 1}'])
@pytest.mark.parametrize("command", ["show", "explain", "replay"])
def test_a_damaged_event_is_named(cursus, broken_run, command, line):
    events = broken_run / "events.jsonl"
    lines = events.read_text().splitlines()
    events.write_text("\n".join([*lines[:2], line, *lines[3:]]) + "\n")
    code, out, err = cursus(command, broken_run)
    assert f"event 2 of {broken_run} is damaged or missing" in err.splitlines()[0]
    assert all(each.startswith("cursus: ") for each in err.splitlines())
    assert code == (2 if command == "replay" else 0)  # what was drawn after it cannot be made again
    assert bool(out) is (command != "replay")


def test_an_event_without_its_fields_is_one_line_and_exit_code_2(cursus, broken_run):
    events = broken_run / "events.jsonl"
    lines = [json.loads(line) for line in events.read_text().splitlines()]
    write_events(events, [{"n": 0, "event": "assign"}, *lines[1:]])
    code, out, err = cursus("replay", broken_run)
    assert (code, out) == (2, "")
    one_line(err)


def test_a_last_line_that_is_still_being_written_is_left_for_later(cursus, broken_run):
    with (broken_run / "events.jsonl").open("a") as events:
        events.write('{"n":99999,"event":"fin')
    assert cursus("replay", broken_run)[0] == 0


@pytest.mark.parametrize(
    ("setting", "complaint"),
    [
        ("gate.treshold=0.8", "Did you mean 'threshold'?"),
        ("gaet.threshold=0.8", "Did you mean 'gate'?"),
        ("stages.wlak.gate.threshold=0.8", "Did you mean 'walk'?"),
        ("gate.type=EProces", "Did you mean 'EProcess'?"),
        ("gate.type=[1]", "is not known here"),
        ("gate.threshold", "name.name=value"),
        ("gate.threshold=80", "must lie between 0 and 1"),
        ("gate.threshold=high", "curriculum.gate.threshold"),
    ],
)
def test_a_wrong_what_if_is_one_line_and_exit_code_2(cursus, run, setting, complaint):
    code, out, err = cursus("explain", run, "--what-if", setting)
    assert (code, out) == (2, "")
    assert complaint in one_line(err)


def test_what_if_without_a_gate_says_that_the_curriculum_is_not_staged(cursus, tmp_path):
    run = practise(tmp_path / "run", Uniform(3), 20)
    code, _, err = cursus("explain", run, "--what-if", "gate.threshold=0.8")
    assert code == 2
    assert "not the run of a staged curriculum" in one_line(err)


# ---- names that try to steer the terminal

NASTY = ["\x1b[31mred", "bell\x07\x9b31m", "[bold]z[/bold]", "tab\tback\x08\x7f\u202e"]


def raw_controls(text):
    return sorted({each for each in text if each != "\n" and not each.isprintable()})


@pytest.fixture(scope="module")
def nasty_run(tmp_path_factory):
    curriculum = Staged(NASTY, gate=Window(threshold=0.5, min_episodes=20))
    return practise(tmp_path_factory.mktemp("runs") / "nasty", curriculum, 400)


@pytest.mark.parametrize(
    "command",
    [
        ["show"],
        ["explain"],
        ["explain", "--what-if", "gate.threshold=0.6"],
        ["replay"],
        ["show", "--json"],
        ["explain", "--json"],
        ["replay", "--json"],
    ],
)
def test_control_characters_in_names_do_not_reach_the_terminal(cursus, nasty_run, command):
    code, out, err = cursus(command[0], nasty_run, *command[1:])
    assert (code, err) == (0, "")
    assert raw_controls(out) == []


def test_control_characters_are_shown_and_markup_is_left_alone(cursus, nasty_run):
    _, out, _ = cursus("show", nasty_run)
    assert "\\x1b[31mred" in out
    assert "[bold]z[/bold]" in out


def test_names_come_whole_out_of_json(cursus, nasty_run):
    data = as_json(cursus("show", nasty_run, "--json"))
    assert [row["stage"] for row in data["tables"]["stages"]] == NASTY


def test_control_characters_do_not_reach_the_terminal_in_an_error(cursus, nasty_run, tmp_path):
    for command in (
        ["explain", nasty_run, "--what-if", "stages.q.gate=3"],
        ["show", tmp_path / "\x1b[31mnowhere"],
    ):
        code, _, err = cursus(*command)
        assert code == 2
        assert raw_controls(err) == []


def test_curves_in_the_terminal_are_told_apart_by_letters():
    drawn = in_terminal({"up": [(0.0, 0.0), (10.0, 1.0)], "flat": [(0.0, 0.5), (10.0, 0.5)]}, width=40).plain
    assert drawn.endswith("  a━ up  b━ flat")
    rows = drawn.split("\n")
    assert sum(row.count("b") for row in rows[:-1]) == 4
    assert sum("a" in row for row in rows[:-1]) == 4
    assert "a" not in in_terminal({"mean competence": [(0.0, 0.0), (10.0, 1.0)]}, width=40).plain.split("\n")[3]


def test_a_plot_leaves_no_curve_out():
    names = [f"curriculum {number}" for number in range(9)]
    legend = in_terminal({name: [(0.0, 0.0), (10.0, 1.0)] for name in names}, width=20).plain
    assert all(name in legend for name in names)
