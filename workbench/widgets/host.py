"""What a board cannot do by itself, because a notebook, a served page and a document of JupyterLab do it in different ways."""

from collections.abc import Callable
from dataclasses import dataclass

from workbench.plan import Plan


def _nobody(_plan: Plan) -> None:
    """Nobody keeps a copy of the present plan."""


@dataclass(frozen=True, slots=True)
class Host:
    """Where a board stands. The default is a page without a file: what is saved, the browser downloads.

    - `save`: writes the plan and returns where, for people (`"gpt.plan.json"`); it may raise a `WorkbenchError` (the file was changed by
      somebody else), which is shown and changes nothing. `None`: the browser downloads the document;
    - `path`: the file the board was opened with, for people; `None` without one;
    - `link`: the text of `documents.link_text` to an address; an address that begins with `?` is completed by the browser.
      `None`: there is no address to send, and the text itself is copied;
    - `changed`: told of the plan after every move, for a host that keeps a copy (the document of JupyterLab). It may be called from
      whichever thread moved the session, and should be quick.
    """

    save: Callable[[Plan], str] | None = None
    path: str | None = None
    link: Callable[[str], str] | None = None
    changed: Callable[[Plan], None] = _nobody
