import json
import os
import pty
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from cursus import AdaptiveMixing, Mixture, Phases, Stage, Staged, Teacher, Uniform, Wilson, Window
from cursus.cli import main
from cursus.cli.output import in_terminal
from cursus.curricula import NoMixing, Phase
from cursus.sim import ChainStudent, Classroom, SteadyStudent
from cursus.tasks import Box, Levels, Named, Product

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


def practise(run, course, episodes, student=None, seed=1):
    """A real run: simulated environments under a real teacher."""
    with Teacher(course, seed=seed, run=run) as teacher:
        room = Classroom(teacher, student or ChainStudent(course.tasks.size, learning=0.05), num_envs=4)
        while room.episodes < episodes:
            room.advance()
    return run


def practise_one_by_one(run, course, results):
    with Teacher(course, run=run) as teacher:
        for success in results:
            given = teacher.assign([0])
            teacher.report(given.tickets, success=[success], returns=[0.0], lengths=[1])
    return run


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """A student who was promoted twice and then graduated. Tests only look at it."""
    gate = Wilson(threshold=0.7, window=50, confidence=0.98, min_episodes=30)
    course = Staged(STAGES, gate=gate, mixing=AdaptiveMixing())
    return practise(tmp_path_factory.mktemp("runs") / "first", course, 800)


@pytest.fixture
def broken_run(run, tmp_path):
    """A copy that a test may damage."""
    return Path(shutil.copytree(run, tmp_path / "broken"))


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
    assert "The last 3 of 3 decisions" in out
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
    assert kinds == ["promotion", "promotion", "graduation"]
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
    assert {each["kind"] for each in data["decisions"]} == {"promotion", "graduation", "mix"}


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
    course = Staged(["walk", "run"], gate=gate, mixing=NoMixing(), forgetting=None)
    run = practise_one_by_one(tmp_path / "run", course, [True] * 45 + [False] * 40)
    decisions = as_json(cursus("show", run, "--json"))["decisions"]
    assert [each["kind"] for each in decisions] == ["promotion", "graduation", "demotion"]
    asked = as_json(cursus("explain", run, "--what-if", "gate.threshold=0.7", "--json"))
    visit = asked["what_if"]["visits"][1]
    assert (visit["stage"], visit["decided"]) == ("run", "demotion")
    assert visit["after"] == decisions[2]["evidence"]["episodes"]
    assert (visit["would_decide"], visit["would_after"]) == (visit["decided"], visit["after"])


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
    assert out.count("would be promotion after") == 2
    assert "against a rate of 0.50 or less" in out


def test_what_if_finds_the_gate_of_one_stage(cursus, tmp_path):
    course = Staged([Stage("walk", gate=Wilson(threshold=0.6)), "run"])
    run = practise(tmp_path / "run", course, 300)
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
    return Levels(folder)


