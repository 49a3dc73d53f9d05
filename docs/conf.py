"""How the documentation is built: Sphinx over the Markdown of this folder, and the reference out of the docstrings."""

import sys
from pathlib import Path

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE / "_ext"))

from public_names import MISSING  # noqa: E402 – after the path

from cursus import __version__  # noqa: E402

project = "Cursus"
author = "The Cursus contributors"
copyright = author  # noqa: A001 – Sphinx's name
release = version = __version__

extensions = ["myst_parser", "sphinx.ext.autodoc", "public_names", "repository_links", "inline_pictures", "narrow_pages"]
exclude_patterns = ["_build", "_ext"]

myst_enable_extensions = ["attrs_inline", "colon_fence", "deflist", "dollarmath"]
myst_heading_anchors = 4

nitpicky = True
nitpick_ignore_regex = [("py:class", r".*")]
"""Types in signatures, which may be of other libraries or of our own insides. What pages and docstrings name is checked."""

autodoc_mock_imports = MISSING
autodoc_default_options = {"members": True, "show-inheritance": True, "member-order": "bysource"}
autodoc_inherit_docstrings = False
autodoc_class_signature = "mixed"
autoclass_content = "both"
autodoc_typehints_format = "short"
autodoc_preserve_defaults = True
python_use_unqualified_type_names = True
python_display_short_literal_types = True
python_maximum_signature_line_length = 88
toc_object_entries_show_parents = "hide"
add_module_names = True

html_theme = "furo"
html_title = f"Cursus {release}"
html_static_path = ["_static"]
html_css_files = ["cursus.css"]
html_show_copyright = False
html_theme_options = {
    "light_css_variables": {"color-brand-primary": "#0b5cad", "color-brand-content": "#0b5cad"},
    "dark_css_variables": {"color-brand-primary": "#6cb6ff", "color-brand-content": "#6cb6ff"},
}
pygments_style = "friendly"
pygments_dark_style = "github-dark"
