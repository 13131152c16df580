"""Sphinx configuration."""

import sys
from importlib.metadata import version as installed_version
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent / "tools"))

project = "corrdp"
author = "The corrdp developers"
version = release = installed_version("corrdp")
extensions = [
    "myst_parser",
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx.ext.napoleon",
    "sphinx.ext.mathjax",
    "glossary_links",
]
myst_enable_extensions = ["dollarmath", "amsmath", "colon_fence", "deflist"]
# Formulas in $$ ... $$ stand beside text too: without this they end in raw dollars.
myst_dmath_double_inline = True
myst_heading_anchors = 3
napoleon_numpy_docstring = True
napoleon_google_docstring = False
napoleon_custom_sections = ["Guarantee"]
autodoc_member_order = "bysource"
autodoc_typehints = "none"
# Words such as n_rows in the types of parameters are no references to attributes.
suppress_warnings = ["ref.python"]
exclude_patterns = ["_build"]
html_theme = "furo"
html_title = f"corrdp {release}"
html_show_copyright = False
html_static_path = ["static"]
html_css_files = ["terms.css"]
