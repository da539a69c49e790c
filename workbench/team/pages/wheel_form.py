"""The form that sends a wheel: a file, where the action takes its bytes as text."""

import asyncio
import base64
from collections.abc import Mapping
from typing import Any

from workbench.app.page.request_policy import SMALL_BODY
from workbench.team.actions.programs import WHEEL
from workbench.team.pages.form_handler import FormHandler, PageForm

WHEEL_FORM = PageForm(
    "/p/{project}/programs/wheel", "programs.add", "/p/{project}/programs", "{name} is registered and waits for approval."
)

LARGEST_WHEEL = WHEEL * 3 // 4  # bytes


class WheelFormHandler(FormHandler):
    """See the module."""

    @property
    def largest_body(self) -> int:
        return LARGEST_WHEEL + SMALL_BODY

    async def carry_out(self, fields: Mapping[str, list[str]], values: Mapping[str, Any]) -> Any:
        found = next(iter(self.request.files.get("wheel", ())), None)
        sent = {"wheel": [await asyncio.to_thread(_encoded, found["body"])], "locator": [found["filename"]]} if found else {}
        return await super().carry_out({**fields, **sent, "kind": ["wheel"]}, values)


def _encoded(content: bytes) -> str:
    return base64.b64encode(content).decode()
