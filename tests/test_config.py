import json
import tomllib
from dataclasses import dataclass
from functools import partial

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import cursus
from cursus import AdaptiveMixing, EProcess, FixedMixing, Mixture, Phases, Stage, Staged, Uniform, Wilson, Window
from cursus.config import TYPES, build, override, read
from cursus.curricula import ForgettingWatch, NoMixing, Phase
from cursus.errors import ConfigError, SettingsError
from cursus.randomness import TicketStream
from cursus.replay import replay
from cursus.settings import describe
from cursus.tasks import Box, Discrete, Generated, Levels, Named, Product


def problems(spec, **options):
    """The lines of the `ConfigError` that this spec is answered with."""
    with pytest.raises(ConfigError) as caught:
        build(spec, **options)
    return str(caught.value).split("\n")


# ---- reading files

TOML = """
[curriculum]
type = "Staged"
stages = ["walk", "run"]

[curriculum.gate]
type = "Wilson"
threshold = 0.8
"""
SPEC = {
    "curriculum": {"type": "Staged", "stages": ["walk", "run"], "gate": {"type": "Wilson", "threshold": 0.8}},
}


def write(folder, name, text):
    file = folder / name
    file.write_bytes(text if isinstance(text, bytes) else text.encode())
    return file


def complaint_about(file):
    with pytest.raises(ConfigError) as caught:
        read(file)
    return str(caught.value)


def test_toml_and_json_are_read_alike(tmp_path):
    assert read(write(tmp_path, "curriculum.toml", TOML)) == SPEC
    assert read(str(write(tmp_path, "curriculum.json", json.dumps(SPEC)))) == SPEC


def test_a_file_becomes_a_course(tmp_path):
    curriculum = build(read(write(tmp_path, "curriculum.toml", TOML)))["curriculum"]
    assert isinstance(curriculum, Staged)
    assert curriculum.names == ["walk", "run"]
    assert curriculum.gate(1) == Wilson(threshold=0.8)


@pytest.mark.parametrize(
    ("name", "text", "complaint"),
    [
        ("curriculum.toml", "type = = 3", "line 1, column 8"),
        ("curriculum.toml", 'type = "a"\ntype = "b"', "Cannot overwrite a value"),
        ("curriculum.json", '{"type": ', "line 1"),
        ("curriculum.json", '{"gate": {"threshold": 0.7, "threshold": 0.8}}', "the key 'threshold' occurs twice"),
        ("curriculum.json", "[1, 2]", "holds a list: a configuration is an object"),
        ("curriculum.json", "[" * 100_000, "recursion"),
        ("curriculum.toml", b"name = '\xff'", "utf-8"),
        ("curriculum.yaml", "type: Staged", "neither .toml nor .json"),
        ("curriculum", "{}", "neither .toml nor .json"),
    ],
)
def test_a_file_that_cannot_be_read_is_named_with_the_reason(tmp_path, name, text, complaint):
    file = write(tmp_path, name, text)
    said = complaint_about(file)
    assert str(file) in said
    assert complaint in said


@pytest.mark.parametrize("text", ['{"a": 1, "a": 2}', "[1, 2]"])
def test_a_complaint_about_a_file_is_one_clean_sentence(tmp_path, text):
    file = write(tmp_path, "curriculum.json", text)
    said = complaint_about(file)
    assert said.count(str(file)) == 1
    assert not said.endswith("..")


def test_a_missing_file_and_a_folder_are_refused(tmp_path):
    assert "No such file" in complaint_about(tmp_path / "nowhere.toml")
    assert "cannot be read" in complaint_about(tmp_path)


# ---- building


