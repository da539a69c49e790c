"""The base of all gestures: a frozen value with its verb in messages."""

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any, ClassVar

from workbench.errors import WorkbenchError
from workbench.widgets.gestures.fields import Zone

Message = Mapping[str, Any]
"""A gesture as it is received: JSON that is not checked yet."""
TABLES = "tables"
"""The zone over the tables, for gestures on their chips."""


@dataclass(frozen=True, slots=True)
class Gesture:
    """A user's gesture; each subclass names its fields, and how they are read.

    `verb` is its name in messages. Where several subclasses share one, the field `apart_by` tells them apart, and has the value `apart`. A
    refusal is shown in `refused_at`, or where that is empty in the zone that one of the fields `refused_by` names.
    """

    verb: ClassVar[str] = ""
    apart_by: ClassVar[str] = ""
    apart: ClassVar[str] = ""
    refused_at: ClassVar[str] = ""
    refused_by: ClassVar[tuple[str, ...]] = ("axis", "zone")

    zone: Zone = field(default="", kw_only=True)

    @classmethod
    def unknown(cls, name: Any) -> WorkbenchError:
        """The error for a message with this verb whose `apart_by` field has the unknown value `name`."""
        return WorkbenchError(f"`{str(name)[:40]}` is no `{cls.verb}`.", ["reload the page"])

    def as_message(self) -> dict[str, Any]:
        """The JSON that the page sends for it; fields with their default are left out."""
        shown = {each.name: getattr(self, each.name) for each in fields(self)}
        said = {name: list(value) if isinstance(value, tuple) else value for name, value in shown.items() if value is not None}
        if not self.zone:
            del said["zone"]
        return {"verb": self.verb, **({self.apart_by: self.apart} if self.apart_by else {}), **said}


@dataclass(frozen=True, slots=True)
class EditGesture(Gesture):
    """A gesture that asks for another plan: `EDITS` of the board has its edit."""
