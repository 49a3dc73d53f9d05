"""The live page by its answers: what it tells, what it refuses, that it reads only."""

from __future__ import annotations

import json
import re
import signal
import socket
import subprocess
import sys
import urllib.request
from contextlib import ExitStack
from pathlib import Path

import numpy as np
import pytest
from pages import Stream, ask, play, practise, served, staged

import cursus
from cursus.cli.page import served_beside
from cursus.errors import SettingsError
from cursus.web import PageServer
from cursus.web import server as serving
from waiting import wait_until

pytestmark = pytest.mark.timeout(120)


def snapshot(folder: Path) -> dict[str, tuple[int, bytes]]:
    return {str(path): (path.stat().st_mtime_ns, path.read_bytes()) for path in sorted(folder.rglob("*")) if path.is_file()}


def test_all_runs_and_one_are_told_and_nothing_is_written(tmp_path: Path) -> None:
    practise(tmp_path / "runs" / "first", staged(), 1600)
    practise(tmp_path / "runs" / "deep" / "er", cursus.LearningProgress(cursus.tasks.Product(a=[1, 2], b=["x", "y", "z"])), 800)
    before = snapshot(tmp_path)
    with served(tmp_path / "runs") as page:
        with Stream(page) as stream:
            listed = stream.next()
        assert {each["name"] for each in listed} == {"first", "deep/er"}
        with Stream(page, "first") as stream:
            told = stream.next()
        assert told["episodes"] == 1600
        assert told["threshold"] == 0.7
        assert told["meters"] == [{**told["meters"][0], "name": told["stage"], "threshold": 0.7}]
        assert [stay["name"] for stay in told["stays"]][:2] == ["walk", "run"]
        assert told["decided"]["promotion"] == 2
        assert sum(each["episodes"] for each in told["groups"]["stage"]["groups"]) == 1600
        with Stream(page, "deep/er") as stream:
            told = stream.next()
        assert told["threshold"] is None
        assert told["meters"] == []
        assert told["map"]["names"] == ["a", "b"]
        assert np.sum(told["map"]["share"]) == pytest.approx(1.0, abs=1e-3)
        assert len(told["tasks"]["name"]) == 6
        assert sum(told["tasks"]["share"]) == pytest.approx(1.0, abs=1e-3)
    assert snapshot(tmp_path) == before


def test_a_run_is_told_again_as_it_grows_and_when_its_process_ends(tmp_path: Path) -> None:
    teacher = cursus.Teacher(staged(), run=tmp_path / "run", seed=3)
    rng = np.random.default_rng(0)
    play(teacher, rng, 80)
    teacher.flush()
    with served(tmp_path) as page, Stream(page, "run") as stream:
        told = stream.next()
        assert told["state"] == "running"
        play(teacher, rng, 800)
        teacher.flush()
        while told["end"] < 880:
            told = stream.next()
        assert told["returns"]["y"][-1] is not None
        teacher.close()
        while told["state"] == "running":
            told = stream.next()


def test_what_if_says_what_the_command_says(tmp_path: Path) -> None:
    practise(tmp_path / "run", staged(), 1600)
    with served(tmp_path) as page:
        status, _, body = ask(page, "/api/what-if?name=run&threshold=0.5")
        assert status == 200
        assert json.loads(body)["visits"][0]["would_decide"] == "promotion"
        command = [sys.executable, "-m", "cursus", "explain", "run", "--what-if", "gate.threshold=0.5", "--json"]
        said = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=True)
        assert json.loads(said.stdout)["what_if"]["visits"] == json.loads(body)["visits"]
        for wrong in ("2", "nan", "-1", "x", "1e400"):
            status, _, body = ask(page, f"/api/what-if?name=run&threshold={wrong}")
            assert status == 400, wrong
            assert "error" in json.loads(body)


def test_metrics_are_told_by_name(tmp_path: Path) -> None:
    practise(tmp_path / "run", staged(), 80)
    with cursus.metrics.make_writers(tmp_path / "run") as writers:
        for step in range(5000):
            writers.write(step, {"score": step / 2, "odd": float("nan")})
    with served(tmp_path) as page:
        with Stream(page, "run") as stream:
            assert stream.next()["metric_names"] == ["odd", "score"]
        _, _, body = ask(page, "/api/metric?name=run&metric=score")
        found = json.loads(body)
        assert 100 < len(found["x"]) <= 1000
        assert found["y"][:2] == [0.0, found["x"][1] / 2]
        _, _, body = ask(page, "/api/metric?name=run&metric=odd")
        assert set(json.loads(body)["y"]) == {None}


