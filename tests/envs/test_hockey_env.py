"""Hockey as an environment: seeds, ends, tasks, opponents, checkers, frames."""

from __future__ import annotations

import importlib
import subprocess
import sys
import warnings
from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env

import cursus
import cursus.envs
from cursus.envs.hockey import OPPONENTS, HockeyEnv, Mode, Weights
from cursus.errors import MissingExtra, SettingsError, TaskError

MODES = [mode.value for mode in Mode]


def play(env: HockeyEnv, seed: int | None = None, options: dict[str, Any] | None = None, luck: int = 0) -> list[Any]:
    """One episode with random actions; all that was observed."""
    rng = np.random.default_rng(luck)
    observation, _ = env.reset(seed=seed, options=options)
    log: list[Any] = [observation.tobytes()]
    while True:
        action = rng.uniform(-1, 1, env.action_space.shape).astype(np.float32)
        observation, reward, terminated, truncated, info = env.step(action)
        assert env.observation_space.contains(observation)
        log.append((observation.tobytes(), reward, terminated, truncated, {k: str(v) for k, v in info.items()}))
        if terminated or truncated:
            return log


def test_it_is_registered_once() -> None:
    before = gymnasium.spec("cursus/Hockey-v0")
    cursus.envs.register_envs()
    assert gymnasium.spec("cursus/Hockey-v0") is before
    env = gymnasium.make("cursus/Hockey-v0", opponent="weak", mode="shooting")
    assert env.reset(seed=0)[0].shape == (18,)
    env.close()


