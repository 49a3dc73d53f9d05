"""Configuration: from TOML or JSON to keyword arguments; the only module that knows configuration files.

A table with a `type` becomes an object of that type, its other keys the keyword arguments::

    [curriculum]
    type = "Staged"
    stages = ["walk", "run"]

    [curriculum.gate]
    type = "Wilson"
    threshold = 0.8
"""

from __future__ import annotations

import copy
import inspect
import json
import tomllib
from collections.abc import Mapping
from dataclasses import is_dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any, TypeAlias, get_type_hints

import pydantic

from cursus import curricula, tasks
from cursus.errors import ConfigError, CursusError
from cursus.settings import HasSettings, describe
from cursus.settings import unknown as unknown

Types: TypeAlias = Mapping[str, Any]

_LONGEST_RANGE = 1 << 24
_NOT_BUILT = {"Axis", "Curriculum", "Evidence", "Gate", "Level", "Mixing", "Progress", "Task", "TaskGenerator", "TaskSpace"}
_NOT_BUILT |= {"TaskSpaceLike", "Verdict", "quantile_labels", "task_space"}

TYPES: Types = {
    "range": range,
    **{name: getattr(package, name) for package in (tasks, curricula) for name in package.__all__ if name not in _NOT_BUILT},
}
"""What a configuration may build."""


def read(path: str | Path) -> dict[str, Any]:
    """The content of the `.toml` or `.json` file at `path`."""
    path = Path(path)
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"{path} cannot be read: {error}.") from error
    if path.suffix not in (".toml", ".json"):
        raise ConfigError(f"{path} is neither .toml nor .json.")
    try:
        found = tomllib.loads(text) if path.suffix == ".toml" else json.loads(text, object_pairs_hook=_no_duplicates)
    except (ValueError, RecursionError) as error:
        raise ConfigError(f"{path}: {str(error).rstrip('.')}.") from error
    if not isinstance(found, dict):
        raise ConfigError(f"{path} holds a {type(found).__name__}: a configuration is an object.")
    return found


def build(spec: Any, *, where: str = "config", types: Types = TYPES) -> Any:
    """The object that `spec` describes; a `ConfigError` that lists everything that is wrong with it.

    Args:
        spec: JSON values; a dict with a `type` becomes an object of that type.
        where: how errors call the whole (default `"config"`).
        types: what may be built, by name (default `TYPES`).

    >>> build({"type": "Uniform", "tasks": {"type": "Discrete", "n": 3}}).tasks
    Discrete(3)
    """
    problems: list[str] = []
    built = _build(spec, where, types, problems)
    if problems:
        raise ConfigError("\n".join(problems))
    return built


def override(spec: Mapping[str, Any], setting: str, *, types: Types = TYPES) -> dict[str, Any]:
    """A copy of `spec` with one setting changed, written as `gate.threshold=0.8` or `gate.type=EProcess`.

    A stage or phase is named in the path, `stages.hard.gate.threshold=0.5`, and `*` stands for all of them. A `gate` or
    `mixing` for all is refused where stages have their own, which would not change. With another `type`, only those settings
    are kept that it has too and that were not left at their defaults.

    Args:
        spec: what `build` builds from.
        setting: the path, `=`, and the value as TOML writes it; a bare word is a string.
        types: what may be built, by name (default `TYPES`).
    """
    path, separator, text = setting.partition("=")
    keys = path.strip().split(".")
    if not separator or not all(keys):
        raise ConfigError(f"{setting!r} is not of the form name.name=value, such as gate.threshold=0.8.")
    changed = copy.deepcopy(dict(spec))
    for table in _Path(setting, keys, types).tables(changed):
        _set(table, keys[-1], _value(text.strip()), setting, types)
    return changed


def _set(table: Any, key: str, value: Any, setting: str, types: Types) -> None:
    if not isinstance(table, dict):
        raise ConfigError(f"{setting!r}: there is no table to set {key!r} in.")
    if key == "type":
        return _change_type(table, _known_type(value, types), types)
    if table.get("type") in types:  # any other table may hold any key
        known = _parameters(table["type"], types)
        if key not in known and "**" not in known:
            raise ConfigError(f"{setting!r}: {unknown(key, known)}")
    table[key] = value
    return None