@pytest.mark.parametrize(
    "path",
    [
        "/../../etc/passwd",
        "/static/../server.py",
        "/api/stream?name=..%2F..%2Fetc",
        "/api/stream?name=%2Fetc",
        "/api/metric?name=..&metric=x",
        "/api/metric?name=run%00&metric=x",
        "/api/what-if?name=nobody&threshold=0.5",
        "/api/nothing",
        "/.lock",
    ],
)
def test_nothing_outside_the_runs_is_reached(path: str, tmp_path: Path) -> None:
    practise(tmp_path / "runs" / "run", staged(), 16)
    with served(tmp_path / "runs") as page:
        status, headers, body = ask(page, path)
        assert status == 404
        assert headers["content-type"] == "application/json"
        assert b"root:" not in body


def test_only_this_machine_under_its_own_name_may_look(tmp_path: Path) -> None:
    with served(tmp_path) as page:
        assert page.url == f"http://127.0.0.1:{page.port}/"
        for host in ("evil.example", f"evil.example:{page.port}", "127.0.0.1.evil.example", "127.0.0.1:1", ""):
            assert ask(page, "/", host=host)[0] == (403 if host else 200), host
        assert ask(page, "/", host=f"localhost:{page.port}")[0] == 200
        assert ask(page, "/", host="[::1]")[0] == 200
        assert page._server.server_address[0] == "127.0.0.1"


def test_other_machines_need_the_token(tmp_path: Path) -> None:
    with served(tmp_path, host="0.0.0.0", token="much-secret") as page:  # noqa: S104, S106
        assert page.token == "much-secret"  # noqa: S105
        for path in ("/", "/app.js", "/api/stream", "/?token=wrong", "/api/metric?name=x&metric=y"):
            assert ask(page, path)[0] == 401, path
        status, headers, _ = ask(page, "/?token=much-secret", host="any.example")
        assert (status, headers["location"]) == (303, "/")
        assert "HttpOnly" in headers["set-cookie"]
        assert "SameSite=Strict" in headers["set-cookie"]
    with served(tmp_path, host="0.0.0.0") as page:  # noqa: S104
        assert page.token is not None
        assert len(page.token) > 20
        assert page.url == f"http://{socket.gethostname()}:{page.port}/?token={page.token}"
        status, headers, _ = ask(page, f"/?token={page.token}")
        cookie = headers["set-cookie"].split(";")[0]
        assert ask(page, "/", Cookie=cookie)[0] == 200
        assert ask(page, "/", Cookie=f"{page.cookie}=ä; =")[0] == 401
    for token in ("short", "with space", "line\nbreak", "semi;colon;", "ümläuts-umlauts"):
        with pytest.raises(SettingsError, match="token"):
            PageServer(tmp_path, port=0, token=token)


def test_pages_of_others_may_ask_for_nothing(tmp_path: Path) -> None:
    practise(tmp_path / "run", staged(), 16)
    with served(tmp_path) as page:
        for path in ("/api/stream", "/api/stream?name=run", "/api/what-if?name=run&threshold=0.5"):
            assert ask(page, path, **{"Sec-Fetch-Site": "cross-site"})[0] == 403
            assert ask(page, path, **{"Sec-Fetch-Site": "same-site"})[0] == 403
        assert ask(page, "/api/what-if?name=run&threshold=0.5", **{"Sec-Fetch-Site": "same-origin"})[0] == 200
        assert ask(page, "/", **{"Sec-Fetch-Site": "cross-site"})[0] == 200
        assert ask(page, "/api/stream?" + "&name=run" * 5)[0] == 400


def test_every_answer_forbids_scripts_of_others(tmp_path: Path) -> None:
    with served(tmp_path) as page:
        for path in ("/", "/app.js", "/charts.js", "/style.css", "/uplot.js", "/uplot.css", "/icon.svg", "/no"):
            status, headers, body = ask(page, path)
            assert status == (404 if path == "/no" else 200)
            assert "default-src 'none'" in headers["content-security-policy"]
            assert "unsafe" not in headers["content-security-policy"]
            assert headers["x-content-type-options"] == "nosniff"
            if path == "/":
                assert not re.search(rb"<script>|style=|onclick|https?://", body)


def test_other_methods_are_refused(tmp_path: Path) -> None:
    with served(tmp_path) as page:
        for method in ("POST", "PUT", "DELETE", "OPTIONS"):
            assert ask(page, "/", method=method)[0] == 501


