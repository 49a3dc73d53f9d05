"""Workers that choose for themselves."""

from __future__ import annotations

import multiprocessing
import os
import pickle
import signal
import threading
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import cursus
from cursus.errors import LedgerError, ResultError, SettingsError, SharedMemoryError, TeacherError, TicketError
from cursus.metrics import CurriculumStatistics
from cursus.remote import Hub, RemoteTeacher, Seat
from cursus.replay import replay
from cursus.teacher.tickets import REMOTE_ENVS

MEMORIES = ["local", "shared"]


def balanced(teacher: cursus.Teacher) -> bool:
    counts = teacher.counts
    return counts.assigned == counts.finished + counts.lost + counts.withdrawn + counts.in_flight


def sent(seat: Seat) -> Any:
    return pickle.loads(pickle.dumps(seat))  # noqa: S301


@pytest.mark.parametrize("memory", MEMORIES)
@pytest.mark.parametrize(
    "make",
    [
        lambda: cursus.Uniform(5),
        lambda: cursus.Staged(["walk", "run", "fly"], gate=cursus.Wilson(threshold=0.7)),
        lambda: cursus.LearningProgress(20),
        lambda: cursus.Pool(1000, size=20, min_presentations=5),
        lambda: cursus.Mixture(cursus.LearningProgress(9), cursus.Uniform(9), share=0.5),
    ],
    ids=["uniform", "staged", "learning progress", "pool", "mixture"],
)
def test_any_curriculum_runs_on_either_memory(memory: Any, make: Any) -> None:
    with cursus.Teacher(make(), seed=3) as teacher, Hub(teacher, memory=memory) as hub:
        remotes = [RemoteTeacher(sent(hub.seat(2))) for _ in range(3)]
        for _ in range(200):
            for remote in remotes:
                for env in (0, 1):
                    remote.assign(env)
                    remote.report(env, success=True, returns=1.0, lengths=3)
            hub.drain()
            assert balanced(teacher)
        assert teacher.counts.finished == 1200
        if isinstance(teacher.curriculum, cursus.Staged):
            assert teacher.curriculum.stage == "fly"
        for remote in remotes:
            remote.close()


def test_results_are_credited_to_what_was_drawn() -> None:
    with cursus.Teacher(cursus.LearningProgress(4), seed=1) as teacher, Hub(teacher, memory="local") as hub:
        remote = RemoteTeacher(hub.seat())
        played = np.zeros(4, dtype=int)
        for _ in range(500):
            played[remote.assign().id] += 1
            remote.report(success=False, returns=0.0, lengths=1)
        hub.drain()
        assert teacher.curriculum.counts.tolist() == played.tolist()  # type: ignore[attr-defined]
        remote.close()


def test_workers_follow_the_curriculum_and_the_delay_is_measured() -> None:
    curriculum = cursus.Staged(
        ["walk", "run"], gate=cursus.Wilson(threshold=0.7), mixing=cursus.curricula.NoMixing(), rehearsal=None
    )
    with cursus.Teacher(curriculum) as teacher, Hub(teacher, memory="local") as hub:
        remote = RemoteTeacher(hub.seat())
        seen = []
        for turn in range(300):
            seen.append(remote.assign().label)
            remote.report(success=True, returns=1.0, lengths=1)
            if turn % 10 == 9:
                hub.drain()
        assert seen[0] == "walk"
        assert seen[-1] == "run"
        promoted = next(each.ticket for each in teacher.decisions if each.kind == "promotion")
        last = max(index for index, label in enumerate(seen) if label == "walk")
        assert last <= promoted + 10
        assert hub.staleness.episodes == 300
        assert 0 < hub.staleness.mean <= hub.staleness.most
        remote.close()


def test_results_on_their_way_count_as_missing_in_the_list() -> None:
    with cursus.Teacher(cursus.Uniform(5)) as teacher, Hub(teacher) as hub, RemoteTeacher(hub.seat()) as remote:
        for _ in range(100):
            remote.assign()
            remote.report(success=True, returns=1.0, lengths=1)
        hub.drain()
        assert (hub.staleness.episodes, hub.staleness.most) == (100, 99), "all picked from the first list, before any result"
        assert hub.staleness.mean == 49.5


