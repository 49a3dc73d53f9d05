"""Pictures of the concepts stand in the page itself, so that they follow its light or dark theme."""

from pathlib import Path
from typing import Any

from docutils import nodes
from sphinx.application import Sphinx

FOLDER = "images/concepts/"


def put_in(app: Sphinx, doctree: nodes.document, docname: str) -> None:
    """Replace images of the folder by their text."""
    if app.builder.format != "html":
        return
    for image in list(doctree.findall(nodes.image)):
        if image["uri"].startswith(FOLDER) and image["uri"].endswith(".svg"):
            text = (Path(app.srcdir) / image["uri"]).read_text(encoding="utf-8")
            image.replace_self(nodes.raw("", f'<div class="picture">{text}</div>', format="html"))


def setup(app: Sphinx) -> dict[str, Any]:
    """Connect the above."""
    app.connect("doctree-resolved", put_in)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