@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"opponent": "rival", "external": ["rival"]},
        {"keep_mode": False, "mode": "defense", "opponent": "weak"},
        {"discrete": True},
        {"discrete": True, "fineness": 5, "external": ["rival"]},
    ],
)
def test_the_checkers_of_gymnasium_and_sb3_find_nothing(settings: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    from stable_baselines3.common.env_checker import check_env as check_sb3

    monkeypatch.setenv("SDL_VIDEODRIVER", "dummy")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        check_env(gymnasium.make("cursus/Hockey-v0", **settings).unwrapped)
        check_sb3(HockeyEnv(**settings))


def test_the_checker_of_pettingzoo_finds_nothing() -> None:
    from cursus.envs.hockey.parallel import HockeyParallelEnv

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # its own import uses what it calls deprecated itself
        from pettingzoo.test import parallel_api_test, parallel_seed_test
    for settings in ({}, {"discrete": True}, {"keep_mode": False}):
        parallel_api_test(HockeyParallelEnv("shooting", **settings), num_cycles=300)  # type: ignore[arg-type]
    parallel_seed_test(HockeyParallelEnv)


def test_both_players_of_the_parallel_environment_are_paid_in_mirrored_coin() -> None:
    from cursus.envs.hockey.parallel import HockeyParallelEnv

    env = HockeyParallelEnv(weights={"closeness": 0.0})
    strong, idle = OPPONENTS["strong"](), np.zeros(4, np.float32)
    for seed in range(20):
        seen, _ = env.reset(seed=seed)
        strong.begin(np.random.default_rng(seed))
        while env.agents:
            seen, rewards, terminated, truncated, infos = env.step(
                {"player_1": idle, "player_2": strong.act(seen["player_2"].tolist())}
            )
            assert rewards["player_1"] == -rewards["player_2"]
        if infos["player_2"]["winner"] == 1:
            break
    assert (rewards["player_2"], infos["player_2"]["winner"], infos["player_1"]["winner"]) == (10.0, 1, -1)
    assert infos["player_2"]["is_success"]
    assert terminated["player_1"]
    assert not truncated["player_2"]


@pytest.mark.parametrize("mode", MODES)
def test_an_episode_after_many_others_is_the_same_bit_for_bit(mode: str) -> None:
    used = HockeyEnv()
    for number in range(60):
        play(used, seed=number if number % 7 == 0 else None, options={"mode": MODES[number % 3]}, luck=number)
    for seed in range(12):
        options = {"mode": mode, "opponent": ["weak", "strong"][seed % 2]}
        assert play(used, seed, options, luck=seed) == play(HockeyEnv(), seed, options, luck=seed)


def test_an_episode_cut_short_leaves_nothing_behind() -> None:
    """The puck is held, a contact is open, forces act: the next episode knows nothing of it."""
    used, holds = HockeyEnv(opponent="strong"), 0
    for number in range(120):
        used.reset(seed=number, options={"starts": "two"})
        for _ in range(250):
            used.step(np.zeros(4, np.float32))
            if used.game.keep_two > 3:
                holds += 1
                break
        observation, _ = used.reset(seed=number)
        assert observation[16:].tolist() == [0, 0]
        if number < 10:
            assert play(used, number) == play(HockeyEnv(), number)
    assert holds > 10


def test_the_seed_holds_over_later_resets_and_in_other_processes() -> None:
    code = (
        "import numpy as np; from cursus.envs.hockey import HockeyEnv\n"
        "env = HockeyEnv(); env.reset(seed=3)\n"
        "for _ in range(700):\n"
        "    seen, _, terminated, truncated, _ = env.step(np.full(4, 0.3, np.float32))\n"
        "    if terminated or truncated: env.reset()\n"
        "print(seen.tobytes().hex())"
    )
    runs = [subprocess.run([sys.executable, "-W", "error", "-c", code], capture_output=True, text=True, check=True).stdout]
    env = HockeyEnv()
    play(env, seed=99)
    env.reset(seed=3)
    for _ in range(700):
        seen, _, terminated, truncated, _ = env.step(np.full(4, 0.3, np.float32))
        if terminated or truncated:
            env.reset()
    assert runs[0].strip() == seen.tobytes().hex()


def test_the_players_take_turns_at_the_puck_and_the_seed_says_who_begins() -> None:
    env, first = HockeyEnv(opponent="none"), []
    for seed in range(20):
        halves = [env.reset(seed=seed if number == 0 else None)[0][12] < 0 for number in range(4)]
        assert halves in ([True, False, True, False], [False, True, False, True])
        first.append(halves[0])
    assert 3 < sum(first) < 17
    assert all(env.reset(options={"starts": "two"})[0][12] > 0 for _ in range(5))


def test_time_is_truncation_and_a_goal_is_termination() -> None:
    env, ends = HockeyEnv("defense", "none"), set()
    for seed in range(40):
        env.reset(seed=seed)
        steps, terminated, truncated = 0, False, False
        while not (terminated or truncated):
            _, reward, terminated, truncated, info = env.step(np.zeros(4, np.float32))
            steps += 1
        assert terminated != truncated
        assert terminated == (info["winner"] != 0)
        assert info["is_success"] == (info["winner"] == 1)
        assert not truncated or steps == 81
        assert reward == pytest.approx(10 * info["winner"] + info["reward_closeness_to_puck"])
        ends.add(info["winner"])
    assert ends == {-1, 0, 1}


def test_a_task_sets_one_episode_and_the_next_is_as_before() -> None:
    env = HockeyEnv("normal", "weak", weights={"touch": 1.0})
    task = cursus.Task(0, "a", {"mode": "shooting", "opponent": "none", "weights": {"direction": 2.0}})
    env.reset(seed=0, options={"task": task})
    assert (env.task.mode, env.task.opponent) == (Mode.TRAIN_SHOOTING, "none")
    assert env.task.weights == Weights(touch=1.0, direction=2.0)
    env.reset()
    assert (env.task.mode, env.task.opponent, env.task.weights) == (Mode.NORMAL, "weak", Weights(touch=1.0))
    env.reset(options={"task": cursus.Task(0, "defense", "defense")})
    assert env.task.mode is Mode.TRAIN_DEFENSE


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"mode": "penalty"}, "normal, shooting, defense"),
        ({"opponent": "medium"}, "none, strong, weak"),
        ({"oponent": "weak"}, "mode, opponent, weights, starts"),
        ({"weights": {"goals": 1.0}}, "goal, closeness, touch, direction"),
        ({"weights": {"goal": float("nan")}}, "not a finite number"),
        ({"weights": 3}, "mapping"),
        ({"starts": 1}, "'one', 'two'"),
        ({"task": cursus.Task(0, "a", 7)}, "mapping"),
        ({"task": {"mode": "shooting"}, "speed": 2}, "no 'speed'"),
    ],
)
def test_a_wrong_task_says_what_is_allowed(options: dict[str, Any], message: str) -> None:
    with pytest.raises(TaskError, match=message):
        HockeyEnv().reset(options=options)


