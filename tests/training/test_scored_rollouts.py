"""Scores of rollouts and episodes that are not learned from, in real trainings."""

from __future__ import annotations

import os
import signal
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces
from stable_baselines3 import DQN
from stable_baselines3 import PPO as SB3PPO
from stable_baselines3.common.vec_env import DummyVecEnv

import cursus
from cursus.adapters.gymnasium import CurriculumEnv, TaskHolder
from cursus.adapters.sb3 import CurriculumCallback, CurriculumVecEnvWrapper, SB3VecEnv
from cursus.agents import DDDQN, PPO
from cursus.curricula import PLR, Learnability
from cursus.curricula.scores import RolloutScorer, episode_score
from cursus.errors import SettingsError
from cursus.runs import read_events
from cursus.runs.checkpoint import encode
from cursus.training import Callback, Training, train_agent


class Signs(gymnasium.Env[Any, Any]):
    """Do what the observation says, for as many steps as the task says and two more."""

    observation_space = spaces.Box(0.0, 1.0, (4,), np.float32)
    action_space = spaces.Discrete(4)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        self.left, self.right = (2 + options["task"].id if options else 2), True
        return self._look(), {}

    def _look(self) -> Any:
        self.sign = int(self.np_random.integers(4))
        return np.eye(4, dtype=np.float32)[self.sign]

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        reward = float(action == self.sign)
        self.left -= 1
        self.right &= bool(reward)
        over = self.left == 0
        return self._look(), reward, over, False, {"is_success": self.right} if over else {}


def make(curriculum: cursus.Curriculum, **more: Any) -> Any:
    return cursus.make_vec(Signs, 4, curriculum=curriculum, autoreset="same_step", num_workers=0, seed=3, **more)


def ppo() -> PPO:
    return PPO(4, num_actions=4, num_envs=4, n_steps=32, batch_size=32, n_epochs=2, hidden=(16,), seed=1)


def test_episodes_are_scored_over_several_rollouts() -> None:
    scorer = RolloutScorer("positive_value_loss", 2)
    tickets, tasks, nobody = np.array([7, 8]), np.array([0, 1]), np.zeros(2, dtype=bool)
    scorer.step(np.zeros(2), nobody, tickets, tasks)
    scorer.step(np.ones(2), np.array([True, False]), tickets, tasks)
    found = scorer.finish(np.array([[1.0, 4.0], [-3.0, 2.0]]), np.zeros((2, 2)))
    assert [each.tolist() for each in found] == [[7], [0.5]]  # (1 + 0) / 2
    again = RolloutScorer("positive_value_loss", 2)
    again.load(scorer.state())
    for each in (scorer, again):
        each.step(np.ones(2), np.array([True, True]), np.array([9, 8]), tasks)
        found = each.finish(np.array([[5.0, -6.0]]), np.zeros((1, 2)))
        assert found[0].tolist() == [9, 8]
        assert found[1] == pytest.approx([5.0, 2.0])  # (4 + 2 + 0) / 3
    scorer.step(np.ones(2), nobody, np.array([10, 11]), tasks)
    scorer.forget(np.array([True, False]))
    scorer.step(np.ones(2), np.array([True, True]), np.array([12, 11]), tasks)
    found = scorer.finish(np.array([[100.0, 1.0], [1.0, 2.0]]), np.zeros((2, 2)))
    assert [each.tolist() for each in found] == [[12, 11], [1.0, 1.5]]


def test_max_mc_remembers_the_best_return_of_a_task() -> None:
    scorer = RolloutScorer("max_mc", 1)
    for total, value, score in ((3.0, 1.0, 2.0), (1.0, 0.5, 2.5), (4.0, 0.0, 4.0)):
        scorer.step(np.array([total]), np.array([True]), np.array([0]), np.array([6]))
        assert scorer.finish(np.zeros((1, 1)), np.array([[value]]))[1].tolist() == [score]


def test_ppo_hands_in_the_scores_of_its_rollouts_and_learns_from_what_is_replayed(tmp_path: Path) -> None:
    envs, agent = make(PLR(8, buffer_size=4, robust=True), run=tmp_path / "run"), ppo()
    train_agent(envs, agent, steps=2048, run=tmp_path / "run")
    envs.close()
    events = list(read_events(tmp_path / "run"))
    learned = {
        event["first"] + row: value
        for event in events
        if event["event"] == "assign"
        for row, value in enumerate(event.get("learn", [True] * len(event["task"])))
    }
    ended = {
        ticket: length
        for event in events
        if event["event"] == "finish"
        for ticket, length in zip(event["ticket"], event["length"], strict=True)
    }
    scored = [ticket for event in events if event["event"] == "score" for ticket in event["ticket"]]
    assert sorted(scored) == sorted(ended)  # 2,048 steps are 16 whole rollouts
    withheld = sum(length for ticket, length in ended.items() if not learned[ticket])
    under_way = [ticket for ticket in learned if ticket not in ended]
    most = 2048 - withheld
    assert withheld > 100
    assert most - sum(10 for ticket in under_way) <= agent.steps <= most
    assert "rank 1" in envs.teacher.curriculum.explain()


