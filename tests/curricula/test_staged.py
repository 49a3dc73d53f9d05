"""The staged curriculum: promotion, demotion, mixing, balance, forgetting, and what it says about them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import cursus
from cursus.errors import SettingsError, StateError
from cursus.randomness import TicketStream
from cursus.types import Decision

QUICK = cursus.Wilson(threshold=0.6, window=40, min_episodes=10, demote=0.3, demote_after=30, cooldown=20)


ALONE: dict[str, Any] = {"mixing": cursus.curricula.NoMixing(), "forgetting": None, "rehearsal": None}


class Class:
    """Draws and plays one episode at a time with a given chance of success per stage."""

    def __init__(self, curriculum: cursus.Staged, seed: int = 0) -> None:
        self.curriculum, self.seed, self.ticket = curriculum, seed, 0
        self.rng = np.random.default_rng(seed)
        self.decisions: list[Decision] = []

    def draw(self, count: int = 1) -> cursus.types.Draw:
        draw = self.curriculum.sample(cursus.randomness.TicketStream(self.seed, self.ticket, count))
        self.ticket += count
        return draw

    def play(self, episodes: int, chance: float | dict[str, float]) -> list[Decision]:
        made = []
        for _ in range(episodes):
            draw = self.draw()
            _, stage = self.curriculum.visit_of(draw.tags)
            p = chance if isinstance(chance, float) else chance[self.curriculum.names[int(stage[0])]]
            made += self.curriculum.update(
                cursus.Episodes.of(self.rng.random(1) < p, draw.tasks, draw.tags, first_ticket=self.ticket - 1)
            )
        self.decisions += made
        return made


def kinds(decisions: list[Decision]) -> list[str]:
    return [each.kind for each in decisions if each.kind not in ("mix", "rehearsal")]


def test_a_perfect_student_passes_one_stage_at_a_time_and_graduates_once() -> None:
    room = Class(cursus.Staged(["a", "b", "c"], gate=QUICK))
    room.play(400, 1.0)
    steps = [(each.kind, each.evidence["from"]) for each in room.decisions if each.kind not in ("mix", "rehearsal")]
    assert steps == [("promotion", "a"), ("promotion", "b"), ("graduation", "c"), ("completion", "c")]
    assert room.curriculum.graduated
    assert "graduated" in room.curriculum.explain()
    assert [row["status"] for row in room.curriculum.status()["stages"]] == ["passed", "passed", "graduated"]


def test_a_demotion_ends_a_graduation_and_the_next_one_is_told_again() -> None:
    room = Class(cursus.Staged(["a", "b"], gate=QUICK, **ALONE))
    room.play(100, 1.0)
    assert room.curriculum.graduated
    room.play(100, {"a": 0.5, "b": 0.0})
    assert kinds(room.decisions) == ["promotion", "graduation", "completion", "demotion"]

    def lost(curriculum: cursus.Staged) -> None:
        assert curriculum.stage == "a"
        assert not curriculum.graduated
        assert "graduated" not in curriculum.explain()
        assert [row["status"] for row in curriculum.status()["stages"]] == ["current", "locked"]

    again = Class(cursus.Staged(["a", "b"], gate=QUICK, **ALONE))
    again.curriculum.load(room.curriculum.state())
    again.ticket = room.ticket
    for each in (room, again):
        lost(each.curriculum)
        assert kinds(each.play(200, 1.0)) == ["promotion", "graduation"]
        assert each.curriculum.graduated


def test_a_graduation_is_kept_across_a_load_and_not_told_twice() -> None:
    room = Class(cursus.Staged(["a", "b"], gate=QUICK))
    room.play(100, 1.0)
    again = Class(cursus.Staged(["a", "b"], gate=QUICK))
    again.curriculum.load(room.curriculum.state())
    again.ticket = room.ticket
    assert again.curriculum.graduated
    assert kinds(again.play(100, 1.0)) == []


def test_passing_the_last_gate_completes_a_curriculum_once_with_its_evidence_and_practice_goes_on() -> None:
    room = Class(cursus.Staged(["a", "b"], gate=QUICK))
    assert room.curriculum.completed is False
    graduation, completion = (each for each in room.play(200, 1.0) if each.kind in ("graduation", "completion"))
    assert completion.ticket == graduation.ticket
    assert completion.evidence == graduation.evidence
    assert "last stage 'b'" in completion.text
    assert room.curriculum.completed is True
    assert "Completed: " in room.curriculum.explain()
    assert len(room.draw(50).tasks) == 50


def test_a_completed_curriculum_stays_so_across_loads_and_demotions() -> None:
    room = Class(cursus.Staged(["a", "b"], gate=QUICK, **ALONE))
    room.play(100, 1.0)
    room.play(100, {"a": 0.5, "b": 0.0})
    again = Class(cursus.Staged(["a", "b"], gate=QUICK, **ALONE))
    again.curriculum.load(room.curriculum.state())
    again.ticket = room.ticket
    assert again.curriculum.completed
    assert "completion" not in kinds(again.play(300, 1.0))


def test_a_stage_set_by_hand_lets_a_curriculum_complete_again() -> None:
    room = Class(cursus.Staged(["a", "b"], gate=QUICK, mixing=cursus.curricula.NoMixing()))
    room.play(100, 1.0)
    room.curriculum.set_stage("a", room.ticket)
    assert room.curriculum.completed is False
    assert kinds(room.play(200, 1.0)) == ["promotion", "graduation", "completion"]


def test_a_hopeless_student_stays_where_he_started() -> None:
    room = Class(cursus.Staged(["a", "b"], gate=QUICK))
    assert kinds(room.play(500, 0.0)) == []
    assert room.curriculum.stage == "a"


def test_the_start_stage_is_kept_and_an_unknown_one_refused() -> None:
    assert cursus.Staged(["a", "b", "c"], start="b").stage == "b"
    with pytest.raises(SettingsError, match="no stage is named 'd'. There are: a, b, c"):
        cursus.Staged(["a", "b", "c"], start="d")


def test_one_setting_for_all_and_single_stages_overridden() -> None:
    strict, lenient = cursus.Wilson(threshold=0.9), cursus.Window(threshold=0.3)
    curriculum = cursus.Staged(
        ["a", cursus.Stage("b", gate=lenient), cursus.Stage("c", mixing=cursus.curricula.NoMixing())], gate=strict
    )
    assert [curriculum.gate(place) for place in range(3)] == [strict, lenient, strict]
    assert cursus.Staged(["a", cursus.Stage("b", mixing=cursus.FixedMixing(0.5))], start="b").mix() == 0.5


def test_only_episodes_of_the_present_visit_reach_the_gate() -> None:
    """Episodes in flight when a stage changes must not decide about the next stage (the seqbleed fault)."""
    room = Class(cursus.Staged(["a", "b", "c"], gate=QUICK, mixing=cursus.curricula.NoMixing(), forgetting=None))
    in_flight = room.draw(300)
    assert kinds(room.play(15, 1.0)) == ["promotion"]
    stage, explained = room.curriculum.stage, room.curriculum.explain()
    late = cursus.Episodes.of([True] * 300, in_flight.tasks, in_flight.tags)
    assert room.curriculum.update(late) == []
    assert (room.curriculum.stage, room.curriculum.explain()) == (stage, explained)
    assert room.curriculum.status()["stages"][0]["episodes"] >= 300


def test_both_windows_are_fresh_after_a_demotion() -> None:
    """The old system kept the failed stage's window and the easier stage's counter: one success sent it back up."""
    room = Class(cursus.Staged(["a", "b"], gate=QUICK, forgetting=None))
    while "demotion" not in kinds(room.decisions):
        room.play(1, {"a": 1.0, "b": 0.0})
    assert room.curriculum.stage == "a"
    assert "no episode yet" in room.curriculum.explain()
    assert kinds(room.play(QUICK.cooldown - 1, 1.0)) == []
    assert kinds(room.play(1, 1.0)) == ["promotion"]
    assert "no episode yet" in room.curriculum.explain()
    while kinds(room.decisions)[-1] != "demotion":
        room.play(1, {"a": 1.0, "b": 0.0})
    assert room.decisions[-1].evidence["episodes"] == 2 * QUICK.demote_after


def test_a_demotion_raises_the_bar_for_going_up_again() -> None:
    gate = cursus.Window(
        threshold=0.6, window=20, min_episodes=20, early=None, trend=None, demote=0.3, demote_after=25, cooldown=0
    )
    room = Class(cursus.Staged(["a", "b"], gate=gate, forgetting=None))
    room.play(80, {"a": 1.0, "b": 0.0})
    assert kinds(room.decisions)[:2] == ["promotion", "demotion"]
    room.play(200, {"a": 1.0, "b": 0.0})
    promotions = [each for each in room.decisions if each.kind == "promotion"]
    assert promotions[0].evidence["threshold"] == 0.6
    assert promotions[1].evidence["threshold"] == 0.65


def test_no_ping_pong_between_two_stages() -> None:
    room = Class(cursus.Staged(["a", "b"], gate=QUICK))
    room.play(2000, {"a": 1.0, "b": 0.0})
    changes = [each for each in room.decisions if each.kind in ("promotion", "demotion")]
    gaps = np.diff([each.ticket for each in changes])
    assert gaps.min() >= min(QUICK.cooldown, QUICK.demote_after)


def test_the_first_stage_cannot_be_demoted() -> None:
    room = Class(cursus.Staged(["a", "b"], gate=QUICK))
    assert kinds(room.play(300, 0.0)) == []


def test_mixing_follows_the_success_of_this_moment() -> None:
    curriculum = cursus.Staged(["a", "b"], start="b", gate=cursus.Window(demote=None, threshold=1.0, early=None, trend=None))
    room = Class(curriculum)
    assert curriculum.mix() == 0.20
    for chance, share in ((0.0, 0.40), (0.57, 0.25), (0.72, 0.15), (0.95, 0.05)):
        results = [n % 50 < chance * 50 for n in range(50)]
        draw = room.draw(400)
        own = draw.tags[curriculum.visit_of(draw.tags)[1] == 1][:50]
        curriculum.update(cursus.Episodes.of(results, 1, own[0]))
        assert curriculum.mix() == share
        drawn = room.draw(5000)
        assert np.mean(drawn.tasks == 0) == pytest.approx(share, abs=0.02)


def test_a_change_of_mix_is_a_decision_with_evidence() -> None:
    room = Class(cursus.Staged(["a", "b"], start="b", gate=cursus.Window(demote=None, threshold=0.99)))
    room.play(100, {"a": 1.0, "b": 0.0})
    mixes = [each for each in room.decisions if each.kind == "mix"]
    assert mixes
    assert mixes[0].evidence["before"] == 0.20
    assert mixes[0].evidence["now"] == 0.40
    assert "40%" in mixes[0].text


def test_mixing_from_all_earlier_stages_reaches_each_of_them() -> None:
    curriculum = cursus.Staged(["a", "b", "c", "d"], start="d", mixing=cursus.FixedMixing(0.6, spread="all"))
    tasks = curriculum.sample(cursus.randomness.TicketStream(1, 0, 6000)).tasks
    assert np.bincount(tasks, minlength=4) / 6000 == pytest.approx([0.2, 0.2, 0.2, 0.4], abs=0.03)


@pytest.fixture
def mazes(tmp_path: Path) -> cursus.tasks.Levels:
    for stage, generators in (("easy", "aaaaaaab"), ("hard", "abbbc")):
        (tmp_path / stage).mkdir()
        for number, generator in enumerate(generators):
            level = {"map": number, "metadata": {"generator": generator}}
            (tmp_path / stage / f"{number}.json").write_text(json.dumps(level))
    return cursus.tasks.Levels(tmp_path, stages=["easy", "hard"])


def test_generators_are_balanced_over_all_environments(mazes: cursus.tasks.Levels) -> None:
    curriculum = cursus.Staged(tasks=mazes)
    counts = {"a": 0, "b": 0}
    for ticket in range(0, 999, 9):  # 9 environments that draw together
        for task in curriculum.sample(cursus.randomness.TicketStream(3, ticket, 9)).tasks:
            counts[mazes.label(int(task))] += 1
        assert abs(counts["a"] - counts["b"]) <= 1
    rows = {row["label"]: row["drawn"] for row in curriculum.status()["labels"]}
    assert rows == counts


def test_the_order_of_generators_is_not_fixed(mazes: cursus.tasks.Levels) -> None:
    curriculum = cursus.Staged(tasks=mazes, start="hard", mixing=cursus.curricula.NoMixing())
    labels = [mazes.label(int(task)) for task in curriculum.sample(cursus.randomness.TicketStream(3, 0, 300)).tasks]
    rounds = {tuple(labels[start : start + 3]) for start in range(0, 300, 3)}
    assert len(rounds) == 6
    assert all(sorted(each) == ["a", "b", "c"] for each in rounds)


def test_results_are_kept_per_stage_and_generator(mazes: cursus.tasks.Levels) -> None:
    curriculum = cursus.Staged(tasks=mazes, gate=cursus.Wilson(threshold=0.9))
    draw = curriculum.sample(cursus.randomness.TicketStream(3, 0, 100))
    won = np.array([mazes.label(int(task)) == "a" for task in draw.tasks])
    curriculum.update(cursus.Episodes.of(won, draw.tasks, draw.tags))
    rows = {row["label"]: row for row in curriculum.status()["labels"]}
    assert rows["a"]["success"] == 1.0
    assert rows["b"]["success"] == 0.0
    assert rows["a"]["episodes"] + rows["b"]["episodes"] == 100


def test_forgetting_a_mastered_stage_is_told_once() -> None:
    curriculum = cursus.Staged(["a", "b"], gate=cursus.Wilson(threshold=0.6, demote=None), mixing=cursus.FixedMixing(0.5))
    room = Class(curriculum)
    room.play(100, {"a": 1.0, "b": 0.3})
    assert kinds(room.decisions) == ["promotion"]
    room.play(600, {"a": 0.1, "b": 0.3})
    assert kinds(room.decisions) == ["promotion", "forgetting"]
    told = room.decisions[-1]
    assert told.evidence["stage"] == "a"
    assert told.evidence["upper_bound"] < 0.5
    assert curriculum.status()["stages"][0]["status"] == "forgotten"
    assert "Forgotten: 'a'" in curriculum.explain()
    room.play(600, {"a": 1.0, "b": 0.3})
    assert curriculum.status()["stages"][0]["status"] == "passed"
    room.play(600, {"a": 0.1, "b": 0.3})
    assert kinds(room.decisions) == ["promotion", "forgetting", "forgetting"]


def test_forgetting_demotes_to_the_forgotten_stage_if_asked() -> None:
    curriculum = cursus.Staged(
        ["a", "b", "c"],
        gate=cursus.Wilson(threshold=0.6, demote=None),
        mixing=cursus.FixedMixing(0.6, spread="all"),
        forgetting=cursus.curricula.ForgettingWatch(demote=True),
    )
    room = Class(curriculum)
    room.play(400, {"a": 1.0, "b": 1.0, "c": 0.3})
    assert curriculum.stage == "c"
    while curriculum.stage == "c":
        room.play(1, {"a": 0.1, "b": 1.0, "c": 0.3})
    assert curriculum.stage == "a"
    assert kinds(room.decisions)[-2:] == ["forgetting", "demotion"]


def test_a_steady_mastered_stage_raises_no_alarm() -> None:
    curriculum = cursus.Staged(["a", "b"], gate=cursus.Wilson(threshold=0.7, demote=None), mixing=cursus.FixedMixing(0.5))
    room = Class(curriculum)
    room.play(3000, {"a": 0.85, "b": 0.3})
    assert kinds(room.decisions) == ["promotion"]


def test_a_task_may_belong_to_two_stages_and_is_credited_to_the_one_it_was_drawn_for() -> None:
    curriculum = cursus.Staged({"a": [0, 1], "b": [1, 2]}, tasks=3, start="b", mixing=cursus.FixedMixing(0.5))
    draw = curriculum.sample(cursus.randomness.TicketStream(0, 0, 2000))
    curriculum.update(cursus.Episodes.of([False] * 2000, draw.tasks, draw.tags))
    rows = {row["stage"]: row["episodes"] for row in curriculum.status()["stages"]}
    assert rows["a"] == pytest.approx(1000, abs=120)
    assert rows["a"] + rows["b"] == 2000


@pytest.mark.parametrize(
    ("make", "complaint"),
    [
        (lambda: cursus.Staged([]), "no task|no stage"),
        (lambda: cursus.Staged("abc"), "one string"),
        (lambda: cursus.Staged({"a": []}, tasks=3), "stage 'a' is empty"),
        (lambda: cursus.Staged({"a": [5]}, tasks=3), "task 5 is not in"),
        (lambda: cursus.Staged(["a", "a"], tasks=cursus.tasks.Named(["a"])), "two stages"),
        (lambda: cursus.Staged(["x"], tasks=cursus.tasks.Named(["a", "b"])), "no stage 'x'. It has: a, b"),
        (lambda: cursus.Staged(tasks=cursus.tasks.Discrete(10**6)), "say which of them form a stage"),
        (lambda: cursus.FixedMixing(1.5), "ratio"),
        (lambda: cursus.AdaptiveMixing(brackets=((0.8, 0.1), (0.5, 0.2))), "must rise"),
        (lambda: cursus.FixedMixing(0.2, spread="some"), "spread"),
    ],
)
def test_wrong_stages_and_mixings_are_refused(make: object, complaint: str) -> None:
    with pytest.raises((SettingsError, cursus.tasks.base.TaskError), match=complaint):
        make()


def test_a_state_of_other_stages_is_refused() -> None:
    saved = cursus.Staged(["a", "b"]).state()
    with pytest.raises(StateError, match="stages"):
        cursus.Staged(["a", "c"]).load(saved)
    with pytest.raises(StateError):
        cursus.Staged(["a", "b"]).load({"stage": "a"})


def test_a_million_tasks_in_one_stage() -> None:
    space = cursus.tasks.Product(size=range(1000), seed=range(1000))
    curriculum = cursus.Staged({"all": range(1_000_000)}, tasks=space)
    tasks = curriculum.sample(cursus.randomness.TicketStream(0, 0, 1000)).tasks
    assert len(set((tasks // 1000).tolist())) == 1000  # every size once, before any comes twice


def test_after_graduation_all_stages_are_rehearsed_and_it_is_said() -> None:
    room = Class(cursus.Staged(["a", "b", "c", "d"], gate=QUICK))
    while not room.curriculum.graduated:
        room.play(1, 1.0)
    began = [each for each in room.decisions if each.kind == "rehearsal"]
    assert [each.evidence["now"] for each in began] == [["a", "b", "c", "d"]]
    assert began[0].evidence["share"] == 1.0
    assert "rehearsal of all 4 stages with 100% of the draws: graduated" in began[0].text
    assert "Rehearsal: 100% of the draws go to all 4 stages, after graduation." in room.curriculum.explain()
    drawn = np.bincount(room.draw(4000).tasks, minlength=4) / 4000
    assert drawn == pytest.approx([0.25] * 4, abs=0.03)
    assert room.curriculum.weights() == pytest.approx([0.25] * 4)


def test_a_forgotten_stage_is_rehearsed_until_it_is_back() -> None:
    gate, mixing = cursus.Wilson(threshold=0.6, demote=None), cursus.FixedMixing(0.5)
    room = Class(cursus.Staged(["a", "b", "c"], gate=gate, mixing=mixing))
    room.play(100, {"a": 1.0, "b": 0.3, "c": 0.0})
    assert room.curriculum.rehearsed() == []
    room.play(600, {"a": 0.1, "b": 0.3, "c": 0.0})
    assert room.curriculum.rehearsed() == ["a"]
    assert room.curriculum.weights()[0] == pytest.approx(0.3 + 0.7 * 0.5)
    assert "Rehearsal: 30% of the draws go to 'a', until they are back" in room.curriculum.explain()
    room.play(600, {"a": 1.0, "b": 0.3, "c": 0.0})
    changes = [(each.evidence["before"], each.evidence["now"]) for each in room.decisions if each.kind == "rehearsal"]
    assert changes == [([], ["a"]), (["a"], [])]
    assert "rehearsal ended: 'a' is back at success" in room.decisions[-1].text
    assert room.curriculum.rehearsed() == []


def test_without_rehearsal_the_last_stage_is_practised_alone() -> None:
    room = Class(cursus.Staged(["a", "b"], gate=QUICK, mixing=cursus.curricula.NoMixing(), rehearsal=None))
    room.play(200, 1.0)
    assert room.curriculum.graduated
    assert room.curriculum.weights().tolist() == [0.0, 1.0]


def test_a_stage_set_by_hand_ends_a_rehearsal() -> None:
    room = Class(cursus.Staged(["a", "b"], gate=QUICK))
    room.play(200, 1.0)
    told = room.curriculum.set_stage("a", room.ticket)
    assert [each.kind for each in told] == ["stage", "rehearsal"]
    assert told[-1].evidence["now"] == []


def test_a_hard_stage_is_not_given_up_while_the_one_before_is_mastered() -> None:
    """It was: 51 times in 20,000 episodes."""
    room = Class(cursus.Staged(["a", "b"], gate=cursus.Wilson(threshold=0.8)))
    room.play(6000, {"a": 0.95, "b": 0.05})
    assert kinds(room.decisions) == ["promotion"]
    assert "unless 'a' is still mastered" in room.curriculum.explain()


def test_a_stage_is_given_up_when_the_one_before_is_lost() -> None:
    room = Class(cursus.Staged(["a", "b"], gate=cursus.Wilson(threshold=0.8)))
    room.play(300, {"a": 0.95, "b": 0.05})
    room.play(600, {"a": 0.3, "b": 0.05})
    assert "demotion" in kinds(room.decisions)


def test_every_demotion_from_a_stage_doubles_the_patience() -> None:
    room = Class(cursus.Staged(["a", "b"], gate=QUICK, **ALONE))
    room.play(3000, {"a": 1.0, "b": 0.0})
    lasted = [each.evidence["episodes"] for each in room.decisions if each.kind == "demotion"]
    assert lasted == [QUICK.demote_after * 2**number for number in range(len(lasted))]
    assert 4 <= len(lasted) <= 6
    again = cursus.Staged(["a", "b"], gate=QUICK, **ALONE)
    again.load(room.curriculum.state())
    assert again.explain() == room.curriculum.explain()


def test_another_rehearsal_can_be_chosen_on_resume() -> None:
    room = Class(cursus.Staged(["a", "b"], gate=QUICK))
    room.play(200, 1.0)
    other = cursus.Staged(["a", "b"], gate=QUICK, rehearsal=cursus.curricula.Rehearsal(after_graduation=0.5))
    other.load_changed(room.curriculum.state(), ["rehearsal.after_graduation"])
    assert other.weights()[0] < room.curriculum.weights()[0]


def test_there_is_nothing_to_rehearse_in_one_stage_alone() -> None:
    room = Class(cursus.Staged(["only"], gate=QUICK))
    room.play(100, 1.0)
    assert room.curriculum.graduated
    assert [each.kind for each in room.decisions] == ["graduation", "completion"]


GATES = [
    cursus.Wilson(threshold=0.8),
    cursus.Wilson(threshold=0.6, window=30, min_episodes=5, demote=0.3, demote_after=60),
    cursus.Wilson(threshold=0.7, independent=True),
    cursus.curricula.Window(threshold=0.7),
    cursus.curricula.EProcess(threshold=0.7),
]


@pytest.mark.parametrize("gate", GATES, ids=repr)
@pytest.mark.parametrize(
    "watch", [{}, {"forgetting": None}, {"forgetting": cursus.curricula.ForgettingWatch(demote=True)}], ids=str
)
@pytest.mark.parametrize("rate", [0.05, 0.5, 0.75, 0.97])
def test_many_results_at_once_are_as_one_by_one(gate: cursus.curricula.Gate, watch: dict[str, Any], rate: float) -> None:
    """Decisions, and every bit of the state; results come in runs, and earlier stages are forgotten."""
    rng = np.random.default_rng(3)
    pairs = [cursus.Staged(["a", "b", "c"], gate=gate, start="b", **watch) for _ in range(2)]
    decisions: list[list[str]] = [[], []]
    ticket = 0
    for count in (100, 5000, 300, 700, 9000, 257, 20_000):
        draw = pairs[0].sample(TicketStream(0, ticket, count))
        pairs[1].restore_draws(pairs[0].draw_state())
        chance = np.where(np.arange(count) < 2 * count // 3, rate, rate / (1 + 4 * (draw.tasks < 2)))
        won = rng.random(count) < chance
        won = np.where(rng.random(count) < 0.3, np.roll(won, 1), won)
        episodes = cursus.Episodes.of(won, task=draw.tasks, tag=draw.tags, first_ticket=ticket)
        decisions[0] += [f"{each.ticket} {each.text}" for each in pairs[0].update(episodes)]
        for start in range(0, count, 100):
            decisions[1] += [f"{each.ticket} {each.text}" for each in pairs[1].update(episodes[start : start + 100])]
        ticket += count
        assert decisions[0] == decisions[1]
        np.testing.assert_equal(pairs[0].state(), pairs[1].state())