def _change_type(table: dict[str, Any], name: str, types: Types) -> None:
    """Another type, with those of the old settings that it has too and that were not the old type's defaults."""
    before = _parameters(table["type"], types) if table.get("type") in types else {}
    after = _parameters(name, types)
    for key in [key for key in table if key != "type"]:
        if key not in after or (key in before and table[key] == before[key].default):
            del table[key]
    table["type"] = name


_BROKEN = object()  # stands for a part that could not be built; its problem is on the list


def _build(spec: Any, where: str, types: Types, problems: list[str]) -> Any:
    if isinstance(spec, list):
        built = [_build(each, f"{where}[{index}]", types, problems) for index, each in enumerate(spec)]
        return _BROKEN if any(each is _BROKEN for each in built) else built
    if not isinstance(spec, dict):
        return spec
    if spec.get("type") == "dict" and isinstance(spec.get("items"), dict):
        return {key: _build(value, f"{where}.{key}", types, problems) for key, value in spec["items"].items()}
    parts = {key: _build(value, f"{where}.{key}", types, problems) for key, value in spec.items() if key != "type"}
    if "type" not in spec:
        return _BROKEN if any(part is _BROKEN for part in parts.values()) else parts
    if not isinstance(spec["type"], str) or spec["type"] not in types:
        problems.append(f"{where}.type: {unknown(str(spec['type']), types)}")
        return _BROKEN
    return _construct(spec["type"], types, parts, where, problems)


def _construct(name: str, types: Types, parts: dict[str, Any], where: str, problems: list[str]) -> Any:
    made, parameters = types[name], _parameters(name, types)
    found = [f"{where}: {unknown(key, parameters)}" for key in parts if key not in parameters and "**" not in parameters]
    found += [
        f"{where}: {key!r} is missing."
        for key, each in parameters.items()
        if key not in parts and key != "**" and each.default is each.empty
    ]
    found += [
        f"{where}.{key}: {complaint}"
        for key, hint in _hints(made).items()
        if key in parts and parts[key] is not _BROKEN and (complaint := _complaint(hint, parts[key]))
    ]
    problems += found
    if found or any(part is _BROKEN for part in parts.values()):
        return _BROKEN
    try:
        return made(**parts) if made is not range else _made_range(*(parts[key] for key in parameters if key in parts))
    except (CursusError, ArithmeticError, AttributeError, LookupError, MemoryError, TypeError, ValueError) as error:
        problems.append(f"{where}: {error if str(error) else type(error).__name__}")
        return _BROKEN


def _complaint(hint: Any, value: Any) -> str | None:
    """What pydantic has against a value of this type; the value itself is passed on as it is."""
    try:
        _adapter(hint).validate_python(value)
    except TypeError:  # a table without a type, where an abstract class cannot be made from it
        return f"a table here needs a type, not {value!r:.60}."
    except pydantic.ValidationError as error:
        first = error.errors()[0]
        if first["type"] == "callable_type":
            return _no_function(value)
        key = str(first["loc"][0]) if first["loc"] else ""
        if isinstance(value, dict) and isinstance(value.get(key), dict):
            return f'{key!r} is a table here. If a dotted path is meant, put it in quotes: "{_dotted(key, value[key])}" = ….'
        return f"{first['msg']}, not {value!r:.60}."
    return None


def _no_function(value: Any) -> str:
    if isinstance(value, str) and ":" in value:  # as `describe` writes functions, so that it comes from a recorded run
        return (
            f"of a function a run records only the name, {value!r:.60}. Make the curriculum in Python and pass it on: "
            "cursus.replay.replay(run, curriculum)."
        )
    return "a function cannot be read from a file. Make this object in Python and pass it on."


def _dotted(path: str, table: Any) -> str:
    """The path that was meant where TOML has read its parts as tables in tables."""
    while isinstance(table, dict) and table:
        key, table = next(iter(table.items()))
        path = f"{path}.{key}"
    return path


def _adapter(hint: Any) -> pydantic.TypeAdapter[Any]:
    try:
        return pydantic.TypeAdapter(hint, config=pydantic.ConfigDict(arbitrary_types_allowed=True))
    except pydantic.PydanticUserError:  # a dataclass brings its own configuration
        return pydantic.TypeAdapter(hint)


def _hints(made: Any) -> dict[str, Any]:
    if made is range:
        return dict.fromkeys(("start", "stop", "step"), int)
    itself = hasattr(made, "__dataclass_fields__") or inspect.isfunction(made)
    return get_type_hints(made if itself else made.__init__)


