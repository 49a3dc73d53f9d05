"""A game of PettingZoo for two, played from the side of player one."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from gymnasium import spaces
from gymnasium.utils.env_checker import check_env
from pettingzoo import ParallelEnv
from pettingzoo.classic.rps.rps import parallel_env

from cursus.adapters.pettingzoo import TwoPlayerEnv
from cursus.envs.hockey import HockeyEnv
from cursus.envs.hockey.parallel import HockeyParallelEnv
from cursus.errors import SettingsError, TaskError
from cursus.tasks import Task
from games import PAPER, PLAYERS, ROCK, SCISSORS, make


def play(env: TwoPlayerEnv, action: Any, opponent: str, seed: int = 0) -> tuple[list[list[float]], float, dict[str, Any]]:
    """What was seen, the return, and the last info of a game in which player one always does the same."""
    observation, _ = env.reset(seed=seed, options={"task": Task(0, "", {"opponent": opponent})})
    seen, total, over = [observation.tolist()], 0.0, False
    while not over:
        observation, reward, terminated, truncated, info = env.step(action)
        seen.append(observation.tolist())
        total, over = total + reward, terminated or truncated
    return seen, total, info


@pytest.mark.parametrize(
    ("action", "winner", "total"), [(ROCK, 0, 0.0), (PAPER, 1, 5.0), (SCISSORS, -1, -5.0)], ids=["draw", "win", "loss"]
)
def test_the_sum_of_rewards_says_who_has_won(action: int, winner: int, total: float) -> None:
    seen, found, info = play(make(), action, "rock")
    assert found == total
    assert (info["winner"], info["is_success"]) == (winner, winner > 0)
    assert seen[0] == [0, 0, 0, 1], "nothing has been done yet"
    assert seen[1:] == [[1, 0, 0, 0]] * 5, "the other's last action, one-hot"


def test_a_scripted_player_sees_what_the_game_shows_its_side() -> None:
    seen, total, _ = play(make(), PAPER, "copycat")
    assert [row.index(1.0) for row in seen[1:]] == [ROCK, PAPER, PAPER, PAPER, PAPER]
    assert total == 1.0


def test_the_seed_says_what_a_random_player_does() -> None:
    env = make()
    first = play(env, ROCK, "random", seed=3)
    play(env, ROCK, "random", seed=4)
    assert play(env, ROCK, "random", seed=3) == first
    assert len({play(env, ROCK, "random", seed=seed)[1] for seed in range(20)}) > 3


def test_another_function_may_say_who_has_won() -> None:
    env = TwoPlayerEnv(parallel_env(max_cycles=3), PLAYERS, winner=lambda returns, infos: 1 if returns[1] == 3.0 else -1)
    assert play(env, SCISSORS, "rock")[2]["winner"] == 1
    assert play(env, PAPER, "rock")[2]["is_success"] is False


def test_from_outside_both_sides_are_seen_and_act_side_by_side() -> None:
    env = make(external=["rival"])
    assert env.observation_space == spaces.Box(0.0, 1.0, (8,), np.float32)
    assert env.action_space == spaces.MultiDiscrete([3, 3])
    env.reset(options={"opponent": "rival"})
    observation, reward, *_ = env.step([ROCK, PAPER])
    assert reward == -1.0
    assert observation.tolist() == [0, 1, 0, 0, 1, 0, 0, 0]
    env.reset(options={"opponent": "rock"})
    assert env.step([PAPER, SCISSORS])[1] == 1.0, "who is in the game itself does not listen"


@pytest.mark.parametrize("external", [[], ["rival"]], ids=["scripted", "external"])
def test_the_checker_of_gymnasium_finds_nothing(external: list[str]) -> None:
    check_env(make(external=external), skip_render_check=True)


def test_strengths_and_tasks_reach_a_game_that_takes_them() -> None:
    """Hockey's own parallel environment, through the adapter, is the same game as `HockeyEnv`."""
    players = {"still": lambda seen, rng: np.zeros(4)}
    winner = lambda returns, infos: infos[0]["winner"]  # noqa: E731 – rewards tell more than goals here
    ours = TwoPlayerEnv(HockeyParallelEnv(), players, external=["rival"], winner=winner)
    theirs = HockeyEnv(external=["rival"])
    assert ours.action_space == theirs.action_space
    assert ours.observation_space == theirs.observation_space
    seen = [env.reset(seed=5, options={"task": {"mode": "shooting", "opponent": "rival"}})[0] for env in (ours, theirs)]
    assert np.array_equal(*seen)
    for _ in range(100):
        action = theirs.action_space.sample()
        one, other = ours.step(action), theirs.step(action)
        assert np.array_equal(one[0], other[0])
        assert one[1:4] == other[1:4]
        if one[2] or one[3]:
            break
    assert one[4]["winner"] == other[4]["winner"]


