"""Libraries that only hockey needs, imported when the first rink is built or drawn."""

from __future__ import annotations

import os
import warnings
from typing import Any

from cursus.errors import MissingExtra

_EXTRA = "hockey"


def import_box2d() -> Any:
    """The module `Box2D`.

    Warnings are off meanwhile: one of its generated code's is raised in C where an exception has no way out, so that with
    warnings turned into errors the process dies of a segmentation fault (box2d 2.3.10).
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            import Box2D
        except ImportError:
            raise MissingExtra("Box2D", _EXTRA) from None
    return Box2D


def import_pygame() -> Any:
    """The module `pygame`, without its greeting."""
    os.environ.setdefault("PYGAME_HIDE_SUPPORT_PROMPT", "1")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            import pygame
        except ImportError:
            raise MissingExtra("pygame", _EXTRA) from None
    return pygame
