"""Translation of configurations in the JSON schema of an older training system."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from math import inf
from typing import Any

from cursus.curricula.league import ARCHIVE, LATEST, STRATEGIES
from cursus.errors import ConfigError
from cursus.recipe import CHECKPOINT, SELF
from cursus.settings import unknown

_MODES = {"NORMAL": "normal", "TRAIN_SHOOTING": "shooting", "TRAIN_DEFENSE": "defense"}
_SCRIPTED = {"none": "none", "basic_weak": "weak", "basic_strong": "strong"}
_OPPONENTS = (*_SCRIPTED, "self_play", "weighted_mixture", "archive", "run_checkpoints")
_AGENT_NAMES = {
    "discount": "gamma",
    "hidden_dim": "hidden",
    "hidden_dims": "hidden",
    "eps": "epsilon_start",
    "eps_min": "epsilon_end",
    "eps_decay": "epsilon_decay",
    "target_update_freq": "target_update_interval",
    "max_episode_steps": "noise_length",
}
_NEAREST = {"TD3": "sb3:TD3", "REDQTD3": "sb3:TD3", "TDMPC2": "SAC", "DDQN_PER": "DDDQN with per_alpha = 0.6"}
"""Agents of that system which are not here, and what is nearest to them."""
_WITHOUT_MEANING = ("checkpoint", "deterministic")  # beside opponents that have no weights of their own
_STEPS_PER_EPISODE = 100  # how that system turned episodes into steps

Shares = dict[str, float]


def translate(spec: Mapping[str, Any]) -> dict[str, Any] | None:
    """The same training in our words, if this is such a configuration. Unknown keys are refused; there they were passed over.

    Args:
        spec: what was in the file.
    """
    curriculum = spec.get("curriculum")
    if not (isinstance(curriculum, Mapping) and "phases" in curriculum and "type" not in curriculum):
        return None
    try:
        return _translate(spec)
    except (AttributeError, TypeError, ValueError) as error:
        if isinstance(error, ConfigError):
            raise
        raise ConfigError(f"this configuration cannot be understood: {error}.") from error


def _translate(spec: Mapping[str, Any]) -> dict[str, Any]:
    top = _Table("config", spec, ("curriculum", "agent", "training", "hyperparameters"), ("curriculum", "agent", "training"))
    phases = _Table("config.curriculum", top["curriculum"], ("phases",), ("phases",))["phases"]
    if not isinstance(phases, list) or not phases:
        raise ConfigError("config.curriculum.phases must be a list of at least one phase.")
    common: dict[str, Any] = {"settings": {}, "league": {}, "training": {}}
    translated = [_phase(f"config.curriculum.phases[{index}]", phase, common) for index, phase in enumerate(phases)]
    agent, fineness = _agent(top["agent"], top.get("hyperparameters") or {})
    if fineness is not None:
        common["settings"]["fineness"] = fineness
    environment: dict[str, Any] = {"id": "cursus/Hockey-v0", "settings": common["settings"]}
    training, evaluation = _training(top["training"], environment)
    return {
        "seed": top["training"].get("seed", 0),
        "agent": agent,
        "phases": translated,
        "environment": environment,
        "training": {**common["training"], **training},
        "evaluation": evaluation,
        "league": common["league"],
    }


class _Table:
    """A table with known keys: what is unknown or missing is an error that says where."""

    def __init__(self, where: str, given: Any, allowed: tuple[str, ...], needed: tuple[str, ...] = ()) -> None:
        if not isinstance(given, Mapping):
            raise ConfigError(f"{where} must be a table, not {given!r:.60}.")
        for key in given:
            if key not in allowed:
                raise ConfigError(f"{where}: {unknown(str(key), allowed)}")
        for key in needed:
            if key not in given:
                raise ConfigError(f"{where}: {key!r} is missing.")
        self._given = given

    def __getitem__(self, key: str) -> Any:
        return self._given[key]

    def __contains__(self, key: str) -> bool:
        return key in self._given

    def get(self, key: str, default: Any = None) -> Any:
        return self._given.get(key, default)


def _phase(where: str, given: Any, common: dict[str, Any]) -> dict[str, Any]:
    keys = ("name", "episodes", "environment", "opponent", "reward_shaping", "clear_buffer")
    if isinstance(given, Mapping) and given.get("reward_bonus") is not None:
        raise ConfigError(
            f"{where}.reward_bonus: a bonus that decays is not here. The nearest is reward_shaping, whose weights change."
        )
    phase = _Table(where, {key: value for key, value in given.items() if key != "reward_bonus"}, keys, keys[:4])
    environment = _Table(f"{where}.environment", phase["environment"], ("mode", "mixture", "keep_mode"))
    if "keep_mode" in environment:
        _agree(common["settings"], "keep_mode", environment["keep_mode"], f"{where}.environment.keep_mode")
    found: dict[str, Any] = {
        "name": phase["name"],
        "episodes": phase["episodes"],
        "modes": _modes(f"{where}.environment", environment),
        "opponents": _opponents(f"{where}.opponent", phase["opponent"], common),
        "clear_buffer": phase.get("clear_buffer", True),
    }
    if phase.get("reward_shaping") is not None:
        found["shaping"] = _shaping(f"{where}.reward_shaping", phase["reward_shaping"])
    return found


def _modes(where: str, environment: _Table) -> Shares:
    if ("mode" in environment) == ("mixture" in environment):
        raise ConfigError(f"{where}: give either 'mode' or 'mixture'.")
    if "mode" in environment:
        return {_mode(where, environment["mode"]): 1.0}
    shares: Shares = {}
    for index, each in enumerate(environment["mixture"]):
        part = _Table(f"{where}.mixture[{index}]", each, ("mode", "weight"), ("mode", "weight"))
        _add(shares, _mode(where, part["mode"]), part["weight"])
    return shares


def _mode(where: str, name: Any) -> str:
    if name not in _MODES:
        raise ConfigError(f"{where}.mode: {unknown(str(name), _MODES)}")
    return _MODES[name]


def _opponents(where: str, given: Any, common: dict[str, Any]) -> Shares:
    """Names and shares; mixtures within mixtures are laid out flat."""
    if not isinstance(given, Mapping) or "type" not in given:
        raise ConfigError(f"{where} must be a table with a type: {', '.join(_OPPONENTS)}.")
    kind = given["type"]
    if kind not in _OPPONENTS:
        raise ConfigError(f"{where}.type: {unknown(str(kind), _OPPONENTS)}")
    own = {key: value for key, value in given.items() if key not in ("type", "weight")}
    if kind in _SCRIPTED:
        _Table(where, own, _WITHOUT_MEANING)
        return {_SCRIPTED[kind]: 1.0}
    make: dict[str, Callable[[str, Any, dict[str, Any]], Shares]] = {
        "self_play": _self_play,
        "weighted_mixture": _mixture,
        "archive": _archive,
        "run_checkpoints": _run_checkpoints,
    }
    return make[kind](where, own, common)


def _self_play(where: str, given: Any, common: dict[str, Any]) -> Shares:
    table = _Table(where, given, ("checkpoint", "deterministic", "agent_type"))
    _deterministic(where, table, common)
    checkpoint = table.get("checkpoint")
    if checkpoint is None:
        return {SELF: 1.0}
    return {LATEST if checkpoint == "latest" else f"{CHECKPOINT}{checkpoint}": 1.0}


def _mixture(where: str, given: Any, common: dict[str, Any]) -> Shares:
    table = _Table(where, given, ("opponents", *_WITHOUT_MEANING), ("opponents",))
    shares: Shares = {}
    for index, each in enumerate(table["opponents"]):
        part = _opponents(f"{where}.opponents[{index}]", each, common)
        if "weight" not in each:
            raise ConfigError(f"{where}.opponents[{index}]: 'weight' is missing.")
        total, weight = sum(part.values()), _number(f"{where}.opponents[{index}].weight", each["weight"])
        if not total > 0:
            raise ConfigError(f"{where}.opponents[{index}]: its weights add up to nothing.")
        for name, share in part.items():
            _add(shares, name, weight * share / total)
    return shares


def _archive(where: str, given: Any, common: dict[str, Any]) -> Shares:
    table = _Table(where, given, ("distribution", "skill_range", *_WITHOUT_MEANING))
    _deterministic(where, table, common)
    if table.get("skill_range") is not None:
        _agree(common["league"], "skill_range", table["skill_range"], f"{where}.skill_range")
    if "distribution" not in table:
        return {ARCHIVE: 1.0}
    shares: Shares = {}
    for name, share in table["distribution"].items():
        if name not in STRATEGIES:
            raise ConfigError(f"{where}.distribution: {unknown(str(name), STRATEGIES)}")
        _add(shares, f"{ARCHIVE}:{name}", share)
    return shares


def _run_checkpoints(where: str, given: Any, common: dict[str, Any]) -> Shares:
    _deterministic(where, _Table(where, given, ("deterministic", "agent_type")), common)
    return {f"{ARCHIVE}:random": 1.0}


def _deterministic(where: str, table: _Table, common: dict[str, Any]) -> None:
    if "deterministic" in table:
        _agree(common["training"], "deterministic_opponents", table["deterministic"], f"{where}.deterministic")


def _agree(settings: dict[str, Any], key: str, value: Any, where: str) -> None:
    """A setting that holds for the whole training, wherever it is said."""
    if settings.setdefault(key, value) != value:
        raise ConfigError(f"{where} is {value!r}, but {settings[key]!r} before: it holds for the whole training.")


def _add(shares: Shares, name: str, share: Any) -> None:
    shares[name] = shares.get(name, 0.0) + _number(f"the weight of {name!r}", share)


def _number(what: str, value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < inf:
        raise ConfigError(f"{what} is {value!r}: give a number of at least 0.")
    return float(value)


def _shaping(where: str, given: Any) -> dict[str, Any]:
    """The reward holds closeness once already, so that what is given for it comes on top."""
    needed = ("N", "K", "CLOSENESS_START", "TOUCH_START", "CLOSENESS_FINAL", "TOUCH_FINAL", "DIRECTION_FINAL")
    table = _Table(where, given, (*needed, "DIRECTION_START"), needed)
    start, final = (
        {
            "closeness": 1.0 + _number(f"{where}.CLOSENESS_{end}", table[f"CLOSENESS_{end}"]),
            "touch": _number(f"{where}.TOUCH_{end}", table[f"TOUCH_{end}"]),
            "direction": _number(f"{where}.DIRECTION_{end}", table.get(f"DIRECTION_{end}", 0.0)),
        }
        for end in ("START", "FINAL")
    )
    return {"hold": table["N"], "linear": table["K"], "start": start, "final": final}


def _agent(given: Any, top: Any) -> tuple[dict[str, Any], int | None]:
    """The agent, and how finely its actions are divided. What the agent says itself goes before what is said for all."""
    agent = _Table("config.agent", given, ("type", "hyperparameters"), ("type",))
    if isinstance(agent["type"], str) and agent["type"] in _NEAREST:
        raise ConfigError(
            f"config.agent.type: {agent['type']} of the older system is not here. The nearest is {_NEAREST[agent['type']]}."
        )
    shared = _Table("config.hyperparameters", top, ("learning_rate", "batch_size"))
    own = dict(agent.get("hyperparameters") or {})
    fineness = own.pop("action_fineness", None)
    settings: dict[str, Any] = {}
    if "use_huber_loss" in own:
        own["loss"] = "huber" if own.pop("use_huber_loss") else "squared"
    if own.get("noise") == "normal":
        own["noise"] = "white"
    if agent["type"] != "SAC":
        own.pop("max_episode_steps", None)  # the length of noise sequences
    for key, value in own.items():
        name = _AGENT_NAMES.get(str(key), str(key))
        if name in settings:
            raise ConfigError(f"config.agent.hyperparameters: {key!r} says again what {name!r} is.")
        settings[name] = value
    for key in ("learning_rate", "batch_size"):
        if key in shared:
            settings.setdefault(key, shared[key])
    return {"type": agent["type"], **settings}, fineness


def _episodes(value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise ConfigError(f"config.training.checkpoint_save_freq is {value!r}: give an integer of at least 1.")
    return value


def _training(given: Any, environment: dict[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    names = ("max_episode_steps", "updates_per_step", "warmup_steps", "reward_scale", "checkpoint_save_freq", "train_freq")
    table = _Table("config.training", given, (*names, "eval_frequency", "checkpoint_frequency", "seed"))
    if "max_episode_steps" in table:
        environment["max_episode_steps"] = table["max_episode_steps"]
    every = table.get("train_freq", 1)
    if isinstance(every, bool) or not isinstance(every, int) or every < 1:
        raise ConfigError(f"config.training.train_freq is {every!r}: give an integer of at least 1.")
    by_episodes = _episodes(table.get("checkpoint_save_freq", 100)) * _STEPS_PER_EPISODE
    training = {
        "updates_per_env_step": _number("config.training.updates_per_step", table.get("updates_per_step", 1)) / every,
        "learning_starts": table.get("warmup_steps", 400),
        "reward_scale": table.get("reward_scale", 0.1),
        "checkpoint_every": table.get("checkpoint_frequency", by_episodes),
    }
    return training, {"every": table["eval_frequency"]} if "eval_frequency" in table else {}
