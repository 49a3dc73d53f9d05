"""Code that a file names: imported where the user's own configuration asks for it, and of a run only if it is trusted."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from cursus.errors import ConfigError
from cursus.training import train

COMMAND = shutil.which("cursus", path=Path(sys.executable).parent)
GAME = """
from pathlib import Path
import gymnasium, numpy
from gymnasium import spaces

with Path("imported").open("a") as file:
    file.write("yes\\n")

class Game(gymnasium.Env):
    observation_space = spaces.Box(-1.0, 1.0, (3,), numpy.float32)
    action_space = spaces.Discrete(2)

    def __init__(self, render_mode=None):
        self.render_mode = render_mode

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.left = options["task"].params["steps"]
        return numpy.zeros(3, numpy.float32), {}

    def step(self, action):
        self.left -= 1
        return numpy.zeros(3, numpy.float32), 1.0, self.left == 0, False, {"is_success": bool(action)}

gymnasium.register("Game-v0", entry_point=Game)
"""
CONFIG: dict[str, Any] = {
    "agent": {"type": "DDDQN", "hidden": [8], "batch_size": 8, "buffer_size": 200},
    "curriculum": {"type": "Uniform", "tasks": {"type": "Named", "names": {"short": {"steps": 3}}}},
    "environment": {"id": "my_game:Game-v0"},
    "training": {"steps": 200, "learning_starts": 50, "updates_per_env_step": 0.01},
    "evaluation": {"every": 0, "games": 2, "tasks": {"short": {"steps": 3}}},
}


@pytest.fixture(scope="module")
def here(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a module, a configuration that names it, and the run of a training; and something in the way."""
    folder = tmp_path_factory.mktemp("here")
    (folder / "my_game.py").write_text(GAME)
    (folder / "numpy.py").write_text("raise SystemExit('this is not the numpy that is installed')")
    (folder / "game.json").write_text(json.dumps(CONFIG))
    code, _, err = call(folder, "train", "game.json", "--num-envs", "2", "--num-workers", "1", "--run", "run")
    assert code == 0, err
    return folder


def call(folder: Path, *arguments: str) -> tuple[int, str, str]:
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONSAFEPATH"}
    done = subprocess.run(
        [str(COMMAND), *arguments], cwd=folder, env=environment, capture_output=True, text=True, timeout=100, check=False
    )
    return done.returncode, done.stdout, done.stderr


def imports(folder: Path) -> int:
    return len((folder / "imported").read_text().splitlines())


def test_the_module_of_an_environment_may_lie_in_the_current_folder(here: Path) -> None:
    assert imports(here) >= 2  # in the process of the command, and in its worker


@pytest.mark.parametrize(
    "command", [["evaluate", "run"], ["watch", "run"], ["tournament", "run"], ["train", "--resume", "run"]]
)
def test_code_that_a_run_names_is_not_imported_unless_it_is_trusted(here: Path, command: list[str]) -> None:
    before = imports(here)
    code, _, err = call(here, *command)
    assert code == 2
    (line,) = err.splitlines()
    assert line.startswith("cursus: run/train.json wants code to be imported and run: 'my_game:Game-v0'")
    assert "--trust" in line
    assert imports(here) == before


def test_a_run_that_is_trusted_is_played_and_resumed(here: Path, tmp_path: Path) -> None:
    shutil.copytree(here, tmp_path, dirs_exist_ok=True)
    code, out, err = call(tmp_path, "evaluate", "run", "--games", "2", "--trust")
    assert (code, "short" in out) == (0, True), err
    more = ("--set", "training.steps=240", "--num-workers", "1", "--json")
    code, out, err = call(tmp_path, "train", "--resume", "run", "--trust", *more)
    assert (code, json.loads(out)["steps"]) == (0, 240), err


def test_an_environment_that_cannot_be_rendered_is_told_in_one_line(here: Path) -> None:
    code, _, err = call(here, "watch", "run", "--trust")
    assert code == 2
    (line,) = err.splitlines()
    assert line.startswith("cursus: ")
    assert "render" in line
    assert not (here / "run" / "watch.gif").exists()


def test_a_module_that_is_not_there_is_told_in_one_line(here: Path) -> None:
    code, _, err = call(here, "train", "game.json", "--set", "environment.id=no_game:Game-v0", "--run", "other")
    assert code == 2
    (line,) = err.splitlines()
    assert "there is no module 'no_game'" in line


@pytest.mark.parametrize("settings", [{"env_id": "evil:Env-v0"}, {"x": [{"make": "evil:Env-v0"}]}, {"evil:Env": 1}])
def test_settings_of_an_environment_that_name_code_need_trust_too(tmp_path: Path, settings: dict[str, Any]) -> None:
    plan = {**CONFIG, "environment": {"id": "GymV26Environment-v0", "settings": settings}}
    (tmp_path / "train.json").write_text(json.dumps({"schema": 2, "plan": plan, "num_envs": 2, "device": "cpu"}))
    with pytest.raises(ConfigError, match=r"wants code to be imported and run: 'evil:Env.*trust=True"):
        train(resume=tmp_path)


def test_what_is_printed_as_next_can_be_pasted(here: Path) -> None:
    code, out, err = call(here, "train", "game.json", "--num-envs", "2", "--num-workers", "0", "--run", "pasted")
    assert code == 0, err
    assert re.search("live, in another terminal: .*cursus serve .\n", out[: out.index("Next:")])
    commands = [line.split()[1:] for line in out[out.index("Next:") + len("Next:") :].splitlines() if line.strip()]
    assert [command[0] for command in commands] == ["evaluate", "watch", "explain", "serve"]
    for command in (commands[0], commands[2]):
        code, _, err = call(here, *command)
        assert code == 0, err


def test_a_training_without_an_update_says_why(here: Path) -> None:
    few = ("--set", "training.learning_starts=1000000", "--num-envs", "2", "--num-workers", "0", "--run", "short")
    code, out, err = call(here, "train", "game.json", *few)
    assert code == 0, err
    assert "Nothing was learned" in out
    assert "learning_starts" in out