def test_an_episode_that_is_open_when_its_worker_closes_is_withdrawn() -> None:
    with cursus.Teacher(cursus.Uniform(3)) as teacher, Hub(teacher) as hub:
        remote = RemoteTeacher(hub.seat(2))
        remote.assign(0)
        remote.assign(1)
        remote.assign(1)
        remote.close()
        hub.drain()
        assert (teacher.counts.assigned, teacher.counts.withdrawn) == (3, 3)


def test_wrong_use_is_refused() -> None:
    with pytest.raises(SettingsError, match="Hub.seat"):
        RemoteTeacher("seat 3")  # type: ignore[arg-type]
    with cursus.Teacher(cursus.Uniform(3)) as teacher, Hub(teacher) as hub:
        seat = hub.seat()
        remote = RemoteTeacher(seat)
        with pytest.raises(TicketError, match="no open episode"):
            remote.report(success=True, returns=0.0, lengths=1)
        with pytest.raises(TicketError, match="not at this seat"):
            remote.assign(1)
        remote.assign()
        for wrong in ({"returns": float("nan")}, {"lengths": 1.5}, {"success": "yes"}, {"scores": float("inf")}):
            with pytest.raises(ResultError):
                remote.report(**{"success": True, "returns": 0.0, "lengths": 1, **wrong})
        with pytest.raises(SharedMemoryError, match="one writer"):
            RemoteTeacher(seat)
        remote.close()
    with pytest.raises(SharedMemoryError, match="closed"):
        RemoteTeacher(seat)


def worker(seat: Seat, episodes: int) -> None:
    remote = RemoteTeacher(seat)
    for number in range(episodes):
        task = remote.assign()
        remote.report(success=task.id % 2 == 0, returns=float(number), lengths=1)
    remote.close()


@pytest.mark.slow
@pytest.mark.parametrize("method", ["fork", "forkserver", "spawn"])
def test_workers_in_processes_report_everything_once(method: str, tmp_path: Path) -> None:
    context = multiprocessing.get_context(method)
    with cursus.Teacher(cursus.LearningProgress(10), max_lag=10**9, run=tmp_path / "run") as teacher, Hub(teacher) as hub:
        processes = [context.Process(target=worker, args=(hub.seat(), 3000)) for _ in range(2)]
        for process in processes:
            process.start()
        while any(process.is_alive() for process in processes):
            hub.drain()
        for process in processes:
            process.join()
            assert process.exitcode == 0
        hub.drain()
        assert teacher.counts.assigned == teacher.counts.finished == 6000
        assert teacher.curriculum.counts.sum() == 6000  # type: ignore[attr-defined]
        assert hub.staleness.episodes == 6000
    found = replay(tmp_path / "run")
    assert found.same
    assert found.episodes == 6000


def play_for_ever(seat: Seat, ready: Any) -> None:
    remote = RemoteTeacher(seat)
    ready.set()
    while True:
        remote.assign()
        remote.report(success=True, returns=1.0, lengths=1)


@pytest.mark.slow
def test_workers_that_are_killed_lose_only_what_they_had_open() -> None:
    context = multiprocessing.get_context("fork")
    rng = np.random.default_rng(0)
    with cursus.Teacher(cursus.LearningProgress(10), max_lag=10**9) as teacher, Hub(teacher) as hub:
        seats = [hub.seat() for _ in range(3)]

        def start(seat: Seat) -> Any:
            ready = context.Event()
            process = context.Process(target=play_for_ever, args=(seat, ready), daemon=True)
            process.start()
            assert ready.wait(10)
            return process

        processes = [start(seat) for seat in seats]
        for _ in range(25):
            for _ in range(int(rng.integers(1, 8))):
                hub.drain()
                assert balanced(teacher)
            victim = int(rng.integers(3))
            os.kill(processes[victim].pid, signal.SIGKILL)
            processes[victim].join()
            if rng.random() < 0.5:  # sometimes the next worker is there before the loss was noticed
                hub.drain()
            processes[victim] = start(seats[victim])
        for process in processes:
            process.kill()
            process.join()
        hub.drain()
        assert teacher.counts.in_flight == 0
        assert teacher.counts.lost <= 28
        assert teacher.counts.finished > 500
        assert teacher.curriculum.counts.sum() == teacher.counts.finished  # type: ignore[attr-defined]