def test_nested_tables_become_nested_objects():
    curriculum = build(
        {
            "type": "Phases",
            "phases": [
                {"type": "Phase", "name": "warm-up", "episodes": 10, "curriculum": {"type": "Uniform", "tasks": 4}},
                {
                    "type": "Phase",
                    "name": "main",
                    "curriculum": {
                        "type": "Staged",
                        "tasks": 4,
                        "stages": {"easy": [0, 1], "hard": {"type": "range", "start": 2, "stop": 4}},
                        "gate": {"type": "Window", "threshold": 0.6, "early": None},
                        "mixing": {"type": "AdaptiveMixing", "brackets": [[0.5, 0.3], [0.9, 0.1]], "spread": "all"},
                        "forgetting": {"type": "ForgettingWatch", "demote": True},
                    },
                },
            ],
        }
    )
    assert isinstance(curriculum, Phases)
    staged = curriculum.settings()["phases"][1].curriculum
    assert staged.gate(0) == Window(threshold=0.6, early=None)
    assert staged.settings()["mixing"] == AdaptiveMixing(brackets=((0.5, 0.3), (0.9, 0.1)), spread="all")
    assert staged.settings()["forgetting"] == ForgettingWatch(demote=True)
    assert staged.weights().tolist() == [0.5, 0.5, 0.0, 0.0]


def test_tables_without_a_type_stay_as_they_are():
    spec = {"seed": 3, "name": "x", "folders": ["a", {"b": None}]}
    assert build(spec) == spec


def test_building_leaves_the_spec_alone():
    spec = json.loads(json.dumps(SPEC))
    build(spec)
    assert spec == SPEC


def test_whole_numbers_are_fine_where_a_rate_is_asked_for():
    assert build({"type": "EProcess", "threshold": 0.5, "demote": None, "hysteresis": 0}).hysteresis == 0.0


def test_other_types_can_be_allowed():
    assert build({"type": "Point", "x": 1}, types={"Point": Point}) == Point(1, 2)
    assert "'Wilson' is not known here" in problems({"type": "Wilson"}, types={"Point": Point})[0]


@dataclass
class Point:
    x: int
    y: int = 2


def test_bounds_of_a_box_may_be_numbers_or_lists():
    assert build({"type": "Box", "low": [0, 0.5], "high": [1, 2]}).settings()["high"] == [1.0, 2.0]
    assert build({"type": "Box", "low": 0.0, "high": 1.0}).settings() == Box(0.0, 1.0).settings()


# ---- what is refused


def test_an_unknown_key_is_answered_with_the_nearest_and_all_that_are_allowed():
    (line,) = problems({"type": "Uniform", "tasks": 3, "idz": [1]})
    assert line == "config: 'idz' is not known here. Did you mean 'ids'? Allowed: ids, tasks."


def test_an_unknown_type_is_answered_with_the_nearest():
    (line,) = problems({"type": "Wilsn"}, where="gate")
    assert line.startswith(
        "gate.type: 'Wilsn' is not known here. Did you mean 'Wilson'? Allowed: ACCEL, ADR, ALPGMM, AdaptiveMixing, "
    )


@pytest.mark.parametrize("kind", [3, None, ["Wilson"], {"a": 1}])
def test_a_type_that_is_no_name_is_refused(kind):
    assert "is not known here" in problems({"type": kind})[0]


def test_all_problems_are_listed_at_once_with_their_places():
    lines = problems(
        {
            "type": "Staged",
            "stagse": ["walk"],
            "gate": {"type": "Wilson", "treshold": 0.8},
            "mixing": {"type": "FixdMixing"},
            "forgetting": {"type": "ForgettingWatch", "window": "wide", "drop": "a lot"},
            "tasks": {"type": "Named", "names": ["a", "a"]},
        },
        where="curriculum",
    )
    places = [line.split(": ")[0] for line in lines]
    assert sorted(places) == [
        "curriculum",
        "curriculum.forgetting.drop",
        "curriculum.forgetting.window",
        "curriculum.gate",
        "curriculum.mixing.type",
        "curriculum.tasks",
    ]
    by_place = dict(zip(places, lines, strict=True))
    assert "Did you mean 'stages'?" in by_place["curriculum"]
    assert "Did you mean 'threshold'?" in by_place["curriculum.gate"]
    assert "Did you mean 'FixedMixing'?" in by_place["curriculum.mixing.type"]
    assert "'wide'" in by_place["curriculum.forgetting.window"]
    assert "'a' occurs twice" in by_place["curriculum.tasks"]


