"""Panel's writing to websockets, mended twice.

A page that is still being drawn is told everything: until the browser says that it is ready, Panel drops changes of a layout, as it takes
the document to be read later, and yet the page may have read it already. A board that opened in between was never shown.

A message that comes while the last one of a batch goes out is not left lying.
Panel keeps messages for a socket that is being written to, with a mark that a task will write them. That task takes the mark away once its
own messages are out, and does not look whether others came meanwhile; the task of those finds no mark and gives up. They then lie until the
next message of the same document, on the board until the page asks for its tables again. Seen in Panel 1.9.4, `panel/io/document.py`.
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
    """Put the mended function in the place of Panel's, from where Panel takes it each time."""
    writing._dispatch_msgs = _write_all  # noqa: SLF001


def mark_connected(document: Document) -> None:
    """Changes of a document go to every page that has read it, and are part of what others read."""
    pn.state._connected[document] = True  # noqa: SLF001
