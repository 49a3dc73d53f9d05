"""From TOML or JSON to keyword arguments; the only place that knows configuration files.

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
import difflib
import inspect
import json
import tomllib
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, TypeAlias, get_type_hints

import pydantic

from cursus import curricula, tasks
from cursus.errors import ConfigError, CursusError

Types: TypeAlias = Mapping[str, Any]

TYPES: Types = {
    "range": range,
    **{name: getattr(tasks, name) for name in ("Box", "Discrete", "Generated", "Levels", "Named", "Product")},
    **{
        name: getattr(curricula, name)
        for name in (
            "AdaptiveMixing", "EProcess", "FixedMixing", "ForgettingWatch", "Mixture", "NoMixing", "Phase", "Sequence",
            "Stage", "Staged", "Uniform", "Wilson", "Window",
        )
    },
}  # fmt: skip
"""What a configuration may build."""


def read(path: str | Path) -> dict[str, Any]:
    """The content of a `.toml` or `.json` file."""
    path = Path(path)
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"{path} cannot be read: {error}.") from error
    try:
        if path.suffix == ".toml":
            return tomllib.loads(text)
        if path.suffix == ".json":
            found = json.loads(text, object_pairs_hook=_no_duplicates)
            if not isinstance(found, dict):
                raise ConfigError(f"{path} holds {type(found).__name__}: a configuration is an object.")
            return found
    except (ValueError, RecursionError) as error:
        raise ConfigError(f"{path}: {error}.") from error
    raise ConfigError(f"{path} is neither .toml nor .json.")


def build(spec: Any, *, where: str = "config", types: Types = TYPES) -> Any:
    """The object that `spec` describes; a `ConfigError` that lists everything that is wrong with it.

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

    A stage or phase is named in the path: `stages.hard.gate.threshold=0.5`. With another `type`, only those settings
    are kept that it has too and that were not left at their defaults.
    """
    path, separator, text = setting.partition("=")
    keys = path.strip().split(".")
    if not separator or not all(keys):
        raise ConfigError(f"{setting!r} is not of the form name.name=value, such as gate.threshold=0.8.")
    changed = copy.deepcopy(dict(spec))
    place: Any = changed
    for key in keys[:-1]:
        place = _step_into(place, key, setting)
    if not isinstance(place, dict):
        raise ConfigError(f"{setting!r}: there is no table to set {keys[-1]!r} in.")
    known = _parameters(place["type"], types) if place.get("type") in types else place
    if keys[-1] != "type" and keys[-1] not in known:
        raise ConfigError(f"{setting!r}: {unknown(keys[-1], known)}")
    if keys[-1] == "type":
        _change_type(place, _known_type(_value(text.strip()), types), types)
    else:
        place[keys[-1]] = _value(text.strip())
    return changed


def _change_type(place: dict[str, Any], name: str, types: Types) -> None:
    """Another type, with those of the old settings that it has too and that were not the old type's defaults."""
    before, after = _parameters(place["type"], types), _parameters(name, types)
    for key in [key for key in place if key != "type"]:
        if key not in after or key not in before or place[key] == before[key].default:
            del place[key]
    place["type"] = name


def unknown(name: str, allowed: Iterable[str]) -> str:
    """A sentence that says what was given, what is nearest, and what is allowed."""
    names = sorted(allowed)
    nearest = difflib.get_close_matches(name, names, n=1)
    hint = f" Did you mean {nearest[0]!r}?" if nearest else ""
    return f"{name!r} is not known here.{hint} Allowed: {', '.join(names)}."


def _build(spec: Any, where: str, types: Types, problems: list[str]) -> Any:
    if isinstance(spec, list):
        return [_build(each, f"{where}[{place}]", types, problems) for place, each in enumerate(spec)]
    if not isinstance(spec, dict):
        return spec
    before = len(problems)
    parts = {key: _build(value, f"{where}.{key}", types, problems) for key, value in spec.items() if key != "type"}
    if "type" not in spec:
        return parts
    if not isinstance(spec["type"], str) or spec["type"] not in types:
        problems.append(f"{where}.type: {unknown(str(spec['type']), types)}")
        return None
    parameters = _parameters(spec["type"], types)
    problems += [
        f"{where}: {unknown(key, parameters)}" for key in parts if key not in parameters and "**" not in parameters
    ]
    if len(problems) > before:
        return None
    return _construct(spec["type"], types, parts, where, problems)


def _construct(name: str, types: Types, parts: dict[str, Any], where: str, problems: list[str]) -> Any:
    made = types[name]
    if made is range:
        return range(parts["start"], parts["stop"], parts.get("step", 1))
    try:
        checked = _model(made)(**parts)
        values = {key: getattr(checked, key) for key in parts}
        return made(**values)
    except pydantic.ValidationError as error:
        for each in error.errors():
            at = ".".join([where, *(str(part) for part in each["loc"][:1])])
            problems.append(f"{at}: {each['msg']}, not {each['input']!r:.60}.")
    except (CursusError, TypeError) as error:
        problems.append(f"{where}: {error}")
    return None


def _parameters(name: str, types: Types) -> dict[str, Any]:
    """The keyword arguments of a type; `**` among them if it takes any."""
    if types[name] is range:
        return dict.fromkeys(("start", "stop", "step"))
    found = {}
    for each in inspect.signature(types[name]).parameters.values():
        if each.kind is each.VAR_KEYWORD:
            found["**"] = each
        elif each.kind is not each.POSITIONAL_ONLY:
            found[each.name] = each
    return found


def _model(made: Any) -> type[pydantic.BaseModel]:
    """A pydantic model that checks the keyword arguments of a class against their annotations."""
    hints = get_type_hints(made if hasattr(made, "__dataclass_fields__") else made.__init__)
    fields: dict[str, Any] = {}
    for each in inspect.signature(made).parameters.values():
        if each.kind is each.KEYWORD_ONLY or each.kind is each.POSITIONAL_OR_KEYWORD:
            required = each.default is each.empty
            fields[each.name] = (hints[each.name], ... if required else pydantic.Field(default=each.default))
    settings = pydantic.ConfigDict(extra="allow", arbitrary_types_allowed=True, strict=False)
    return pydantic.create_model(made.__name__, __config__=settings, **fields)


def _known_type(name: Any, types: Types) -> str:
    if name not in types:
        raise ConfigError(f"type {unknown(str(name), types)}")
    return str(name)


def _step_into(place: Any, key: str, setting: str) -> Any:
    if isinstance(place, dict):
        if key in place and isinstance(place[key], dict | list):
            return place[key]
        tables = [name for name, value in place.items() if isinstance(value, dict | list)]
        raise ConfigError(f"{setting!r}: {unknown(key, tables)}")
    named = {each["name"]: each for each in place if isinstance(each, dict) and "name" in each}
    if key not in named:
        raise ConfigError(f"{setting!r}: {unknown(key, named)}")
    return named[key]


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
            raise ConfigError(f"the key {key!r} occurs twice.")
        found[key] = value
    return found
