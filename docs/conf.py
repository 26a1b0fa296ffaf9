"""Sphinx configuration."""

import os

import steincheck

os.environ["MPLBACKEND"] = "module://matplotlib_inline.backend_inline"  # pictures in executed pages

project = "steincheck"
author = "The steincheck developers"
copyright = "the steincheck developers"
release = steincheck.__version__
extensions = ["myst_nb", "numpydoc", "sphinx.ext.autodoc", "sphinx.ext.mathjax"]
myst_enable_extensions = ["amsmath", "dollarmath"]
myst_heading_anchors = 3
nb_execution_in_temp = True
nb_execution_mode = "cache"
nb_execution_raise_on_error = True
nb_execution_timeout = 300
html_theme = "furo"
html_title = f"steincheck {release}"
html_show_sphinx = False
html_static_path = ["_static"]
html_js_files = ["accessible.js"]
exclude_patterns = ["_build", "README.md"]
autodoc_member_order = "bysource"
numpydoc_show_class_members = False
suppress_warnings = ["ref.python"]  # fields of records share names


def setup(app):
    """Bars in docstrings are norms, not reStructuredText substitutions."""

    def escape(app, what, name, obj, options, lines):
        lines[:] = [line.replace("|", r"\|") for line in lines]

    app.connect("autodoc-process-docstring", escape)
