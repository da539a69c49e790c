"""The documentation site: `sphinx-build -W docs build/docs`. Lessons and notebooks are copied in, glossary and commands written.

Every figure in a lesson comes from a cell that runs in the build; the notebooks bring the outputs that nbval holds.
"""

import os
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]
sys.path[:0] = [str(ROOT), str(ROOT / "docs")]
os.environ.setdefault("JAX_PLATFORMS", "cpu")
os.environ.setdefault("WORKBENCH_RECORD_MOVES", "2")  # boards of cells are alive on the site, without a kernel
os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, (str(ROOT), os.environ.get("PYTHONPATH"))))  # the kernels that run the lessons

from generated_pages import write_pages

from workbench import __version__

write_pages(ROOT)

project = "Sharding workbench"
author = "the authors of the sharding workbench"
release = version = __version__
extensions = [
    "myst_nb",
    "sphinx.ext.autodoc",
    "sphinx.ext.intersphinx",
    "sphinx_copybutton",
    "sphinx_design",
    "plain_docstrings",
    "recorded_boards",
]
html_extra_path = ["extra"]  # the schemas of documents
exclude_patterns = ["deploy", "extra", "**/answers.json", "Thumbs.db"]

# Notebooks: lessons run; what has outputs is shown with them.
nb_execution_mode = "cache"
nb_execution_cache_path = str(ROOT / "build" / "jupyter_cache")
LESSONS = sorted(each.name for each in (ROOT / "lessons").iterdir() if each.is_dir())
EXECUTED = os.environ.get("WORKBENCH_DOCS_LESSONS", " ".join(LESSONS)).split()  # the tests execute a share of them
nb_execution_excludepatterns = ["notebooks/*", *(f"lessons/{each}/*" for each in LESSONS if each not in EXECUTED)]
nb_execution_timeout = 180
nb_execution_raise_on_error = True
nb_merge_streams = True
myst_enable_extensions = ["colon_fence", "deflist", "dollarmath"]
myst_heading_anchors = 3

# Docstrings.
autodoc_member_order = "bysource"
autodoc_typehints = "signature"
autodoc_class_signature = "mixed"
autodoc_default_options = {"members": True, "show-inheritance": False}
default_role = "code"
nitpicky = False
intersphinx_mapping = (
    {"jax": ("https://docs.jax.dev/en/latest/", None), "python": ("https://docs.python.org/3/", None)}
    if os.environ.get("WORKBENCH_DOCS_ONLINE")
    else {}
)

nb_mime_priority_overrides = [("html", "text/html", 0)]

# Looks. The tests ask for a plain theme, with which the site is written in half of the time.
html_theme = os.environ.get("WORKBENCH_DOCS_THEME", "sphinx_book_theme")
html_title = "Sharding workbench"
html_static_path = ["_static"]
html_css_files = ["workbench.css"]
BOOK_THEME_OPTIONS = {
    "repository_url": os.environ.get("WORKBENCH_DOCS_REPOSITORY", ""),
    "use_repository_button": bool(os.environ.get("WORKBENCH_DOCS_REPOSITORY")),
    "use_download_button": True,
    "show_toc_level": 2,
    "navbar_start": [],
    "navbar_center": [],
    "navbar_end": [],
    "navbar_persistent": [],
    "show_navbar_depth": 1,
}
html_theme_options = BOOK_THEME_OPTIONS if html_theme == "sphinx_book_theme" else {}
html_show_sourcelink = False
templates_path: list[str] = []
