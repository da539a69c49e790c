"""The templates of the pages: escaped by default, and a name that is not given is an error, never an empty place."""

from functools import cache
from pathlib import Path

from jinja2 import Environment, FileSystemLoader, StrictUndefined

from workbench.team.pages.page_words import PAGE_FILTERS

_TEAM = Path(__file__).parents[1]
FOLDERS = (_TEAM / "pages" / "templates", _TEAM / "web" / "templates", _TEAM / "api" / "templates")
"""Where a template is looked for: `base.html` of the pages comes before that of this room."""


@cache
def page_environment() -> Environment:
    """The one environment of all pages."""
    loader = FileSystemLoader([str(each) for each in FOLDERS])
    made = Environment(loader=loader, autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True)
    made.filters |= PAGE_FILTERS
    return made