def wait_for_the_teacher_to_go(seat: Seat, found: Any) -> None:
    remote = RemoteTeacher(seat)
    found.send("attached")
    try:
        while True:
            remote.assign()
            remote.report(success=True, returns=1.0, lengths=1)
            time.sleep(0.01)
    except (TeacherError, SharedMemoryError) as error:
        found.send(str(error))


@pytest.mark.slow
def test_a_worker_notices_that_its_teacher_is_gone() -> None:
    context = multiprocessing.get_context("spawn")
    mine, other = context.Pipe()
    teacher = cursus.Teacher(cursus.Uniform(3))
    hub = Hub(teacher)
    process = context.Process(target=wait_for_the_teacher_to_go, args=(hub.seat(), other), daemon=True)
    process.start()
    assert mine.recv() == "attached"
    hub.close()
    assert mine.poll(10)
    assert "gone" in mine.recv()
    process.join(10)
    assert process.exitcode == 0


def test_what_remote_workers_had_open_is_lost_when_a_run_is_resumed(tmp_path: Path) -> None:
    teacher = cursus.Teacher(cursus.LearningProgress(5), run=tmp_path / "run")
    hub = Hub(teacher, memory="local")
    given = teacher.assign([0])
    remote = RemoteTeacher(hub.seat())
    remote.assign()
    hub.drain()
    teacher.checkpoint("a student")
    remote.close()
    teacher.close()
    again = cursus.Teacher.resume(cursus.LearningProgress(5), tmp_path / "run")
    statistics = again.observe(CurriculumStatistics(again.curriculum))
    assert again.assign([0]).tickets.tolist() == given.tickets.tolist()
    assert (again.counts.lost, again.counts.in_flight) == (1, 1)
    assert statistics.report()["env_curriculum_stats/total_samples"] == 0
    again.close()
    assert replay(tmp_path / "run").same


def test_a_drain_is_one_moment_in_a_replay(tmp_path: Path) -> None:
    with (
        cursus.Teacher(cursus.LearningProgress(5), run=tmp_path / "run", seed=3) as teacher,
        Hub(teacher, memory="local") as hub,
    ):
        slow, fast = (RemoteTeacher(hub.seat()) for _ in range(2))
        slow.assign()
        for turn in range(300):
            fast.assign()
            fast.report(success=turn % 2 == 0, returns=1, lengths=1)
        slow.withdraw()
        hub.drain()
        for _ in range(50):
            given = teacher.assign(range(8))
            teacher.report(given.tickets, success=[True] * 8, returns=[1] * 8, lengths=[1] * 8)
    found = replay(tmp_path / "run")
    assert (found.same, found.episodes) == (True, 700)


def test_drawing_ahead_changes_nothing_about_a_staged_course(tmp_path: Path) -> None:
    curriculum = cursus.Staged({"all": range(6)}, tasks=cursus.tasks.Product(a=["x", "y", "z"], b=range(2), label_by=["a"]))
    with cursus.Teacher(curriculum, run=tmp_path / "run") as teacher, Hub(teacher, memory="local") as hub:
        remote = RemoteTeacher(hub.seat())
        for _ in range(20):
            remote.assign()
            remote.report(success=False, returns=0, lengths=1)
            hub.drain()
            given = teacher.assign([0, 1])
            teacher.report(given.tickets, success=[False] * 2, returns=[0] * 2, lengths=[1] * 2)
        assert sum(row["drawn"] for row in curriculum.status()["labels"]) == 40
    assert replay(tmp_path / "run").same


def test_a_resumed_run_draws_other_tasks_ahead(tmp_path: Path) -> None:
    sessions = []
    for number in range(3):
        curriculum = cursus.Uniform(1_000_000)
        run = tmp_path / "run"
        with (
            cursus.Teacher.resume(curriculum, run) if number else cursus.Teacher(curriculum, run=run, seed=3) as teacher,
            Hub(teacher, memory="local") as hub,
        ):
            remote = RemoteTeacher(hub.seat())
            tasks = []
            for _ in range(10):
                tasks.append(remote.assign().id)
                remote.report(success=True, returns=1, lengths=1)
                hub.drain()
            remote.close()
            hub.drain()
            teacher.checkpoint()
            sessions.append(set(tasks))
    assert not sessions[0] & sessions[1]
    assert not sessions[1] & sessions[2]


