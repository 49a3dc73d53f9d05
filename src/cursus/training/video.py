"""Videos: games of a policy as an animated GIF."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from io import BytesIO
from itertools import pairwise
from math import ceil
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np

from cursus.errors import MissingExtra, SettingsError
from cursus.runs.checkpoint import write_atomically
from cursus.settings import check_count
from cursus.tasks import Discrete
from cursus.training.evaluate import BatchPolicy, GameEnv, GameResult, PlannedGame, Tasks, act, check_evaluation
from cursus.vector.task_interface import SUCCESS_KEYS, ReadScore, ReadSuccess, SetTask, TaskInterface

_BAR, _MARGIN, _TEXT_SIZE = 36, 14, 17
_DARK, _BRIGHT, _DIM = (30, 35, 43), (240, 243, 246), (150, 160, 172)
_GREEN, _AMBER, _RED = (92, 190, 120), (214, 170, 82), (226, 102, 92)
_LEAST_WIDTH = 480
"""Smaller frames are enlarged, so that there is room for the line above them."""
_FRAMES_PER_S = 25
_RESULT_S = 0.5
_SHORTEST_MS = 20
"""What viewers show of a GIF as it is; shorter times are stretched to 100 ms."""
_POOR_MATCH = 2.0
"""How far, on average, the colours of a frame may lie from those that were chosen, of 255."""
_SWATCH = 4


@dataclass(frozen=True)
class Video:
    """A video that was recorded."""

    path: Path
    frames: int
    seconds: float
    size: int
    """In bytes."""
    outcomes: list[str]
    """One for each game: won, drawn or lost in a match, otherwise success or failure, or its return."""


def record_video(
    policy: BatchPolicy,
    env: gymnasium.Env[Any, Any],
    path: str | Path,
    *,
    games: int = 1,
    seed: int = 0,
    tasks: Tasks | None = None,
    every: int | None = None,
    deterministic: bool = True,
    success: ReadSuccess = SUCCESS_KEYS,
    score: ReadScore = None,
    set_task: SetTask = None,
) -> Video:
    """Play games in an environment with `render_mode="rgb_array"`, and write them as a GIF that runs in real time.

    The names in `tasks` take turns, and so do the variants of each: `games` is their sum. They are the first games that
    `evaluate` plays with the same seed; without tasks, they are whatever the environment was made for. Of its frames one in
    `every` is kept; unless given, as many as make at most 25 a second. The environment stays open. `success`, `score` and
    `set_task` are as for `evaluate`. Needs `pip install "cursus-rl[plot]"`.
    """
    path, tasks = Path(path), {"": [None]} if tasks is None else tasks
    check_evaluation(tasks, games=games, num_envs=1, seed=seed)
    every = max(1, ceil(_frames_per_s(env) / _FRAMES_PER_S)) if every is None else every
    check_count("every", every)
    if path.suffix.lower() != ".gif":
        raise SettingsError(f"path={str(path)!r} must end in .gif.")
    if env.render_mode != "rgb_array":
        raise SettingsError(f"this environment has render_mode={env.render_mode!r}. Make it with render_mode='rgb_array'.")
    show_s = every / _frames_per_s(env)
    if round(1000 * show_s) < _SHORTEST_MS:
        needed = int(np.ceil(_SHORTEST_MS / 1000 * _frames_per_s(env)))
        raise SettingsError(f"every={every} means more frames per second than a GIF can show. Give every={needed} or more.")
    reel = _Reel(show_s)
    game_env = GameEnv(env, TaskInterface(Discrete(1), set_task=set_task, success=success, score=score))
    titles = _Titles(games, is_match=score is not None)
    for game in _planned(tasks, games, seed):
        _record(policy, game_env, game, titles, reel, every, deterministic)
    data = reel.as_gif()
    write_atomically(path, data, durable=False)
    return Video(path, len(reel.frames), reel.ends_s[-1], len(data), titles.outcomes)


def _planned(tasks: Tasks, games: int, seed: int) -> Iterator[PlannedGame]:
    names = list(tasks)
    for number in range(games):
        name = names[number % len(names)]
        yield PlannedGame.planned(name, tasks[name], number // len(names), seed)


def _record(
    policy: BatchPolicy, game_env: GameEnv, game: PlannedGame, titles: _Titles, reel: _Reel, every: int, deterministic: bool
) -> None:
    """Play one game and record it."""
    game_env.begin(game)
    title = titles.begin(game)
    reel.add(_rendered(game_env.env), title)
    result, steps = None, 0
    while result is None:
        result = game_env.step(act(policy, [game_env], deterministic)[0])
        steps += 1
        if result is None and steps % every == 0:
            reel.add(_rendered(game_env.env), title)
    reel.add(_rendered(game_env.env), titles.end(game, result), _RESULT_S)


def _rendered(env: Any) -> Any:
    """A frame, as an array of height, width and colour."""
    try:
        given = env.render()
    except NotImplementedError:
        raise SettingsError("this environment cannot be rendered: it has no render().") from None
    try:
        pixels = np.asarray(given, dtype=np.uint8)
    except (TypeError, ValueError):
        pixels = np.zeros(0, np.uint8)
    if pixels.ndim != 3 or pixels.shape[2] != 3 or not pixels.size:
        raise SettingsError(f"this environment renders {given!r:.60}, not an array of height, width and 3 colours.")
    return pixels


def _frames_per_s(env: gymnasium.Env[Any, Any]) -> float:
    return float(env.metadata.get("render_fps") or 30)


def _opponent(game: PlannedGame) -> str:
    """Who is played against, where the task says so."""
    params = game.task.params
    named = params.get("opponent") if isinstance(params, Mapping) else None
    return named if isinstance(named, str) else game.name


@dataclass(frozen=True)
class _Title:
    """The line at the top of each frame: which game it is, what is played and how that went so far, and how it ended."""

    number: str
    middle: str
    outcome: str = ""
    colour: tuple[int, int, int] = _BRIGHT


class _Titles:
    """The titles of all games, and how these ended."""

    def __init__(self, games: int, *, is_match: bool) -> None:
        self._games, self._is_match = games, is_match
        self._results: dict[str, list[GameResult]] = {}
        self.outcomes: list[str] = []

    def begin(self, game: PlannedGame) -> _Title:
        """While the game is played."""
        number = f"{'game' if self._is_match else 'episode'} {len(self.outcomes) + 1} of {self._games}"
        return _Title(number if self._games > 1 else "", self._middle(game))

    def end(self, game: PlannedGame, result: GameResult) -> _Title:
        """When it is over."""
        title = self.begin(game)
        self._results.setdefault(game.name, []).append(result)
        self.outcomes.append(result.outcome(is_match=self._is_match))
        colour = _BRIGHT if result.success is None else _GREEN if result.success else _AMBER if result.drawn else _RED
        return _Title(title.number, self._middle(game), self.outcomes[-1], colour)

    def _middle(self, game: PlannedGame) -> str:
        done = self._results.get(game.name, [])
        won = sum(bool(each.success) for each in done)
        if self._is_match:
            lost = sum(not each.success and not each.drawn for each in done)
            return f"policy  {won} : {lost}  {_opponent(game)}"
        return game.name if not done or done[0].success is None else f"{game.name}: {won} of {len(done)}"


@dataclass
class _Reel:
    """The frames so far, and when each of them ends."""

    show_s: float
    frames: list[Any] = field(default_factory=list)
    ends_s: list[float] = field(default_factory=list)
    _palette: Any = None

    def add(self, pixels: Any, title: _Title, show_s: float | None = None) -> None:
        """Add a frame, an array of height, width and colour."""
        begin = self.ends_s[-1] if self.ends_s else 0.0
        self.frames.append(self._reduced(_composed(pixels, title)))
        self.ends_s.append(begin + (show_s or self.show_s))

    def _reduced(self, frame: Any) -> Any:
        """With few colours; always the same ones as long as they fit, so that what stands still does not flicker."""
        if self._palette is not None:
            found = _matched(frame, self._palette)
            difference = np.abs(np.asarray(found.convert("RGB"), np.int16) - np.asarray(frame, np.int16))
            if difference.mean() < _POOR_MATCH:
                return found
        self._palette = _palette(frame)
        return _matched(frame, self._palette)

    def as_gif(self) -> bytes:
        """The video. Times in a GIF are multiples of 10 ms; they are rounded so that no error adds up."""
        ends = [0, *(10 * round(100 * end) for end in self.ends_s)]
        times = [end - begin for begin, end in pairwise(ends)]
        data = BytesIO()
        first, *rest = self.frames
        first.save(data, "gif", save_all=True, append_images=rest, duration=times, loop=0, optimize=False)
        return data.getvalue()


def _composed(pixels: Any, title: _Title) -> Any:
    """The frame with its line above it."""
    images, drawing = _pillow("Image"), _pillow("ImageDraw")
    frame = images.fromarray(pixels)
    factor = -(-_LEAST_WIDTH // frame.width)
    frame = frame.resize((factor * frame.width, factor * frame.height), images.Resampling.NEAREST)
    whole = images.new("RGB", (frame.width, frame.height + _BAR), _DARK)
    whole.paste(frame, (0, _BAR))
    draw, font, middle = drawing.Draw(whole), _pillow("ImageFont").load_default(_TEXT_SIZE), _BAR // 2
    draw.text((_MARGIN, middle), title.number, _DIM, font, "lm")
    draw.text((whole.width / 2, middle), title.middle, _BRIGHT, font, "mm")
    draw.text((whole.width - _MARGIN, middle), title.outcome, title.colour, font, "rm")
    return whole


def _palette(frame: Any) -> Any:
    """The colours of a frame, and those in which results will be written."""
    images = _pillow("Image")
    swatches = np.repeat(np.array([[_GREEN, _AMBER, _RED]], np.uint8), frame.width // 3, axis=1)
    sample = images.new("RGB", (frame.width, frame.height + _SWATCH), _DARK)
    sample.paste(frame, (0, 0))
    sample.paste(images.fromarray(np.repeat(swatches, _SWATCH, axis=0)), (0, frame.height))
    return sample.quantize(256)


def _matched(frame: Any, palette: Any) -> Any:
    return frame.quantize(palette=palette, dither=_pillow("Image").Dither.NONE)


def _pillow(name: str) -> Any:
    """A module of Pillow, which comes with matplotlib."""
    try:
        from PIL import Image, ImageDraw, ImageFont
    except ImportError:
        raise MissingExtra("Pillow", "plot") from None
    return {"Image": Image, "ImageDraw": ImageDraw, "ImageFont": ImageFont}[name]
