"""Private members of Panel, Bokeh and Tornado used by the page server, and used nowhere else in `app` and `team`.

`TRIED` are the tested versions; `tests/app/test_private_members.py` names members that another version lacks.
"""

from collections.abc import Sequence
from typing import Any

import panel as pn
from bokeh.document import Document
from bokeh.model import Model
from bokeh.server.tornado import BokehTornado
from panel.io import document as writing
from panel.template import base
from tornado.httpserver import HTTPServer
from tornado.httputil import HTTPServerRequest
from tornado.websocket import WebSocketProtocol

TRIED = {"panel": "1.9.4 and 1.10.0", "bokeh": "3.9.2 and 3.10.2", "tornado": "6.6.1"}

_write_batch = writing._dispatch_msgs
WAITING = "_WRITE_MSGS" if hasattr(writing, "_WRITE_MSGS") else "_WRITE_EVENTS"
"""Panel's attribute of queued messages, renamed in Panel 1.10."""


def tornado_of(server: Any) -> BokehTornado:
    """Return Bokeh's Tornado application: `bokeh.server.server.BaseServer._tornado`."""
    application: BokehTornado = server._tornado
    return application


def http_of(server: Any) -> HTTPServer:
    """Return the HTTP server: `bokeh.server.server.BaseServer._http`."""
    http_server: HTTPServer = server._http
    return http_server


def allow_all_origins(server: Any) -> None:
    """Leave websocket origins to the access control, because Bokeh's own check does not support IPv6."""
    tornado_of(server)._websocket_origins = {"*"}


def make_documents_on_the_event_loop(server: Any) -> None:
    """Build documents on the server's event loop, as before Bokeh 3.10, which uses a thread without a loop."""
    for context in tornado_of(server)._applications.values():
        if hasattr(context, "_can_initialize_document_in_worker"):
            context._can_initialize_document_in_worker = lambda: False


def models_of(component: pn.viewable.Viewable) -> Sequence[Model]:
    """Return the models of a component, one per document that shows it."""
    return [model for model, _ in component._models.values()]


def is_drawn(document: Document) -> bool:
    """Whether the page has loaded its document and receives changes."""
    return bool(pn.state._loaded.get(document))


def mark_connected(document: Document) -> None:
    """Send changes of a document to every page that has loaded it.

    Panel drops layout changes until the browser reports ready, so a board opened in between was never shown.
    """
    pn.state._connected[document] = True


def patch_writes() -> None:
    """Replace Panel's writing of message batches, which can strand messages (1.9.4, `panel/io/document.py`).

    A task removes the mark of its socket after sending its own messages without checking for later ones; the task of
    the later ones finds no mark and gives up.
    """
    writing._dispatch_msgs = _write_all


async def _write_all(document: Document) -> None:
    await _write_batch(document)
    while document in getattr(writing, WAITING) and document not in writing._WRITE_BLOCK:
        writing._WRITE_BLOCK[document] = True
        await _write_batch(document)


def compile_template(text: str) -> Any:
    return base._env.from_string(text)


def is_body_read(request: HTTPServerRequest) -> bool:
    """Whether the body of a `stream_request_body` request was read completely."""
    return bool(request._body_future.done())


def abort(connection: WebSocketProtocol) -> None:
    """Close a websocket connection without waiting for the peer."""
    connection._abort()