def test_a_problem_inside_does_not_hide_one_outside():
    said = "\n".join(problems({"type": "Staged", "stages": 5.5, "gate": {"type": "Wilson", "threshold": 2}}))
    assert "config.gate: threshold" in said
    assert "config.stages" in said


def test_problems_in_a_list_say_which_entry():
    (line,) = problems([{"type": "Discrete", "n": 3}, {"type": "Discrete", "n": 0}], where="spaces")
    assert line == "spaces[1]: n=0 must be an integer of at least 1."


@pytest.mark.parametrize(
    ("spec", "place"),
    [
        ({"type": "Discrete", "n": [3]}, "config.n"),
        ({"type": "Discrete", "n": "three"}, "config.n"),
        ({"type": "Discrete", "n": 2.5}, "config.n"),
        ({"type": "Discrete", "n": None}, "config.n"),
        ({"type": "Discrete", "n": True}, "config"),
        ({"type": "Wilson", "threshold": "high"}, "config.threshold"),
        ({"type": "Wilson", "threshold": [0.8]}, "config.threshold"),
        ({"type": "FixedMixing", "spread": "some"}, "config.spread"),
        ({"type": "AdaptiveMixing", "brackets": [[0.5]]}, "config.brackets"),
        ({"type": "Uniform", "tasks": 2.5}, "config.tasks"),
        ({"type": "Uniform", "tasks": 3, "ids": "012x"}, "config.ids"),
        ({"type": "Staged", "stages": ["a"], "gate": "Wilson"}, "config.gate"),
        ({"type": "Staged", "stages": ["a"], "gate": {"type": "Uniform", "tasks": 3}}, "config.gate"),
        ({"type": "Staged", "stages": ["a"], "forgetting": {"type": "NoMixing"}}, "config.forgetting"),
        ({"type": "Named", "names": [1, 2]}, "config"),
        ({"type": "Named", "names": "walk"}, "config"),
        ({"type": "Levels", "folder": 5}, "config.folder"),
        ({"type": "Mixture", "first": {"type": "Discrete", "n": 3}, "second": 1, "share": 0.5}, "config.first"),
        ({"type": "range", "start": "a", "stop": 3}, "config"),
        ({"type": "range", "start": 0, "stop": 3, "step": 0}, "config"),
        ({"type": "Box", "low": "a", "high": 1.0}, "config"),
        ({"type": "Box", "low": [0, 0], "high": [1, 1, 1]}, "config"),
    ],
)
def test_a_value_of_the_wrong_kind_is_refused_at_its_place(spec, place):
    assert problems(spec)[0].startswith(place)


@pytest.mark.parametrize(
    "spec",
    [
        {"type": "Discrete"},
        {"type": "Uniform", "ids": [1]},
        {"type": "Mixture", "share": 0.5},
        {"type": "Phase", "name": "a"},
        {"type": "range", "start": 0},
    ],
)
def test_a_missing_key_is_named(spec):
    said = "\n".join(problems(spec))
    missing = {"Discrete": "n", "Uniform": "tasks", "Mixture": "first", "Phase": "curriculum", "range": "stop"}
    assert missing[spec["type"]] in said
    assert "is missing" in said
    assert "not {" not in said  # the value of a missing key is not the whole table


def test_a_setting_out_of_range_is_told_in_the_words_of_its_class():
    (line,) = problems({"type": "Staged", "stages": ["a"], "gate": {"type": "Window", "threshold": 1.5}})
    assert line == "config.gate: threshold=1.5 must lie between 0 and 1."


# ---- from an object to its description and back


def _levels(folder):
    (folder / "easy").mkdir(parents=True)
    (folder / "easy" / "one.json").write_text("{}")
    return Levels(folder, ["easy"], cache=3)


