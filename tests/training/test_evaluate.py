"""Evaluation: the same games for every policy, in step, and in a process of its own."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces
from hypothesis import given, settings
from hypothesis import strategies as st

from cursus.agents import SAC, load_policy
from cursus.envs.hockey import HockeyEnv
from cursus.envs.hockey.recipe import hockey_tasks
from cursus.errors import EnvError, ResultError, SettingsError, WorkerError
from cursus.recipe import match_score
from cursus.statistics import wilson, z_of
from cursus.training.evaluate import Score, evaluate
from cursus.training.evaluations import BackgroundEvaluator, Evaluation, evaluate_step
from waiting import wait_until


@dataclass
class Diary:
    """What happened in all environments of a test."""

    resets: list[tuple[int, Any]] = field(default_factory=list)
    made: int = 0
    closed: int = 0


class Duel(gymnasium.Env[Any, Any]):
    """A random number of rounds; whoever guesses the sign of the last number wins, and 0.5 or less of it is a draw."""

    observation_space = spaces.Box(-1.0, 1.0, (3,), np.float32)
    action_space = spaces.Box(-1.0, 1.0, (1,), np.float32)

    def __init__(self, diary: Diary | None = None, trouble: str = "") -> None:
        self.diary, self.trouble = diary or Diary(), trouble
        self.number = self.diary.made
        self.diary.made += 1

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        assert seed is not None
        assert options is not None
        self.task = options["task"].params
        self.diary.resets.append((seed, self.task))
        if self.trouble == "reset":
            raise RuntimeError("the hall is closed")
        self.left = int(self.np_random.integers(1, 20))
        return self._look(), {}

    def _look(self) -> Any:
        self.seen = self.np_random.uniform(-1, 1, 3).astype(np.float32)
        return self.seen

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        if self.trouble == "step" and self.number == 3:
            raise ValueError("the floor is lava")
        self.left -= 1
        over, draw = self.left == 0, abs(self.seen[0]) < 0.5
        right = np.sign(action[0]) == np.sign(self.seen[0])
        winner = 0 if draw else 1 if right else -1
        reward = np.nan if self.trouble == "reward" else float(action[0]) + 10 * winner * over
        info = {"winner": winner, "is_success": winner > 0} if over else {}
        if self.trouble == "silent":
            info = {"colour": "red"}
        return self._look(), reward, over and not draw, over and draw, info

    def close(self) -> None:
        self.diary.closed += 1


class Guess:
    """Right whenever the second number is above `skill`; counts how it was asked."""

    def __init__(self, skill: float = 0.0) -> None:
        self.skill = skill
        self.calls: list[tuple[int, bool]] = []

    def act_batch(self, observations: Any, *, deterministic: bool) -> Any:
        self.calls.append((len(observations), deterministic))
        return np.where(observations[:, 1:2] > self.skill, observations[:, :1], -observations[:, :1])


TASKS = {"short": [{"side": "left"}, {"side": "right"}], "long": [{"side": "left"}, {"side": "right"}]}


# ---- the games


@given(num_envs=st.integers(1, 40), games=st.integers(1, 30), seed=st.integers(0, 2**64 - 1))
@settings(max_examples=30, deadline=None)
def test_the_number_of_environments_changes_nothing(num_envs: int, games: int, seed: int) -> None:
    alone = evaluate(Guess(), Duel, TASKS, games=games, num_envs=1, seed=seed)
    assert evaluate(Guess(), Duel, TASKS, games=games, num_envs=num_envs, seed=seed) == alone


@pytest.mark.parametrize("games", [1, 2, 7, 20])
def test_sides_are_balanced_and_no_seed_is_used_twice(games: int) -> None:
    diary = Diary()
    evaluate(Guess(), lambda: Duel(diary), TASKS, games=games, num_envs=3)
    sides = Counter(task["side"] for _, task in diary.resets)
    assert sides["left"] == 2 * ((games + 1) // 2)
    assert sides["right"] == 2 * (games // 2)
    assert len({seed for seed, _ in diary.resets}) == 2 * games


def test_other_seeds_and_other_names_mean_other_games() -> None:
    def seeds(name: str, seed: int) -> set[int]:
        diary = Diary()
        evaluate(Guess(), lambda: Duel(diary), {name: [{}]}, games=20, seed=seed)
        return {each for each, _ in diary.resets}

    assert seeds("a", 0) == seeds("a", 0)
    assert not seeds("a", 0) & seeds("a", 1)
    assert not seeds("a", 0) & seeds("b", 0)


def test_all_games_act_in_one_call_and_those_who_are_done_drop_out() -> None:
    together, alone = Guess(), Guess()
    score = evaluate(together, Duel, {"one": [{}]}, games=64, num_envs=32)[0]
    steps = round(score.mean_length * score.games)
    assert len(together.calls) < steps / 16
    assert max(rows for rows, _ in together.calls) == 32
    assert [rows for rows, _ in together.calls] == sorted((rows for rows, _ in together.calls), reverse=True)
    assert together.calls[-1][0] == 16
    evaluate(alone, Duel, {"one": [{}]}, games=64, num_envs=1)
    assert len(alone.calls) == steps


@pytest.mark.parametrize("deterministic", [True, False])
def test_the_policy_is_told_whether_to_explore(deterministic: bool) -> None:
    policy = Guess()
    evaluate(policy, Duel, TASKS, games=3, deterministic=deterministic)
    assert {told for _, told in policy.calls} == {deterministic}


def test_no_more_environments_are_made_than_there_are_games_and_all_are_closed() -> None:
    diary = Diary()
    evaluate(Guess(), lambda: Duel(diary), TASKS, games=2, num_envs=16)
    assert (diary.made, diary.closed) == (4, 4)


# ---- the counts


def winner_score(info: Any) -> float:
    return (float(info["winner"]) + 1.0) / 2.0


def test_wins_draws_and_losses_add_up() -> None:
    best, worst = (evaluate(Guess(skill), Duel, {"one": [{}]}, games=200, score=winner_score)[0] for skill in (-2.0, 2.0))
    assert (best.successes or 0) + (best.draws or 0) == 200
    assert worst.successes == 0
    assert best.draws == worst.draws
    assert best.loss_rate == 0
    assert best.success_rate == worst.loss_rate
    assert best.draw_rate == pytest.approx(0.5, abs=0.1)
    assert best.mean_length == pytest.approx(10, abs=1.0)
    assert best.mean_return > 0 > worst.mean_return


def test_without_a_score_there_are_no_draws() -> None:
    scored, plain = (evaluate(Guess(), Duel, {"one": [{}]}, games=100, score=score)[0] for score in (winner_score, None))
    assert (plain.draws, plain.draw_rate, plain.loss_rate) == (None, None, None)
    assert plain == replace(scored, draws=None)
    assert "drawn" not in plain.text


def test_an_environment_that_does_not_speak_of_success_has_returns_alone() -> None:
    silent = evaluate(Guess(), lambda: Duel(trouble="silent"), {"one": [{}]}, games=20)[0]
    assert (silent.successes, silent.success_rate, silent.success_interval) == (None, None, None)
    assert silent.text == f"one: mean return {silent.mean_return:.2f} of 20"
    assert set(silent.metrics()) == {f"evaluation/one/{key}" for key in ("mean_return", "mean_length", "games")}


class Level(gymnasium.Env[Any, Any]):
    """Nothing is left to chance: whether it is solved depends on the level alone."""

    observation_space = gymnasium.spaces.Box(0.0, 1.0, (3,), np.float32)
    action_space = gymnasium.spaces.Box(-1.0, 1.0, (1,), np.float32)

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[Any, dict[str, Any]]:
        self.number = options["task"].params
        return np.zeros(3, np.float32), {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        return np.zeros(3, np.float32), float(self.number), True, False, {"is_success": self.number != 2}


def test_a_level_that_is_played_again_says_nothing_new() -> None:
    levels, chance = (
        evaluate(Guess(), made, {"one": tasks}, games=60)[0] for made, tasks in ((Level, [1, 2, 3]), (Duel, [{}]))
    )
    assert (levels.games, levels.successes, levels.distinct) == (60, 40, 3)
    assert levels.success_interval == pytest.approx(wilson(2, 3, z_of(0.95)))
    assert chance.distinct is None
    assert chance.success_interval == wilson(chance.successes or 0, 60, z_of(0.95))


def test_success_can_be_read_in_another_way() -> None:
    kept = evaluate(Guess(), Duel, {"one": [{}]}, games=100, success=lambda info: info["winner"] >= 0)[0]
    plain = evaluate(Guess(), Duel, {"one": [{}]}, games=100, score=winner_score)[0]
    assert kept.successes == (plain.successes or 0) + (plain.draws or 0)


def test_waiting_for_the_end_is_not_half_a_success() -> None:
    waits = Score("task", games=100, successes=0, mean_return=0.0, mean_length=100.0)
    tries = Score("task", games=100, successes=38, mean_return=-5.0, mean_length=50.0)
    assert tries.value > waits.value
    assert replace(waits, mean_return=1.0).value > waits.value, "where success is equal, the return decides"


@given(wins=st.integers(0, 50), draws=st.integers(0, 50), losses=st.integers(1, 50))
def test_a_score_says_the_same_in_words_and_metrics(wins: int, draws: int, losses: int) -> None:
    games = wins + draws + losses
    score = Score("50 % weak", games, wins, mean_return=1.5, mean_length=9.0, draws=draws)
    low, high = wilson(wins, games, z_of(0.95))
    assert score.metrics() == {
        f"evaluation/50 % weak/{key}": pytest.approx(value)
        for key, value in {
            "success_rate": wins / games,
            "success_low": low,
            "success_high": high,
            "draw_rate": draws / games,
            "loss_rate": losses / games,
            "mean_return": 1.5,
            "mean_length": 9.0,
            "games": games,
        }.items()
    }
    assert score.success_interval == (low, high)
    assert score.value == (pytest.approx((wins + draws / 2) / games), 1.5)
    assert score.text.startswith(f"50 % weak: {100 * (wins / games):.1f} % won ({100 * low:.1f}–{100 * high:.1f}), ")
    assert score.text.endswith(f"{100 * (score.loss_rate or 0):.1f} % lost of {games}")


# ---- what goes wrong


def test_a_success_that_was_asked_for_by_name_is_missed() -> None:
    with pytest.raises(ResultError, match=r"game \d of 'short': .*'won': it has \['colour', 'episode'\]"):
        evaluate(Guess(), lambda: Duel(trouble="silent"), TASKS, success="won")


@pytest.mark.parametrize(
    ("trouble", "error", "complaint"),
    [
        ("step", EnvError, r"game 3 of 'short' failed in step: ValueError: the floor is lava\n\nTraceback"),
        ("reset", EnvError, r"game 0 of 'short' failed in reset: RuntimeError: the hall is closed"),
        ("reward", ResultError, r"game \d of 'short' has a return of nan"),
    ],
)
def test_a_fault_names_the_task_and_the_game(trouble: str, error: type[Exception], complaint: str) -> None:
    diary = Diary()
    with pytest.raises(error, match=complaint):
        evaluate(Guess(), lambda: Duel(diary, trouble), TASKS, num_envs=5)
    assert diary.closed == diary.made > 0


class Broken:
    """Gives what it was told to give."""

    def __init__(self, answer: Callable[[Any], Any]) -> None:
        self.answer = answer

    def act_batch(self, observations: Any, *, deterministic: bool) -> Any:
        return self.answer(observations)


def test_an_action_that_is_no_number_names_the_task_and_the_game() -> None:
    def third_is_nan(observations: Any) -> Any:
        actions = np.zeros((len(observations), 1))
        actions[2] = np.nan
        return actions

    diary = Diary()
    with pytest.raises(ResultError, match=r"the policy's action in game 2 of 'short' is \[nan\]"):
        evaluate(Broken(third_is_nan), lambda: Duel(diary), TASKS)
    assert diary.closed == diary.made == 16


@pytest.mark.parametrize("answer", [lambda rows: np.zeros((3, 1)), lambda rows: 0.0])
def test_a_wrong_number_of_actions_is_refused(answer: Callable[[Any], Any]) -> None:
    with pytest.raises(SettingsError, match=r"actions of shape .* for 16 observations"):
        evaluate(Broken(answer), Duel, TASKS)


@pytest.mark.parametrize(
    "wrong",
    [
        {"games": 0},
        {"games": 2.5},
        {"num_envs": 0},
        {"seed": -1},
        {"tasks": {}},
        {"tasks": {"weak": []}},
        {"tasks": {"weak": "shooting"}},
        {"tasks": ["weak"]},
    ],
)
def test_wrong_settings_are_refused_before_anything_is_made(wrong: dict[str, Any]) -> None:
    diary = Diary()
    with pytest.raises(SettingsError):
        evaluate(Guess(), lambda: Duel(diary), **{"tasks": TASKS, **wrong})
    assert diary.made == 0


def test_one_environment_cannot_play_several_games_at_once() -> None:
    env = Duel()
    with pytest.raises(SettingsError, match="same environment twice"):
        evaluate(Guess(), lambda: env, TASKS)


# ---- hockey


@pytest.fixture(scope="module")
def skater(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The weights of somebody who skates, if not well."""
    path = tmp_path_factory.mktemp("weights") / "skater.safetensors"
    SAC(18, 4, seed=3).save_weights(path)
    return path