def test_wrong_settings_and_actions_are_refused_in_words() -> None:
    for settings, message in (
        ({"mode": "penalty"}, "normal, shooting, defense"),
        ({"fineness": 3}, "discrete=True only"),
        ({"render_mode": "ascii"}, "rgb_array"),
        ({"opponents": {"weak": print}}, "two opponents are named 'weak'"),
        ({"opponents": {"me": print}, "external": ["me"]}, "two opponents are named 'me'"),
        ({"opponent": "rival"}, "no opponent 'rival'"),
    ):
        with pytest.raises(ValueError, match=message):
            HockeyEnv(**settings)  # type: ignore[arg-type]
    env = HockeyEnv()
    env.reset(seed=0)
    for action, message in ((np.zeros(3), "4 numbers"), (np.full(4, np.nan), "not made of numbers")):
        with pytest.raises(SettingsError, match=message):
            env.step(action)
    with pytest.raises(SettingsError, match="from 0 to 7"):
        HockeyEnv(discrete=True).step(8)
    env.step(np.full(4, 1e9))


def test_weights_make_the_reward() -> None:
    weights = {"goal": 3.0, "closeness": 0.5, "touch": 2.0, "direction": 4.0}
    env = HockeyEnv(weights=weights)
    env.reset(seed=0)
    for _ in range(200):
        _, reward, terminated, _, info = env.step(env.action_space.sample())
        terms = [info[f"reward_{name}"] for name in ("closeness_to_puck", "touch_puck", "puck_direction")]
        assert reward == pytest.approx(3 * info["winner"] + 0.5 * terms[0] + 2 * terms[1] + 4 * terms[2])
        if terminated:
            env.reset()


def test_an_opponent_may_be_a_function_and_sees_its_own_frame() -> None:
    seen: list[Any] = []

    def still(observation: Any) -> Any:
        seen.append(observation)
        return np.zeros(4, np.float32)

    env = HockeyEnv(opponents={"still": still})
    for options in ({"opponent": "still"}, {"opponent": still}):
        _, _ = env.reset(seed=1, options=options)
        shown = env.opponent_observation()
        env.step(np.ones(4, np.float32))
        assert np.array_equal(seen.pop(), shown)
        assert shown.dtype == np.float32


def test_both_sides_from_outside_three_ways_give_one_game() -> None:
    actions = np.random.default_rng(0).uniform(-1, 1, (80, 8)).astype(np.float32)
    outside, both = HockeyEnv(opponent="rival", external=["rival"]), HockeyEnv(opponent="none")
    queue: list[Any] = []
    function = HockeyEnv(opponent=lambda _: queue.pop())
    first = [env.reset(seed=4, options={"mode": "shooting"}) for env in (outside, both, function)]
    assert first[0][0].shape == (36,)
    assert first[0][0][18 + 12] == -first[0][0][12]
    for action in actions:
        queue.append(action[4:])
        results = [outside.step(action), both.step_both(action[:4], action[4:]), function.step(action[:4])]
        for other in results[1:]:
            assert np.array_equal(results[0][0][:18], other[0])
            assert results[0][1:4] == other[1:4]
        assert np.array_equal(results[0][0][18:], both.opponent_observation())


