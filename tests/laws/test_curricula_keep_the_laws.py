"""Every curriculum, gate and task space of ours, under the checks that we publish."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import cursus
from cursus.curricula import Gate
from cursus.errors import SettingsError
from cursus.testing import check_curriculum, check_gate, check_task_space, check_teacher

STAGES = cursus.tasks.Named(["walk", "run", "jump", "fly"])
GATES: dict[str, Gate] = {
    "window": cursus.Window(min_episodes=40),
    "plain window": cursus.Window(threshold=0.6, window=20, min_episodes=20, early=None, trend=None, demote=None),
    "relaxed window": cursus.Window(threshold=0.9, relax_every=60),
    "wilson": cursus.Wilson(threshold=0.7),
    "wilson of independent results": cursus.Wilson(threshold=0.7, independent=True),
    "strict wilson": cursus.Wilson(threshold=0.9, window=200, confidence=0.95, hysteresis=0.0, cooldown=0),
    "e-process": cursus.EProcess(threshold=0.7),
    "hasty e-process": cursus.EProcess(threshold=0.5, alpha=0.2, demote=0.4, demote_after=30),
}


def make_label(params: dict[str, int]) -> str:
    return "even" if params["size"] % 2 == 0 else "odd"


def make_params(rng: np.random.Generator) -> dict[str, int]:
    return {"size": int(rng.integers(100))}


RAMP = cursus.tasks.Ramp(start={"touch": 1.0}, final={"direction": 2.0}, hold=7, linear=30)
OPPONENTS = {
    "alone": {"opponent": "none"},
    "weak": {"opponent": "weak"},
    "self": {"opponent": "archive"},
    "near": {"opponent": "archive:skill"},
}
DRILLS = cursus.tasks.Drills(
    [
        cursus.tasks.Drill("shooting", {"alone": {"opponent": "none"}}, ramp=RAMP),
        cursus.tasks.Drill("games", OPPONENTS, shares={"alone": 0.0, "weak": 1.0, "self": 3.0, "near": 1.0}),
        cursus.tasks.Drill("end", OPPONENTS, ramp=cursus.tasks.Ramp(start={}, final={"touch": 1.0}, hold=3)),
    ]
)


def phases() -> cursus.Phases:
    return cursus.Phases(
        [
            cursus.curricula.Phase(
                "shooting", cursus.curricula.Practice(DRILLS, "shooting"), episodes=83, gate=cursus.Wilson(threshold=0.6)
            ),
            cursus.curricula.Phase("games", cursus.curricula.Practice(DRILLS, "games"), steps=2000),
            cursus.curricula.Phase("end", cursus.curricula.Practice(DRILLS, "end"), gate=cursus.Window(threshold=0.5)),
        ]
    )


CURRICULA = {
    "practice": lambda: cursus.curricula.Practice(DRILLS, "end"),
    "phases of drills": phases,
    "league": lambda: cursus.curricula.League(phases(), baselines=["weak", "strong"], slots=3, every=37),
    "league by skill": lambda: cursus.curricula.League(
        phases(),
        baselines=["weak", "strong"],
        anchors={"weak": 1000.0, "strong": 1110.0},
        slots=5,
        every=20,
        shares={"skill": 1.0, "newest": 0.2},
        rated={"a": 1},
    ),
    "league over learning progress": lambda: cursus.curricula.League(
        cursus.LearningProgress(cursus.tasks.Named(OPPONENTS)), baselines=["weak", "strong"], every=50
    ),
    "fast and slow averages": lambda: cursus.LearningProgress(10, progress=cursus.curricula.FastSlow(), focus=1.0, floor=0.2),
    "uniform": lambda: cursus.Uniform(10),
    "prompts": lambda: cursus.Prompts(30),
    "prompts with labels": lambda: cursus.Prompts(40, labels=[n % 3 for n in range(40)], floor=0.2),
    "prompts with labels, uniformly": lambda: cursus.Prompts(40, labels={"a": 10, "b": 29, "c": 1}, within="uniform"),
    "one prompt": lambda: cursus.Prompts(1),
    "prompts without a floor": lambda: cursus.Prompts(20, labels={"a": 10, "b": 10}, floor=0.0),
    "distinct prompts": lambda: cursus.curricula.Distinct(cursus.Prompts(500, labels={"a": 250, "b": 250}), batch=4),
    "distinct": lambda: cursus.curricula.Distinct(cursus.Uniform(40), batch=8),
    "distinct, all of them": lambda: cursus.curricula.Distinct(cursus.Uniform(7), batch=7, first_pass=True),
    "distinct, every task first": lambda: cursus.curricula.Distinct(cursus.LearningProgress(300), batch=4, first_pass=True),
    "distinct, staged": lambda: cursus.curricula.Distinct(cursus.Staged(tasks=STAGES, gate=GATES["wilson"]), batch=1),
    "distinct over a million": lambda: cursus.curricula.Distinct(cursus.Uniform(10**6), batch=64, first_pass=True),
    "mixture of distinct ones": lambda: cursus.Mixture(
        cursus.curricula.Distinct(cursus.Uniform(30), batch=5), cursus.Uniform(30), share=0.4
    ),
    "uniform over one task": lambda: cursus.Uniform(1),
    "uniform over some": lambda: cursus.Uniform(10, ids=[2, 3, 5, 7]),
    "uniform over a box": lambda: cursus.Uniform(cursus.tasks.Box([0, 0, 0], [1, 2, 3])),
    "uniform over generated tasks": lambda: cursus.Uniform(cursus.tasks.Generated(make_params, seed=3, label=make_label)),
    "uniform over a million": lambda: cursus.Uniform(cursus.tasks.Product(a=range(1000), b=range(1000))),
    **{f"staged, {name}": lambda gate=gate: cursus.Staged(tasks=STAGES, gate=gate) for name, gate in GATES.items()},
    "staged, one stage": lambda: cursus.Staged(["only"]),
    "staged, mixed from all": lambda: cursus.Staged(
        {"easy": range(10), "hard": range(10, 20), "harder": range(15, 40)},
        tasks=cursus.tasks.Product(size=[5, 9, 13, 17], seed=range(10)),
        gate=cursus.Wilson(threshold=0.6),
        mixing=cursus.FixedMixing(0.3, spread="all"),
        start="hard",
    ),
    "staged, demoting what is forgotten": lambda: cursus.Staged(
        tasks=STAGES,
        gate=cursus.Wilson(threshold=0.6, cooldown=5),
        mixing=cursus.FixedMixing(0.5),
        forgetting=cursus.curricula.ForgettingWatch(drop=0.0, confidence=0.6, demote=True),
    ),
    "staged, rehearsing": lambda: cursus.Staged(
        tasks=STAGES,
        gate=cursus.Wilson(threshold=0.3, window=40, min_episodes=5, demote=None),
        mixing=cursus.FixedMixing(0.5, spread="all"),
        forgetting=cursus.curricula.ForgettingWatch(drop=0.0, confidence=0.6, min_episodes=5),
        rehearsal=cursus.curricula.Rehearsal(share=0.4, after_graduation=0.7),
    ),
    "staged axes": lambda: cursus.curricula.StagedAxes(
        {"size": [5, 9, 13], "enemies": [0, 1], "seed": range(7)},
        axes=["size", "enemies"],
        gate=cursus.Wilson(threshold=0.3, window=40, min_episodes=5),
        gates={"enemies": cursus.EProcess(threshold=0.4, alpha=0.2)},
    ),
    "learning progress": lambda: cursus.LearningProgress(20),
    "learning progress, one task": lambda: cursus.LearningProgress(1),
    "learning progress, returns": lambda: cursus.LearningProgress(20, signal="return", floor=0.3),
    "learning progress, bidirectional": lambda: cursus.LearningProgress(20, progress=cursus.curricula.Bidirectional()),
    "learning progress, many with shared weights": lambda: cursus.LearningProgress(
        5000, progress=cursus.curricula.Bidirectional()
    ),
    "learning progress, scatter": lambda: cursus.LearningProgress(20, progress=cursus.curricula.Scatter(), focus=1.0),
    "learning progress, legacy main": lambda: cursus.LearningProgress(20, progress=cursus.curricula.LegacyMain(), floor=0.0),
    "learning progress, legacy v-min": lambda: cursus.LearningProgress(20, progress=cursus.curricula.LegacyVMin(), floor=0.0),
    "pool": lambda: cursus.Pool(1000, size=50),
    "pool that grows": lambda: cursus.Pool(1000, size=50, initial=5, min_presentations=2, worst_share=0.5),
    "pool of nearly everything": lambda: cursus.Pool(60, size=50, min_presentations=3, worst_share=0.5),
    "pool of everything": lambda: cursus.Pool(50, size=50, min_presentations=3),
    "pool of generated tasks": lambda: cursus.Pool(cursus.tasks.Generated(make_params, seed=3, label=make_label), size=30),
    "pool and uniform": lambda: cursus.Mixture(cursus.Pool(500, size=30), cursus.Uniform(500), share=0.7),
    **{
        f"TSCL, {algorithm}": lambda algorithm=algorithm: cursus.curricula.TSCL(20, algorithm=algorithm)
        for algorithm in ("online", "naive", "window", "sampling")
    },
    "TSCL, boltzmann": lambda: cursus.curricula.TSCL(300, policy="boltzmann", temperature=0.05),
    "TSCL, one task": lambda: cursus.curricula.TSCL(1, algorithm="window", policy="boltzmann"),
    "TSCL, signed returns": lambda: cursus.curricula.TSCL(20, algorithm="sampling", absolute=False, signal="return"),
    "EXP3.S": lambda: cursus.curricula.EXP3S(20),
    "EXP3.S, steep": lambda: cursus.curricula.EXP3S(300, eta=2.0, signal="return"),
    "EXP3.S, one task": lambda: cursus.curricula.EXP3S(1),
    "learnability": lambda: cursus.curricula.Learnability(200, refresh=50),
    "learnability of nearly everything": lambda: cursus.curricula.Learnability(5, buffer_size=4, refresh=7),
    "learnability, one task": lambda: cursus.curricula.Learnability(1, refresh=10, evaluate=True),
    "learnability with exams of a generator": lambda: cursus.curricula.Learnability(
        cursus.tasks.Generated(make_params, seed=3, label=make_label), candidates=40, refresh=20, buffer_size=9, evaluate=True
    ),
    "learnability with exams, and uniform": lambda: cursus.Mixture(
        cursus.curricula.Learnability(30, refresh=20, evaluate=True), cursus.Uniform(30), share=0.6
    ),
    "PLR": lambda: cursus.curricula.PLR(40, score="score"),
    "PLR, proportional": lambda: cursus.curricula.PLR(40, score="learnability", prioritization="proportional", alpha=0.5),
    "PLR, one task": lambda: cursus.curricula.PLR(1, score="score", robust=True),
    "PLR, small buffer": lambda: cursus.curricula.PLR(
        300, score="learnability", buffer_size=20, robust=True, temperature=1.0, staleness=0.3
    ),
    "PLR, rollouts that nobody scores": lambda: cursus.curricula.PLR(30),
    "PLR of a generator": lambda: cursus.curricula.PLR(
        cursus.tasks.Generated(make_params, seed=3, label=make_label), score="learnability", buffer_size=30, min_fill=0.1
    ),
    "PLR after uniform": lambda: cursus.Phases(
        [
            cursus.curricula.Phase("first", cursus.Uniform(30), episodes=100),
            cursus.curricula.Phase("then", cursus.curricula.PLR(30, score="score", robust=True)),
        ]
    ),
    "ACCEL": lambda: cursus.curricula.ACCEL(
        cursus.tasks.Product(a=range(8), b=range(6)), score="learnability", buffer_size=10, edits=2
    ),
    "ACCEL, one task": lambda: cursus.curricula.ACCEL(1, score="score"),
    "regions of a box": lambda: cursus.curricula.Regions(cursus.tasks.Box([0, 0], [1, 2])),
    "regions of a product": lambda: cursus.curricula.Regions(
        cursus.tasks.Product(size=range(20), kind=["maze", "open", "lava"], lamps=[1, 2, 5], wind=[False, True])
    ),
    "regions of numbers": lambda: cursus.curricula.Regions(500, signal="return"),
    "regions of one task": lambda: cursus.curricula.Regions(1),
    "regions and uniform": lambda: cursus.Mixture(
        cursus.curricula.Regions(cursus.tasks.Box(0, 1)), cursus.Uniform(cursus.tasks.Box(0, 1)), share=0.7
    ),
    "ALP-GMM": lambda: cursus.curricula.ALPGMM(cursus.tasks.Box([0, 0], [1, 2]), fit_rate=50, components=[2, 4], history=200),
    "ALP-GMM, returns": lambda: cursus.curricula.ALPGMM(cursus.tasks.Box(0, 1), signal="return"),
    "Covar-GMM": lambda: cursus.curricula.CovarGMM(cursus.tasks.Box([0, 0, 0], 1), fit_rate=50, components=[1, 3]),
    "Covar-GMM, absolute": lambda: cursus.curricula.CovarGMM(cursus.tasks.Box(0, 1), absolute=True),
    "ADR": lambda: cursus.curricula.ADR(cursus.tasks.Box([0, 0], [1, 2]), start=[0, 1]),
    "RIAC": lambda: cursus.curricula.RIAC(cursus.tasks.Box([0, 0], [1, 2])),
    "RIAC, small regions": lambda: cursus.curricula.RIAC(cursus.tasks.Box([0, 0], 1), max_region_size=20, min_range=0.3),
    "CURROT": lambda: cursus.curricula.CURROT(cursus.tasks.Box([0, 0], [1, 2]), particles=30, candidates=20),
    "CURROT, to points": lambda: cursus.curricula.CURROT(
        cursus.tasks.Box(0, 1), target=[[0.9], [1.0]], start=cursus.tasks.Box(0, 0.2), signal="return", particles=20
    ),
    "reverse curriculum": lambda: cursus.curricula.ReverseCurriculum(
        60, start=10, new_starts=20, old_starts=10, episodes_per_round=45
    ),
    "reverse curriculum in a box": lambda: cursus.curricula.ReverseCurriculum(
        cursus.tasks.Box([0, 0], 1), start=[0.5, 0.5], new_starts=20, old_starts=0, episodes_per_round=70
    ),
    "reverse curriculum, one task": lambda: cursus.curricula.ReverseCurriculum(1, start=0, episodes_per_round=9),
    "ACCEL in a box": lambda: cursus.curricula.ACCEL(cursus.tasks.Box([0, 0], [1, 2]), score="learnability", buffer_size=20),
    "sequence": lambda: cursus.Phases(
        [
            cursus.curricula.Phase("first", cursus.Uniform(STAGES, ids=[0]), episodes=101),
            cursus.curricula.Phase("second", cursus.Staged(tasks=STAGES), steps=1503),
            cursus.curricula.Phase("last", cursus.Uniform(STAGES), episodes=10),
        ]
    ),
    "mixture": lambda: cursus.Mixture(cursus.Uniform(STAGES), cursus.Staged(tasks=STAGES), share=0.2),
    "mixture of mixtures": lambda: cursus.Mixture(
        cursus.Mixture(cursus.Staged(tasks=STAGES), cursus.Uniform(STAGES, ids=[3]), share=0.9),
        cursus.Phases(
            [
                cursus.curricula.Phase("a", cursus.Staged(tasks=STAGES, gate=GATES["window"]), episodes=90),
                cursus.curricula.Phase("b", cursus.Mixture(cursus.Uniform(STAGES), cursus.Uniform(STAGES), share=0.5)),
            ]
        ),
        share=0.6,
    ),
}


@pytest.mark.parametrize("name", CURRICULA)
def test_curriculum_keeps_the_laws(name: str) -> None:
    check_curriculum(CURRICULA[name])


@pytest.mark.parametrize("name", CURRICULA)
def test_teacher_keeps_the_laws_with(name: str) -> None:
    check_teacher(CURRICULA[name])


@pytest.mark.slow
@pytest.mark.parametrize("num_envs", [1, 256])
def test_teacher_keeps_the_laws_for_one_and_many_environments(num_envs: int) -> None:
    check_teacher(CURRICULA["staged, wilson"], num_envs=num_envs, rounds=12)


@pytest.mark.parametrize("name", GATES)
def test_gate_keeps_the_laws(name: str) -> None:
    check_gate(GATES[name])


@given(
    threshold=st.floats(0.05, 0.85),
    window=st.integers(30, 120),
    cooldown=st.integers(0, 80),
    hysteresis=st.floats(0, 0.1),
    kind=st.sampled_from([cursus.Wilson, cursus.EProcess, cursus.Window]),
)
@settings(max_examples=25, deadline=None)
def test_any_gate_keeps_the_laws(threshold: float, window: int, cooldown: int, hysteresis: float, kind: type[Gate]) -> None:
    try:
        gate = kind(threshold=threshold, window=window, demote=threshold / 2, cooldown=cooldown, hysteresis=hysteresis)
    except SettingsError as refused:
        assert "can never show" in str(refused)
        return
    check_gate(gate, episodes=700)


@pytest.fixture
def level_folder(tmp_path: Path) -> Path:
    (tmp_path / "order.txt").write_text("easy\nhard\n")
    for stage in ("easy", "hard"):
        (tmp_path / stage).mkdir()
        for number in range(4):
            level = {"map": [number], "metadata": {"generator": f"maze:{number % 2}"}}
            (tmp_path / stage / f"{number}.json").write_text(json.dumps(level))
    np.savez(tmp_path / "hard" / "arrays.npz", map=np.arange(6))
    return tmp_path


@pytest.mark.parametrize(
    "space",
    [
        cursus.tasks.Discrete(1),
        cursus.tasks.Discrete(1_000_000),
        STAGES,
        cursus.tasks.Named({"a": {"speed": 1.0}, "b": {"speed": 2.0}}),
        cursus.tasks.Product(size=[5, 9], lava=[False, True]),
        cursus.tasks.Product({"size": [1, 2], "label by": ["x"]}, label_by=["label by", "size"]),
        cursus.tasks.Product(a=range(1000), b=range(1000)),
        cursus.tasks.Box(0, 1),
        cursus.tasks.Box([0, -5], [1, 5], names=["friction", "mass"]),
        cursus.tasks.Generated(make_params),
        cursus.tasks.Generated(make_params, seed=5, label=make_label, size=17),
    ],
    ids=repr,
)
def test_task_space_keeps_the_laws(space: cursus.TaskSpace) -> None:
    check_task_space(space)


def test_levels_keep_the_laws(level_folder: Path) -> None:
    check_task_space(cursus.tasks.Levels(level_folder))
    check_curriculum(lambda: cursus.Staged(tasks=cursus.tasks.Levels(level_folder), gate=cursus.Wilson(threshold=0.5)))