@pytest.mark.parametrize(
    ("task", "message"),
    [
        ({"opponent": "rok"}, "opponent 'rok' is not known here. Did you mean 'rock'"),
        ({"opponent": "rock", "rounds": 3}, "did not look at its task"),
        ("rock", "a mapping"),
    ],
)
def test_a_wrong_task_is_refused_in_words(task: Any, message: str) -> None:
    with pytest.raises(TaskError, match=message):
        make().reset(options={"task": task})


def test_options_beside_a_task_are_not_overheard() -> None:
    env = make()
    env.reset(options={"task": {}, "opponent": "rock"})
    assert env.step(PAPER)[1] == 1.0
    with pytest.raises(TaskError, match="did not look at its task"):
        env.reset(options={"task": {"opponent": "rock"}, "rounds": 3})


def test_a_function_may_set_what_a_task_says_of_the_game() -> None:
    told: list[Any] = []
    env = TwoPlayerEnv(parallel_env(), PLAYERS, set_task=lambda game, task: told.append((game, task.params)))
    env.reset(options={"task": {"opponent": "rock", "rounds": 3}})
    env.reset(options={"task": {"opponent": "rock"}})
    assert [params for _, params in told] == [{"rounds": 3}, {}]
    assert told[0][0] is env.game


class Odd(ParallelEnv):  # type: ignore[type-arg, misc]
    """Has the spaces it is given."""

    metadata = {"name": "odd"}  # noqa: RUF012

    def __init__(self, actions: dict[str, Any]) -> None:
        self.possible_agents = list(actions)
        self.action_spaces = actions
        self.observation_spaces = dict.fromkeys(actions, spaces.Discrete(2))

    def action_space(self, agent: str) -> Any:
        return self.action_spaces[agent]

    def observation_space(self, agent: str) -> Any:
        return self.observation_spaces[agent]


@pytest.mark.parametrize(
    ("actions", "settings", "message"),
    [
        (dict.fromkeys("abc", spaces.Discrete(2)), {}, "3 players"),
        (dict.fromkeys("ab", spaces.MultiBinary(2)), {}, "MultiBinary"),
        ({"a": spaces.Discrete(2), "b": spaces.Discrete(3)}, {"external": ["rival"]}, "both players see and do the same"),
        (dict.fromkeys("ab", spaces.Discrete(2)), {"external": ["rock"]}, "two opponents are named 'rock'"),
        (dict.fromkeys("ab", spaces.Discrete(2)), {"opponent": "paper"}, "'paper' is not known"),
        (dict.fromkeys("ab", spaces.Discrete(2)), {"opponents": {}}, "nobody to play against"),
    ],
)
def test_what_is_no_game_for_two_is_refused_in_words(actions: Any, settings: dict[str, Any], message: str) -> None:
    with pytest.raises(SettingsError, match=message):
        TwoPlayerEnv(Odd(actions), **{"opponents": PLAYERS, **settings})