def _drills():
    ramp = cursus.tasks.Ramp(start={"touch": 1.0}, final={"direction": 2.0}, linear=4)
    return cursus.tasks.Drills(
        [cursus.tasks.Drill("games", {"weak": {"opponent": "weak"}, "none": {"opponent": "none"}}, ramp=ramp)]
    )


THINGS = {
    "Discrete": lambda _: Discrete(7),
    "Named, a list": lambda _: Named(["walk", "run"]),
    "Named, a mapping": lambda _: Named({"walk": {"speed": 1.0}, "run": {"speed": 4.0}}),
    "Named, params with a type": lambda _: Named({"walk": {"type": "hill"}, "run": {"type": "track"}}),
    "Product": lambda _: Product(size=[5, 9], lava=[False, True], label_by=["lava"]),
    "Product, ranges": lambda _: Product(a=range(1000), b=range(0, 10, 3)),
    "Product, an axis called type": lambda _: Product(type=["ice", "lava"]),
    "Product, axes called like methods": lambda _: Product(copy=[1, 2], json=[3, 4]),
    "Product, axes of tables": lambda _: Product(wind=[{"type": "gust", "speed": 3}, {"type": "calm"}]),
    "Box": lambda _: Box([0.0, 0.5], [2.0, 1.5]),
    "Box, names": lambda _: Box([0.0, 0.5], [2.0, 1.5], names=["friction", "mass"]),
    "Box, one axis": lambda _: Box(0.0, 1.0),
    "Levels": lambda folder: _levels(folder / "levels"),
    "range": lambda _: range(2, 20, 3),
    "Wilson": lambda _: Wilson(threshold=0.6, window=80, demote=None, confidence=0.9),
    "Window": lambda _: Window(threshold=0.6, early=None, trend=None, relax_every=50),
    "EProcess": lambda _: EProcess(threshold=0.6, alpha=0.01),
    "NoMixing": lambda _: NoMixing(),
    "FixedMixing": lambda _: FixedMixing(0.3, spread="all"),
    "AdaptiveMixing": lambda _: AdaptiveMixing(brackets=[(0.3, 0.5), (0.6, 0.2)], above=0.1, min_episodes=9),
    "ForgettingWatch": lambda _: ForgettingWatch(drop=0.2, demote=True),
    "Stage": lambda _: Stage("hard", [1, 2], gate=Window(threshold=0.5), mixing=FixedMixing(0.1)),
    "Phase": lambda _: Phase("main", Uniform(3), steps=500),
    "Uniform": lambda _: Uniform(Discrete(9)),
    "Uniform, ids": lambda _: Uniform(9, ids=np.array([1, 4])),
    "Staged, names": lambda _: Staged(["walk", "run"]),
    "Staged, everything": lambda _: Staged(
        [Stage("easy", gate=EProcess()), Stage("hard", mixing=NoMixing())],
        tasks=Named(["easy", "hard"]),
        gate=Window(),
        mixing=FixedMixing(),
        forgetting=None,
        start="hard",
    ),
    "Staged, a mapping": lambda _: Staged({"easy": [0, 1], "hard": [2]}, tasks=3),
    "Staged, ranges": lambda _: Staged({"easy": range(500), "hard": range(500, 1000)}, tasks=1000),
    "Staged, natural stages": lambda _: Staged(tasks=Product(size=[5, 9], lava=[False, True])),
    "Staged, levels": lambda folder: Staged(tasks=_levels(folder / "levels")),
    "StagedAxes": lambda _: cursus.curricula.StagedAxes(
        Product(size=[5, 9], lava=[False, True]), gates={"lava": Wilson(threshold=0.5)}, axes=["lava", "size"], review=0.3
    ),
    "Rehearsal": lambda _: cursus.curricula.Rehearsal(share=0.2, after_graduation=0.6),
    "Ramp": lambda _: cursus.tasks.Ramp(start={"touch": 1.0}, final={}, hold=4, linear=9),
    "Drill": lambda _: cursus.tasks.Drill("games", {"weak": {"opponent": "weak"}}, shares={"weak": 2.0}),
    "Drills": lambda _: _drills(),
    "Practice": lambda _: cursus.curricula.Practice(_drills(), "games"),
    "League": lambda _: cursus.curricula.League(
        Uniform(Named({"a": {"opponent": "archive"}})),
        baselines=["weak"],
        anchors={"weak": 900.0},
        slots=2,
        every=5,
        shares={"skill": 1.0, "newest": 3.0},
        rated={"mode": "x"},
    ),
    "Phase, gated": lambda _: Phase("a", Uniform(4), steps=3, gate=Wilson(threshold=0.8)),
    "Phases": lambda _: Phases([Phase("a", Uniform(4), episodes=3), Phase("b", Uniform(4, ids=[0]))]),
    "Single": lambda _: cursus.tasks.Single({"size": 4, "lava": {"type": "deep"}}, label="plain", overrides={"size": 5}),
    "Choice": lambda _: cursus.tasks.Choice([{"size": 1}, cursus.tasks.Single({"size": 2})], weights=[1, 3]),
    "Buckets": lambda _: cursus.tasks.Buckets(
        {"size": 4, "wind": 0.0}, {"size": [4, 8], "wind": cursus.tasks.Span(0.0, 2.0, bins=3)}
    ),
    "Span": lambda _: cursus.tasks.Span(1, 9),
    "Generated, by a task generator": lambda _: cursus.tasks.Generated(
        cursus.tasks.Buckets({"size": 4}, {"size": [4, 8]}), size=9
    ),
    "Trend": lambda _: cursus.curricula.Trend(window=50, horizon=90),
    "ExpectedGain": lambda _: cursus.curricula.ExpectedGain(windows=(5, 20, 80), patience=3),
    "FastSlow": lambda _: cursus.curricula.FastSlow(fast=0.2),
    "Bidirectional": lambda _: cursus.curricula.Bidirectional(timescale=0.05),
    "Scatter": lambda _: cursus.curricula.Scatter(),
    "LegacyMain": lambda _: cursus.curricula.LegacyMain(ema_timescale=0.01),
    "LegacyVMin": lambda _: cursus.curricula.LegacyVMin.preset("stable"),
    "LearningProgress": lambda _: cursus.LearningProgress(
        5, progress=cursus.curricula.Trend(window=9), focus=2, signal="return"
    ),
    "Pool": lambda _: cursus.Pool(50, size=9, initial=3, progress=cursus.curricula.Scatter(), floor=0.2, seed=4),
    "TSCL": lambda _: cursus.curricula.TSCL(5, algorithm="window", policy="boltzmann", temperature=0.1, absolute=False),
    "Learnability": lambda _: cursus.curricula.Learnability(50, buffer_size=3, candidates=20, refresh=9, evaluate=True),
    "PLR": lambda _: cursus.curricula.PLR(50, score="max_mc", buffer_size=9, replay_prob=0.8, alpha=0.5, robust=True),
    "Regions": lambda _: cursus.curricula.Regions(Product(size=range(9), kind=["maze", "open"]), signal="return"),
    "ALPGMM": lambda _: cursus.curricula.ALPGMM(Box(0.0, 1.0), fit_rate=100, components=[1, 3], history=500, seed=4),
    "CovarGMM": lambda _: cursus.curricula.CovarGMM(Box(0.0, 1.0), random_share=0.1, absolute=True, signal="return"),
    "ADR": lambda _: cursus.curricula.ADR(Box(0.0, 1.0), start=[0.25], step=0.2, queue_size=5, threshold_high=0.9),
    "RIAC": lambda _: cursus.curricula.RIAC(Box(0.0, 1.0), max_region_size=100, split_attempts=9, min_range=0.1, seed=2),
    "CURROT": lambda _: cursus.curricula.CURROT(
        Box(0.0, 1.0), target=Box(0.9, 1.0), start=[0.25], delta=0.7, particles=30, seed=2
    ),
    "ReverseCurriculum": lambda _: cursus.curricula.ReverseCurriculum(
        Product(x=range(4), y=range(4)), start=[{"x": 3, "y": 3}, 0], r_min=0.2, edits=2, episodes_per_round=50
    ),
    "ACCEL": lambda _: cursus.curricula.ACCEL(50, edits=3, score="value_l1", buffer_size=9, staleness=0.5),
    "Distinct": lambda _: cursus.curricula.Distinct(Uniform(5), batch=3, first_pass=True),
    "Prompts": lambda _: cursus.Prompts(6, labels={"sums": 4, "proofs": 2}, floor=0.2),
    "Prompts, mixed": lambda _: cursus.Prompts(4, labels=["sums", "proofs", "sums", "proofs"], within="uniform"),
    "EXP3S": lambda _: cursus.curricula.EXP3S(5, epsilon=0.05, eta=0.001, signal="return"),
    "Mixture": lambda _: Mixture(Uniform(4), Mixture(Uniform(4, ids=[0]), Uniform(4), share=0.1), share=0.25),
}


