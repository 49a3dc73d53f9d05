"""Success is asked for where a curriculum reads it, and nowhere else."""

from contextlib import closing

import gymnasium
import numpy as np
import pytest

import cursus
from cursus.curricula import PLR, TSCL, League, Learnability, Mixture, Phase, Phases, Pool
from cursus.errors import CursusError, ResultError
from cursus.remote import Hub, RemoteTeacher
from cursus.runs import read_events
from cursus.tasks import Named

RESULTS = {"returns": [1.5, -2.0], "lengths": [20, 30]}


def reads_returns():
    return cursus.LearningProgress(4, signal="return")


def a_league():
    return League(cursus.Uniform(Named({"self-play": {"opponent": "archive"}})), baselines=["weak"])


CONTENT = {
    "uniform": lambda: cursus.Uniform(4),
    "progress in returns": reads_returns,
    "a pool of returns": lambda: Pool(100, size=8, signal="return"),
    "TSCL in returns": lambda: TSCL(4, signal="return"),
    "scores of rollouts": lambda: PLR(4),
    "a mixture of such": lambda: Mixture(cursus.Uniform(4), reads_returns(), share=0.5),
    "phases without a gate": lambda: Phases([Phase("a", cursus.Uniform(4), episodes=9), Phase("b", reads_returns())]),
}
BY_SUCCESS = {
    "stages": lambda: cursus.Staged(["walk", "run"]),
    "learnability": lambda: Learnability(4),
    "PLR by learnability": lambda: PLR(4, score="learnability"),
    "stages in a mixture": lambda: Mixture(cursus.Uniform(2), cursus.Staged(tasks=2), share=0.5),
    "a phase with a gate": lambda: Phases([Phase("a", cursus.Uniform(4), gate=cursus.Wilson())]),
}
BY_SCORE = {
    "progress in scores": lambda: cursus.LearningProgress(4),
    "a pool of scores": lambda: Pool(100, size=8),
    "a league": a_league,
    "TSCL in scores": lambda: TSCL(4),
    "PLR by score": lambda: PLR(4, score="score"),
}


@pytest.mark.parametrize("make", CONTENT.values(), ids=CONTENT)
def test_a_curriculum_that_does_not_read_success_needs_none(make):
    teacher = cursus.Teacher(make())
    given = teacher.assign([0, 1])
    teacher.report(given.tickets, **RESULTS)
    assert teacher.counts.finished == 2


@pytest.mark.parametrize("make", BY_SUCCESS.values(), ids=BY_SUCCESS)
@pytest.mark.parametrize("scores", [None, [0.5, 0.5]])
def test_what_a_gate_judges_must_be_given(make, scores):
    teacher = cursus.Teacher(make())
    given = teacher.assign([0, 1])
    with pytest.raises(ResultError, match=r"success is missing, but the curriculum judges by it.*Give success=…"):
        teacher.report(given.tickets, **RESULTS, scores=scores)
    assert teacher.counts.in_flight == 2, "nothing has changed"


@pytest.mark.parametrize("make", BY_SCORE.values(), ids=BY_SCORE)
def test_scores_do_instead_of_success_where_scores_are_read(make):
    teacher = cursus.Teacher(make())
    given = teacher.assign([0, 1])
    with pytest.raises(ResultError, match="reads scores, which are the success unless scores=… is given"):
        teacher.report(given.tickets, **RESULTS)
    teacher.report(given.tickets, **RESULTS, scores=[0.5, 1.0])
    assert teacher.counts.finished == 2


def test_a_curriculum_of_ones_own_needs_everything_until_it_says_otherwise():
    class Own(cursus.Uniform):
        needs = cursus.Curriculum.needs

    assert Own(3).needs == {"success", "score"}


def test_a_missing_success_is_recorded_as_false(tmp_path):
    with cursus.Teacher(reads_returns(), run=tmp_path / "run") as teacher:
        teacher.report(teacher.assign([0, 1]).tickets, **RESULTS)
    (finish,) = [event for event in read_events(tmp_path / "run") if event["event"] == "finish"]
    assert finish["success"] == [False, False]
    assert finish["return"] == RESULTS["returns"]


@pytest.mark.parametrize("needed", [False, True])
def test_a_remote_worker_is_asked_for_the_same(needed):
    with cursus.Teacher(cursus.Staged(tasks=4) if needed else reads_returns()) as teacher:
        remote = RemoteTeacher(Hub(teacher).seat())
        remote.assign()
        if needed:
            with pytest.raises(ResultError, match="success is missing"):
                remote.report(returns=3.0, lengths=7)
        else:
            remote.report(returns=3.0, lengths=7)
        remote.close()


class Silent(gymnasium.Env):
    """Ends after three steps, without a word about success."""

    observation_space = gymnasium.spaces.Box(0.0, 1.0, (1,), np.float32)
    action_space = gymnasium.spaces.Discrete(2)

    def reset(self, *, seed=None, options=None):
        self.clock = 0
        return np.zeros(1, np.float32), {}

    def step(self, action):
        self.clock += 1
        return np.zeros(1, np.float32), 1.0, self.clock == 3, False, {"score": 0.5}


def play(curriculum, **settings):
    with closing(cursus.make_vec(Silent, 2, curriculum=curriculum, set_task="ignore", num_workers=0, **settings)) as envs:
        envs.reset(seed=0)
        for _ in range(8):
            envs.step(np.zeros(2, dtype=np.int64))
        return envs.teacher.counts.finished


def test_environments_without_a_success_can_be_taught_by_returns_or_scores():
    assert play(reads_returns()) == 4
    assert play(cursus.LearningProgress(4), score="score") == 4


def test_environments_without_a_success_cannot_pass_a_gate():
    with pytest.raises(CursusError, match="no 'is_success' or 'success'"):
        play(cursus.Staged(tasks=4))


def test_a_key_that_was_asked_for_by_name_must_be_there():
    with pytest.raises(CursusError, match="no 'solved'"):
        play(reads_returns(), success="solved")