def test_what_the_teacher_learns_otherwise_reaches_remote_workers() -> None:
    curriculum = cursus.Staged(
        ["walk", "run"], gate=cursus.Wilson(threshold=0.7), mixing=cursus.curricula.NoMixing(), rehearsal=None
    )
    with cursus.Teacher(curriculum) as teacher, Hub(teacher, memory="local") as hub:
        remote = RemoteTeacher(hub.seat())
        for _ in range(30):
            given = teacher.assign(range(8))
            teacher.report(given.tickets, success=[True] * 8, returns=[1] * 8, lengths=[1] * 8)
        assert curriculum.stage == "run"
        hub.drain()
        assert remote.assign().label == "run"
        remote.close()


def test_a_worker_reads_what_is_known_of_tasks() -> None:
    with cursus.Teacher(cursus.LearningProgress(8)) as teacher, Hub(teacher) as hub, RemoteTeacher(hub.seat()) as remote:
        for _ in range(400):
            task = remote.assign()
            remote.report(success=task.id > 5, returns=0.0, lengths=1)
        while remote.known() is None or remote.known().counts.sum() < 400:  # type: ignore[union-attr]
            hub.drain()
        known, own = remote.known(), teacher.curriculum.task_sample()
        assert known is not None
        assert own is not None
        for name in ("tasks", "weights", "scores", "counts"):
            assert getattr(known, name).tolist() == getattr(own, name).tolist()
        assert known.total == own.total == 8
    with cursus.Teacher(cursus.Uniform(8)) as teacher, Hub(teacher) as hub, RemoteTeacher(hub.seat()) as remote:
        assert remote.known() is None


def test_statistics_that_nobody_asked_for_again_are_kept(tmp_path: Path) -> None:
    with cursus.Teacher(cursus.Uniform(5), run=tmp_path / "run") as teacher:
        teacher.observe(CurriculumStatistics(teacher.curriculum))
        teacher.assign(range(11))
        teacher.checkpoint()
    with cursus.Teacher.resume(cursus.Uniform(5), tmp_path / "run") as teacher:
        teacher.checkpoint()
    with cursus.Teacher.resume(cursus.Uniform(5), tmp_path / "run") as teacher:
        statistics = teacher.observe(CurriculumStatistics(teacher.curriculum))
        assert statistics.report()["env_curriculum_stats/total_samples"] == 11


def test_a_second_thread_is_told_so() -> None:
    class Slow(cursus.Uniform):
        def update(self, episodes: cursus.Episodes) -> list[cursus.Decision]:
            time.sleep(0.3)
            return []

    with cursus.Teacher(Slow(3)) as teacher:
        given = teacher.assign([0])
        thread = threading.Thread(target=lambda: teacher.report(given.tickets, success=[True], returns=[1.0], lengths=[1]))
        thread.start()
        time.sleep(0.1)
        with pytest.raises(TeacherError, match="one thread at a time"):
            teacher.assign([1])
        thread.join()
        teacher.assign([1])


def test_workers_pick_different_tasks() -> None:
    with cursus.Teacher(cursus.Uniform(10**6)) as teacher, Hub(teacher, memory="local") as hub:
        picked = []
        for _ in range(3):
            with RemoteTeacher(hub.seat()) as remote:
                picked.append([remote.assign().id for _ in range(100)])
        assert len({task for tasks in picked for task in tasks}) > 200, (
            "the list has 1,024 tasks: few are picked twice by chance"
        )


def test_a_ticket_behind_a_damaged_ring_is_lost_when_its_worker_is_gone() -> None:
    with cursus.Teacher(cursus.Uniform(3)) as teacher, Hub(teacher) as hub:
        remote = RemoteTeacher(hub.seat())
        remote.assign()
        hub.drain()
        remote.report(success=True, returns=0.0, lengths=1)
        session = hub._memory._session  # type: ignore[attr-defined]
        slot = session.ring_layout(0).slots + session.layout.record.whole.size  # of the second record
        session.map[slot : slot + 8] = b"nonsense"
        remote._member.close()
        for _ in range(20):
            hub.drain()
        counts = teacher.counts
        assert (counts.assigned, counts.finished, counts.lost, counts.in_flight) == (1, 0, 1, 0)


