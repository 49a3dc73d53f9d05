"""The live page in a real browser: what people see and do, with the keyboard too, on a desk and on a phone.

It needs Chromium and playwright; `make browser` brings both. Screenshots lie in the folders that pytest keeps of its last runs.
"""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from pages import STAGES, play, play_until_promoted, practise, served, staged

import cursus
from cursus.runs import RunFolder
from cursus.web import PageServer

playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed: `make browser`")
CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)

pytestmark = [
    pytest.mark.slow,
    pytest.mark.timeout(300),
    pytest.mark.skipif(CHROMIUM is None, reason="there is no Chromium here: install it, or let root do `make browser`"),
]

MARKUP = "<img src=x onerror=alert(1)>"
HIDE = """(hidden) => {
  Object.defineProperty(document, "hidden", { value: hidden, configurable: true });
  document.dispatchEvent(new Event("visibilitychange"));
}"""
SIZES = {"desktop": {"width": 1400, "height": 900}, "phone": {"width": 390, "height": 844}}


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with playwright.sync_playwright() as started:
        launched = started.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield launched
        launched.close()


@pytest.fixture
def visit(browser: Any) -> Iterator[Callable[..., Any]]:
    """Opens a page in a window of its own. Nothing may go wrong in it, nor be asked of anybody else."""
    complaints: list[str] = []
    with ExitStack() as opened:

        def open_page(server: PageServer, where: str = "", **settings: Any) -> Any:
            context = browser.new_context(**{"viewport": SIZES["desktop"], **settings})
            opened.callback(context.close)
            page = context.new_page()
            page.set_default_timeout(60_000)
            page.on("pageerror", lambda error: complaints.append(str(error)))
            page.on("console", lambda said: complaints.append(said.text) if is_complaint(said) else None)
            page.on("dialog", lambda dialog: complaints.append(dialog.message))
            page.on("request", lambda request: at_home(request.url, server, complaints))
            page.goto(f"{server.url}#/{where}")
            return page

        yield open_page
        assert complaints == []


def is_complaint(said: Any) -> bool:
    """Whether something is wrong; a refusal of the server, which the page shows, is not."""
    return said.type in ("error", "warning") and not re.search("status of 40[04]", said.text)


def at_home(url: str, server: PageServer, complaints: list[str]) -> None:
    if not url.startswith((server.url.split("?")[0], "data:")):
        complaints.append(f"something was asked of {url}")


def expect(found: Any) -> Any:
    return playwright.expect(found)


@pytest.fixture(autouse=True)
def patient() -> None:
    if CHROMIUM is not None:
        playwright.expect.set_options(timeout=60_000)


def section(page: Any, title: str) -> Any:
    return page.locator("section", has=page.get_by_role("heading", name=title, exact=True))


def fits(page: Any) -> bool:
    """Whether nothing sticks out on the right."""
    return bool(page.evaluate("() => document.documentElement.scrollWidth <= document.documentElement.clientWidth"))


