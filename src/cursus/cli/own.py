"""Classes and functions of the user's own, named on the command line: `module:name` or `file.py:name`."""

from __future__ import annotations

import sys
from importlib import import_module
from pathlib import Path
from typing import Any

from cursus import config
from cursus.errors import ConfigError


def find_own(spec: str) -> Any:
    """What `spec` names: `package.module:name`, looked for where Python looks and in this folder, or `path/file.py:name`."""
    where, _, name = spec.rpartition(":")
    if not where or not name:
        raise ConfigError(f"{spec!r} is not of the form module:name, such as mine:Novelty or mine.py:Novelty.")
    module = _module(where)
    found: Any = module
    for part in name.split("."):
        if not hasattr(found, part):
            public = [each for each in vars(module) if not each.startswith("_")]
            raise ConfigError(f"{where} has no {name}: {config.unknown(name, public)}")
        found = getattr(found, part)
    if not callable(found):
        raise ConfigError(f"{spec} is {found!r:.60}: give a class, or a function that makes a curriculum.")
    return found


def _module(where: str) -> Any:
    path = Path(where)
    folder, name = (path.parent, path.stem) if path.suffix == ".py" else (Path(), where)
    if str(folder.resolve()) not in sys.path:
        sys.path.insert(0, str(folder.resolve()))
    try:
        return import_module(name)
    except Exception as error:  # whatever the user's own module raises
        raise ConfigError(f"{where} cannot be imported: {type(error).__name__}: {error}.") from error
