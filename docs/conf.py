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