@pytest.mark.parametrize("name", THINGS)
def test_a_description_builds_the_same_thing_again(name, tmp_path):
    thing = THINGS[name](tmp_path)
    described = json.loads(json.dumps(describe(thing)))
    again = build(described)
    assert type(again) is type(thing)
    assert describe(again) == described


def test_every_type_that_a_configuration_may_build_is_among_these():
    assert {name.split(",")[0] for name in THINGS} == set(TYPES)


SPACES = [name for name in THINGS if name.split(",")[0] in ("Discrete", "Named", "Product", "Box", "Levels", "Drills")]


@pytest.mark.parametrize("name", SPACES)
def test_a_space_that_was_described_has_the_same_tasks(name, tmp_path):
    space = THINGS[name](tmp_path)
    again = build(json.loads(json.dumps(describe(space))))
    assert again.size == space.size
    for task in (0, space.size - 1):
        assert again.label(task) == space.label(task)
        np.testing.assert_equal(again.params(task), space.params(task))


CURRICULA = [name for name in THINGS if name.split(",")[0] in ("Uniform", "Staged", "Phases", "Mixture", "Practice", "League")]


@pytest.mark.parametrize("name", CURRICULA)
def test_a_curriculum_that_was_described_draws_the_same_tasks(name, tmp_path):
    curriculum = THINGS[name](tmp_path)
    again = build(json.loads(json.dumps(describe(curriculum))))
    draws = [each.sample(TicketStream(seed=5, first_ticket=0, count=100)) for each in (curriculum, again)]
    assert draws[0].tasks.tolist() == draws[1].tasks.tolist()
    assert draws[0].tags.tolist() == draws[1].tags.tolist()


