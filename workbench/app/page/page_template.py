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
"""Of Bokeh's own server, as seen from a page; it answers as soon as there is one."""


@functools.cache
def _page() -> Any:
    """Jinja's template of the page, compiled once: Panel would for each page, and that takes longer than to fill it in."""
    return compile_template(_PAGE.read_text(encoding="utf-8"))


def template_of(
    title: str, shown: Any, failure: str = "", *, opens: bool = False, untested: str = "", health: str = HEALTH, is_kept: bool = False
) -> pn.Template:
    """The page around a board, or around a failure; `opens` if the bridge sends the board once the page is there;
    `untested` says that this JAX was not tried; after a cut `health` is asked whether the server answers, and a page whose board `is_kept`
    by the server is loaded anew."""
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
