"""PPO in a batched environment: rollouts that never leave the device, with the tasks of a teacher that stays on the host."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

import gymnasium
import torch
from torch import Tensor

from cursus.adapters.torch import DeviceTeacher
from cursus.agents import PPO
from cursus.agents.recorded import Recorded
from cursus.errors import ConfigError, ResumeWarning
from cursus.tasks import TaskSpace
from cursus.teacher import Teacher
from cursus.training.callbacks import reading_state
from cursus.training.loop import Loop
from cursus.training.plan import EnvironmentPlan
from cursus.types import Tree


class BatchedStep(Protocol):
    """What came of one step of every environment: rows of tensors, as `cursus.envs.torch.TorchStep` has them."""

    @property
    def observations(self) -> Tensor:
        """What is seen now, at an end the true last observation."""

    @property
    def rewards(self) -> Tensor:
        """Of the step."""

    @property
    def terminated(self) -> Tensor:
        """Where an episode ended for good."""

    @property
    def truncated(self) -> Tensor:
        """Where an episode was cut off."""

    @property
    def success(self) -> Tensor:
        """Whether an episode that ended has succeeded."""

    @property
    def scores(self) -> Tensor | None:
        """A finer measure of episodes that ended; None where there is none."""


@runtime_checkable
class BatchedEnv(Protocol):
    """Many environments as tensors on one device, as `cursus.envs.torch.TorchEnv` has them."""

    def reset(self, tasks: Tensor) -> Tensor:
        """Begin an episode in every environment; what is seen first."""

    def begin(self, begun: Tensor, tasks: Tensor) -> Tensor:
        """Begin new episodes where `begun` is true; what is seen everywhere."""

    def step(self, actions: Tensor) -> BatchedStep:
        """One step of every environment."""

    def observe(self) -> Tensor:
        """What is seen everywhere."""

    def state(self) -> Tree:
        """Everything that `load` needs to go on in the middle of all episodes."""

    def load(self, state: Tree) -> None:
        """Continue from a state of as many environments."""

    def close(self) -> None:
        """Let go of everything."""


def batched_kind(plan: EnvironmentPlan) -> type[BatchedEnv] | None:
    """The batched environment of a plan: what its id is registered with as `vector_entry_point`, if that is one of tensors."""
    try:
        entry: Any = gymnasium.spec(plan.id).vector_entry_point
        kind = gymnasium.envs.registration.load_env_creator(entry) if isinstance(entry, str) else entry
    except (gymnasium.error.Error, ImportError, AttributeError):  # said when the environment is made
        return None
    return kind if isinstance(kind, type) and issubclass(kind, BatchedEnv) else None


def make_batched(plan: EnvironmentPlan, tasks: TaskSpace, num_envs: int, *, device: str, seed: int) -> BatchedEnv:
    """The batched environment of a plan that has one."""
    kind: Any = batched_kind(plan)
    for name in ("max_episode_steps", "ignore_task", "success", "success_return"):
        if getattr(plan, name) not in (None, False):
            raise ConfigError(f"environment.{name} is not for batched environments such as {plan.id}, which decide it.")
    try:
        made: BatchedEnv = kind(num_envs, tasks, device=device, seed=seed, **plan.settings)
    except TypeError as error:
        raise ConfigError(f"environment {plan.id!r} cannot be made: {str(error).rstrip('.')}.") from None
    return made


class DeviceLearner:
    """PPO as a learner in a batched environment.

    A rollout is one CUDA graph: acting, environments, tickets. While the host reports its results and deals the next tickets,
    the device learns from it. On a CPU the same is done step by step. A `compiled` agent has its step compiled here.

    Args:
        envs: the environments.
        agent: what learns, on their device, for as many environments.
        teacher: whose curriculum is practised; it is not closed here.
        cuda_graphs: whether a rollout is recorded as a CUDA graph and replayed, on CUDA (default true).
    """

    updates_per_env_step = None

    def __init__(self, envs: BatchedEnv, agent: PPO, teacher: Teacher, *, cuda_graphs: bool = True) -> None:
        self._envs, self._agent, self._teacher = envs, agent, teacher
        rollout = agent.rollout
        self._n_steps, self._num_envs, size = rollout["observations"].shape
        self._rows = self._n_steps * self._num_envs
        self._tickets: DeviceTeacher | None = None
        self._stopped_at: Tree = None
        self._noise = torch.zeros((self._n_steps, self._num_envs, agent.noise_size), device=agent.device)
        self._observations = torch.zeros((self._num_envs, size), device=agent.device)
        self._came = torch.zeros((self._n_steps, self._num_envs, size), device=agent.device)  # of each step, before resets
        self._remembered = torch.zeros((self._n_steps, *agent.memory.shape), device=agent.device)  # after it
        self._stepping: Any = torch.compile(self._step, fullgraph=True, dynamic=False) if agent.compiled else self._step
        self._playing = Recorded(lambda _: self._play_steps(), {}, agent.device, replayed=cuda_graphs)

    @property
    def tickets(self) -> DeviceTeacher:
        """Who practises what; the first episodes begin when it is asked for first."""
        if self._tickets is None:
            self._tickets = self._begin()
        return self._tickets

    @property
    def rollout_steps(self) -> int:
        """Steps of environments in a rollout, over all of them."""
        return self._rows

    @property
    def updates(self) -> int:
        """Gradient steps so far."""
        return self._agent.updates

    def save_weights(self, path: Path) -> None:
        """Those of the whole agent, from which a policy can be loaded too."""
        self._agent.save_weights(path)

    def clear_buffer(self) -> None:
        """What is learned from is never older than a rollout."""

    def learn(self, loop: Loop) -> None:
        """Play rollouts and learn until it is over."""
        loop.stepping()
        tickets = self.tickets
        loop.stepped(loop.now.steps, ())
        while not loop.is_over:
            loop.stepping()
            self.play()
            metrics = self._agent.update_async()
            episodes = self._teacher.counts.finished
            decisions = tickets.exchange()
            self._agent.episodes += self._teacher.counts.finished - episodes
            loop.reporter.losses.add(metrics())
            loop.reporter.more |= {"device/staleness": tickets.staleness.mean, "device/unticketed": float(tickets.unticketed)}
            loop.stepped(loop.now.steps + self._rows, decisions)
            loop.pause()

    def _begin(self) -> DeviceTeacher:
        """The first episodes; in a resumed run, those that were under way."""
        state, self._stopped_at = self._stopped_at, None
        if state is not None and len(state["tickets"]["tickets"]) != self._num_envs:
            warnings.warn("the episodes that were under way are restarted: there were other environments.", ResumeWarning, 2)
            state = None
        saved = None if state is None else state["tickets"]
        tickets = DeviceTeacher(self._teacher, self._num_envs, self._n_steps, device=self._agent.device, state=saved)
        if state is None:
            self._observations.copy_(self._envs.reset(tickets.tasks))
            self._agent.memory.zero_()
        else:
            with reading_state():
                self._envs.load(state["envs"])
            self._observations.copy_(self._envs.observe())
        return tickets

    # ---- a rollout

    def play(self) -> None:
        """One rollout: launched on the device, and then ready to be learned from."""
        tickets = self.tickets
        self._agent.draw_noise(self._noise)
        self._playing()
        tickets.collect()
        self._value_ends()
        self._agent.count(self._rows, 0)

    def _play_steps(self) -> None:
        """All steps: nothing here depends on what tensors hold, or leaves the device."""
        seen, memory = self._observations, self._agent.memory
        self._agent.begin_rollout()
        for index in range(self._n_steps):
            kept, came, after, seen, memory = self._stepping(seen, self._noise[index], memory)
            self._came[index].copy_(came)
            self._remembered[index].copy_(after)
            self._agent.rollout.write(index, **kept)
        self._observations.copy_(seen)
        self._agent.memory.copy_(memory)

    def _step(self, seen: Tensor, noise: Tensor, memory: Tensor) -> tuple[dict[str, Tensor], Tensor, Tensor, Tensor, Tensor]:
        """One step: what the rollout keeps of it, what came of it and is remembered, and with what the next one begins."""
        tickets = self.tickets
        kept, actions, after = self._agent.explore(seen, noise, memory)
        came = self._envs.step(actions)
        ended = came.terminated | came.truncated
        kept |= {"rewards": came.rewards, "terminated": came.terminated, "ended": ended, "valid": tickets.learn.clone()}
        self._agent.normalize(seen)
        tickets.step(ended, rewards=came.rewards, success=came.success, scores=came.scores)
        return kept, came.observations, after, self._envs.begin(ended, tickets.tasks), after * ~ended[:, None]

    def _value_ends(self) -> None:
        """What the critic expects of last observations where an episode was cut off, and after the last step of the rollout."""
        rollout = self._agent.rollout
        cut: Tensor = rollout["ended"] & ~rollout["terminated"]
        cut[-1] = True
        rows = cut.flatten().nonzero().squeeze(1)
        rollout["next_values"].view(-1)[rows] = self._agent.values(
            self._came.flatten(0, 1)[rows], self._remembered.flatten(0, 1)[rows]
        )

    # ---- saving

    def state(self) -> Tree:
        """The agent, and everything that is under way."""
        tickets = None if self._tickets is None else self._tickets.state()
        return {"agent": self._agent.state(), "tickets": tickets, "envs": self._envs.state()}

    def load(self, state: Tree) -> None:
        """Continue from a state; with another number of environments, episodes under way begin anew."""
        self._agent.load(state["agent"])
        self._playing.forget()
        self._stopped_at = None if state["tickets"] is None else state
