"""What the page's own components have in common: each is a JavaScript module, whose text stands as it is sent."""

import hashlib
from typing import Any

from panel.custom import AnyWidgetComponent


class ModuleComponent(AnyWidgetComponent):  # type: ignore[misc]
    """A component with a module `_esm`, which imports nothing."""

    _debounce = 1  # milliseconds; Panel's 50 would be felt in every drop

    @classmethod
    def _process_importmap(cls) -> dict[str, Any]:
        """Panel would declare React at a CDN."""
        return {"imports": {}, "scopes": {}}

    @classmethod
    def _render_esm(cls, compiled: object = True, server: bool = False) -> str:
        """Panel would read through all of it for each page, and take away its indentation, which it has not."""
        del compiled, server
        text: str = cls._esm
        return text

    def _get_properties(self, doc: Any) -> dict[str, Any]:
        """The module is sent as one that is compiled: Panel's script would translate it from TypeScript whenever a page is loaded."""
        return {**super()._get_properties(doc), "bundle": hashlib.sha256(self._esm.encode()).hexdigest()}