def test_a_network_plays_the_same_games_of_hockey_in_any_number_of_environments(skater: Path) -> None:
    def scores(num_envs: int) -> list[Score]:
        return evaluate(load_policy(skater), HockeyEnv, hockey_tasks(), games=6, num_envs=num_envs, seed=7)

    alone = scores(1)
    assert scores(3) == scores(16) == alone
    assert [score.name for score in alone] == ["weak", "strong"]
    assert alone[0].mean_return != alone[1].mean_return


def test_each_side_begins_half_of_the_games_of_hockey() -> None:
    begun: list[tuple[str, bool]] = []

    class Watched(HockeyEnv):
        def reset(self, **options: Any) -> Any:
            found = super().reset(**options)
            begun.append((str(self.task.opponent), self.game.rink.puck_position.x < 5.0))
            return found

    still = Broken(lambda rows: np.zeros((len(rows), 4)))
    scores = evaluate(still, Watched, hockey_tasks(["none", "strong"]), games=4, num_envs=8, score=match_score)
    assert Counter(begun) == {(name, left): 2 for name in ("none", "strong") for left in (True, False)}
    assert (scores[0].draws, scores[0].mean_length) == (4, 251.0)
    assert (scores[1].loss_rate or 0) > (scores[1].success_rate or 0)


