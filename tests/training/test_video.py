"""Videos of games."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces
from PIL import Image

from cursus.agents import SAC
from cursus.envs.hockey import HockeyEnv
from cursus.envs.hockey.recipe import hockey_tasks
from cursus.errors import MissingExtra, SettingsError
from cursus.recipe import match_score
from cursus.training.evaluate import PlannedGame, evaluate
from cursus.training.video import record_video


class Still:
    """Does nothing."""

    def act_batch(self, observations: Any, *, deterministic: bool) -> Any:
        return np.zeros((len(observations), 4))


class Sunset(gymnasium.Env[Any, Any]):
    """Nine steps, in other colours each; the task says whether they end well."""

    observation_space = spaces.Box(0.0, 1.0, (1,), np.float32)
    action_space = spaces.Box(-1.0, 1.0, (4,), np.float32)
    metadata = {"render_modes": ["rgb_array"], "render_fps": 30}  # noqa: RUF012

    def __init__(self, render_mode: str | None = "rgb_array") -> None:
        self.render_mode = render_mode
        self.closed = False

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        self.steps, self.task = 0, options["task"].params if options else None
        return np.zeros(1, np.float32), {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        self.steps += 1
        return np.zeros(1, np.float32), 0.0, self.steps == 9, False, {"is_success": self.task != "rain"}

    def render(self) -> Any:
        return np.full((200, 320, 3), (20 * self.steps, 255 - 20 * self.steps, 90), np.uint8)

    def close(self) -> None:
        self.closed = True


def frames(path: Path) -> list[tuple[int, Any]]:
    """The frames of a GIF with their times in ms."""
    with Image.open(path) as image:
        found = []
        for index in range(image.n_frames):  # type: ignore[attr-defined]
            image.seek(index)
            found.append((int(image.info["duration"]), np.asarray(image.convert("RGB"), dtype=int)))
        return found


def test_games_of_hockey_run_in_real_time_and_are_those_of_an_evaluation(tmp_path: Path) -> None:
    policy = SAC(18, 4, seed=3).freeze()
    env = HockeyEnv(render_mode="rgb_array")
    made = record_video(policy, env, tmp_path / "games.gif", games=4, seed=2, tasks=hockey_tasks(), score=match_score)
    scores = evaluate(policy, HockeyEnv, hockey_tasks(), games=2, seed=2, score=match_score)
    assert made.outcomes.count("won") == sum(score.successes or 0 for score in scores)
    assert made.outcomes.count("drawn") == sum(score.draws or 0 for score in scores)
    steps = sum(score.mean_length * score.games for score in scores)
    assert made.seconds == pytest.approx(steps / 50 + 4 * 0.5, abs=4 * 0.041)
    found = frames(made.path)
    assert sum(duration for duration, _ in found) == pytest.approx(1000 * made.seconds)
    assert sorted({duration for duration, _ in found})[0] == 40
    assert len(found) <= made.frames
    assert found[0][1].shape == (480 + 36, 600, 3)
    first = PlannedGame.planned("weak", hockey_tasks()["weak"], 0, seed=2)
    env.reset(seed=first.seed, options={"task": first.task})
    assert np.abs(found[0][1][36:] - env.render()).mean() < 3
    assert made.size == made.path.stat().st_size < 6e6 * 4 / 3


def test_the_line_at_the_top_shows_the_result_at_the_end_of_a_game(tmp_path: Path) -> None:
    made = record_video(Still(), Sunset(), tmp_path / "two.gif", games=2, tasks={"sun": ["sun"], "rain": ["rain"]})
    assert made.outcomes == ["success", "failure"]
    corner = [image[:36, 220:] for _, image in frames(made.path)]
    green = [index for index, pixels in enumerate(corner) if (pixels[..., 1] > pixels[..., 0] + 60).any()]
    red = [index for index, pixels in enumerate(corner) if (pixels[..., 0] > pixels[..., 1] + 60).any()]
    assert green == [len(corner) // 2 - 1]
    assert red == [len(corner) - 1]


def test_colours_that_come_late_are_shown_and_times_do_not_drift(tmp_path: Path) -> None:
    env = Sunset()
    made = record_video(Still(), env, tmp_path / "sunset.gif", every=2)
    found = frames(made.path)
    assert [int(image[150, 10, 0]) // 20 for _, image in found] == [0, 2, 4, 6, 8, 9]
    for step, (_, image) in zip([0, 2, 4, 6, 8, 9], found, strict=True):
        assert np.abs(image[150, 10] - (20 * step, 255 - 20 * step, 90)).max() <= 4
    assert [duration for duration, _ in found] == [70, 60, 70, 70, 60, 500]
    assert not env.closed


@pytest.mark.parametrize(
    ("wrong", "complaint"),
    [
        ({"path": "video.mp4"}, r"\.gif"),
        ({"games": 0}, "games"),
        ({"every": 0}, "every"),
        ({"env": Sunset(render_mode=None)}, "render_mode='rgb_array'"),
        ({"tasks": {}}, "tasks"),
    ],
)
def test_wrong_settings_are_refused(wrong: dict[str, Any], complaint: str, tmp_path: Path) -> None:
    given = {"env": Sunset(), "path": "video.gif", "games": 1, **wrong}
    given["path"] = tmp_path / given["path"]
    with pytest.raises(SettingsError, match=complaint):
        record_video(Still(), **given)
    assert list(tmp_path.iterdir()) == []


def test_more_frames_than_a_gif_can_show_are_refused(tmp_path: Path) -> None:
    env = Sunset()
    env.metadata = {"render_fps": 120}
    with pytest.raises(SettingsError, match=r"Give every=3 or more"):
        record_video(Still(), env, tmp_path / "video.gif", every=2)
    record_video(Still(), env, tmp_path / "video.gif", every=3)


def test_without_pillow_it_says_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "PIL", None)
    with pytest.raises(MissingExtra, match=r"cursus-rl\[plot\]"):
        record_video(Still(), Sunset(), tmp_path / "video.gif")


@pytest.mark.parametrize(("per_s", "expected"), [(6, 10), (25, 10), (30, 6), (50, 6), (100, 4)])
def test_as_many_frames_are_kept_as_make_at_most_25_a_second(per_s: int, expected: int, tmp_path: Path) -> None:
    env = Sunset()
    env.metadata = {**env.metadata, "render_fps": per_s}
    assert record_video(Still(), env, tmp_path / "video.gif").frames == expected
