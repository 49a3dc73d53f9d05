"""PufferLib's own vector environments under a curriculum. Runs where PufferLib is installed: `make pufferlib`."""

from __future__ import annotations

import os
import signal
import threading
from functools import partial
from typing import Any

import gymnasium
import numpy as np
import pytest

pytest.importorskip("pufferlib", reason="PufferLib is not installed: make pufferlib")

import pufferlib

import cursus
from cursus.adapters import pufferlib as adapter
from cursus.errors import SettingsError, TeacherError, WorkerError
from cursus.remote import Hub
from cursus.replay import released_episodes
from worlds import Corridor, Trouble


def played(envs: Any, steps: int) -> None:
    envs.async_reset(seed=1)
    for _ in range(steps):
        observations = envs.recv()[0]
        envs.send(np.zeros(len(observations), dtype=np.int64))
    envs.recv()


@pytest.mark.parametrize("backend", ["serial", "multiprocessing"])
@pytest.mark.parametrize("make", [lambda: cursus.LearningProgress(5), lambda: cursus.Staged(["walk", "run", "fly"])])
def test_workers_are_taught_and_everything_is_accounted_for(backend: Any, make: Any) -> None:
    settings = {"num_workers": 2, "overwork": True} if backend == "multiprocessing" else {}
    with cursus.Teacher(make()) as teacher, Hub(teacher) as hub:
        envs = adapter.make(Corridor, hub, num_envs=4, backend=backend, **settings)
        played(envs, 1500)
        envs.close()
        counts = teacher.counts
        assert counts.finished > 300
        assert counts.assigned == counts.finished + counts.lost + counts.withdrawn + counts.in_flight
        assert counts.in_flight == 0
        assert hub.staleness.episodes == counts.assigned
        if isinstance(teacher.curriculum, cursus.Staged):
            assert teacher.curriculum.stage == "fly"


@pytest.mark.parametrize(
    ("what", "how"), [("kill", "killed by SIGKILL"), ("exit", "exit code 3"), ("raise", "exit code 1.*traceback")]
)
@pytest.mark.parametrize("batch", [{}, {"batch_size": 2}, {"batch_size": 2, "sync_traj": False}])
@pytest.mark.timeout(60)
def test_a_worker_that_dies_is_named_at_once(what: str, how: str, batch: dict[str, Any]) -> None:
    with cursus.Teacher(cursus.Uniform(5)) as teacher, Hub(teacher) as hub:
        envs = adapter.make(partial(Trouble, what, at=30), hub, num_envs=4, num_workers=2, overwork=True, **batch)
        envs.async_reset(seed=1)
        with pytest.raises(WorkerError, match=rf"worker \d \(pid \d+, environments (0 to 1|2 to 3)\) died \({how}"):
            for _ in range(1000):
                observations = envs.recv()[0]
                envs.send(np.zeros(len(observations), dtype=np.int64))
        for attempt in (envs.recv, envs.async_reset):
            with pytest.raises(WorkerError):
                attempt()
        envs.close()
        counts = teacher.counts
        assert counts.in_flight == 0
        assert counts.lost >= 2
        assert counts.assigned == counts.finished + counts.lost + counts.withdrawn


@pytest.mark.timeout(60)
def test_a_worker_that_is_killed_ends_the_wait_for_it_and_loses_what_it_had_open() -> None:
    with cursus.Teacher(cursus.Uniform(5)) as teacher, Hub(teacher) as hub:
        envs = adapter.make(partial(Trouble, "stop", at=30), hub, num_envs=2, num_workers=2, overwork=True)
        envs.async_reset(seed=1)
        victim = envs.processes[1]
        threading.Timer(1.5, os.kill, (victim.pid, signal.SIGKILL)).start()
        with pytest.raises(WorkerError, match=rf"worker 1 \(pid {victim.pid}, environment 1\) died \(killed by SIGKILL\)"):
            for _ in range(1000):
                envs.recv()
                envs.send(np.zeros(2, dtype=np.int64))
        envs.close()
        assert teacher.counts.lost == 2
        assert teacher.counts.in_flight == 0
        again = adapter.make(Corridor, hub, num_envs=2, num_workers=2, overwork=True)
        played(again, 50)
        again.close()
        assert teacher.counts.in_flight == 0


