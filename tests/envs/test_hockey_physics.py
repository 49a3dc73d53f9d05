"""The constants of the game, replayed in situations that show one of them each."""

from __future__ import annotations

from math import cos, hypot, pi, sin

import numpy as np
import pytest

from cursus.envs.hockey import Game, Mode, discrete_actions
from cursus.envs.hockey.game import Start, draw_start
from cursus.errors import SettingsError

STILL = (0.0, 0.0, 0.0, 0.0)
MASS, STEP_S = 58.0, 0.02
INERTIA = 4.578 - MASS * 0.12238**2  # 4.578 is about the origin of the body, and it turns about its centre of mass
SIDES = [1, -1]


@pytest.fixture(scope="module")
def game() -> Game:
    return Game()


def begin(game: Game, mode: Mode = Mode.NORMAL, **positions: tuple[float, float]) -> None:
    game.start_from(mode, Start(**{"puck": (5.0, 6.9), **positions}))


def act(game: Game, sign: int, *action: float) -> list[float]:
    """One player acts, the other does nothing; what the first one sees."""
    padded = (*action, *STILL[len(action) :])
    game.step(*((padded, STILL) if sign > 0 else (STILL, padded)))
    return game.view_one if sign > 0 else game.view_two


def put(game: Game, sign: int, x: float, y: float, vx: float = 0.0, vy: float = 0.0, angle: float = 0.0) -> None:
    """Put a player at a position in its own frame."""
    skater = game.rink.one if sign > 0 else game.rink.two
    skater.body.transform = ((5 + sign * x, 4 + sign * y), angle)
    skater.body.linearVelocity = (sign * vx, sign * vy)


def test_masses_are_those_of_the_outlines(game: Game) -> None:
    for skater in (game.rink.one, game.rink.two):
        assert skater.mass == pytest.approx(58.0, abs=0.01)
        assert skater.body.inertia == pytest.approx(4.578, abs=0.001)
    assert game.rink.puck_mass == pytest.approx(1.032, abs=0.001)


@pytest.mark.parametrize("sign", SIDES)
def test_a_push_is_6000_newton_against_a_damping_of_5(game: Game, sign: int) -> None:
    begin(game)
    view = act(game, sign, 1.0, -0.5)
    expected = 6000 * STEP_S / MASS * (1 - 5 * STEP_S)
    assert view[3] == pytest.approx(expected, rel=1e-4)
    assert view[4] == pytest.approx(-0.5 * expected, rel=1e-4)


@pytest.mark.parametrize("sign", SIDES)
def test_above_speed_10_only_braking_counts_and_damping_is_20(game: Game, sign: int) -> None:
    for push, gained in ((1.0, 0.0), (-1.0, -6000 * STEP_S / MASS)):
        begin(game)
        put(game, sign, -3.0, 0.0, vx=10.5)
        assert act(game, sign, push)[3] == pytest.approx((10.5 + gained) * 0.6, rel=1e-4)


@pytest.mark.parametrize("sign", SIDES)
def test_near_the_centre_line_who_comes_is_thrown_back_and_who_leaves_is_helped(game: Game, sign: int) -> None:
    for speed, expected in ((1.0, 1.0 - 2.0 + 0.3), (-1.0, -1.0 - 0.3)):
        begin(game)
        put(game, sign, -0.3, 0.0, vx=speed)
        assert act(game, sign, 1.0)[3] == pytest.approx(expected * 0.6, rel=1e-4)


@pytest.mark.parametrize("sign", SIDES)
@pytest.mark.parametrize(("x", "y", "push"), [(-3.6, 0.0, (-1.0, 0.0)), (-2.0, 2.85, (0.0, 1.0)), (-2.0, -2.85, (0.0, -1.0))])
def test_nobody_pushes_beyond_the_limits_of_its_half(
    game: Game, sign: int, x: float, y: float, push: tuple[float, float]
) -> None:
    begin(game, puck=(5.0, 4.0))
    put(game, sign, x, y, vx=push[0], vy=push[1])
    view = act(game, sign, *push)
    assert view[3] == view[4] == 0.0
    view = act(game, sign, -push[0], -push[1])
    assert view[3] * push[0] + view[4] * push[1] < 0.0


@pytest.mark.parametrize("sign", SIDES)
def test_a_turn_is_a_torque_of_400_until_60_degrees_and_a_spring_beyond(game: Game, sign: int) -> None:
    begin(game)
    assert act(game, sign, 0.0, 0.0, 0.5)[5] == pytest.approx(0.5 * 400 * STEP_S / INERTIA * 0.96, rel=1e-3)
    begin(game)
    put(game, sign, -3.0, 0.0, angle=pi / 3 + 0.1)
    expected = -0.1 * (pi / 3 + 0.1) * MASS / INERTIA * 0.8
    assert act(game, sign, 0.0, 0.0, 1.0)[5] == pytest.approx(expected, rel=1e-3)


