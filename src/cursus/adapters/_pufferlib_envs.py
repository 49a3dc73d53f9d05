"""Environments of several agents, and native ones of PufferLib, at a remote worker's seat."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from cursus.errors import MissingExtra, SettingsError
from cursus.remote import RemoteTeacher, Seat
from cursus.tasks import Task
from cursus.vector.task_interface import SetTask, TaskInterface, reset_with_task

try:
    import pufferlib
except ImportError:
    raise MissingExtra("pufferlib", install="--no-deps pufferlib-core==3.0.23, and torch") from None


class RemoteParallelEnv:
    """A parallel environment of PettingZoo at a seat: a task is an episode of all its agents together.

    It succeeded if every agent says so in its last info; its score and its return are the means over agents, its length is
    that of the longest.

    Args:
        env: the environment; its task travels in `reset(options={"task": task})` unless `set_task` is given.
        seat: what `cursus.remote.Hub.seat` gave.
        interface: how tasks reach it, and how success and score are read from an agent's last info.
    """

    def __init__(self, env: Any, seat: Seat, interface: TaskInterface) -> None:
        self.env, self._seat, self._interface = env, seat, interface
        self._remote: RemoteTeacher | None = None  # made by the first reset, in the process that plays
        self._playing = False

    @property
    def possible_agents(self) -> list[Any]:
        """All that may ever play."""
        return list(self.env.possible_agents)

    @property
    def agents(self) -> list[Any]:
        """Those that play now."""
        return list(self.env.agents)

    @property
    def render_mode(self) -> str | None:
        """That of the environment."""
        return getattr(self.env, "render_mode", None)

    def observation_space(self, agent: Any) -> Any:
        """What an `agent` sees."""
        return self.env.observation_space(agent)

    def action_space(self, agent: Any) -> Any:
        """What an `agent` may do."""
        return self.env.action_space(agent)

    def reset(self, seed: int | None = None, options: Mapping[str, Any] | None = None) -> tuple[Any, Any]:
        """Begin an episode with the next task."""
        self._remote = self._remote or RemoteTeacher(self._seat)
        task = self._remote.assign()  # withdraws what is still open there
        self._returns: dict[Any, float] = {}
        self._infos: dict[Any, Mapping[str, Any]] = {}
        self._length, self._playing = 0, True
        return reset_with_task(self.env, task, self._interface.set_task, seed=seed, options=options)

    def step(self, actions: Mapping[Any, Any]) -> tuple[Any, Any, Any, Any, Any]:
        """Step; the end of the last agent is the end of the episode, and is reported."""
        observations, rewards, terminated, truncated, infos = self.env.step(actions)
        self._length += 1
        for agent, reward in rewards.items():
            self._returns[agent] = self._returns.get(agent, 0.0) + float(reward)
            if terminated[agent] or truncated[agent]:
                self._infos[agent] = infos.get(agent, {})
        if self._playing and (not self.env.agents or all(terminated[agent] or truncated[agent] for agent in terminated)):
            self._end()
        return observations, rewards, terminated, truncated, infos

    def _end(self) -> None:
        self._playing = False
        gained = float(np.mean(list(self._returns.values())))
        episode = {"episode": {"r": gained, "l": self._length}}
        read = [self._interface.read_result({**episode, **info}) for info in self._infos.values()]
        success, score = all(won for won, _ in read), float(np.mean([scored for _, scored in read]))
        if self._remote is not None:
            self._remote.report(success=success, returns=gained, lengths=self._length, scores=score)

    def render(self) -> Any:
        """As the environment does."""
        return self.env.render()

    def close(self) -> None:
        """Close the environment and leave the seat."""
        try:
            self.env.close()
        finally:
            if self._remote is not None:
                self._remote.close()
                self._remote = None


class RemoteNativeEnv(pufferlib.PufferEnv):  # type: ignore[misc]
    """A native environment of PufferLib at a seat of two: one for the episode that is played, one for the next.

    A native environment begins its next episode within the step that ends one, before anybody can be asked. So its next task
    is set while it plays, and was chosen an episode earlier than elsewhere.

    Args:
        make_env: makes the environment, with PufferLib's own `buf` and `seed`.
        seat: what `cursus.remote.Hub.seat(2)` gave.
        interface: how the next task is set, and how success and score are read from what is said in the last step.
        buf: the buffers that PufferLib shares between processes (default None: its own).
        seed: for the environment (default 0).
    """

    def __init__(
        self, make_env: Callable[..., Any], seat: Seat, interface: TaskInterface, buf: Any = None, seed: int = 0
    ) -> None:
        self.env = make_env(buf=buf, seed=seed)
        if not isinstance(self.env, pufferlib.PufferEnv):
            raise SettingsError(
                f"a function that takes buf makes a native environment of PufferLib, not a {type(self.env).__name__}: for any "
                "other, give one that takes nothing."
            )
        self.single_observation_space = self.env.single_observation_space
        self.single_action_space = self.env.single_action_space
        self.num_agents = self.env.num_agents
        names = ("observations", "rewards", "terminals", "truncations", "teacher_actions", "masks", "actions")
        super().__init__(buf={name: getattr(self.env, name) for name in names})
        self._seat, self._interface = seat, interface
        self._remote: RemoteTeacher | None = None
        self._now = 0  # which of the two places at the seat is the present episode's
        self._returns, self._length = np.zeros(self.num_agents), 0

    def reset(self, seed: int | None = None) -> tuple[Any, list[dict[str, Any]]]:
        """Begin anew, with a new task; those that were open are withdrawn."""
        self._remote = self._remote or RemoteTeacher(self._seat)
        self._returns[:], self._length = 0.0, 0
        self._set(self._remote.assign(self._now))
        observations, infos = self.env.reset(seed)
        self._set(self._remote.assign(1 - self._now))
        return observations, infos

    def step(self, actions: Any) -> tuple[Any, Any, Any, Any, list[dict[str, Any]]]:
        """Step; where all agents have ended, the episode is reported, and the task after the next is set."""
        stepped = self.env.step(actions)
        self._returns += self.rewards
        self._length += 1
        over = self.terminals | self.truncations
        if over.any():
            self._end(over, stepped[4])
        observations, rewards, terminals, truncations, infos = stepped
        return observations, rewards, terminals, truncations, infos

    def _end(self, over: Any, infos: list[dict[str, Any]]) -> None:
        if not over.all():
            raise SettingsError(
                f"{int(over.sum())} of {len(over)} agents of this native environment ended alone and begin anew by themselves: "
                "no task is theirs together. Give each an environment of its own (one agent, and more num_envs), or let all "
                "agents end in the same step."
            )
        gained = float(self._returns.mean())
        said = {key: value for info in infos for key, value in info.items()}
        success, score = self._interface.read_result({"episode": {"r": gained, "l": self._length}, **said})
        if self._remote is not None:
            self._remote.report(self._now, success=success, returns=gained, lengths=self._length, scores=score)
            self._now = 1 - self._now
            self._set(self._remote.assign(1 - self._now))
        self._returns[:], self._length = 0.0, 0

    def _set(self, task: Task) -> None:
        set_task: SetTask = self._interface.set_task
        if callable(set_task):
            set_task(self.env, task)

    def render(self) -> Any:
        """As the environment does."""
        return self.env.render()

    def notify(self) -> None:
        """Pass on what PufferLib says."""
        self.env.notify()

    def close(self) -> None:
        """Close the environment and leave the seat."""
        try:
            self.env.close()
        finally:
            if self._remote is not None:
                self._remote.close()
                self._remote = None