@pytest.mark.parametrize("backend", ["serial", "multiprocessing"])
def test_seats_that_were_left_are_taken_again(backend: Any) -> None:
    settings = {"num_workers": 2} if backend == "multiprocessing" else {}
    with cursus.Teacher(cursus.Uniform(5)) as teacher, Hub(teacher) as hub:
        for _ in range(6):
            envs = adapter.make(Corridor, hub, num_envs=64, backend=backend, **settings)
            played(envs, 3)
            envs.close()
            envs.close()
        counts = teacher.counts
        assert counts.assigned == counts.finished + counts.lost + counts.withdrawn >= 6 * 64


def test_a_hub_has_so_many_seats_and_no_more() -> None:
    with cursus.Teacher(cursus.Uniform(5)) as teacher, Hub(teacher, members=10) as hub:
        first = adapter.make(Corridor, hub, num_envs=4, backend="serial")
        for _ in range(3):
            with pytest.raises(SettingsError, match="all 10 rings"):
                adapter.make(Corridor, hub, num_envs=7, backend="serial")
        second = adapter.make(Corridor, hub, num_envs=6, backend="serial")
        for envs in (first, second):
            played(envs, 5)
        first.close()
        second.close()
    with pytest.raises(TeacherError, match="closed"):
        adapter.make(Corridor, hub, num_envs=4, backend="serial")


def test_a_beginning_that_fails_leaves_its_seats() -> None:
    with cursus.Teacher(cursus.Uniform(5)) as teacher, Hub(teacher) as hub:
        for _ in range(4):
            with pytest.raises(Exception, match="num_envs must be divisible by batch_size"):
                adapter.make(Corridor, hub, num_envs=100, num_workers=2, batch_size=30)
        adapter.make(Corridor, hub, num_envs=256, backend="serial").close()


def test_wrong_settings_are_refused() -> None:
    with pytest.raises(SettingsError, match="hub"):
        adapter.make(Corridor, cursus.Uniform(3), num_envs=2)  # type: ignore[arg-type]
    with (
        cursus.Teacher(cursus.Uniform(3)) as teacher,
        Hub(teacher) as hub,
        pytest.raises(SettingsError, match="multiprocessing"),
    ):
        adapter.make(Corridor, hub, num_envs=2, backend="ray")  # type: ignore[arg-type]


# ---- several agents, and native environments


class Pair:
    """A parallel environment of two agents, of whom the second ends a step later; it succeeds at the task `easy` alone."""

    possible_agents = ("first", "second")
    render_mode = None

    def observation_space(self, agent: str) -> Any:
        return gymnasium.spaces.Box(0.0, 1.0, (2,), np.float32)

    def action_space(self, agent: str) -> Any:
        return gymnasium.spaces.Discrete(2)

    def reset(self, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, Any]:
        self.task = (options or {})["task"]
        self.agents, self.left = list(self.possible_agents), 3
        return {agent: np.zeros(2, np.float32) for agent in self.agents}, {agent: {} for agent in self.agents}

    def step(self, actions: dict[str, Any]) -> tuple[Any, ...]:
        self.left -= 1
        now = list(self.agents)
        over = {agent: self.left <= (1 if agent == "first" else 0) for agent in now}
        infos = {agent: {"is_success": self.task.label == "easy" or agent == "first"} if over[agent] else {} for agent in now}
        self.agents = [agent for agent in now if not over[agent]]
        seen = {agent: np.zeros(2, np.float32) for agent in now}
        rewards = {agent: 1.0 if agent == "first" else 3.0 for agent in now}
        return seen, rewards, over, dict.fromkeys(now, False), infos

    def close(self) -> None:
        pass


@pytest.mark.parametrize("backend", ["serial", "multiprocessing"])
def test_agents_of_one_environment_practise_one_task_together(backend: Any, tmp_path: Any) -> None:
    settings = {"num_workers": 2, "overwork": True} if backend == "multiprocessing" else {}
    with cursus.Teacher(cursus.Uniform(["easy", "hard"]), run=tmp_path / "run") as teacher, Hub(teacher) as hub:
        envs = adapter.make(Pair, hub, num_envs=4, backend=backend, **settings)
        assert envs.num_agents == 8
        played(envs, 200)
        envs.close()
        counts = teacher.counts
        assert counts.finished > 100
        assert counts.assigned == counts.finished + counts.lost + counts.withdrawn
    (episodes, *more) = released_episodes(tmp_path / "run")
    for batch in (episodes, *more):
        assert batch.success.tolist() == (batch.task == 0).tolist()  # of a hard task only the first agent succeeds
        assert set(batch.length.tolist()) == {3}
        assert set(batch.returns.tolist()) == {(2 * 1.0 + 3 * 3.0) / 2}