def test_more_pages_than_it_bears_are_refused_and_those_that_were_closed_make_room(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(serving, "_MOST_STREAMS", 2)
    monkeypatch.setattr(serving, "_ALIVE_S", 0.0)  # so that it notices soon that nobody listens
    monkeypatch.setattr(serving, "_LOOK_S", 0.05)
    with served(tmp_path) as page:
        with ExitStack() as opened:
            for _ in range(2):
                opened.enter_context(Stream(page)).next()
            assert ask(page, "/api/stream")[0] == 503
        wait_until(lambda: lets_in(page), "room for another page")


def lets_in(page: PageServer) -> bool:
    with Stream(page) as stream:
        return not stream.refused and stream.next() == []


def test_what_cannot_be_served_is_said(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match="no folder"):
        PageServer(tmp_path / "nowhere")
    with served(tmp_path) as page, pytest.raises(SettingsError, match="--port"):
        PageServer(tmp_path, port=page.port)
    with pytest.raises(SettingsError, match="--port"):
        PageServer(tmp_path, port=1 << 20)
    with pytest.raises(SettingsError, match="cannot be served at 203.0.113.7"):
        PageServer(tmp_path, host="203.0.113.7", port=0)


def test_unreadable_runs_are_listed_with_their_reason(tmp_path: Path) -> None:
    practise(tmp_path / "good", staged(), 16)
    practise(tmp_path / "bad", staged(), 16)
    (tmp_path / "bad" / "config.json").write_text("{")
    with served(tmp_path) as page:
        with Stream(page) as stream:
            states = {each["name"]: each for each in stream.next()}
        assert states["bad"]["state"] == "unreadable"
        with Stream(page, "bad") as stream:
            told = stream.next()
        assert "config.json" in told["notes"][0]


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGTERM])
def test_the_command_serves_until_it_is_interrupted(how: signal.Signals, tmp_path: Path) -> None:
    practise(tmp_path / "runs" / "run", staged(), 16)
    command = [sys.executable, "-m", "cursus", "serve", "--port", "0"]
    with subprocess.Popen(command, cwd=tmp_path, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        url = process.stdout.readline().split()[-1]
        with urllib.request.urlopen(url) as answer:  # noqa: S310
            assert b"Cursus" in answer.read()
        process.send_signal(how)
        assert process.stdout.read().endswith("ended\n")
    assert process.returncode == 0


def test_a_page_beside_a_training_ends_with_it(tmp_path: Path) -> None:
    with served_beside(tmp_path / "runs" / "a run") as url:
        assert url.endswith("/#/run/a%20run")
        with urllib.request.urlopen(url) as answer:  # noqa: S310
            assert answer.status == 200
    with pytest.raises(urllib.error.URLError):
        urllib.request.urlopen(url)  # noqa: S310


KILLED = """
import os, signal, sys
from pathlib import Path
from cursus.cli.page import served_beside
with served_beside(Path(sys.argv[1])) as url:
    print(url, flush=True)
    os.kill(os.getpid(), signal.SIGKILL)
"""


def test_a_page_beside_a_training_that_is_killed_ends_too(tmp_path: Path) -> None:
    command = [sys.executable, "-c", KILLED, str(tmp_path / "runs" / "run")]
    url = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=False).stdout.split("#")[0]
    wait_until(lambda: not answers(url), f"the end of {url}")


def answers(url: str) -> bool:
    try:
        with urllib.request.urlopen(url):  # noqa: S310
            return True
    except OSError:
        return False


SPEC = {
    "agent": {"type": "DDDQN", "hidden": [8], "batch_size": 8, "buffer_size": 200},
    "curriculum": {"type": "Staged", "stages": ["near"], "tasks": {"type": "Named", "names": {"near": {"doors": 0}}}},
    "environment": {"id": "cursus/Keys-v0", "max_episode_steps": 12},
    "training": {"steps": 1_000_000_000, "learning_starts": 50, "updates_per_env_step": 0.01, "report_every": 200},
    "evaluation": {"every": 0, "games": 2, "tasks": {"target": {"doors": 0}}, "background": False},
}


@pytest.mark.slow
def test_a_training_is_shown_while_it_goes_on(tmp_path: Path) -> None:
    (tmp_path / "keys.json").write_text(json.dumps(SPEC))
    command = [
        sys.executable,
        "-m",
        "cursus",
        "train",
        "keys.json",
        "--run",
        "runs/keys",
        "--num-envs",
        "2",
        "--num-workers",
        "0",
    ]
    with subprocess.Popen([*command, "--serve"], cwd=tmp_path, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        url = next(line.split()[-1] for line in process.stdout if line.startswith("Live page:"))
        assert url.endswith("#/run/keys")
        wait_until((tmp_path / "runs" / "keys" / "status.json").exists, "a run")
        with urllib.request.urlopen(url.split("#")[0] + "api/stream?name=keys") as stream:  # noqa: S310
            told = json.loads(next(line[6:] for line in stream if line.startswith(b"data: ")))
        assert told["state"] == "running"
        process.send_signal(signal.SIGINT)
        process.stdout.read()
    assert process.returncode == 130
    assert not answers(url)