def test_a_fast_puck_is_damped_by_10_and_a_slow_one_hardly(game: Game) -> None:
    """What was shot at the start flies freely for one step, as what a player shoots does."""
    for speed, factor in ((40.0, 0.8), (20.0, 0.999)):
        begin(game, puck=(3.0, 6.0), shot=(speed, 0.0))
        game.step(STILL, STILL)
        assert game.view_one[14] == pytest.approx(0.999 * speed, rel=1e-4)
        game.step(STILL, STILL)
        assert game.view_one[14] == pytest.approx(factor * 0.999 * speed, rel=1e-4)


def caught(game: Game, sign: int) -> list[float]:
    """The puck flies at a player until it is caught; what that player sees."""
    begin(game, puck=(5 - sign * 2.0, 4.0), shot=(-sign * 5.0, 0.0))
    for _ in range(20):
        view = act(game, sign)
        if view[16] == 15:
            return view
    raise AssertionError("the puck was not caught")


@pytest.mark.parametrize("sign", SIDES)
def test_a_caught_puck_is_held_for_14_steps_and_then_shot_with_60(game: Game, sign: int) -> None:
    caught(game, sign)
    counts = []
    for _ in range(13):
        view = act(game, sign, 0.2, 0.3)
        counts.append(view[16])
        assert hypot(view[12] - view[0], view[13] - view[1]) < 0.5
    assert counts == list(range(14, 1, -1))
    assert act(game, sign)[16] == 0
    assert hypot(*view_of(game, sign)[14:16]) == pytest.approx(60.0, abs=4.0)  # and the keeper's own speed


def view_of(game: Game, sign: int) -> list[float]:
    return game.view_one if sign > 0 else game.view_two


@pytest.mark.parametrize("sign", SIDES)
def test_a_shot_ends_the_holding_and_follows_the_angle(game: Game, sign: int) -> None:
    caught(game, sign)
    for _ in range(5):
        act(game, sign, 0.0, 0.0, 0.3)
    angle = view_of(game, sign)[2]
    view = act(game, sign, 0.0, 0.0, 0.0, 0.6)
    assert view[16] == 0
    assert angle > 0.05
    assert view[14] == pytest.approx(60 * cos(angle), rel=0.05)
    assert view[15] == pytest.approx(60 * sin(angle), rel=0.25)
    assert act(game, sign, 0.0, 0.0, 0.0, 0.6)[16] == 0


def test_a_puck_that_moves_away_is_not_caught(game: Game) -> None:
    begin(game, puck=(2.6, 4.0), shot=(0.5, 0.0))
    put(game, 1, -3.0, 0.0, vx=9.0)
    for _ in range(8):
        act(game, 1, 1.0)
        assert game.keep_one == 0
    assert game.view_one[14] > 1.0  # it was pushed


def test_without_keep_mode_nothing_is_caught_and_nothing_counts() -> None:
    game = Game(keep_mode=False)
    begin(game, puck=(3.0, 4.0), shot=(-5.0, 0.0))
    for _ in range(30):
        game.step((0.0, 0.0, 0.0, 1.0), STILL)
        assert len(game.view_one) == len(game.view_two) == 16
        assert game.keep_one == 0


@pytest.mark.parametrize("sign", SIDES)
def test_a_puck_cannot_fly_through_a_goal_unseen(game: Game, sign: int) -> None:
    """A shot travels 1.2 units in a step, and a goal with the puck's own size is 0.77 deep."""
    for offset in np.linspace(0.0, 1.2, 13).tolist():
        begin(game, two=(8.0, 6.0), puck=(5 + sign * (2.2 + offset), 4.0), shot=(sign * 60.0, 0.0))
        put(game, 1, -3.0, 2.0)
        for _ in range(6):
            game.step(STILL, STILL)
            if game.winner:
                break
        assert game.winner == sign


@pytest.mark.parametrize("sign", SIDES)
def test_a_goal_does_not_count_if_the_keeper_catches_the_puck_on_its_way_in(game: Game, sign: int) -> None:
    """Where the puck is counts at the beginning of a step, when a keeper has already taken it back."""
    begin(game, puck=(5 - sign * 1.6, 4.0), shot=(-sign * 50.0, 0.0))
    views = [act(game, sign)[12:17] for _ in range(3)]
    assert views[-1][0] < -3.9, "it has flown past the keeper, over the line"
    assert views[-1][4] == 15, "who touched it on the way"
    for _ in range(5):
        assert act(game, sign)[16] > 0
        assert game.winner == 0
    begin(game, puck=(5 - sign * 1.6, 4.0), shot=(-sign * 50.0, 0.0))
    put(game, sign, -3.0, 2.5)
    for _ in range(5):
        act(game, sign)
    assert game.winner == -sign, "with nobody in its way it is a goal"