@settings(deadline=None, max_examples=50)
@given(
    st.sampled_from([Wilson, EProcess, partial(Window, trend=None)]),
    st.floats(0.3, 0.8),
    st.integers(100, 300),
    st.one_of(st.none(), st.floats(0.2, 0.29)),
    st.integers(0, 100),
)
def test_any_gate_survives_description(gate, threshold, window, demote, cooldown):
    made = gate(threshold=threshold, window=window, demote=demote, cooldown=cooldown)
    assert build(json.loads(json.dumps(describe(made)))) == made


def make_nothing(rng):
    return None


def test_a_generator_function_is_described_by_its_name_and_refused_by_a_file():
    described = describe(Generated(make_nothing, seed=3, size=10))
    assert described == {
        "type": "Generated",
        "make": f"{__name__}:make_nothing",
        "seed": 3,
        "label": None,
        "size": 10,
    }
    (line,) = problems(described)
    assert line.startswith(f"config.make: of a function a run records only the name, '{__name__}:make_nothing'.")
    assert "cursus.replay.replay(run, curriculum)" in line
    assert problems({"type": "Generated", "make": "maze"}) == [
        "config.make: a function cannot be read from a file. Make this object in Python and pass it on."
    ]


def test_a_run_with_a_function_says_how_it_can_be_replayed(tmp_path):
    def curriculum():
        return cursus.Pool(Generated(make_nothing), size=4)

    cursus.Teacher(curriculum(), run=tmp_path / "run").close()
    with pytest.raises(ConfigError, match=r"cursus\.replay\.replay\(run, curriculum\)"):
        replay(tmp_path / "run")
    assert replay(tmp_path / "run", curriculum()).same


