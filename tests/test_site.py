"""The documentation site, once `make docs` has built it: its links lead somewhere, and its reference is complete."""

from __future__ import annotations

import html.parser
import importlib
import re
from functools import cache
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest

import cursus

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
SITE = DOCS / "_build" / "html"
SOURCE = Path(cursus.__file__).parent
GENERATED = {"genindex.html", "py-modindex.html", "search.html"}
"""Pages that Sphinx makes itself."""

built = pytest.mark.skipif(not (SITE / "index.html").exists(), reason="the site is not built: make docs")


class Page(html.parser.HTMLParser):
    """The links, pictures and anchors of a page, and the text of its article."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.links: list[str] = []
        self.anchors: set[str] = set()
        self.text = ""
        self._inside = 0  # how deep in the article
        self.feed(path.read_text(encoding="utf-8"))

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = dict(attrs)
        self._inside += tag == "article"
        if anchor := given.get("id"):
            self.anchors.add(anchor)
        for key in ("href", "src"):
            if (link := given.get(key)) is not None:
                self.links.append(link)

    def handle_endtag(self, tag: str) -> None:
        self._inside -= tag == "article"

    def handle_data(self, data: str) -> None:
        if self._inside:
            self.text += data


@cache
def page(path: Path) -> Page:
    return Page(path)


def pages() -> list[Path]:
    return [path for path in sorted(SITE.rglob("*.html")) if "_static" not in path.parts]


def name_of(path: Path) -> str:
    return path.relative_to(SITE).as_posix()


@built
def test_every_page_of_the_documents_is_on_the_site_and_has_something_to_say() -> None:
    written = {
        path.relative_to(DOCS).with_suffix(".html").as_posix() for path in DOCS.rglob("*.md") if "_build" not in path.parts
    }
    there = {name_of(path) for path in pages()}
    assert written <= there
    assert there - written == GENERATED, "pages whose source is gone: build anew with make clean docs"
    assert [name for name in written if len(page(SITE / name).text.split()) < 40] == []


@built
def test_links_and_anchors_inside_the_site_lead_somewhere() -> None:
    broken = []
    for path in pages():
        for link in page(path).links:
            parts = urlsplit(link)
            if parts.scheme or parts.netloc:
                continue
            target = (path.parent / unquote(parts.path)).resolve() if parts.path else path
            if not target.is_file():
                broken.append(f"{name_of(path)}: {link}")
            elif parts.fragment and target.suffix == ".html" and unquote(parts.fragment) not in page(target).anchors:
                broken.append(f"{name_of(path)}: {link} (no such anchor)")
    assert broken == []


@built
def test_no_page_leads_to_the_text_that_a_page_is_made_of() -> None:
    left = [
        f"{name_of(path)}: {link}"
        for path in pages()
        for link in page(path).links
        if not urlsplit(link).scheme and urlsplit(link).path.endswith(".md")
    ]
    assert left == []


def exporting_packages() -> list[str]:
    """Every package and module of ours that says what it exports."""
    found = []
    for path in SOURCE.rglob("*.py"):
        parts = ("cursus", *path.relative_to(SOURCE).with_suffix("").parts)
        name = ".".join(parts[:-1] if parts[-1] == "__init__" else parts)
        if not any(part.startswith("_") for part in name.split(".")) and re.search(
            r"^__all__\b", path.read_text(encoding="utf-8"), flags=re.M
        ):
            found.append(name)
    return sorted(found)


@built
@pytest.mark.parametrize("package", exporting_packages())
def test_every_public_name_is_on_a_page_of_the_reference(package: str) -> None:
    (shown,) = [each for each in map(page, (SITE / "reference").glob("*.html")) if f"module-{package}" in each.anchors]
    for name in importlib.import_module(package).__all__:
        assert re.search(rf"\b{name}\b", shown.text), f"{package}.{name} is not in the table of its package"
        assert name in in_full(), f"{package}.{name} is shown in full nowhere"


@cache
def in_full() -> set[str]:
    """The names that the reference shows in full, wherever they are at home."""
    anchors = {anchor for path in (SITE / "reference").glob("*.html") for anchor in page(path).anchors}
    return {anchor.rpartition(".")[2] for anchor in anchors if anchor.removeprefix("module-").startswith("cursus.")}


def test_every_source_that_the_code_names_is_among_the_citations() -> None:
    cited = (DOCS / "citations.md").read_text(encoding="utf-8")
    pattern = re.compile(r"\b((?:van )?[A-Z][\w-]+)(?: et al\.|,? (?:&|and) [A-Z][\w-]+)?,? \(?((?:19|20)\d\d)[a-z]?\b")
    named = {found for path in SOURCE.rglob("*.py") for found in pattern.findall(path.read_text(encoding="utf-8"))}
    assert len(named) > 25
    assert [who for who, year in sorted(named) if who.removeprefix("van ") not in cited or year not in cited] == []