@pytest.mark.parametrize("sign", SIDES)
def test_a_goal_is_seen_in_the_step_after_the_puck_has_come_there(game: Game, sign: int) -> None:
    """Shot with 60: v = 60·0.999, then damped by 10, v·0.8. The goal begins at 255/60 − 10/60, and the puck is 13/60 wide."""
    line = (255 - 10 - 13) / 60
    begin(game, two=(8.0, 6.0), puck=(5 + sign * 2.2, 4.0), shot=(sign * 60.0, 0.0))
    put(game, 1, -3.0, 2.0)
    flown, speed = 2.2, 60.0 * 0.999
    for winner in (0, 0, sign):
        before, flown = flown, flown + STEP_S * speed
        speed *= 0.8
        game.step(STILL, STILL)
        assert sign * game.view_one[12] == pytest.approx(flown, abs=1e-4)
        assert game.winner == winner == sign * (before > line)


@pytest.mark.parametrize(("speed", "damped"), [(-60.0, 1 - 10 * STEP_S), (-20.0, 1 - 0.05 * STEP_S)], ids=["fast", "slow"])
def test_a_fast_puck_that_was_caught_is_still_damped_when_it_is_shot_at_once(game: Game, speed: float, damped: float) -> None:
    """It is held with its keeper's velocity, gets 60 more, and is damped as it was when it was last seen: by 10 above 25."""
    begin(game, puck=(3.4, 4.0), shot=(speed, 0.0))
    for _ in range(10):
        seen = act(game, 1)
        if seen[16] == 15:
            break
    assert (abs(seen[14]) > 25.0) == (speed == -60.0)
    assert act(game, 1, 0.0, 0.0, 0.0, 1.0)[14] == pytest.approx((seen[3] + 60.0) * damped, rel=1e-4)


def test_a_fast_puck_that_is_held_is_damped_for_one_step_only(game: Game) -> None:
    begin(game, puck=(3.4, 4.0), shot=(-60.0, 0.0))
    while act(game, 1)[16] != 15:
        pass
    act(game, 1)
    keeper = game.view_one[3]
    assert game.view_one[16] == 14
    assert act(game, 1, 0.0, 0.0, 0.0, 1.0)[14] == pytest.approx((keeper + 60.0) * 0.999, rel=1e-4)


def test_the_shot_of_a_defense_comes_with_the_first_step(game: Game) -> None:
    game.start(Mode.TRAIN_DEFENSE, np.random.default_rng(0))
    before = game.view_one
    assert before[14:16] == [0.0, 0.0]
    game.step(STILL, STILL)
    after = game.view_one
    assert hypot(*after[14:16]) == pytest.approx(60.0 * 0.999, rel=1e-4)
    assert [after[12] - before[12], after[13] - before[13]] == pytest.approx([STEP_S * after[14], STEP_S * after[15]], abs=1e-4)


def test_a_puck_that_a_defense_begins_with_on_player_two_is_caught_by_it(game: Game) -> None:
    """Both touch while the puck is still at rest; a moment later it would be too fast, -60, to be caught."""
    begin(game, Mode.TRAIN_DEFENSE, two=(7.0, 4.0), puck=(7.0, 4.0), shot=(-60.0, 0.0))
    game.step(STILL, STILL)
    assert game.keep_two == 15
    assert game.view_one[12] == pytest.approx(2.0 - 60.0 * 0.999 * STEP_S, abs=1e-3)
    game.step(STILL, STILL)
    assert game.keep_two == 14
    assert hypot(game.view_one[12] - game.view_one[6], game.view_one[13] - game.view_one[7]) < 0.5, "it is back"
    assert game.view_one[14] == pytest.approx(game.view_one[9], abs=0.1)


def test_the_posts_send_the_puck_back(game: Game) -> None:
    begin(game, puck=(7.0, 5.9), shot=(20.0, 0.0))
    for _ in range(20):
        game.step(STILL, STILL)
    assert game.winner == 0
    assert game.view_one[14] < 0.0


@pytest.mark.parametrize(("mode", "per_unit"), [(Mode.NORMAL, 0.0576), (Mode.TRAIN_SHOOTING, 0.18), (Mode.TRAIN_DEFENSE, 0.18)])
def test_distance_costs_only_while_the_puck_is_in_ones_own_half_and_does_not_leave(
    game: Game, mode: Mode, per_unit: float
) -> None:
    begin(game, mode, puck=(4.0, 6.0))
    game.step(STILL, STILL)
    assert game.terms_one().closeness == pytest.approx(-per_unit * hypot(2.0, 2.0), rel=1e-5)
    assert game.terms_two().closeness == 0.0
    begin(game, mode, puck=(4.0, 6.0), shot=(1.0, 0.0))
    game.step(STILL, STILL)
    assert game.terms_one().closeness == 0.0
    assert game.terms_one().direction == pytest.approx(1.0 / (game.limit * 25), rel=2e-3)
    assert game.terms_two().direction == -game.terms_one().direction


