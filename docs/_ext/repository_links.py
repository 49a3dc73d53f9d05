"""Links from pages to files of the repository lead to where the site shows these; the examples are a page of their own."""

import ast
import re
from pathlib import Path
from typing import Any

from sphinx.application import Sphinx

ROOT = Path(__file__).parents[2]
PAGES = {
    "README.md": "index.md",
    "CONTRIBUTING.md": "project/contributing.md",
    "CHANGELOG.md": "project/changes.md",
    "SECURITY.md": "project/security.md",
}
LINK = re.compile(r"\]\(((?:\.\./)+)([^)#]+)(#[^)]*)?\)")
OWN_LINK = re.compile(r"\[([^]]+)\]\((?!\w+:)([^)#]+)(#[^)]*)?\)")
FILE = re.compile(r"^```\{repository\} (\S+)\n```$", flags=re.M)
SHOWN = {".py": "python", ".toml": "toml", ".json": "json"}


def examples() -> list[Path]:
    """The examples that are shown, scripts first."""
    files = [each for each in (ROOT / "examples").rglob("*") if each.suffix in SHOWN and "runs" not in each.parts]
    small = [each for each in files if each.parent.name != "levels" or each.suffix == ".py"]
    return sorted(
        (each for each in small if len(each.relative_to(ROOT / "examples").parts) <= 2),
        key=lambda each: (list(SHOWN).index(each.suffix), each.parts),
    )


def anchor(path: Path) -> str:
    """The anchor of an example on its page."""
    return "example-" + re.sub(r"[^a-z0-9]+", "-", path.relative_to(ROOT / "examples").as_posix().lower()).strip("-")


def gallery() -> str:
    """All examples: what each says that it is, and its text."""
    return "\n\n".join(_entry(each) for each in examples())


def _entry(path: Path) -> str:
    name = path.relative_to(ROOT).as_posix()
    text = path.read_text(encoding="utf-8")
    if path.suffix == ".py":
        about = (ast.get_docstring(ast.parse(text)) or "").split("\n\n")[0]
    else:
        about = " ".join(line.lstrip("# ") for line in text.partition("\n\n")[0].splitlines() if line.startswith("#"))
    return (
        f"({anchor(path)})=\n## {path.relative_to(ROOT / 'examples').as_posix()}\n\n{about}\n\n"
        f"```{{literalinclude}} ../{name}\n:language: {SHOWN[path.suffix]}\n:caption: {name}\n```"
    )


def text_of(name: str, up: str) -> str:
    """A text at the root of the repository, with its links led to pages; what the site has no page of is no link."""

    def lead(found: re.Match[str]) -> str:
        page = PAGES.get(found[2], found[2].removeprefix("docs/") if found[2].startswith("docs/") else None)
        return found[1] if page is None else f"[{found[1]}]({up}{page}{found[3] or ''})"

    return OWN_LINK.sub(lead, (ROOT / name).read_text(encoding="utf-8"))


def read_source(app: Sphinx, docname: str, source: list[str]) -> None:
    """Lead links to where the site has what they mean, and fill the pages of the examples and of texts of the repository."""
    up = "../" * docname.count("/")

    def lead(found: re.Match[str]) -> str:
        target = (Path(app.srcdir) / docname).parent.joinpath(found[1] + found[2]).resolve()
        if not target.is_relative_to(ROOT) or target.is_relative_to(app.srcdir):
            return found[0]
        name = target.relative_to(ROOT).as_posix()
        if name in PAGES:
            return f"]({up}{PAGES[name]}{found[3] or ''})"
        if target in examples():
            return f"]({up}examples.md#{anchor(target)})"
        if target.suffix == ".md" and target.parent in {each.parent for each in examples()}:
            return f"]({up}examples.md)"
        return found[0]

    text = LINK.sub(lead, source[0]).replace("```{examples}\n```", gallery())
    source[0] = FILE.sub(lambda found: text_of(found[1], up), text)


def setup(app: Sphinx) -> dict[str, Any]:
    """Connect the above."""
    app.connect("source-read", read_source)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
