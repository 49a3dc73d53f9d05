"""Box2D, and the environments of Gymnasium that need it, imported without a crash."""

from __future__ import annotations

import warnings
from importlib import import_module
from typing import Any

from cursus.errors import MissingExtra


def import_box2d(extra: str = "box2d") -> Any:
    """The module `Box2D`; where it is missing, an error names the `extra` that brings it.

    Warnings are off meanwhile: one of its generated code's is raised in C where an exception has no way out, so that with
    warnings turned into errors the process dies of a segmentation fault (box2d 2.3.10).
    """
    return _quietly("Box2D", extra)


def import_box2d_env(name: str) -> Any:
    """The module of this `name` in `gymnasium.envs.box2d`."""
    import_box2d()
    return _quietly(f"gymnasium.envs.box2d.{name}", "box2d")


def _quietly(name: str, extra: str) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            return import_module(name)
        except ImportError:
            raise MissingExtra("Box2D", extra) from None
