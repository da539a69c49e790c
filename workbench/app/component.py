"""The board as a Panel component: the same module as in the notebook, in a served page. It shows what it is told, and decides nothing."""

from typing import Any

import param
from panel.custom import AnyWidgetComponent

from workbench.widgets.module import module_text


class BoardComponent(AnyWidgetComponent):  # type: ignore[misc]
    """One visitor's sight of a board, in that visitor's document."""

    _debounce = 1  # milliseconds; Panel's 50 would be felt in every drop
    _esm = module_text()

    board = param.Dict(default={})
    table = param.Dict(default={})
    live = param.Dict(default={})
    gesture = param.Dict(default={})
    theme = param.String(default="auto")
    tour = param.Boolean(default=False)

    @classmethod
    def _process_importmap(cls) -> dict[str, Any]:
        """Panel would declare React at a CDN; the module imports nothing."""
        return {"imports": {}, "scopes": {}}
