"""`cursus example`: what there is, and a copy of it to begin from."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from cursus.cli import examples, main

ROOT = Path(__file__).parents[2]


@pytest.fixture
def cursus(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Any:
    """Call the command in a folder of its own: exit code, standard output, standard error."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "80")
    for name in ("FORCE_COLOR", "TTY_COMPATIBLE", "TTY_INTERACTIVE"):
        monkeypatch.delenv(name, raising=False)

    def call(*arguments: str) -> tuple[Any, str, str]:
        code: Any = 0
        try:
            main(["example", *arguments])
        except SystemExit as ended:
            code = ended.code
        out, err = capsys.readouterr()
        return code, out, err

    return call


def test_all_examples_are_listed_in_80_columns(cursus: Any) -> None:
    code, out, err = cursus()
    assert (code, err) == (0, "")
    assert max(len(line) for line in out.splitlines()) <= 80
    names = {line.split()[0] for line in out.splitlines() if line.startswith(" ") and line.split()}
    scripts = {path.stem for path in (ROOT / "examples").glob("*.py")}
    assert scripts | {"levels", "first_curriculum", "learning_progress", "keys_batched"} <= names
    assert "a table of values learns to walk" in " ".join(out.split())


def test_the_list_as_json_says_how_each_is_run(cursus: Any) -> None:
    _, out, _ = cursus("--json")
    found = {each["name"]: each for each in json.loads(out)["examples"]}
    assert found["ppo"]["install"] == 'pip install "cursus-rl[agents]"'
    assert found["distributed"]["command"].startswith("torchrun --nproc-per-node 2 distributed.py")
    assert found["levels"]["command"].startswith("python train.py")
    assert found["hockey_weak"]["command"] == "cursus train hockey_weak.toml --num-envs 16 --device cuda"
    assert all(each["about"].strip() and Path(each["path"]).exists() for each in found.values())


def test_a_script_is_copied_with_the_command_that_runs_it(cursus: Any, tmp_path: Path) -> None:
    code, out, err = cursus("own_loop")
    assert (code, err) == (0, "")
    assert (tmp_path / "own_loop.py").read_bytes() == (ROOT / "examples" / "own_loop.py").read_bytes()
    assert "install: pip install cursus-rl\n" in out
    assert "run:     python own_loop.py --episodes 3000" in out
    done = subprocess.run([sys.executable, "own_loop.py", "--episodes", "16"], cwd=tmp_path, capture_output=True, check=False)
    assert done.returncode == 0


@pytest.mark.parametrize("name", ["levels", "levels/"])
def test_a_folder_is_copied_with_everything_in_it(cursus: Any, tmp_path: Path, name: str) -> None:
    code, out, _ = cursus(name, "--out", "new/place")
    assert code == 0
    assert "cd new/place/levels" in out
    copied = tmp_path / "new" / "place" / "levels"
    assert {"train.py", "maze_game.py", "levels", "README.md"} <= {path.name for path in copied.iterdir()}
    assert not [path for path in copied.rglob("*") if path.name in ("__pycache__", "runs")]
    assert list((copied / "levels" / "simplest").glob("*.json"))


@pytest.mark.parametrize(
    ("name", "file"), [("first_curriculum", "first_curriculum.ipynb"), ("hockey_weak.toml", "hockey_weak.toml")]
)
def test_notebooks_and_configurations_are_copied_too(cursus: Any, tmp_path: Path, name: str, file: str) -> None:
    code, out, _ = cursus(name)
    assert code == 0
    assert (tmp_path / file).is_file()
    assert "install: pip install" in out


def test_copied_as_json(cursus: Any) -> None:
    _, out, _ = cursus("ppo", "--json")
    assert json.loads(out) == {
        "copied": "ppo.py",
        "install": 'pip install "cursus-rl[agents]"',
        "run": "python ppo.py --steps 100000    # ten seconds",
    }


def test_nothing_is_overwritten(cursus: Any, tmp_path: Path) -> None:
    (tmp_path / "ppo.py").write_text("mine")
    (tmp_path / "levels").mkdir()
    for name in ("ppo", "levels"):
        code, out, err = cursus(name)
        assert (code, out) == (2, "")
        assert "is there already. Remove it, or copy the example elsewhere with --out." in err
    assert (tmp_path / "ppo.py").read_text() == "mine"
    assert not list((tmp_path / "levels").iterdir())


def test_an_unknown_name_is_answered_with_the_nearest(cursus: Any, tmp_path: Path) -> None:
    code, out, err = cursus("own_lop")
    assert (code, out) == (2, "")
    assert "'own_lop' is not known here. Did you mean 'own_loop'?" in err
    assert not list(tmp_path.iterdir())


def test_a_copy_that_cannot_be_made_is_one_line(cursus: Any, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    code, out, err = cursus("ppo", "--out", "file")
    assert (code, out) == (2, "")
    assert len(err.splitlines()) == 1


def test_examples_are_found_where_a_wheel_has_them(cursus: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    installed = tmp_path / "site" / "_examples"
    installed.mkdir(parents=True)
    shutil.copy(ROOT / "examples" / "own_loop.py", installed)
    (installed / "levels").mkdir()
    shutil.copy(ROOT / "examples" / "levels" / "train.py", installed / "levels")
    monkeypatch.setattr(examples, "_PLACES", (installed, tmp_path / "nowhere"))
    assert list(examples.find_examples()) == ["own_loop", "levels"]
    monkeypatch.setattr(examples, "_PLACES", (tmp_path / "nowhere",) * 2)
    code, _, err = cursus()
    assert code == 2
    assert "the examples are missing" in err
