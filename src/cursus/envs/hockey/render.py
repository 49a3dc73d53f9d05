"""Rendering with pygame: the rink as an RGB array, or in a window."""

from __future__ import annotations

import os
import warnings
from math import cos, sin
from typing import Any

import numpy as np

from cursus.envs.hockey.game import Game
from cursus.envs.hockey.rink import (
    CENTRE_X,
    CENTRE_Y,
    GOAL_HALF_DEPTH,
    GOAL_HALF_WIDTH,
    GOAL_X,
    HEIGHT,
    PIXELS,
    PLAYER_OUTLINE,
    PUCK_RADIUS,
    SIDE_WALL_X,
    STEPS_PER_S,
    WIDTH,
    Skater,
)
from cursus.errors import MissingExtra, SettingsError

_MODES = (None, "rgb_array", "human")
_SIZE = (round(WIDTH * PIXELS), round(HEIGHT * PIXELS))
_OUTSIDE, _ICE, _LINE, _GOAL = (52, 60, 72), (238, 243, 247), (196, 78, 82), (150, 160, 172)
_COLOURS, _PUCK = {1: (201, 74, 57), -1: (45, 98, 163)}, (20, 22, 26)


def check_render_mode(mode: str | None) -> str | None:
    """The mode, or an error that says which there are."""
    if mode not in _MODES:
        raise SettingsError(f"render_mode={mode!r} must be 'rgb_array', 'human' or None.")
    return mode


class Renderer:
    """Draws games; in `human` mode into a window, at the speed of play."""

    def __init__(self, mode: str) -> None:
        self._pygame = _import_pygame()
        self._human = mode == "human"
        self._canvas = self._pygame.Surface(_SIZE)
        if self._human:
            self._pygame.display.init()
            self._pygame.display.set_caption("Hockey")
            self._window = self._pygame.display.set_mode(_SIZE)
            self._clock = self._pygame.time.Clock()

    def draw(self, game: Game) -> Any:
        """The game as it stands; an array of shape (480, 600, 3) unless it went to the window."""
        self._draw_rink()
        for skater in (game.rink.one, game.rink.two):
            self._pygame.draw.polygon(self._canvas, _COLOURS[skater.sign], _outline(skater))
        puck = game.rink.puck_position
        self._pygame.draw.circle(self._canvas, _PUCK, _pixel(puck.x, puck.y), PUCK_RADIUS * PIXELS)
        if not self._human:
            return np.transpose(self._pygame.surfarray.array3d(self._canvas), (1, 0, 2)).copy()
        self._window.blit(self._canvas, (0, 0))
        self._pygame.event.pump()
        self._pygame.display.flip()
        self._clock.tick(STEPS_PER_S)
        return None

    def _draw_rink(self) -> None:
        draw, canvas = self._pygame.draw, self._canvas
        canvas.fill(_OUTSIDE)
        half_x, half_y = SIDE_WALL_X - 10 / PIXELS, HEIGHT / 2 - 0.5 - 10 / PIXELS
        draw.rect(canvas, _ICE, _box(0.0, half_x, half_y))
        for end in (1, -1):
            front = GOAL_X - GOAL_HALF_DEPTH
            draw.rect(canvas, _ICE, _box(end * (front - 10 / PIXELS), 20 / PIXELS, GOAL_HALF_WIDTH))
            draw.rect(canvas, _GOAL, _box(end * GOAL_X, GOAL_HALF_DEPTH, GOAL_HALF_WIDTH))
        draw.line(canvas, _LINE, _pixel(CENTRE_X, CENTRE_Y - half_y), _pixel(CENTRE_X, CENTRE_Y + half_y), 2)
        draw.circle(canvas, _LINE, _pixel(CENTRE_X, CENTRE_Y), PIXELS, 2)

    def close(self) -> None:
        """Close the window."""
        if self._human:
            self._pygame.display.quit()


def _pixel(x: float, y: float) -> tuple[float, float]:
    return x * PIXELS, (HEIGHT - y) * PIXELS


def _box(x: float, half_x: float, half_y: float) -> tuple[float, float, float, float]:
    left, top = _pixel(CENTRE_X + x - half_x, CENTRE_Y + half_y)
    return left, top, 2 * half_x * PIXELS, 2 * half_y * PIXELS


def _outline(skater: Skater) -> list[tuple[float, float]]:
    position, angle = skater.position, skater.body.angle
    along, across = cos(angle), sin(angle)
    corners = [(skater.sign * x, y) for x, y in PLAYER_OUTLINE]
    return [_pixel(position.x + x * along - y * across, position.y + x * across + y * along) for x, y in corners]


def _import_pygame() -> Any:
    """The module `pygame`, without its greeting."""
    os.environ.setdefault("PYGAME_HIDE_SUPPORT_PROMPT", "1")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            import pygame
        except ImportError:
            raise MissingExtra("pygame-ce", "hockey") from None
    return pygame
