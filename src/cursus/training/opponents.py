"""Learned opponents (the learner itself, earlier selves, policies from files), and what each of two players sees and does."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from hashlib import blake2b
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray

from cursus._files import make_folder
from cursus.agents import Agent, Policy, load_policy
from cursus.agents.spaces import is_same, read_space, write_space
from cursus.curricula.league import ARCHIVE, LATEST
from cursus.errors import CheckpointError, ConfigError, SettingsError
from cursus.recipe import CHECKPOINT, OPPONENT, SELF, is_learned
from cursus.training.callbacks import Callback
from cursus.types import Decision, IntArray, Tree

_FOLDER = "archive"


def find_weights(path: str | Path) -> Path:
    """The file that `checkpoint:PATH` means: weights, or those of a run, the best if there are any."""
    path = Path(path)
    if path.is_file():
        return path
    for name in ("best", "last"):
        if (found := path / "weights" / f"{name}.safetensors").is_file():
            return found
    raise CheckpointError(f"{path} is neither a file of weights nor a run with weights/best.safetensors or last.safetensors.")


class PlayerViews:
    """What each player sees and does: one, or two whose observations and actions lie side by side, the learner's first."""

    def __init__(self, observation_space: Any, action_space: Any, *, players: int = 1) -> None:
        if not isinstance(observation_space, spaces.Box) or len(observation_space.shape) != 1:
            raise SettingsError(
                f"our agents (DDDQN, PPO, SAC) see a flat Box of numbers, not {observation_space!s:.100}. For mappings and "
                "images take one of Stable-Baselines3, such as --algo sb3:PPO, or flatten what is seen with a wrapper."
            )
        self.players, self._space = players, observation_space
        self.observation_size = observation_space.shape[0] // players
        self.num_actions: int | None = None
        """How many actions there are, where they are discrete."""
        self.action_size: int | None = None
        """How many numbers an action has, where they are not."""
        if isinstance(action_space, spaces.Discrete):
            self.num_actions = int(action_space.n)
        elif isinstance(action_space, spaces.MultiDiscrete) and players == len(action_space.nvec) == 2:
            self.num_actions = int(action_space.nvec[0])
        elif isinstance(action_space, spaces.Box) and len(action_space.shape) == 1:
            _check_unit(action_space)
            self.action_size = action_space.shape[0] // players
        else:
            raise SettingsError(f"our agents act in Discrete spaces, or in a flat Box from -1 to 1, not in {action_space}.")

    def spaces_of_one(self) -> tuple[spaces.Space[Any], spaces.Space[Any]]:
        """What one player sees and does."""
        low, high = (self._bound(side) for side in ("low", "high"))
        seen = spaces.Box(low, high, dtype=self._space.dtype.type)
        if self.num_actions:
            return seen, spaces.Discrete(self.num_actions)
        return seen, spaces.Box(-1.0, 1.0, (self.action_size or 0,), np.float32)

    def _bound(self, side: str) -> NDArray[Any]:
        bound: NDArray[Any] = getattr(self._space, side)[: self.observation_size]
        return bound

    def own(self, observations: NDArray[Any]) -> NDArray[Any]:
        """What the learner sees."""
        return observations if self.players == 1 else observations[..., : self.observation_size]

    def other(self, observations: NDArray[Any]) -> NDArray[Any]:
        """What its opponent sees."""
        return observations[..., self.observation_size :]

    def join(self, own: NDArray[Any], other: NDArray[Any]) -> NDArray[Any]:
        """The actions of both."""
        return np.stack([own, other], axis=1) if self.num_actions else np.concatenate([own, other], axis=1)

    def blank(self, num_envs: int) -> NDArray[Any]:
        """Actions of one player that mean nothing."""
        if self.num_actions:
            return np.zeros(num_envs, dtype=np.int64)
        return np.zeros((num_envs, self.action_size or 0), dtype=np.float32)

    def random(self, num_envs: int, rng: np.random.Generator) -> NDArray[Any]:
        """Actions of one player, drawn uniformly."""
        if self.num_actions:
            return rng.integers(self.num_actions, size=num_envs)
        return rng.uniform(-1.0, 1.0, (num_envs, self.action_size or 0)).astype(np.float32)


