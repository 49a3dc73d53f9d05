"""Runs and servers for the tests of the live page."""

from __future__ import annotations

import http.client
import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import quote

import numpy as np

import cursus
from cursus.web import PageServer

STAGES = ["walk", "run", "fly"]


def practise(run: Path, curriculum: cursus.Curriculum, episodes: int, *, at_once: int = 8, resume: bool = False) -> None:
    """A real run of a student who learns each task in some hundred episodes."""
    rng = np.random.default_rng(0)
    with cursus.Teacher(curriculum, run=run, seed=3, resume=resume) as teacher:
        play(teacher, rng, episodes, at_once)


def play(teacher: cursus.Teacher, rng: np.random.Generator, episodes: int, at_once: int = 8, *, skill_now: float = 0.0) -> None:
    skill = np.full(teacher.tasks.size, skill_now)
    for _ in range(episodes // at_once):
        given = teacher.assign(range(at_once))
        won = rng.random(at_once) < np.clip(skill[given.tasks], 0.02, 0.95)
        np.add.at(skill, given.tasks, 0.01)
        teacher.report(given.tickets, success=won, returns=won * 1.0, lengths=rng.integers(5, 40, at_once))


def play_until_promoted(teacher: cursus.Teacher, rng: np.random.Generator) -> None:
    """A skilled student passes the next gate."""
    promoted = promotions(teacher)
    while promotions(teacher) == promoted:
        play(teacher, rng, 8, skill_now=1.0)


def promotions(teacher: cursus.Teacher) -> int:
    return sum(each.kind == "promotion" for each in teacher.decisions)


def staged(names: list[str] | None = None) -> cursus.Staged:
    return cursus.Staged(names or STAGES, gate=cursus.Wilson(threshold=0.7))


@contextmanager
def served(folder: Path, **settings: Any) -> Iterator[PageServer]:
    with PageServer(folder, port=0, **settings) as page:
        yield page


def ask(
    page: PageServer, path: str, *, host: str | None = None, method: str = "GET", **headers: str
) -> tuple[int, dict[str, str], bytes]:
    """One request, with another `Host` if one is given."""
    connection = http.client.HTTPConnection("127.0.0.1", page.port, timeout=60)
    connection.request(method, path, headers={"Host": host or f"127.0.0.1:{page.port}", **headers})
    answer = connection.getresponse()
    found = answer.status, {name.lower(): value for name, value in answer.getheaders()}, answer.read()
    connection.close()
    return found


class Stream:
    """What the page is told, as it comes."""

    def __init__(self, page: PageServer, *names: str) -> None:
        query = "&".join(f"name={quote(name, safe='')}" for name in names)
        self._connection = http.client.HTTPConnection("127.0.0.1", page.port, timeout=60)
        self._connection.request("GET", f"/api/stream?{query}", headers={"Host": f"127.0.0.1:{page.port}"})
        self._answer = self._connection.getresponse()
        self.refused = self._answer.status != 200

    def __enter__(self) -> Stream:
        return self

    def __exit__(self, *error: object) -> None:
        self._answer.close()
        self._connection.close()

    def next(self) -> Any:
        """The next news."""
        while True:
            line = self._answer.readline()
            assert line, "the stream has ended"
            if line.startswith(b"data: "):
                return json.loads(line[6:])