def test_a_run_that_is_trained_meanwhile_changes_on_the_page(visit: Callable[..., Any], tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    with cursus.Teacher(staged(), run=tmp_path / "run", seed=3) as teacher, served(tmp_path) as server:
        play(teacher, rng, 80)
        teacher.flush()
        page = visit(server)
        loaded: list[str] = []
        page.on("request", lambda request: loaded.append(request.url) if request.resource_type == "document" else None)
        expect(page.locator("tbody tr")).to_contain_text("running")
        page.get_by_role("link", name="run", exact=True).click()
        expect(section(page, "Tickets")).to_contain_text("80 assigned = 80 finished")
        expect(section(page, "What is missing")).to_contain_text("stage walk")
        ribbon = section(page, "Stages").locator("rect")
        expect(ribbon).to_have_count(1)
        play_until_promoted(teacher, rng)
        play(teacher, rng, 80)
        teacher.flush()
        expect(ribbon).to_have_count(2)
        expect(section(page, "What is missing")).to_contain_text("stage run")
        expect(section(page, "Decisions")).to_contain_text("promoted from 'walk' to 'run'")
        with cursus.metrics.make_writers(tmp_path / "run") as writers:
            for step in range(3):
                writers.write(step, {"rollout/mean_return": step / 2})
        expect(section(page, "Metrics").get_by_role("combobox")).to_have_value("rollout/mean_return")
        teacher.close()
        expect(page.get_by_role("heading", name="run finished")).to_be_visible()
    expect(page.get_by_role("status")).to_contain_text("no answer")
    assert loaded == []  # all of it without loading the page again
    page.context.close()


def test_a_hundred_runs_are_listed_filtered_and_compared_by_keyboard(visit: Callable[..., Any], tmp_path: Path) -> None:
    practise(tmp_path / "run 0", staged(), 160)
    for index in range(1, 100):
        shutil.copytree(tmp_path / "run 0", tmp_path / f"run {index}")
    with served(tmp_path) as server:
        page = visit(server)
        expect(page.locator("tbody tr")).to_have_count(100)
        page.get_by_role("searchbox").focus()
        page.keyboard.type("run 7")
        expect(page.locator("tbody tr")).to_have_count(11)
        page.keyboard.press("Tab")  # the button cannot be used yet, so that the first box is next
        page.keyboard.press("Space")
        page.keyboard.press("Tab")
        page.keyboard.press("Tab")
        page.keyboard.press("Space")
        page.get_by_role("button", name="Compare two").press("Enter")
        expect(page.locator(".panel")).to_have_count(2)
        expect(page.get_by_role("heading", level=1)).to_have_count(2)
        expect(page.get_by_role("heading", name="Tickets")).to_have_count(2)
        page.get_by_role("link", name="runs", exact=True).click()
        expect(page.locator("tbody tr")).to_have_count(100)


def test_the_slider_says_what_another_threshold_would_have_decided(visit: Callable[..., Any], tmp_path: Path) -> None:
    practise(tmp_path / "run", staged(), 1600)
    with served(tmp_path) as server:
        page = visit(server, "run/run")
        slider = page.get_by_role("slider", name="Another threshold")
        expect(slider).to_have_value("70")
        slider.press("ArrowLeft")
        answer = section(page, "What if the threshold were another?")
        expect(answer.get_by_role("row", name="walk")).to_contain_text("promotion after")
        for _ in range(29):
            slider.press("ArrowRight")
        expect(answer).to_contain_text("98 %")
        expect(answer).to_contain_text("can never show 0.98")


def test_tasks_are_named_by_keyboard_and_mapped(visit: Callable[..., Any], tmp_path: Path) -> None:
    space = cursus.tasks.Product(a=list(range(64)), b=list(range(64)))
    practise(tmp_path / "run", cursus.LearningProgress(space), 40_000, at_once=2000)
    with served(tmp_path) as server:
        page = visit(server, "run/run")
        tasks = section(page, "Tasks: share and progress")
        canvas = tasks.locator("canvas")
        expect(canvas).to_be_visible()
        expect(page.locator("main")).not_to_contain_text("reading the record")  # the most practised one stays so
        canvas.press("ArrowRight")
        expect(tasks).to_contain_text(re.compile(r"a=\d+ b=\d+: \d+ episodes, share"))
        first = tasks.locator(".told").text_content()
        canvas.press("ArrowDown")
        expect(tasks.locator(".told")).not_to_have_text(first)
        canvas.press("ArrowUp")
        expect(tasks.locator(".told")).to_have_text(first)
        expect(section(page, "Newest episodes by task").locator("svg")).to_have_count(2)


def test_what_has_the_focus_or_is_open_stays_so_while_the_page_changes(visit: Callable[..., Any], tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    with cursus.Teacher(staged(), run=tmp_path / "run", seed=3) as teacher, served(tmp_path) as server:
        play_until_promoted(teacher, rng)
        teacher.flush()
        page = visit(server, "run/run")
        decisions, counts = section(page, "Decisions"), section(page, "Tickets")
        decisions.locator("summary").last.press("Enter")
        expect(decisions.locator("dl")).to_contain_text("threshold")
        expect(decisions.locator("details[open]")).to_have_count(1)
        play_until_promoted(teacher, rng)
        teacher.flush()
        expect(decisions.locator("details")).to_have_count(2)
        expect(decisions.locator("details[open]")).to_have_count(1)
        expect(decisions.locator("summary").last).to_be_focused()
        by_label = page.get_by_role("button", name="by label")
        by_label.press("Enter")
        play(teacher, rng, 80)
        teacher.flush()
        expect(counts).to_contain_text(f"{teacher.counts.assigned:,} assigned")
        expect(by_label).to_be_focused()
        expect(by_label).to_have_attribute("aria-pressed", "true")


def test_a_hostile_folder_is_text_on_the_page_and_nothing_else(visit: Callable[..., Any], tmp_path: Path) -> None:
    names = [f"{MARKUP} {name}" for name in STAGES]
    practise(tmp_path / "runs" / "bad <b>", staged(names), 1600)
    folder = RunFolder(tmp_path / "runs" / "bad <b>")
    status = json.loads(folder.status.read_bytes())
    status |= {"explain": f"Gate: <script>alert(2)</script>{MARKUP}", "curriculum": MARKUP, "time": 1e308}
    status["tickets"]["assigned"] = 1 << 63
    status["tables"]["stages"][0] |= {"status": "current", "success": 1e308, "low": -1e308, "gate": "Wilson 1e300"}
    status["tables"] |= {MARKUP: [{MARKUP: 1e-300, "javascript:alert(3)": "\x1b[31m\u202e", "success": "x"}]}
    folder.status.write_text(json.dumps(status))
    (folder.path / "metrics.jsonl").write_text(f'{{"step":1,"{MARKUP}":1e308}}\n{{"step":2,"{MARKUP}":-1e308}}\nrubbish\n')
    practise(tmp_path / "runs" / "broken", staged(), 80)
    (tmp_path / "runs" / "broken" / "config.json").write_text("{")
    with RunFolder(tmp_path / "runs" / "broken").events.open("ab") as file:
        file.write(bytes(range(256)) * 100)
    with served(tmp_path / "runs") as server:
        page = visit(server)
        expect(page.get_by_role("row", name="broken")).to_contain_text("unreadable")
        expect(page.get_by_role("row", name="bad <b>")).to_contain_text(MARKUP)
        page.get_by_role("link", name="bad <b>").click()
        expect(section(page, "In words")).to_contain_text("<script>alert(2)</script>")
        expect(section(page, "Now")).to_contain_text("javascript:alert(3)")
        expect(section(page, "Decisions")).to_contain_text(f"promoted from '{names[0]}'")
        expect(section(page, "Metrics").get_by_role("combobox")).to_have_value(MARKUP)
        expect(page.locator("main")).to_contain_text("Damaged rows of metrics, which are left out: 1.")
        expect(page.locator("img, main script, main b")).to_have_count(0)
        assert fits(page)
        page.screenshot(path=tmp_path / "hostile.png", full_page=True)
        page.goto(f"{server.url}#/run/broken")
        expect(page.locator("main")).to_contain_text("config.json")
        page.goto(f"{server.url}#/run/..%2F..%2Fetc")
        expect(page.locator("main")).to_contain_text("there is no run")


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("size", list(SIZES))
def test_it_fits_and_follows_the_scheme(visit: Callable[..., Any], tmp_path: Path, size: str, scheme: str) -> None:
    practise(tmp_path / "runs" / "first", staged(), 1600)
    practise(tmp_path / "runs" / "second", cursus.LearningProgress(cursus.tasks.Product(a=[1, 2, 3], b=["x", "y"])), 800)
    with served(tmp_path / "runs") as server:
        page = visit(server, color_scheme=scheme, viewport=SIZES[size], is_mobile=size == "phone")
        ground = "rgb(18, 22, 28)" if scheme == "dark" else "rgb(245, 247, 250)"
        expect(page.locator("body")).to_have_css("background-color", ground)
        for where in ("", "run/first", "run/second", "compare/first/second"):
            page.goto(f"{server.url}#/{where}")
            expect(page.locator(".uplot").first if where else page.locator("tbody tr").first).to_be_visible()
            expect(page.get_by_role("status")).to_have_text("live")
            assert fits(page), where
            page.screenshot(path=tmp_path / f"{where.replace('/', '-') or 'runs'}.png", full_page=True)


def test_with_a_token_the_address_lets_in_and_nothing_else(visit: Callable[..., Any], tmp_path: Path) -> None:
    practise(tmp_path / "run", staged(), 80)
    with served(tmp_path, token="secret-token") as server:  # noqa: S106
        page = visit(server, "run/run")
        expect(section(page, "Tickets")).to_contain_text("80 assigned")
        assert "token" not in page.url


def test_a_page_that_is_hidden_listens_again_when_it_is_seen(visit: Callable[..., Any], tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    with cursus.Teacher(staged(), run=tmp_path / "run", seed=3) as teacher, served(tmp_path) as server:
        play(teacher, rng, 80)
        teacher.flush()
        page = visit(server, "run/run")
        expect(section(page, "Tickets")).to_contain_text("80 assigned")
        page.evaluate(HIDE, True)
        play(teacher, rng, 80)
        teacher.flush()
        page.evaluate(HIDE, False)
        expect(section(page, "Tickets")).to_contain_text("160 assigned")