def test_what_is_said_for_player_two_counts_only_where_somebody_outside_plays() -> None:
    games = [HockeyEnv(external=["rival"]), HockeyEnv(external=["rival"]), HockeyEnv()]
    for opponent, alike in (("weak", True), ("rival", False)):
        for env in games:
            env.reset(seed=3, options={"opponent": opponent if env is not games[2] else "weak"})
        for _ in range(30):
            one, two, other = np.random.default_rng(1).uniform(-1, 1, (3, 4)).astype(np.float32)
            seen = [games[0].step(np.concatenate([one, two]))[0], games[1].step(np.concatenate([one, other]))[0]]
            plain = games[2].step(one)[0]
        assert np.array_equal(seen[0], seen[1]) is alike
        assert np.array_equal(seen[0][:18], plain) is alike


def test_strong_clearly_beats_weak_from_either_side() -> None:
    results = {1: 0, 0: 0, -1: 0}
    for one, two, side in (("strong", "weak", 1), ("weak", "strong", -1)):
        env, player = HockeyEnv(opponent=two), OPPONENTS[one]()
        for number in range(100):
            env.reset(seed=0 if number == 0 else None)
            player.begin(env.np_random)
            over = False
            while not over:
                _, _, terminated, truncated, info = env.step(player.act(env.game.view_one))
                over = terminated or truncated
            results[side * info["winner"]] += 1
    assert results[1] > 1.3 * results[-1]


def test_a_curriculum_over_modes_runs_in_two_processes() -> None:
    tasks = cursus.tasks.Product(mode=MODES, opponent=["none", "weak", "strong"])
    envs = cursus.make_vec("cursus/Hockey-v0", 6, curriculum=cursus.Uniform(tasks), num_workers=1, seed=1, record_episodes=True)
    envs.reset()
    envs.action_space.seed(0)
    lengths: dict[str, set[int]] = {mode: set() for mode in MODES}
    for _ in range(800):
        practised = envs.task_ids.copy()
        _, _, terminated, truncated, infos = envs.step(envs.action_space.sample())
        for env in np.flatnonzero(terminated | truncated):
            lengths[tasks[int(practised[env])].params["mode"]].add(int(infos["episode"]["l"][env]))
    assert envs.teacher.counts.finished > 30
    assert max(lengths["normal"]) == 251
    assert max(lengths["shooting"]) == max(lengths["defense"]) == 81
    envs.close()


def test_a_rendered_frame_has_the_shape_of_the_rink_and_shows_the_players(monkeypatch: pytest.MonkeyPatch) -> None:
    env = HockeyEnv(render_mode="rgb_array")
    env.reset(seed=0, options={"starts": "one"})
    frame = env.render()
    assert (frame.shape, frame.dtype) == ((480, 600, 3), np.uint8)
    red, blue = frame[240, 120].astype(int), frame[240, 480].astype(int)
    assert red[0] > red[2]
    assert blue[2] > blue[0]
    for _ in range(10):
        env.step(np.array([1, 1, 1, 0], np.float32))
    assert not np.array_equal(env.render(), frame)
    env.close()
    monkeypatch.setenv("SDL_VIDEODRIVER", "dummy")
    window = HockeyEnv(render_mode="human")
    window.reset(seed=0)
    window.step(np.zeros(4, np.float32))
    assert window.render() is None
    window.close()
    assert HockeyEnv().render() is None


@pytest.mark.parametrize("library", ["Box2D", "pygame"])
def test_a_missing_library_is_named_when_it_is_needed(library: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, library, None)
    with pytest.raises(MissingExtra, match=rf"{library}(-ce)? is not installed.*cursus-rl\[hockey\]"):
        HockeyEnv(render_mode="rgb_array").render()


def test_without_pettingzoo_only_its_own_module_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pettingzoo", None)
    monkeypatch.delitem(sys.modules, "cursus.envs.hockey.parallel", raising=False)
    with pytest.raises(MissingExtra, match=r"cursus-rl\[hockey,pettingzoo\]"):
        importlib.import_module("cursus.envs.hockey.parallel")