@pytest.mark.parametrize("sign", SIDES)
def test_a_touch_counts_in_the_step_of_the_catch_only(game: Game, sign: int) -> None:
    caught(game, sign)
    terms = [game.terms_one(), game.terms_two()][::sign]
    assert (terms[0].touch, terms[1].touch) == (1.0, 0.0)
    act(game, sign)
    assert game.terms_one().touch == game.terms_two().touch == 0.0


def test_starts_fill_their_ranges_and_stay_in_them() -> None:
    rng = np.random.default_rng(0)
    draws = {mode: [draw_start(mode, rng, one_starts=True) for _ in range(2000)] for mode in Mode}
    mirrored = [draw_start(Mode.NORMAL, rng, one_starts=False) for _ in range(2000)]
    ranges(draws[Mode.NORMAL], "puck", (3.0, 4.0), (3.0, 5.0))
    ranges(mirrored, "puck", (6.0, 7.0), (3.0, 5.0))
    ranges(draws[Mode.TRAIN_SHOOTING], "puck", (3.0, 4.0), (3.0, 5.0))
    ranges(draws[Mode.TRAIN_DEFENSE], "puck", (5.0, 5.0 + 10 / 3), (0.8, 7.2))
    for mode in (Mode.TRAIN_SHOOTING, Mode.TRAIN_DEFENSE):
        ranges(draws[mode], "two", (8.0 - 10 / 3, 8.0 + 10 / 6), (2.0, 6.0))
    assert {start.two for start in draws[Mode.NORMAL]} == {(8.0, 4.0)}
    for start in draws[Mode.TRAIN_DEFENSE]:
        (x, y), (vx, vy) = start.puck, start.shot
        assert hypot(vx, vy) == pytest.approx(60.0)
        assert abs(y - x * vy / vx - 4.0) <= 0.75 + 1e-9  # where it crosses x = 0


def ranges(starts: list[Start], what: str, x: tuple[float, float], y: tuple[float, float]) -> None:
    positions = np.array([getattr(start, what) for start in starts])
    for values, (low, high) in zip(positions.T, (x, y), strict=True):
        assert low <= values.min() < low + 0.05
        assert high - 0.05 < values.max() <= high


@pytest.mark.parametrize(("mode", "length"), [(Mode.NORMAL, 251), (Mode.TRAIN_SHOOTING, 81), (Mode.TRAIN_DEFENSE, 81)])
def test_an_episode_without_goals_lasts_a_step_longer_than_the_limit(game: Game, mode: Mode, length: int) -> None:
    begin(game, mode)
    for step in range(1, length + 1):
        game.step(STILL, STILL)
        assert game.out_of_time == (step == length)


def test_both_see_the_same_rink_each_in_its_own_frame(game: Game) -> None:
    rng = np.random.default_rng(1)
    order = [6, 7, 8, 9, 10, 11, 0, 1, 2, 3, 4, 5, 12, 13, 14, 15, 17, 16]
    sign = np.array([-1, -1, 1, -1, -1, 1] * 2 + [-1] * 4 + [1, 1])
    game.start(Mode.NORMAL, rng)
    for _ in range(200):
        game.step(*rng.uniform(-1, 1, (2, 4)).tolist())
        assert np.array_equal(np.array(game.view_two), sign * np.array(game.view_one)[order])


def test_a_game_with_swapped_sides_is_the_same_game() -> None:
    actions = np.random.default_rng(2).uniform(-1, 1, (40, 2, 4)).tolist()
    here, there = Game(), Game()
    begin(here, puck=(3.2, 4.3))
    begin(there, puck=(6.8, 3.7))
    for one, two in actions:
        here.step(one, two)
        there.step(two, one)
        assert here.view_one == pytest.approx(there.view_two, abs=1e-3)


def test_discrete_actions_move_one_axis_each() -> None:
    assert len(discrete_actions()) == 8
    assert len(discrete_actions(keep_mode=False)) == 7
    assert [len(discrete_actions(fineness=f)) for f in (3, 5, 7)] == [14, 26, 38]
    assert discrete_actions()[1:3] == ((-1.0, 0.0, 0.0, 0.0), (1.0, 0.0, 0.0, 0.0))
    assert discrete_actions(fineness=3)[1 + 3 * 2 + 0] == (0.0, 0.5, 0.0, 0.0)
    for action in discrete_actions(fineness=5):
        assert sum(number != 0 for number in action) <= 1
    with pytest.raises(SettingsError, match="2 or more"):
        discrete_actions(fineness=1)
