"""What is passed on of a process that runs somebody's code, in a sandbox: what a board shows, and nothing that leads elsewhere.

The pages hold the rest: their content policy runs no script that such a process could write into a picture.
"""

from collections.abc import Mapping
from typing import Any

from workbench.errors import WorkbenchError

_BRIDGE = {"shown": int, "saves": int, "unsaved": bool, "text": str, "title": str, "notice": dict, "failure": dict}
_BOARD = {"new": bool, "closed": bool, "tour": bool, "board": str, "table": str, "live": str, "changes": str}
_OF_NOTICE = ("title", "text")


def verify_shown(target: str, parameters: Mapping[str, Any]) -> Mapping[str, Any]:
    """The parameters of a page that such a process may set, of the types that they have. Raises `WorkbenchError` for others."""
    known = _BOARD if target == "board" else _BRIDGE
    for name, value in parameters.items():
        if name not in known or not isinstance(value, known[name]):
            raise WorkbenchError(f"The room's process sent a `{str(name)[:40]}` that no board has.", ["reload the page"])
    return {name: _without_addresses(value) if name == "notice" else value for name, value in parameters.items()}


def _without_addresses(notice: Mapping[str, Any]) -> Mapping[str, Any]:
    """A notice with the one way to go on that leads nowhere."""
    texts = {name: str(notice.get(name, ""))[:2000] for name in _OF_NOTICE}
    return {**texts, "choices": [["dismiss", "All right"]]} if texts["text"] else {}
