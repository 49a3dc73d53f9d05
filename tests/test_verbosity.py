"""What is told on the terminal of a plain script, and who may change it."""

from __future__ import annotations

import subprocess
import sys

import pytest

import cursus
from cursus.errors import SettingsError

TEACH = """
with cursus.Teacher(cursus.Staged(["a", "b"], gate=cursus.Wilson(threshold=0.5))) as teacher:
    teacher.expect_envs(8)
    for _ in range(12):
        given = teacher.assign(range(8))
        teacher.report(given.tickets, success=[True] * 8, returns=[1.0] * 8, lengths=[5] * 8)
"""


def told(before: str) -> str:
    script = f"import logging, cursus\n{before}\n{TEACH}"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout == ""
    return done.stderr


def test_decisions_are_told_by_default() -> None:
    lines = told("").splitlines()
    assert lines[0] == "[curriculum] Staged over 8 environments, not recorded"
    assert lines[1].startswith("[curriculum] promotion: promoted from 'a' to 'b': success 1.00")
    assert any(line.startswith("[curriculum] graduation") for line in lines)


@pytest.mark.parametrize(
    ("before", "expected"),
    [
        ("logging.basicConfig()", 0),  # the application wants warnings
        ("logging.basicConfig(level=logging.INFO, format='app: %(message)s')", 1),
        ("logging.getLogger('cursus').setLevel(logging.WARNING)", 0),
        ("logging.getLogger('cursus').addHandler(logging.StreamHandler())", 1),
        ("cursus.set_verbosity('warning')", 0),
        ("cursus.set_verbosity('silent')", 0),
        ("logging.basicConfig(); cursus.set_verbosity('info')", 1),
    ],
)
def test_who_configures_logging_decides(before: str, expected: int) -> None:
    text = told(before)
    assert text.count("promoted from 'a' to 'b'") == expected
    if "app:" in before:
        assert all(line.startswith("app: [curriculum]") for line in text.splitlines())


def test_debug_has_a_line_per_episode_and_per_check() -> None:
    text = told("cursus.set_verbosity('debug')")
    assert text.count("succeeded: return 1 in 5 steps") == 96
    assert text.count("[curriculum] checked: Stage") >= 8
    assert "Gate:" in text


def test_an_unknown_level_is_refused() -> None:
    with pytest.raises(SettingsError, match="level must be one of debug, info, warning, error, silent, got 'loud'"):
        cursus.set_verbosity("loud")  # type: ignore[arg-type]


@pytest.mark.parametrize("closing", ["sys.stderr.close()", "sys.stderr = None", "os.close(2)"])
def test_a_closed_terminal_harms_nobody(closing: str) -> None:
    script = f"import os, sys, cursus\n{closing}\n{TEACH}\nprint('done')"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout == "done\n"


def test_what_is_quiet_in_one_thread_silences_no_other() -> None:
    teach = "def teach():\n" + "".join(f"    {line}\n" for line in TEACH.splitlines())
    script = f"import threading, cursus\nfrom cursus.verbosity import quiet\n{teach}\nwith quiet():\n    teach()\n"
    beside = "    thread = threading.Thread(target=teach)\n    thread.start()\n    thread.join()\n"
    for code, expected in ((script, 0), (script + beside, 1)):
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
        assert done.stderr.count("promoted from 'a' to 'b'") == expected


def test_simulations_tell_nothing() -> None:
    script = "import cursus.sim as sim; sim.simulate('LearningProgress', world='independent', epochs=3)"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert "[curriculum]" not in done.stderr
