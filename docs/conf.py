"""Settings of the documentation site; `make docs` builds it."""

import os
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent
sys.path[:0] = [str(ROOT), str(HERE / "_extensions")]
os.environ["PATH"] = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
os.environ["PYTHONPATH"] = os.pathsep.join([str(ROOT), str(HERE / "_extensions")])  # of tutorials
os.environ.setdefault("OMP_NUM_THREADS", "1")  # faster for networks of this size

import lit_ios  # noqa: E402

project = "lit-ios"
author = "The lit-ios maintainers"
copyright = "The lit-ios maintainers"
version = release = lit_ios.__version__

extensions = [
    "myst_nb",
    "mathml",
    "tables",
    "tutorials",
    "repository_pages",
    "method_pages",
    "reference_pages",
]
exclude_patterns = ["_build", "_extensions"]
highlight_language = "none"  # of blocks that name none: commands, mostly
html_static_path = ["_static"]
html_css_files = ["site.css"]

# MyST: the pages are Markdown that reads well without this site, too
myst_enable_extensions = ["colon_fence", "dollarmath", "deflist"]
myst_heading_anchors = 4
myst_dmath_double_inline = True

# Notebooks are executed each time, in a folder of their own; an error ends the build
nb_execution_mode = "force"
nb_execution_in_temp = True
nb_execution_timeout = 900  # seconds for a cell, which takes ten on a quiet machine
nb_execution_raise_on_error = True
nb_execution_show_tb = True
nb_merge_streams = True

# The theme; nothing is loaded from elsewhere
html_math_renderer = "mathml"
html_theme = "pydata_sphinx_theme"
html_title = "lit-ios"
html_show_sourcelink = False
html_copy_source = False
html_theme_options = {
    "logo": {"text": "lit-ios"},
    "navbar_align": "left",
    "navbar_end": ["theme-switcher"],
    "navbar_persistent": ["search-button"],
    "header_links_before_dropdown": 7,
    "show_nav_level": 1,
    "navigation_depth": 2,
    "secondary_sidebar_items": ["page-toc"],
    "show_prev_next": True,
    "footer_start": ["copyright"],
    "footer_end": [],
    "pygments_light_style": "a11y-high-contrast-light",
    "pygments_dark_style": "a11y-high-contrast-dark",
}
html_sidebars = {"index": []}