class Opponents(Callback):
    """Who plays on the other side in each environment, and what they do: one forward pass for each of them.

    An environment keeps its opponent for a whole episode: which snapshot `latest` or a slot of the archive means is settled
    when the episode begins. Only `self`, the learner as it is now, changes on the way.

    Args:
        agent: the learner.
        names: every learned opponent that tasks name; those of `checkpoint:PATH` are read at once.
        num_envs: number of environments.
        blank: actions that mean nothing, of shape `(num_envs, …)`, where the opponent is in the game itself.
        deterministic: whether opponents act without exploring (default true).
        run: the run folder, which keeps their weights (default none: such a training cannot be resumed).
        seed: of their random streams (default 0).
    """

    def __init__(
        self,
        agent: Agent,
        names: Iterable[str],
        num_envs: int,
        *,
        blank: NDArray[Any],
        deterministic: bool = True,
        run: Path | None = None,
        seed: int = 0,
    ) -> None:
        self._agent, self._deterministic, self._seed = agent, deterministic, seed
        self._blank = blank
        self._folder = None if run is None else run / _FOLDER
        wanted = list(names)
        self._chosen = {name: self._read(name) for name in wanted if name.startswith(CHECKPOINT)}
        for name, policy in self._chosen.items():
            check_may_oppose(policy, f"the opponent {name!r}")
        self._chosen[SELF] = agent.mirror(seed)
        if not all(name.startswith(CHECKPOINT) for name in wanted):  # it plays against itself, now or as it was
            check_may_oppose(self._chosen[SELF], "the learner")
        self._snapshots: dict[int, Policy] = {}
        self._slots: dict[int, int] = {}
        self._latest: int | None = None
        self._held: list[str | int | None] = [None] * num_envs
        """For each environment a name, the number of a snapshot, or None for somebody in the game itself."""

    def _read(self, name: str) -> Policy:
        kept = self._kept(name)
        path = kept if kept is not None and kept.exists() else find_weights(name.removeprefix(CHECKPOINT))
        policy = load_policy(path, device=str(self._agent.device), seed=self._seed)
        mine, theirs = (
            {key: each.settings[key] for key in ("observation_size", "action_size", "num_actions") if key in each.settings}
            for each in (self._agent.freeze(), policy)
        )
        if mine != theirs:
            raise SettingsError(f"the opponent {name!r} cannot sit here: it has {theirs}, the learner {mine}.")
        return policy

    def keep_chosen(self) -> None:
        """Copy the chosen policies into the run, which goes on with them whatever becomes of their files."""
        for name, policy in self._chosen.items():
            path = self._kept(name)
            if path is not None and name != SELF and not path.exists():
                make_folder(path.parent)
                policy.save(path)

    def _kept(self, name: str) -> Path | None:
        digest = blake2b(name.encode(), digest_size=6).hexdigest()
        return None if self._folder is None else self._folder / f"chosen-{digest}.safetensors"

    # ---- who

    def begin(self, envs: IntArray, params: Sequence[Any]) -> None:
        """Episodes with these `params` (a task's, in order) begin in the environments `envs`."""
        for env, each in zip(envs.tolist(), params, strict=True):
            name = each.get(OPPONENT) if isinstance(each, Mapping) else None
            self._held[env] = self._resolve(str(name)) if is_learned(name) else None
        self._let_go()

    def _resolve(self, name: str) -> str | int:
        if name in self._chosen:
            return name
        if name == LATEST:
            return SELF if self._latest is None else self._latest
        slot = int(name.removeprefix(f"{ARCHIVE}/"))
        if slot not in self._slots:
            raise CheckpointError(f"slot {slot} of the archive is empty: nobody was put there.")
        return self._slots[slot]

    def on_decision(self, decision: Decision) -> None:
        """Put the learner into the archive where this `decision` says so."""
        if decision.kind == "snapshot":
            self._take(int(decision.evidence["slot"]), int(decision.evidence["number"]))

    def _take(self, slot: int, number: int) -> None:
        policy = self._agent.freeze(seed=self._seed + number + 1)
        if self._folder is not None:
            make_folder(self._folder)
            policy.save(self._file(number))
        self._snapshots[number] = policy
        self._slots[slot] = self._latest = number
        self._let_go()

    def _let_go(self) -> None:
        """Keep in memory who is archived or plays."""
        wanted = {*self._slots.values(), *self._held, self._latest}
        self._snapshots = {number: policy for number, policy in self._snapshots.items() if number in wanted}

    # ---- what they do

    @property
    def playing(self) -> dict[str | int, list[int]]:
        """The environments of everybody who plays from outside."""
        found: dict[str | int, list[int]] = {}
        for env, who in enumerate(self._held):
            if who is not None:
                found.setdefault(who, []).append(env)
        return found

    def act(self, observations: NDArray[Any]) -> NDArray[Any]:
        """Actions for all environments; blank where the opponent is in the game itself.

        Args:
            observations: what the opponents see, a row for each environment.
        """
        actions = self._blank.copy()
        for who, envs in self.playing.items():
            policy = self._snapshots[who] if isinstance(who, int) else self._chosen[who]
            actions[envs] = policy.act_batch(observations[envs], deterministic=self._deterministic)
        return actions

    # ---- saving

    def state(self) -> Tree:
        """Who is where; the weights lie in the archive of the run."""
        return {
            "slots": {str(slot): number for slot, number in self._slots.items()},
            "latest": self._latest,
            "held": list(self._held),
            "snapshots": {str(number): policy.state() for number, policy in self._snapshots.items()},
            "chosen": {name: policy.state() for name, policy in self._chosen.items()},
        }

    def load(self, state: Tree) -> None:
        """Continue with the same opponents."""
        self._slots = {int(slot): int(number) for slot, number in state["slots"].items()}
        self._latest = None if state["latest"] is None else int(state["latest"])
        if len(state["held"]) == len(self._held):
            self._held = list(state["held"])
        self._snapshots = {}
        for number, stream in state["snapshots"].items():
            self._snapshots[int(number)] = policy = load_policy(self._file(int(number)), device=str(self._agent.device))
            policy.load(stream)
        for name, stream in state["chosen"].items():
            self._chosen[name].load(stream)

    def _file(self, number: int) -> Path:
        if self._folder is None:
            raise SettingsError("snapshots of a training without a run folder cannot be read again.")
        return self._folder / f"{number:06d}.safetensors"