def _range(start: int, stop: int, step: int = 1) -> None:
    """The arguments of `range`, which has no signature of its own."""


def _made_range(*bounds: int) -> range:
    made = range(*bounds)
    if len(made) > _LONGEST_RANGE:
        raise ConfigError(f"{made} is too long: at most {_LONGEST_RANGE:,} numbers.")
    return made


def _parameters(name: str, types: Types) -> dict[str, Any]:
    """The keyword arguments of a type; `**` among them if it takes any."""
    found = {}
    for each in inspect.signature(_range if types[name] is range else types[name]).parameters.values():
        found["**" if each.kind is each.VAR_KEYWORD else each.name] = each
    return found


def _known_type(name: Any, types: Types) -> str:
    if not isinstance(name, str) or name not in types:
        raise ConfigError(f"type {unknown(str(name), types)}")
    return name


class _Path:
    """The way from a whole configuration to the tables in which an override sets something."""

    def __init__(self, setting: str, keys: list[str], types: Types) -> None:
        self._setting, self._keys, self._types = setting, keys, types

    def tables(self, table: Any, depth: int = 0, whole: Mapping[str, Any] = MappingProxyType({})) -> list[Any]:
        """The tables at the end of the way from `table`; `whole` is what its entries inherit from."""
        if depth == len(self._keys) - 1:
            if isinstance(table, dict):
                self._check_not_hidden(table, depth)
            return [table]
        key = self._keys[depth]
        if isinstance(table, list):
            return [each for entry in self._entries(table, depth) for each in self.tables(entry, depth + 1, whole)]
        if not isinstance(table, dict):
            raise ConfigError(f"{self._setting!r}: there is no table {key!r}.")
        if table.get(key) is None and (inherited := self._inherited(table, key, whole)) is not None:
            table[key] = inherited
        if not isinstance(table.get(key), dict | list):
            known = [name for name, value in table.items() if isinstance(value, dict | list)]
            raise ConfigError(f"{self._setting!r}: {unknown(key, known)}")
        self._check_not_hidden(table, depth)
        return self.tables(table[key], depth + 1, table)

    def _entries(self, table: list[Any], depth: int) -> list[dict[str, Any]]:
        """The stage or phase of this name, or all of them; a stage that is only a name becomes a table."""
        key = self._keys[depth]
        if self._keys[depth - 1] == "stages":
            table[:] = [{"type": "Stage", "name": each} if isinstance(each, str) else each for each in table]
        named = {each["name"]: each for each in table if isinstance(each, dict) and "name" in each}
        if key != "*" and key not in named:
            raise ConfigError(f"{self._setting!r}: {unknown(key, named)}")
        return list(named.values()) if key == "*" else [named[key]]

    def _inherited(self, table: dict[str, Any], key: str, whole: Mapping[str, Any]) -> Any:
        """What holds where nothing is set: that of the whole, as a stage inherits its gate, or else the default."""
        if isinstance(whole.get(key), dict):
            return copy.deepcopy(whole[key])
        for owner in (table, whole):
            each = _parameters(owner["type"], self._types).get(key) if owner.get("type") in self._types else None
            if each is not None and (is_dataclass(each.default) or isinstance(each.default, HasSettings)):
                return describe(each.default)
        return None

    def _check_not_hidden(self, table: dict[str, Any], depth: int) -> None:
        """Refuse to change for all stages what some have of their own: these would not change."""
        key, stages = self._keys[depth], table.get("stages")
        if not isinstance(stages, list):
            return
        own = [each["name"] for each in stages if isinstance(each, dict) and "name" in each and each.get(key) is not None]
        if not own or key not in ("gate", "mixing"):
            return
        before, after = ".".join(self._keys[:depth]), ".".join(self._keys[depth:])
        path = f"{before}.stages" if before else "stages"
        raise ConfigError(
            f"{self._setting!r} would change nothing in {', '.join(map(repr, own))}, which have a {key} of their own. "
            f"Set {path}.{own[0]}.{after}=… for one stage, or {path}.*.{after}=… for all."
        )


def _value(text: str) -> Any:
    """A value as TOML would read it; a bare word is a string."""
    try:
        return tomllib.loads(f"value = {text}")["value"]
    except tomllib.TOMLDecodeError:
        return None if text in ("none", "None", "null") else text


def _no_duplicates(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for key, value in pairs:
        if key in found:
            raise ValueError(f"the key {key!r} occurs twice")
        found[key] = value
    return found