def test_scores_are_those_of_the_formula() -> None:
    envs, agent = make(PLR(3)), ppo()
    handed: dict[int, float] = {}
    real = envs.teacher.score
    envs.teacher.score = lambda tickets, scores: (
        handed.update(zip(tickets.tolist(), scores.tolist(), strict=True)) or real(tickets, scores)
    )
    steps: dict[int, list[tuple[float, float]]] = {}
    observe = agent.observe

    def diary(seen: Any, done: Any, rewards: Any, *rest: Any) -> None:
        values = agent._acted[0]["values"].tolist()  # type: ignore[index]
        for env, ticket in enumerate(before.tolist()):
            steps.setdefault(ticket, []).append((float(rewards[env]), values[env]))
        observe(seen, done, rewards, *rest)

    act = agent.act_batch

    def acting(*given: Any, **more: Any) -> Any:
        nonlocal before
        before = envs.tickets
        return act(*given, **more)

    before = np.zeros(4)
    agent.observe, agent.act_batch = diary, acting  # type: ignore[method-assign, assignment]
    train_agent(envs, agent, steps=128)  # one rollout: what ended in it was valued by one critic
    envs.close()
    assert len(handed) > 20
    for ticket, score in handed.items():
        rewards, values = zip(*steps[ticket], strict=True)
        assert score == pytest.approx(episode_score("value_l1", rewards, values), abs=1e-5)


def test_a_training_that_was_stopped_goes_on_with_the_same_scores(tmp_path: Path) -> None:
    def run(folder: str, *parts: int) -> bytes:
        for index in range(len(parts)):
            envs = make(
                PLR(8, buffer_size=4, robust=True, score="max_mc"), run=tmp_path / folder, resume=index > 0, seed_episodes=True
            )
            train_agent(envs, ppo(), steps=sum(parts[: index + 1]), run=tmp_path / folder)
            state = encode({"curriculum": envs.teacher.curriculum.state(), "tickets": envs.teacher._book.state()})
            envs.close()
        return state

    assert run("straight", 1000) == run("stopped", 404, 596)


def test_exams_do_not_enter_the_replay_buffer() -> None:
    envs = make(Learnability(8, evaluate=True, replay_prob=0.0))
    agent = DDDQN(4, 4, num_envs=4, hidden=(16,))
    train_agent(envs, agent, steps=400, learning_starts=100)
    assert len(agent.replay_buffer) == 0
    assert agent.steps == 0
    envs.close()


def test_an_agent_without_rollouts_is_refused() -> None:
    envs = make(PLR(8))
    with pytest.raises(SettingsError, match="PLR reads value_l1, a score of rollouts, and DDDQN has none"):
        train_agent(envs, DDDQN(4, 4, num_envs=4), steps=10)
    envs.close()


def test_infos_say_what_is_not_learned_from() -> None:
    envs = make(Learnability(8, evaluate=True))
    _, infos = envs.reset()
    assert infos["learn"].tolist() == envs.learn.tolist() == [False] * 4
    envs.close()
    alone = CurriculumEnv(Signs(), Learnability(8, evaluate=True))
    assert alone.reset()[1]["learn"] is False
    alone.close()
    plain = make(cursus.Uniform(8))
    assert "learn" not in plain.reset()[1]
    plain.close()


@pytest.mark.parametrize("kind", ["ours", "wrapped"])
def test_the_callback_of_sb3_hands_in_scores(kind: str) -> None:
    envs: Any = (
        SB3VecEnv(make(PLR(8, buffer_size=4)))
        if kind == "ours"
        else CurriculumVecEnvWrapper(DummyVecEnv([lambda: TaskHolder(Signs())] * 4), PLR(8, buffer_size=4))
    )
    model = SB3PPO("MlpPolicy", envs, n_steps=32, batch_size=32, n_epochs=1, seed=0, device="cpu")
    model.learn(256, callback=CurriculumCallback(envs))
    curriculum = envs.teacher.curriculum
    assert curriculum.state()["results"] == envs.teacher.counts.finished > 30
    assert curriculum.filled == 4
    assert envs.teacher._book.num_unscored == 0
    off_policy = DQN("MlpPolicy", envs, device="cpu", buffer_size=100)
    with pytest.raises(SettingsError, match="PLR reads value_l1, a score of rollouts; DQN has none"):
        off_policy.learn(10, callback=CurriculumCallback(envs))
    envs.close()


def test_sb3_refuses_episodes_that_it_must_not_learn_from() -> None:
    envs = make(PLR(8, robust=True))
    with pytest.raises(SettingsError, match="PLR has episodes that must not be learned from"):
        SB3VecEnv(envs)
    envs.close()
    with pytest.raises(SettingsError, match="Learnability has episodes"):
        CurriculumVecEnvWrapper(DummyVecEnv([lambda: TaskHolder(Signs())]), Learnability(8, evaluate=True))


class KillsWorkers(Callback):
    """Kills a worker now and then."""

    def __init__(self, envs: Any) -> None:
        self.envs, self.kills = envs, 0

    def on_step(self, training: Training, checkpoint: Any) -> None:
        if training.steps % 200 == 0:
            os.kill(self.envs._workers[0].process.pid, signal.SIGKILL)
            self.kills += 1


@pytest.mark.timeout(120)
def test_episodes_that_were_lost_with_their_worker_are_not_scored() -> None:
    envs = cursus.make_vec(
        Signs,
        4,
        curriculum=PLR(8),
        autoreset="same_step",
        num_workers=2,
        start_method="fork",
        on_worker_loss="restart",
        seed_episodes=True,
    )
    kills = KillsWorkers(envs)
    train_agent(envs, ppo(), steps=512, callbacks=[kills])
    assert kills.kills == 2
    assert envs.teacher.counts.lost >= 2
    assert envs.teacher._book.num_unscored == 0
    assert envs.teacher.curriculum.state()["results"] == envs.teacher.counts.finished
    envs.close()