def test_a_dotted_path_without_quotes_is_recognised():
    rooms = """
    type = "Buckets"
    base = {size = 5, light = {lamps = {left = 1}}}
    buckets.size = [4, 8]
    """
    (line,) = problems(tomllib.loads(f"{rooms}\nbuckets.light.lamps.left = [1, 2]"))
    assert line == (
        "config.buckets: 'light' is a table here. If a dotted path is meant, put it in quotes: \"light.lamps.left\" = …."
    )
    build(tomllib.loads(f'{rooms}\nbuckets."light.lamps.left" = [1, 2]'))
    assert "not {'size': 5}" in problems({"type": "Buckets", "base": {"size": 4}, "buckets": {"size": 5}})[0]


def test_what_has_no_settings_cannot_be_described():
    with pytest.raises(SettingsError, match=r"object cannot be written down.*settings\(\) method"):
        describe(object())


# ---- overriding

CURRICULUM = describe(
    Staged(
        [Stage("easy"), Stage("hard", gate=Wilson(threshold=0.6, cooldown=9))],
        gate=Wilson(threshold=0.8, cooldown=7, confidence=0.95),
    )
)


ONE_GATE = describe(Staged(["easy", "hard"], gate=Wilson(threshold=0.8, cooldown=7, confidence=0.95)))


def test_one_setting_is_changed_in_a_copy():
    before = json.dumps(ONE_GATE)
    changed = override(ONE_GATE, "gate.threshold=0.9")
    assert changed["gate"] == {**ONE_GATE["gate"], "threshold": 0.9}
    assert {**changed, "gate": ONE_GATE["gate"]} == ONE_GATE
    assert json.dumps(ONE_GATE) == before


def thresholds(spec):
    curriculum = build(spec)
    return [curriculum.gate(index).threshold for index in range(len(curriculum.names))]


def test_a_gate_for_all_is_not_set_where_a_stage_would_not_obey_it():
    with pytest.raises(ConfigError, match=r"change nothing in 'hard', which have a gate of their own.*stages\.hard\.gate\.thr"):
        override(CURRICULUM, "gate.threshold=0.9")
    with pytest.raises(ConfigError, match=r"or stages\.\*\.gate\.type=… for all"):
        override(CURRICULUM, "gate.type=EProcess")
    with pytest.raises(ConfigError, match=r"Set curriculum\.stages\.hard\.gate=…"):
        override({"curriculum": CURRICULUM}, "curriculum.gate=none")


def test_what_is_set_for_every_stage_holds_for_every_stage():
    assert thresholds(CURRICULUM) == [0.8, 0.6]
    changed = override(CURRICULUM, "stages.*.gate.threshold=0.9")
    assert thresholds(changed) == [0.9, 0.9]
    assert [build(changed).gate(index).cooldown for index in range(2)] == [7, 9], "the rest stays as it was"


@pytest.mark.parametrize("setting", ["curriculum.gate.threshold=0.9", "curriculum.stages.*.gate.threshold=0.9"])
@pytest.mark.parametrize("stages", [["a", "b"], [{"type": "Stage", "name": "a"}, "b"]])
def test_a_gate_that_a_file_leaves_at_its_default_can_be_set(setting, stages):
    spec = {"curriculum": {"type": "Staged", "stages": stages}}
    assert thresholds(override(spec, setting)["curriculum"]) == [0.9, 0.9]


def test_one_stage_of_a_file_can_be_given_a_gate():
    spec = {"curriculum": {"type": "Staged", "stages": ["a", "b"], "gate": {"type": "Wilson", "threshold": 0.6}}}
    assert thresholds(override(spec, "curriculum.stages.b.gate.threshold=0.9")["curriculum"]) == [0.6, 0.9]


