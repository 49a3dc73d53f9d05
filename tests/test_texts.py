"""What objects look like: short constructor-like `repr`s, and tables for notebooks."""

import html.parser

import numpy as np
import pytest

import cursus
from cursus.curricula import FixedMixing, ForgettingWatch, Mixture, NoMixing, Phase, Phases, Pool
from cursus.tasks import Box, Discrete, Generated, Named, Product

REPRS = [
    (cursus.Wilson(), "Wilson()"),
    (cursus.Wilson(threshold=0.8, demote=None), "Wilson(threshold=0.8, demote=None)"),
    (cursus.Stage("easy", gate=cursus.Window()), "Stage('easy', gate=Window())"),
    (FixedMixing(0.3), "FixedMixing(ratio=0.3)"),
    (ForgettingWatch(demote=True), "ForgettingWatch(demote=True)"),
    (Discrete(10), "Discrete(10)"),
    (Named(["walk", "run"]), "Named(['walk', 'run'])"),
    (Named({"walk": {"speed": 1.0}}), "Named({'walk': {'speed': 1.0}})"),
    (Product(size=[5, 9], lava=[False, True]), "Product(size=[5, 9], lava=[False, True])"),
    (Product(a=range(1000), b=range(1000)), "Product(a=range(0, 1000), b=range(0, 1000))"),
    (Box(0.0, 1.0, names=["mass"]), "Box(low=[0.0], high=[1.0], names=['mass'])"),
    (cursus.Uniform(3), "Uniform(Discrete(3))"),
    (cursus.Uniform(1000, ids=range(100)), "Uniform(Discrete(1000), ids=[0, 1, 2, …, 99])"),
    (cursus.curricula.Trend(window=50), "Trend(window=50)"),
    (
        cursus.LearningProgress(3, signal="return"),
        "LearningProgress(Discrete(3), progress=ExpectedGain(), focus=2.0, floor=0.3, signal='return')",
    ),
    (cursus.Staged(["walk", "run"]), "Staged(stages=['walk', 'run'])"),
    (
        cursus.Staged([cursus.Stage("walk", mixing=NoMixing()), "run"], gate=cursus.Wilson(threshold=0.6)),
        "Staged(stages=[Stage('walk', mixing=NoMixing()), 'run'], gate=Wilson(threshold=0.6))",
    ),
    (Mixture(cursus.Uniform(2), cursus.Uniform(2, ids=[0]), share=0.5), "Mixture(first=Uniform(Discrete(2)), second="),
    (Phases([Phase("a", cursus.Uniform(2))]), "Phases([Phase(name='a', curriculum=Uniform(Discrete(2)))])"),
    (cursus.Teacher(cursus.Uniform(2), seed=7), "Teacher(Uniform(Discrete(2)), seed=7)"),
]


@pytest.mark.parametrize(("thing", "text"), REPRS, ids=[text[:30] for _, text in REPRS])
def test_repr_is_the_call_that_makes_it_without_defaults(thing, text):
    assert repr(thing).startswith(text)
    if not text.startswith("Mixture"):
        assert repr(thing) == text


@pytest.mark.parametrize(
    "make",
    [
        lambda: Named([f"task {number}" for number in range(100_000)]),
        lambda: cursus.LearningProgress(1_000_000),
        lambda: Pool(1_000_000, size=100),
        lambda: cursus.Staged({"all": list(range(100_000))}, tasks=1_000_000),
        lambda: Generated(lambda rng: {"seed": int(rng.integers(2**31))}),
        lambda: cursus.Uniform(Product(a=np.arange(1000), b=range(1000))),
    ],
)
def test_repr_and_notebook_tables_stay_short_for_any_number_of_tasks(make):
    thing = make()
    assert len(repr(thing)) < 200
    assert len(thing._repr_html_()) < 20_000


class Cells(html.parser.HTMLParser):
    def __init__(self, text):
        super().__init__()
        self.tags, self.words = [], []
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)

    def handle_data(self, data):
        self.words.append(data)


def test_a_teacher_shows_what_it_explains_and_its_tables_escaped():
    teacher = cursus.Teacher(cursus.Staged(["<b>walk</b>", "run & jump"]))
    given = teacher.assign([0])
    teacher.report(given.tickets, success=[True], returns=[1.0], lengths=[5])
    cells = Cells(teacher._repr_html_())
    assert set(cells.tags) == {"pre", "table", "caption", "tr", "th", "td"}
    assert {"<b>walk</b>", "run & jump", "stages"} <= set(cells.words)
    assert teacher.explain() in "".join(cells.words)


def test_gates_spaces_and_curricula_have_tables_too():
    assert "0.8" in Cells(cursus.Wilson(threshold=0.8)._repr_html_()).words
    assert "size=9 lava=True" in Cells(Product(size=[5, 9], lava=[False, True])._repr_html_()).words
    many = Cells(cursus.Staged([f"stage {number}" for number in range(50)])._repr_html_())
    assert "… 30 more" in many.words


def test_one_task_is_named_with_all_its_values_wherever_it_is_shown():
    space = Product(size=range(20), seed=range(100))
    curriculum = cursus.LearningProgress(space)
    assert curriculum.explain_task(101).startswith("size=1 seed=1:")
    assert curriculum.status()["tasks"][0]["name"] == "size=0 seed=0"
    box = Box([0.0, 0.0], [1.0, 1.0], names=["friction", "mass"])
    pool = Pool(box, size=4)
    task = int(pool.members()[0])
    assert pool.explain_task(task).startswith(f"{box.name(task)} (task {task})")
    assert pool.status()["tasks"][0]["name"].startswith("friction=")
