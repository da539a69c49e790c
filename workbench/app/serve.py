"""Serving the board. Every page load gets a session of its own; nothing is fetched from anywhere else."""

import logging
import socket
from collections.abc import Callable
from pathlib import Path
from typing import Any

import panel as pn

from workbench.app.component import BoardComponent
from workbench.errors import WorkbenchError
from workbench.plan import Plan
from workbench.session import Session
from workbench.widgets.runner import Runner, WorkerRunner

LOOPBACK = "127.0.0.1"
TITLE = "Sharding workbench"

_log = logging.getLogger(__name__)
_PAGE = Path(__file__).parent / "page.html"


def serve(
    plan: Plan | Callable[[], Plan],
    port: int = 5006,
    *,
    open_browser: bool = True,
    address: str = LOOPBACK,
    origins: tuple[str, ...] = (),
    runner: Runner | None = None,
    threaded: bool = False,
) -> Any:
    """Serve the board over `plan` at `http://address:port/`, until interrupted.

    `plan` may be a function that makes one: it is called for each visitor, and its error is shown on the page.
    Only this machine can reach the default address; to serve others, give an `address` and the `origins` (`"host:port"`) they will use.
    With `threaded` it returns at once; `stop()` of what it returns ends it. Port 0 takes a free one.
    """
    make = (lambda: plan) if isinstance(plan, Plan) else plan
    chosen, port = runner or WorkerRunner(), port or _free_port(address)
    return pn.serve(
        {"/": lambda: page(make, chosen)},
        port=port,
        address=address,
        websocket_origin=[*origins, f"{address}:{port}", f"localhost:{port}"],
        show=open_browser,
        threaded=threaded,
        verbose=not threaded,
        liveness=True,
    )


def _free_port(address: str) -> int:
    """Taken here and not by the server, which has to know beforehand from which origins it may be spoken to."""
    with socket.socket() as probe:
        probe.bind((address, 0))
        port: int = probe.getsockname()[1]
        return port


def page(make: Callable[[], Plan], runner: Runner | None) -> pn.Template:
    """The page of one visitor. Whatever fails becomes its text: a page that raises would show a spinner for ever."""
    failure, document = "", pn.state.curdoc
    try:
        plan = make()
        shown = BoardComponent(Session(plan), runner=runner, document=document, sizing_mode="stretch_width")
        title = f"{plan.name} · {TITLE}"
    except Exception as error:  # noqa: BLE001 - the page must say so, whatever broke
        _log.exception("The page could not be made")
        failure = str(error) if isinstance(error, WorkbenchError) else f"{type(error).__name__}: {error}"
        shown, title = pn.pane.Str(""), TITLE
    template = pn.Template(_PAGE.read_text(encoding="utf-8"))
    template.add_variable("page_title", title)
    template.add_variable("failure", failure)
    template.add_panel("board", shown)
    if document and isinstance(shown, BoardComponent):
        pn.state.on_session_destroyed(lambda _: shown.answering.close())
    return template