def test_one_opponent_is_still_a_list() -> None:
    with pytest.raises(SettingsError, match=r"\['weak'\]"):
        hockey_tasks("weak")


# ---- in the background


@pytest.fixture(scope="module")
def guesser(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The weights of a policy for `Duel`."""
    path = tmp_path_factory.mktemp("weights") / "guesser.safetensors"
    SAC(3, 1, hidden=(16,), seed=1).save_weights(path)
    return path


class Slow(Duel):
    """A `Duel` of which many games take long."""

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        time.sleep(0.02)
        return super().step(action)


class Gated(Duel):
    """A `Duel` that goes on only once a file is there."""

    def __init__(self, gate: Path) -> None:
        super().__init__()
        self.gate = gate

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        while not self.gate.exists():
            time.sleep(0.01)
        return super().step(action)


class Deadly(Duel):
    """A `Duel` that ends the process."""

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        os._exit(7)


def is_gone(pid: int) -> bool:
    """Whether no such process runs; one that nobody has buried yet does not."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except (FileNotFoundError, ProcessLookupError):
        return True


def test_the_background_gives_the_same_scores_in_order(guesser: Path, tmp_path: Path) -> None:
    other = tmp_path / "other.safetensors"
    SAC(3, 1, hidden=(16,), seed=2).save_weights(other)
    with BackgroundEvaluator(lambda: Duel(Diary()), TASKS, games=15, num_envs=4, seed=9) as evaluator:
        pid = evaluator._process.pid
        for step, weights in enumerate((guesser, other, guesser)):
            evaluator.submit(step, weights)
        assert evaluator.outstanding == 3
        found = evaluator.close(wait=True)
    assert [each.step for each in found] == [0, 1, 2]
    assert [each.weights for each in found] == [guesser, other, guesser]
    for each in found:
        alone = {"make_env": Duel, "tasks": TASKS, "games": 15, "num_envs": 4, "seed": 9}
        assert each.scores == evaluate_step(each.step, load_policy(each.weights), each.weights, alone).scores
        assert each.seconds > 0
        assert len(each.metrics()) == 12
    assert found[0].scores != found[2].scores, "the same weights in other games"
    assert found[0].scores != found[1].scores
    assert pid is not None
    assert is_gone(pid)
    assert evaluator.poll() == evaluator.close(wait=True) == []
    with pytest.raises(SettingsError, match="closed"):
        evaluator.submit(3, guesser)


def test_polling_never_waits_and_an_interrupt_is_not_for_the_evaluator(guesser: Path, tmp_path: Path) -> None:
    gate = tmp_path / "open"
    with BackgroundEvaluator(lambda: Gated(gate), TASKS, games=10, num_envs=1) as evaluator:
        pid = evaluator._process.pid
        assert pid is not None
        os.kill(pid, signal.SIGINT)  # before its first line of Python
        evaluator.submit(5, guesser)
        for _ in range(100):  # nothing can come while the gate is shut: a poll that waited for it would hang
            os.kill(pid, signal.SIGINT)
            assert evaluator.poll() == []
        gate.touch()

        def interrupt_and_poll() -> list[Evaluation]:
            os.kill(pid, signal.SIGINT)
            return evaluator.poll()

        found = wait_until(interrupt_and_poll, "an evaluation")
        assert [each.step for each in found] == [5]
        assert os.getpriority(os.PRIO_PROCESS, pid) == min(os.getpriority(os.PRIO_PROCESS, 0) + 10, 19)
        evaluator.submit(6, guesser)
    assert is_gone(pid)


def test_a_failure_comes_with_its_traceback_and_loses_no_other_result(guesser: Path, tmp_path: Path) -> None:
    evaluator = BackgroundEvaluator(lambda: Duel(Diary()), TASKS, games=2)
    evaluator.submit(1, guesser)
    evaluator.submit(2_000, tmp_path / "missing.safetensors")
    evaluator.submit(3, guesser)
    assert [each.step for each in evaluator.close(wait=True)] == [1]
    with pytest.raises(WorkerError, match=r"(?s)step 2,000 failed: CheckpointError: .*missing.*Traceback"):
        evaluator.poll()
    assert [each.step for each in evaluator.poll()] == [3]
    assert evaluator.poll() == []


def test_a_process_that_was_killed_is_noticed(guesser: Path) -> None:
    with BackgroundEvaluator(Slow, TASKS, games=50) as evaluator:
        evaluator.submit(40, guesser)
        assert evaluator.poll() == []
        pid = evaluator._process.pid
        assert pid is not None
        os.kill(pid, signal.SIGKILL)
        wait_until(lambda: is_gone(pid), "the end of the evaluator")
        for act in (evaluator.poll, evaluator.poll, lambda: evaluator.submit(41, guesser), lambda: evaluator.close(wait=True)):
            with pytest.raises(WorkerError, match=r"died \(exit code -9, killed by SIGKILL\)\. Not evaluated: .* step 40\."):
                act()
    assert evaluator.close(wait=False) == []


def test_waiting_for_a_process_that_dies_ends(guesser: Path) -> None:
    evaluator = BackgroundEvaluator(Deadly, TASKS)
    evaluator.submit(1, guesser)
    with pytest.raises(WorkerError, match=r"exit code 7"):
        evaluator.close(wait=True)


PARENT = """
import os, signal, sys
from test_evaluate import TASKS, BackgroundEvaluator, Slow

if __name__ == "__main__":
    evaluator = BackgroundEvaluator(Slow, TASKS, games=10_000)
    evaluator.submit(1, sys.argv[1])
    print(evaluator._process.pid, flush=True)
    sys.stdin.readline()
    os.kill(os.getpid(), signal.SIGKILL)
"""


def test_the_death_of_the_parent_ends_it_in_the_middle_of_a_game(guesser: Path, tmp_path: Path) -> None:
    script = tmp_path / "parent.py"
    script.write_text(PARENT)
    here = {**os.environ, "PYTHONPATH": os.pathsep.join([str(Path(__file__).parent), os.environ.get("PYTHONPATH", "")])}
    command = [sys.executable, str(script), str(guesser)]
    with subprocess.Popen(command, env=here, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as parent:
        assert parent.stdout is not None
        assert parent.stdin is not None
        pid = int(parent.stdout.readline())
        wait_until(lambda: "torch" in Path(f"/proc/{pid}/maps").read_text(), "torch in the evaluator")
        assert not is_gone(pid)
        parent.stdin.write("\n")
        parent.stdin.flush()
        assert parent.wait(30) == -signal.SIGKILL
    try:
        wait_until(lambda: is_gone(pid), "the end of the evaluator", 30)
    finally:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


@pytest.mark.parametrize("wrong", [{"games": 0}, {"tasks": {}}, {"num_envs": -1}])
def test_wrong_settings_start_no_process(wrong: dict[str, Any]) -> None:
    with pytest.raises(SettingsError):
        BackgroundEvaluator(Duel, **{"tasks": TASKS, **wrong})


class Clock(gymnasium.Env[Any, Any]):
    """Episodes of some steps, which succeed if every action was how many steps the episode had before."""

    observation_space = spaces.Box(-1.0, 1.0, (1,), np.float32)
    action_space = spaces.Discrete(20)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        self.step_number, self.right = 0, True
        self.last = int(self.np_random.integers(1, 9))
        return np.zeros(1, dtype=np.float32), {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        self.right &= int(action) == self.step_number
        self.step_number += 1
        return np.zeros(1, dtype=np.float32), 0.0, self.step_number > self.last, False, {"success": self.right}


class CountingPolicy:
    """Remembers how many steps an episode had."""

    memory_size = 1

    def act_batch(self, observations: Any, *, deterministic: bool) -> Any:
        raise AssertionError("this one has a memory")

    def act_from(self, memory: Any, observations: Any, *, deterministic: bool) -> tuple[Any, Any]:
        return memory[:, 0].astype(np.int64), memory + 1.0


@pytest.mark.parametrize("num_envs", [1, 3, 40])
def test_each_game_has_a_memory_of_its_own(num_envs: int) -> None:
    (score,) = evaluate(CountingPolicy(), Clock, {"any": [None]}, games=30, num_envs=num_envs)
    assert score.successes == 30
