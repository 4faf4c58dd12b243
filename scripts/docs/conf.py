"""How sphinx builds the documentation; `scripts/docs/build` calls it."""

import inspect
import re

from sphinx.util import logging

import bed

project = "bed"
version = release = bed.__version__
extensions = ["myst_parser", "numpydoc", "sphinx.ext.autodoc", "sphinx.ext.mathjax"]
root_doc = "index"
default_role = "obj"
smartquotes = False
# A name of bed that is not in the reference is a broken link. Others are not looked up.
nitpicky = True
nitpick_ignore_regex = [("py:.*", r"(?!bed\.).*")]
linkcheck_anchors = False
html_title = f"bed {release}"
html_theme = "pydata_sphinx_theme"
html_show_sourcelink = False
html_context = {"default_mode": "auto"}
html_static_path = ["_static"]
html_css_files = ["pages.css"]
templates_path = ["_templates"]
# All pages at the left; what is on a page at the right only where that is long, for the
# width that lines of code need.
html_sidebars = {"**": ["pages"], "index": []}
html_theme_options = {
    "navbar_center": [],
    "navbar_align": "left",
    "show_prev_next": False,
    "navigation_with_keys": False,
    "secondary_sidebar_items": {"**": [], "reference": ["page-toc"]},
    "show_toc_level": 2,
    "footer_start": [],
    "footer_end": ["theme-version"],
}
myst_heading_anchors = 3
# Names are listed one by one in the reference, so that a test can read them there.
numpydoc_show_class_members = False
add_module_names = False
autodoc_typehints = "none"


def require_docstring(app, what, name, obj, options, lines):
    """No text, or what Python writes by itself, fails the build."""
    text = "\n".join(lines).strip()
    by_itself = text.startswith(f"{name.rpartition('.')[2]}(")
    of_its_type = what == "data" and text == inspect.getdoc(type(obj))
    if not text or by_itself or of_its_type:
        logging.getLogger(__name__).warning("%s has no docstring", name)


def escape_bars(app, what, name, obj, options, lines):
    """|A| in a docstring is a norm, not a substitution."""
    for i, line in enumerate(lines):
        if not line.lstrip().startswith((">>>", "...", "..")):
            parts = re.split("(``.*?``)", line)
            parts[::2] = [part.replace("|", r"\|") for part in parts[::2]]
            lines[i] = "".join(parts)


def setup(app):
    """Before numpydoc looks at docstrings, and after it."""
    app.connect("autodoc-process-docstring", require_docstring, priority=100)
    app.connect("autodoc-process-docstring", escape_bars, priority=900)