def test_a_resumed_run_with_remote_tickets_settles_each_once(tmp_path: Path) -> None:
    teacher = cursus.Teacher(cursus.Uniform(5), run=tmp_path / "run")
    teacher.expect_envs(2)
    given = teacher.assign([0, 1])
    hub = Hub(teacher)
    remotes = [RemoteTeacher(hub.seat()) for _ in range(3)]
    for remote in remotes:
        remote.assign()
    hub.drain()
    teacher.checkpoint("a student")
    for remote in remotes:
        remote.close()
    teacher.close()
    with cursus.Teacher.resume(cursus.Uniform(5), tmp_path / "run") as again:
        again.expect_envs(1)
        assert again.assign([0]).tickets.tolist() == given.tickets[:1].tolist()
        counts = again.counts
        assert (counts.assigned, counts.lost, counts.withdrawn, counts.in_flight) == (5, 3, 1, 1)
    assert replay(tmp_path / "run").same


def test_the_episode_of_a_dead_worker_is_lost_as_soon_as_its_successor_speaks() -> None:
    with cursus.Teacher(cursus.Uniform(5)) as teacher, Hub(teacher, memory="local") as hub:
        seat = hub.seat(2)
        dead = RemoteTeacher(seat)
        dead.assign(0)
        dead.assign(1)
        hub.drain()
        dead._member.close()  # without a word
        with RemoteTeacher(seat) as successor:
            successor.assign(0)
            successor.report(0, success=True, returns=1.0, lengths=1)
            hub.drain()
            assert (teacher.counts.lost, teacher.counts.finished, teacher.counts.in_flight) == (2, 1, 0)
            assert teacher.released == 3


def test_closing_a_hub_settles_what_is_open_and_leaves_the_teacher_usable() -> None:
    with cursus.Teacher(cursus.Uniform(5)) as teacher:
        hub = Hub(teacher)
        playing, gone = (RemoteTeacher(hub.seat()) for _ in range(2))
        playing.assign()
        gone.assign()
        hub.drain()
        gone.close()
        hub.close()
        hub.close()
        assert (teacher.counts.withdrawn, teacher.counts.lost, teacher.counts.in_flight) == (1, 1, 0)
        with pytest.raises(TeacherError, match="this hub is closed"):
            hub.drain()
        teacher.assign([0])
        second = Hub(teacher)
        assert second.seat().first_env not in (REMOTE_ENVS, REMOTE_ENVS + 1), "numbers of environments are never used twice"
    assert not playing._member.owner_alive(), "closing the teacher closes its hubs"


def test_an_interrupt_while_tasks_are_drawn_ahead_changes_no_draw(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    curriculum = cursus.Staged({"all": range(6)}, tasks=cursus.tasks.Product(a=["x", "y", "z"], b=range(2), label_by=["a"]))
    with cursus.Teacher(curriculum, run=tmp_path / "run") as teacher, Hub(teacher, memory="local") as hub:
        sample = curriculum.sample

        def interrupted(rng: Any) -> Any:
            sample(rng)
            raise KeyboardInterrupt

        monkeypatch.setattr(curriculum, "sample", interrupted)
        with pytest.raises(KeyboardInterrupt):
            hub._publish()
        monkeypatch.undo()
        given = teacher.assign(range(12))
        teacher.report(given.tickets, success=[True] * 12, returns=[1] * 12, lengths=[1] * 12)
    assert replay(tmp_path / "run").same


def test_a_full_disk_at_the_first_act_after_a_resume_leaves_no_remote_ticket(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    teacher = cursus.Teacher(cursus.Uniform(5), run=tmp_path / "run")
    hub = Hub(teacher, memory="local")
    RemoteTeacher(hub.seat()).assign()
    hub.drain()
    teacher.checkpoint("a student")
    teacher.close()
    again = cursus.Teacher.resume(cursus.Uniform(5), tmp_path / "run")

    def full(handle: int, data: bytes) -> int:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "write", full)
    with pytest.raises(LedgerError, match="No space left"):
        again.assign([0])
    monkeypatch.undo()
    again.assign([0])
    assert (again.counts.lost, again.counts.in_flight) == (1, 1)
    again.close()
    assert replay(tmp_path / "run").same