COURSES = {
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


@pytest.mark.parametrize("name", COURSES)
def test_a_run_of_every_kind_of_course_is_replayed_as_recorded(cursus, tmp_path, name):
    course = COURSES[name](tmp_path)
    student = SteadyStudent(0.8, min(course.tasks.size, 10), win_steps=3, loss_steps=50)
    run = practise(tmp_path / "run", course, 300, student)
    assert as_json(cursus("replay", run, "--json"))["same"] is True


def test_a_resumed_run_is_replayed_as_recorded(cursus, tmp_path):
    def course():
        return Staged(STAGES, gate=Window(threshold=0.6))

    def student():
        return ChainStudent(3, learning=0.05)

    with Teacher(course(), seed=2, run=tmp_path / "run") as teacher:
        room = Classroom(teacher, student(), num_envs=4)
        for episodes in (150, 250):
            while room.episodes < episodes:
                room.advance()
            if episodes == 150:
                teacher.checkpoint(room.state())
    with Teacher.resume(course(), tmp_path / "run") as teacher:
        room = Classroom(teacher, student(), num_envs=4)
        while room.episodes < 400:
            room.advance()
    data = as_json(cursus("replay", tmp_path / "run", "--json"))
    assert data["same"] is True
    assert data["episodes"] == 400


def test_replay_tells_when_a_record_was_changed(cursus, broken_run):
    events = broken_run / "events.jsonl"
    lines = [json.loads(line) for line in events.read_text().splitlines()]
    first = next(line for line in lines if line["event"] == "assign")
    first["task"][0] = 2
    events.write_text("".join(json.dumps(line, separators=(",", ":")) + "\n" for line in lines))
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


@pytest.mark.parametrize("command", [["--help"], ["show", "--help"], ["explain", "--help"], ["students", "--help"]])
def test_help_is_at_hand(cursus, command):
    code, out, err = cursus(*command)
    assert (code, err) == (0, "")
    assert "usage: cursus" in out.lower()


def test_an_unknown_command_lists_those_there_are(cursus):
    code, out, err = cursus("shwo")
    assert (code, out) == (2, "")
    for name in ("demo", "students", "show", "explain", "replay"):
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
def test_a_damaged_record_is_named_with_the_line(cursus, broken_run, command, line):
    events = broken_run / "events.jsonl"
    first, *rest = events.read_text().splitlines()
    events.write_text("\n".join([first, line, *rest]) + "\n")
    code, out, err = cursus(command, broken_run)
    assert (code, out) == (2, "")
    assert f"line 2 of {events} is damaged" in one_line(err)


def test_an_event_without_its_fields_is_one_line_and_exit_code_2(cursus, broken_run):
    events = broken_run / "events.jsonl"
    first, *rest = events.read_text().splitlines()
    events.write_text("\n".join([first, '{"n":1,"event":"assign"}', *rest]) + "\n")
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


def test_what_if_without_a_gate_says_that_the_course_is_not_staged(cursus, tmp_path):
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
    course = Staged(NASTY, gate=Window(threshold=0.5, min_episodes=20))
    return practise(tmp_path_factory.mktemp("runs") / "nasty", course, 400)


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


# ---- students

PLAN = """
num_envs = 4
mastery = 0.6
most_episodes = 400

[student]
type = "ChainStudent"
num_tasks = 3
learning = 0.05
gate = 1.0

[tasks]
type = "Named"
names = ["a", "b", "c"]
"""
COURSE_TABLES = """
[courses.uniform]
type = "Uniform"

[courses."staged, Window"]
type = "Staged"
gate = { type = "Window", threshold = 0.5, min_episodes = 20 }
"""


@pytest.fixture
def students(cursus, tmp_path):
    """Run the comparison with a small plan of one's own."""

    def call(out, courses=COURSE_TABLES, *options, plan=PLAN):
        file = tmp_path / "small.toml"
        file.write_text(plan + courses)
        return cursus("students", "--seeds", 1, "--out", out, "--config", file, *options)

    return call


def without_folders(summary):
    return {name: course["students"] for name, course in summary["courses"].items()}


def test_students_writes_summary_picture_and_runs(students, cursus, tmp_path):
    out = tmp_path / "students"
    code, said, err = students(out)
    assert (code, err) == (0, "")
    assert sorted(each.name for each in out.iterdir()) == ["staged-window", "students.png", "summary.json", "uniform"]
    assert (out / "students.png").read_bytes().startswith(b"\x89PNG")
    summary = json.loads((out / "summary.json").read_text())
    assert list(summary["courses"]) == ["uniform", "staged, Window"]
    assert summary["courses"]["staged, Window"]["run"] == str(out / "staged-window")
    ((student,), (staged,)) = (course["students"] for course in summary["courses"].values())
    assert set(student) == {"mastered", "episodes", "promotions", "false_promotions", "demotions"}
    assert (student["promotions"], staged["promotions"]) == (0, 2)
    assert staged["mastered"] is True
    assert 0 < staged["episodes"] <= 400
    assert f"staged, Window: after {staged['episodes']} episodes" in said


def test_students_leaves_runs_that_can_be_looked_at(students, cursus, tmp_path):
    _, said, _ = students(tmp_path / "students")
    advice = [line.split()[1:] for line in said.split("\n") if line.startswith("  cursus ")]
    assert [words[0] for words in advice] == ["show", "explain", "explain", "replay"]
    for words in advice:
        assert cursus(*words)[0] == 0


def test_students_gives_the_same_numbers_every_time(students, tmp_path):
    for name in ("one", "two"):
        assert students(tmp_path / name)[0] == 0
    first, second = (json.loads((tmp_path / name / "summary.json").read_text()) for name in ("one", "two"))
    assert without_folders(first) == without_folders(second)
    runs = [json.loads((tmp_path / name / "staged-window" / "config.json").read_text()) for name in ("one", "two")]
    assert runs[0].pop("id") != runs[1].pop("id")
    assert runs[0] == runs[1]


def test_students_can_be_repeated_in_its_folder(students, tmp_path):
    out = tmp_path / "students"
    students(out)
    before = json.loads((out / "summary.json").read_text())
    code, _, err = students(out)
    assert (code, err) == (0, "")
    assert json.loads((out / "summary.json").read_text()) == before


def test_students_as_json_prints_the_summary_alone(students, tmp_path):
    assert students(tmp_path / "text")[0] == 0
    data = as_json(students(tmp_path / "json", COURSE_TABLES, "--json"))
    assert without_folders(data) == without_folders(json.loads((tmp_path / "text" / "summary.json").read_text()))


def test_students_as_json_can_be_repeated_in_its_folder(students, tmp_path):
    first = as_json(students(tmp_path / "students", COURSE_TABLES, "--json"))
    assert as_json(students(tmp_path / "students", COURSE_TABLES, "--json")) == first


def test_students_refuses_a_folder_that_holds_something_else(students, tmp_path):
    out = tmp_path / "mine"
    out.mkdir()
    (out / "thesis.txt").write_text("years of work")
    code, said, err = students(out)
    assert (code, said) == (2, "")
    assert "holds something else" in one_line(err)
    assert [each.name for each in out.iterdir()] == ["thesis.txt"]


def test_students_never_removes_runs_that_are_not_its_own(students, tmp_path):
    out = tmp_path / "runs"
    practise(out / "precious", Uniform(3), 20)
    (out / "summary.json").write_text('{"mine": true}')
    students(out)
    assert (out / "precious" / "events.jsonl").exists()


def test_students_refuses_a_file_in_place_of_a_folder(students, tmp_path):
    (tmp_path / "file").write_text("")
    code, _, err = students(tmp_path / "file")
    assert code == 2
    assert f"{tmp_path}/file" in one_line(err)


def test_students_checks_all_courses_before_it_teaches_any(students, tmp_path):
    out = tmp_path / "students"
    students(out)
    before = sorted(out.rglob("*"))
    courses = '[courses.first]\ntype = "Uniform"\n[courses.second]\ntype = "Staged"\ngate = {type = "Wilsn"}\n'
    code, said, err = students(out, courses)
    assert (code, said) == (2, "")
    assert "Did you mean 'Wilson'?" in one_line(err)
    assert sorted(out.rglob("*")) == before


def test_students_says_which_course_is_wrong(students, tmp_path):
    courses = '[courses.first]\ntype = "Uniform"\n[courses.second]\ntype = "Staged"\ngate = {type = "Wilsn"}\n'
    assert "second" in one_line(students(tmp_path / "students", courses)[2])


@pytest.mark.parametrize(
    ("plan", "courses", "complaint"),
    [
        (PLAN.replace("num_envs", "num_evns"), COURSE_TABLES, "Did you mean 'num_envs'?"),
        (PLAN.replace("mastery = 0.6", 'mastery = "high"'), COURSE_TABLES, "mastery"),
        (PLAN.replace("num_envs = 4", "num_envs = 0"), COURSE_TABLES, "num_envs=0"),
        (PLAN.replace("learning", "lerning"), COURSE_TABLES, "Did you mean 'learning'?"),
        (PLAN.replace("num_tasks = 3", "num_tasks = 4"), COURSE_TABLES, "student"),
        (PLAN, "", "courses"),
        (PLAN, "[courses]\n", "courses"),
        (PLAN, "[courses.bare]\nids = [0]\n", "type"),
        (PLAN, '[courses.space]\ntype = "Discrete"\nn = 3\n', "space"),
        (PLAN, '[courses."A b"]\ntype = "Uniform"\n[courses."a, b"]\ntype = "Uniform"\n', "a, b"),
    ],
)
def test_a_wrong_plan_is_one_line_and_exit_code_2(students, tmp_path, plan, courses, complaint):
    code, said, err = students(tmp_path / "students", courses, plan=plan)
    assert (code, said) == (2, "")
    assert complaint in one_line(err)
    assert not (tmp_path / "students").exists()


def test_students_wants_at_least_one_student(cursus, tmp_path):
    code, _, err = cursus("students", "--seeds", 0, "--out", tmp_path / "students")
    assert code == 2
    assert "seeds=0 must be an integer of at least 1" in one_line(err)


def test_students_takes_stages_that_group_tasks(students, tmp_path):
    courses = '[courses.groups]\ntype = "Staged"\nstages = { easy = [0, 1], hard = [2] }\n'
    courses += 'gate = { type = "Window", threshold = 0.5, min_episodes = 20 }\n'
    assert students(tmp_path / "students", courses)[0] == 0
    summary = json.loads((tmp_path / "students" / "summary.json").read_text())
    assert summary["courses"]["groups"]["students"][0]["promotions"] > 0


@pytest.mark.parametrize("name", ["staged [fast]", "[/b]"])
def test_students_prints_brackets_in_names_as_they_are(students, tmp_path, name):
    code, said, _ = students(tmp_path / "students", f'[courses."{name}"]\ntype = "Uniform"\n')
    assert code == 0
    assert f"{name}: " in said
    assert f"\n {name} " in said or f"\n{name} " in said


def test_a_plot_leaves_no_curve_out():
    names = [f"course {number}" for number in range(9)]
    legend = in_terminal({name: [(0.0, 0.0), (10.0, 1.0)] for name in names}, width=20).plain
    assert all(name in legend for name in names)
