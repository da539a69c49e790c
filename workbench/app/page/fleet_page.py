"""The page of a fleet; all visitors share one board, whose run continues when they leave."""

import threading
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import panel as pn
from bokeh.document import Document

from workbench.app.page.page_template import TITLE, template_of
from workbench.app.page.serve import LOOPBACK, listen
from workbench.app.page.visit import failure_text
from workbench.app.page.visitor_screen import BoardComponent, on_document
from workbench.app.runners.worker_runner import WorkerFleetRunner
from workbench.core.jax_installation import untested_jax
from workbench.core.parse_untrusted import read_allowed
from workbench.documents import resolve_fleet
from workbench.multimodel.fleet import Fleet
from workbench.multimodel.fleet_measurement import FleetTimes
from workbench.widgets.board.board_host import Part
from workbench.widgets.fleet.fleet_board import FleetView
from workbench.widgets.fleet.fleet_jobs import FleetRunner
from workbench.widgets.shared_states import at_once, json_text


class FleetComponent(BoardComponent):
    def __init__(self, view: FleetView, document: Document | None = None, **options: Any) -> None:
        super().__init__(**_texts(view), **options)
        self._view, self._defer = view, on_document(document) if document else at_once
        self._pending: set[Part] = set()
        self._pending_lock = threading.Lock()
        self.leave = view.watch(self._hear)
        self.param.update(**_texts(view))  # if they changed meanwhile
        self.param.watch(lambda event: view.answer(event.new), "gesture")

    def _hear(self, part: Part, _state: dict[str, Any]) -> None:
        """Schedule the latest state of a part, since a busy document may call back late and out of order."""
        with self._pending_lock:
            waits = bool(self._pending)
            self._pending.add(part)
        if not waits:
            self._defer(self._show)

    def _show(self) -> None:
        with self._pending_lock:
            pending, self._pending = self._pending, set()
        self.param.update(**{part: json_text(self._view.parts[part]) for part in pending})


def _texts(view: FleetView) -> dict[str, str]:
    return {part: json_text(state) for part, state in view.parts.items()}


def serve_fleet(
    fleet: Fleet | str | Path,
    port: int = 5006,
    *,
    open_browser: bool = True,
    address: str = LOOPBACK,
    origins: tuple[str, ...] = (),
    unix_socket: str | None = None,
    runner: FleetRunner | None = None,
    times: FleetTimes | None = None,
    path: str = "",
    allow: str | Iterable[str] = (),
    threaded: bool = False,
) -> Any:
    """Serve the board of a fleet, or of a fleet file, at `http://address:port/` until interrupted, which also ends its
    run.

    Units are timed in a worker process when the first visitor comes, unless `times` are given; `path` is the fleet's
    file for display; `allow` as in `documents.load_fleet`. Addresses and the result are those of `serve`.
    """
    view = FleetView(
        resolve_fleet(fleet, allow),
        runner or WorkerFleetRunner(),
        times,
        path=path if isinstance(fleet, Fleet) else str(fleet),
        allow=read_allowed(allow),
    )
    return listen(lambda: fleet_page(view), port, open_browser, address, origins, unix_socket, threaded=threaded, close=view.close)


def fleet_page(view: FleetView) -> pn.Template:
    document = pn.state.curdoc
    try:
        component = FleetComponent(view, document, sizing_mode="stretch_width")
    except Exception as error:  # noqa: BLE001 - the page must show it, whatever failed
        return template_of(TITLE, None, failure_text(error), untested=untested_jax() or "")
    if document:
        pn.state.on_session_destroyed(lambda _: component.leave())
    view.look()
    return template_of(f"{view.parts['board']['name']} · {TITLE}", component, untested=untested_jax() or "")
