"""Sphinx configuration."""

import steincheck

project = "steincheck"
author = "The steincheck developers"
release = steincheck.__version__
extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.mathjax", "sphinx.ext.napoleon"]
myst_enable_extensions = ["dollarmath", "amsmath"]
html_theme = "furo"
exclude_patterns = ["_build"]
autodoc_member_order = "bysource"
suppress_warnings = ["ref.python"]  # fields of records share names


def setup(app):
    """Bars in docstrings are norms, not reStructuredText substitutions."""

    def escape(app, what, name, obj, options, lines):
        lines[:] = [line.replace("|", r"\|") for line in lines]

    app.connect("autodoc-process-docstring", escape)
