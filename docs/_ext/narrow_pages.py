"""What keeps pages readable on a narrow screen: names that break where their parts end, figures that keep their units."""

import re
from typing import Any

from docutils import nodes
from sphinx.application import Sphinx

LONG = 50
"""Characters from which a cell of a table is text, which needs some width."""
NAME = re.compile(r'(?<=<span class="pre">)[^<]+(?=</span>)')
PARTS = re.compile(r"(?<=[./_=,(])(?=\w)")


def keep_units(app: Sphinx, doctree: nodes.document, docname: str) -> None:
    """Let no line end between a number and its percent sign, and mark the cells that hold text."""
    for text in list(doctree.findall(nodes.Text)):
        if not isinstance(text.parent, nodes.literal | nodes.literal_block | nodes.raw) and " %" in text:
            text.parent.replace(text, nodes.Text(re.sub(r"(\d) %", "\\1\N{NO-BREAK SPACE}%", text)))
    for entry in doctree.findall(nodes.entry):
        if len(entry.astext()) > LONG:
            entry["classes"].append("long")


def break_names(app: Sphinx, pagename: str, templatename: str, context: dict[str, Any], doctree: Any) -> None:
    """Let long names in code break behind their dots, slashes and underscores."""
    if "body" in context:
        context["body"] = NAME.sub(lambda found: PARTS.sub("<wbr>", found[0]), context["body"])


def setup(app: Sphinx) -> dict[str, Any]:
    """Connect the above."""
    app.connect("doctree-resolved", keep_units)
    app.connect("html-page-context", break_names)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