def test_a_stage_is_found_by_its_name():
    changed = override(CURRICULUM, "stages.hard.gate.threshold=0.5")
    assert changed["stages"][0] == CURRICULUM["stages"][0]
    assert changed["stages"][1]["gate"] == {**CURRICULUM["stages"][1]["gate"], "threshold": 0.5}
    assert build(changed).gate(1).threshold == 0.5
    assert build(changed).gate(0).threshold == 0.8


def test_a_phase_is_found_by_its_name():
    curriculum = describe(Phases([Phase("a", Uniform(4), episodes=3), Phase("b", Uniform(4))]))
    assert override(curriculum, "phases.a.episodes=9")["phases"][0]["episodes"] == 9


def test_another_type_keeps_the_shared_settings_that_were_chosen():
    changed = override(ONE_GATE, "gate.type=EProcess")
    assert changed["gate"] == {"type": "EProcess", "threshold": 0.8, "cooldown": 7}
    assert build(changed).gate(0) == EProcess(threshold=0.8, cooldown=7)


def test_another_type_does_not_keep_the_defaults_of_the_old_one():
    assert build(override(describe(Staged(["a"])), "gate.type=Window")).gate(0) == Window()


def test_a_type_can_be_set_where_there_was_none():
    changed = override({"gate": {"threshold": 0.6}}, "gate.type=Wilson")
    assert build(changed["gate"]) == Wilson(threshold=0.6)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("0.8", 0.8),
        ("1", 1),
        ("true", True),
        ("none", None),
        ("null", None),
        ("all", "all"),
        ('"none"', "none"),
        ("[0.5, 0.6]", [0.5, 0.6]),
        ("a=b", "a=b"),
        (" 0.8 ", 0.8),
    ],
)
def test_values_are_read_as_in_toml_and_bare_words_are_strings(text, value):
    changed = override(ONE_GATE, f"gate.threshold={text}")
    assert changed["gate"]["threshold"] == value
    assert type(changed["gate"]["threshold"]) is type(value)


@settings(deadline=None, max_examples=50)
@given(st.one_of(st.floats(allow_nan=False, allow_infinity=False), st.integers(-(2**60), 2**60), st.booleans()))
def test_any_number_survives_being_written_in_an_override(value):
    text = json.dumps(value)
    assert override(ONE_GATE, f"gate.threshold={text}")["gate"]["threshold"] == value


def test_an_axis_of_a_product_can_be_overridden():
    curriculum = describe(Uniform(Product(size=[5, 9], lava=[False, True])))
    assert override(curriculum, "tasks.size=[3]")["tasks"]["size"] == [3]


@pytest.mark.parametrize(
    ("setting", "complaint"),
    [
        ("gate.treshold=0.8", "'treshold' is not known here. Did you mean 'threshold'? Allowed: confidence, "),
        ("gaet.threshold=0.8", "'gaet' is not known here. Did you mean 'gate'? Allowed: "),
        ("stages.hrad.gate.threshold=0.8", "'hrad' is not known here. Did you mean 'hard'? Allowed: easy, hard."),
        ("gate.type=Wilsn", "'Wilsn' is not known here. Did you mean 'Wilson'?"),
        ("gate.type=[1]", "is not known here"),
        ("gate.threshold", "is not of the form name.name=value"),
        ("=0.8", "is not of the form name.name=value"),
        ("gate..threshold=0.8", "is not of the form name.name=value"),
        ("stages.hard=0.8", "there is no table to set 'hard' in"),
        ("gate.threshold.x=0.8", "'threshold' is not known here"),
    ],
)
def test_a_misspelt_override_is_answered_with_what_there_is(setting, complaint):
    with pytest.raises(ConfigError) as caught:
        override(ONE_GATE, setting)
    assert complaint in str(caught.value)


def test_an_override_with_a_wrong_value_is_found_when_it_is_built():
    assert problems(override(ONE_GATE, "gate.threshold=high"))[0].startswith("config.gate.threshold")
    assert problems(override(ONE_GATE, "gate.threshold=8")) == ["config.gate: threshold=8 must lie between 0 and 1."]
