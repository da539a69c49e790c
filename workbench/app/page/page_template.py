"""The HTML page around a board."""

import functools
import secrets
from pathlib import Path
from typing import Any

import panel as pn

from workbench.app.page.private_members import compile_template

TITLE = "Sharding workbench"
_PAGE = Path(__file__).parent / "page.html"


HEALTH = "liveness"
"""Health check of Bokeh's own server, relative to a page."""


@functools.cache
def _page() -> Any:
    """Compile the page template once; Panel would compile it per page, which takes longer than rendering."""
    return compile_template(_PAGE.read_text(encoding="utf-8"))


def template_of(
    title: str, shown: Any, failure: str = "", *, opens: bool = False, untested: str = "", health: str = HEALTH, is_kept: bool = False
) -> pn.Template:
    """Build the page around a board or a failure.

    `opens`: the bridge sends the board later; `untested`: a warning about JAX; `health`: polled after a lost
    connection; `is_kept`: reload then, since the server keeps the board.
    """
    template = pn.Template(_page())
    template.add_variable("page_title", title)
    template.add_variable("nonce", secrets.token_urlsafe())
    template.add_variable("failure", failure)
    template.add_variable("opens", opens)
    template.add_variable("untested", untested)
    template.add_variable("health", health)
    template.add_variable("is_kept", is_kept)
    template.add_panel("board", pn.pane.Str("") if shown is None else shown)
    return template
