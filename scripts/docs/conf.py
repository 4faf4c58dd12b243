"""How sphinx builds the documentation; `scripts/docs/build` calls it."""

import re

import bed

project = "bed"
version = release = bed.__version__
extensions = ["myst_parser", "numpydoc", "sphinx.ext.autodoc", "sphinx.ext.mathjax"]
root_doc = "index"
default_role = "obj"
html_theme = "pydata_sphinx_theme"
html_show_sourcelink = False
html_theme_options = {"show_prev_next": False, "navigation_with_keys": False}
myst_heading_anchors = 3
# Names are listed one by one in the reference, so that a test can read them there.
numpydoc_show_class_members = False
add_module_names = False
autodoc_typehints = "none"


def escape_bars(app, what, name, obj, options, lines):
    """|A| in a docstring is a norm, not a substitution."""
    for i, line in enumerate(lines):
        if not line.lstrip().startswith((">>>", "...", "..")):
            parts = re.split("(``.*?``)", line)
            parts[::2] = [part.replace("|", r"\|") for part in parts[::2]]
            lines[i] = "".join(parts)


def setup(app):
    """After numpydoc, which is connected before."""
    app.connect("autodoc-process-docstring", escape_bars, priority=900)