class PolicyOpponents(gymnasium.Wrapper[Any, Any, Any, Any]):
    """A game of two whose other side is played by policies from files, where its task names one as `checkpoint:PATH`.

    Args:
        env: the game, made with these names as `external`: what both players see and do lies side by side.
        names: of the opponents.
    """

    def __init__(self, env: gymnasium.Env[Any, Any], names: Sequence[str]) -> None:
        super().__init__(env)
        self._views = PlayerViews(env.observation_space, env.action_space, players=2)
        self.observation_space, self.action_space = self._views.spaces_of_one()
        self._policies = {name: load_policy(find_weights(name.removeprefix(CHECKPOINT))) for name in names}
        for name, policy in self._policies.items():
            check_fits(policy, self.observation_space, self.action_space, name)
            check_may_oppose(policy, name)
        self._opponent: Policy | None = None

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        """Begin a game against whom the task names.

        Args:
            seed: of the game.
            options: with the task.
        """
        task = None if options is None else options.get("task")
        params = getattr(task, "params", task)
        self._opponent = self._policies.get(str(params.get(OPPONENT))) if isinstance(params, Mapping) else None
        self._seen, info = super().reset(seed=seed, options=options)
        return self._views.own(self._seen), info

    def step(self, action: Any) -> tuple[Any, Any, bool, bool, dict[str, Any]]:
        """Both sides act.

        Args:
            action: that of player one.
        """
        other = self._views.blank(1)
        if self._opponent is not None:
            other = self._opponent.act_batch(self._views.other(self._seen)[None], deterministic=True)
        both = self._views.join(np.asarray(action)[None], other)[0]
        self._seen, reward, terminated, truncated, info = super().step(both)
        return self._views.own(self._seen), reward, terminated, truncated, info


def check_fits(policy: Policy, observation_space: Any, action_space: Any, name: object) -> None:
    """Refuse a policy that sees or does something else than what there is in an environment.

    Args:
        policy: what would act.
        observation_space: what there is to see.
        action_space: what there is to do.
        name: how the error calls the policy.
    """
    if "observation_space" in policy.settings:
        given = {"observation_space": observation_space, "action_space": action_space}
        if all(is_same(read_space(policy.settings[key]), space) for key, space in given.items()):
            return
        wanted: dict[str, Any] = {key: write_space(space) for key, space in given.items()}
    else:
        views = PlayerViews(observation_space, action_space)
        wanted = {"observation_size": views.observation_size}
        wanted |= {"num_actions": views.num_actions} if views.num_actions else {"action_size": views.action_size}
    found = {key: policy.settings.get(key) for key in wanted}
    if found != wanted:
        raise ConfigError(f"{name} is not of this environment: it has {found}, needed is {wanted}.")


def check_may_oppose(policy: Policy, name: object) -> None:
    """Refuse a policy with a memory: who plays on the other side is asked for actions alone, whenever its games begin.

    Args:
        policy: what would act.
        name: how the error calls the policy.
    """
    if size := policy.settings.get("gru_size"):
        raise ConfigError(
            f"{name} has a memory (gru_size={size}) and cannot be an opponent. Train one with gru_size=0 for that."
        )


def _check_unit(space: spaces.Box) -> None:
    if not (np.all(space.low == -1.0) and np.all(space.high == 1.0)):
        raise SettingsError(
            f"our agents act between -1 and 1, this space is {space}. "
            "Wrap it: gymnasium.wrappers.RescaleAction(env, -1.0, 1.0)."
        )
