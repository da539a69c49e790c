"""Two patches of Panel's writing to websockets.

A page that is still being drawn gets all changes: until the browser says that it is ready, Panel drops changes of a layout, assuming that
the document will be read later, although the page may have read it already. A board that opened in between was never shown.

A message that arrives while the last one of a batch is sent is not delayed: Panel queues messages for a socket that is being written to,
and marks that a task will write them. That task removes the mark once its own messages are sent, without checking whether others came
meanwhile; the task of those finds no mark and gives up. They then wait until the next message of the same document, on the board until the
page asks for its tables again. Seen in Panel 1.9.4, `panel/io/document.py`.
"""

import panel as pn
from bokeh.document import Document
from panel.io import document as writing

_write_batch = writing._dispatch_msgs  # noqa: SLF001


async def _write_all(document: Document) -> None:
    await _write_batch(document)
    while document in writing._WRITE_MSGS and document not in writing._WRITE_BLOCK:  # noqa: SLF001
        writing._WRITE_BLOCK[document] = True  # noqa: SLF001
        await _write_batch(document)


def patch_writes() -> None:
    """Replace Panel's function by the patched one, where Panel looks it up each time."""
    writing._dispatch_msgs = _write_all  # noqa: SLF001


def mark_connected(document: Document) -> None:
    """Changes of a document go to every page that has read it, and are part of what others read."""
    pn.state._connected[document] = True  # noqa: SLF001