class Native(pufferlib.PufferEnv):
    """A native environment: it begins its next episode in the step that ends one, with the task that was set by then."""

    def __init__(self, agents: int = 1, apart: bool = False, buf: Any = None, seed: int = 0) -> None:
        self.single_observation_space = gymnasium.spaces.Box(-1.0, 100.0, (1,), np.float32)
        self.single_action_space = gymnasium.spaces.Discrete(2)
        self.num_agents, self.apart = agents, apart
        self.next_task: Any = None
        super().__init__(buf)

    def _begin(self) -> None:
        self.task, self.left = self.next_task, 2 + self.next_task.id
        self.observations[:] = self.task.id

    def reset(self, seed: int | None = None) -> tuple[Any, list[dict[str, Any]]]:
        self.terminals[:] = self.truncations[:] = False
        self._begin()
        return self.observations, []

    def step(self, actions: Any) -> tuple[Any, ...]:
        self.left -= 1
        self.rewards[:] = self.task.id
        self.terminals[:] = self.left == 0
        if self.apart:
            self.terminals[1:] = False
        infos = [{"is_success": True, "played": self.task.id}] if self.left == 0 else []
        if self.left == 0:
            self._begin()
        return self.observations, self.rewards, self.terminals, self.truncations, infos

    def close(self) -> None:
        pass


def make_without_buffers() -> Native:
    return Native()


def set_next(env: Native, task: Any) -> None:
    env.next_task = task


@pytest.mark.parametrize("agents", [1, 3])
@pytest.mark.parametrize("backend", ["serial", "multiprocessing"])
def test_a_native_environment_practises_the_tasks_that_its_results_are_credited_to(
    backend: Any, agents: int, tmp_path: Any
) -> None:
    settings = {"num_workers": 2, "overwork": True} if backend == "multiprocessing" else {}
    with cursus.Teacher(cursus.Uniform(4), run=tmp_path / "run") as teacher, Hub(teacher) as hub:
        for _ in range(2):  # seats are taken again
            envs = adapter.make(
                partial(Native, agents),
                hub,
                num_envs=4,
                backend=backend,
                set_task=set_next,
                score=lambda info: info["played"],
                **settings,
            )
            assert envs.num_agents == 4 * agents
            played(envs, 150)
            envs.close()
        counts = teacher.counts
        assert counts.finished > 200
        assert counts.in_flight == 0
        assert counts.assigned == counts.finished + counts.lost + counts.withdrawn
    for batch in released_episodes(tmp_path / "run"):
        done = batch.outcome == 0
        assert batch.score[done].tolist() == batch.task[done].tolist()  # what was played is what was assigned
        assert batch.length[done].tolist() == (2 + batch.task[done]).tolist()
        assert batch.returns[done].tolist() == (batch.task[done] * (2 + batch.task[done])).tolist()


def test_what_a_native_environment_cannot_do_is_said() -> None:
    with cursus.Teacher(cursus.Uniform(4)) as teacher, Hub(teacher) as hub:
        with pytest.raises(SettingsError, match="no options at reset.*set_task"):
            adapter.make(Native, hub, num_envs=2, backend="serial")
        with pytest.raises(SettingsError, match="must take buf and seed"):
            adapter.make(make_without_buffers, hub, num_envs=2, backend="serial", set_task=set_next)
        with pytest.raises(SettingsError, match="makes a native environment of PufferLib, not a Corridor"):
            adapter.make(lambda buf, seed: Corridor(), hub, num_envs=2, backend="serial", set_task=set_next)
        with pytest.raises(SettingsError, match="no environment of Gymnasium, PettingZoo or PufferLib"):
            adapter.make(dict, hub, num_envs=2, backend="serial")
        envs = adapter.make(partial(Native, 3, True), hub, num_envs=2, backend="serial", set_task=set_next)
        with pytest.raises(SettingsError, match="1 of 3 agents .* ended alone"):
            played(envs, 20)
        envs.close()
