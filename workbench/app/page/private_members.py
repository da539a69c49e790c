"""The private members of Panel, Bokeh and Tornado that the page's server needs. No other module of `app` and `team` touches one.

`TRIED` are the versions that they were tried on; `tests/app/test_private_members.py` says which of them another version lacks.
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
"""Where Panel keeps the messages that wait: the second name since Panel 1.10."""


def tornado_of(server: Any) -> BokehTornado:
    """Bokeh's Tornado application: `bokeh.server.server.BaseServer._tornado`."""
    found: BokehTornado = server._tornado
    return found


def http_of(server: Any) -> HTTPServer:
    """The server that accepts connections: `bokeh.server.server.BaseServer._http`."""
    found: HTTPServer = server._http
    return found


def allow_all_origins(server: Any) -> None:
    """Leave the origins of websockets to the access control: Bokeh's own check knows no IPv6."""
    tornado_of(server)._websocket_origins = {"*"}


def make_documents_on_the_event_loop(server: Any) -> None:
    """Make each page's document on the server's event loop, as Bokeh did before 3.10, which makes it in a thread that runs no loop."""
    for context in tornado_of(server)._applications.values():
        if hasattr(context, "_can_initialize_document_in_worker"):
            context._can_initialize_document_in_worker = lambda: False


def models_of(component: pn.viewable.Viewable) -> Sequence[Model]:
    """The models that a component has made, one for each document that shows it."""
    return [model for model, _ in component._models.values()]


def is_drawn(document: Document) -> bool:
    """Whether the page of a document has read it, and hears of each change from then on."""
    return bool(pn.state._loaded.get(document))


def mark_connected(document: Document) -> None:
    """Send changes of a document to every page that has read it.

    Until the browser says that it is ready, Panel drops changes of a layout, assuming that the document will be read later, although the
    page may have read it already. A board that opened in between was never shown.
    """
    pn.state._connected[document] = True


def patch_writes() -> None:
    """Replace Panel's writing of a batch of messages, which delays what arrives meanwhile (Panel 1.9.4, `panel/io/document.py`).

    Panel queues messages for a socket that is being written to, and marks that a task will write them. That task removes the mark once its
    own messages are sent, without checking whether others came meanwhile; the task of those finds no mark and gives up.
    """
    writing._dispatch_msgs = _write_all


async def _write_all(document: Document) -> None:
    await _write_batch(document)
    while document in getattr(writing, WAITING) and document not in writing._WRITE_BLOCK:
        writing._WRITE_BLOCK[document] = True
        await _write_batch(document)


def compile_template(text: str) -> Any:
    """A page's Jinja template in Panel's own environment, which has its filters."""
    return base._env.from_string(text)


def is_body_read(request: HTTPServerRequest) -> bool:
    """Whether the body of a request of a `stream_request_body` handler was read to its end."""
    return bool(request._body_future.done())


def abort(connection: WebSocketProtocol) -> None:
    """Close a websocket's connection without waiting for the other side."""
    connection._abort()
