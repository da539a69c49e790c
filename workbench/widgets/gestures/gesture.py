"""The base of all gestures: a frozen value with its verb in messages."""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields
from typing import Annotated, Any, ClassVar, TypeVar, dataclass_transform

from workbench.errors import LayoutError, MeshError, WorkbenchError
from workbench.plan.edits import Edit
from workbench.plan.plan import Plan
from workbench.reports.report import Report

# Field types of gestures, with limits on their values. Text typed by the user is kept unchanged.
#
# Each is `Annotated` with a function of the value, the field's name and the whole message; a missing field without a default is passed as
# `None`.

Reader = Callable[[Any, str, Mapping[str, Any]], Any]
MOST_AXES = 17  # zones in one gesture: the mesh axes, and the unsharded zone
MOST_PATH = 1000  # characters of a path that a gesture may name


def required_text(most: int | None = None) -> Reader:
    def read(value: Any, name: str, _message: Mapping[str, Any]) -> str:
        if not isinstance(value, str):
            raise LayoutError(f"The gesture lacks its `{name}`.", ["reload the page"])
        return value.strip()[:most]

    return read


def text(most: int | None = None) -> Reader:
    return lambda value, _name, _message: str(value)[:most]


def whole_number(typed: str, what: str, least: int = 1, most: int = 1 << 20) -> int:
    """Parse an integer typed by the user; raises `MeshError`."""
    if not re.fullmatch(r"\s*\d{1,9}\s*", typed) or not least <= int(typed) <= most:
        raise MeshError(f"`{typed[:40]}` is not a {what}; it is a whole number from {least} to {most:,}.")
    return int(typed)


def _place(value: Any, _name: str, message: Mapping[str, Any]) -> int | None:
    if value is not None and not isinstance(value, int):
        raise LayoutError(f"`{message.get('path', '')}` has no dimension number {str(value)[:20]}.", ["reload the page"])
    return value


def _rank(value: Any, _name: str, _message: Mapping[str, Any]) -> int | None:
    """Reader of a rank; an invalid one becomes a rank that no tensor has."""
    return value if value is None or isinstance(value, int) else -1


def _priority(value: Any, _name: str, _message: Mapping[str, Any]) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value <= 99:
        raise LayoutError(f"`{str(value)[:20]}` is not a round of propagation.", ["choose 0, 1, 2 or 3"])
    return value


def _step(value: Any, _name: str, _message: Mapping[str, Any]) -> int | None:
    if value is not None and (not isinstance(value, int) or isinstance(value, bool) or value < 0):
        raise WorkbenchError(f"`{str(value)[:20]}` is not a step of a propagation.", ["move the slider"])
    return value


def _plan_number(value: Any, _name: str, _message: Mapping[str, Any]) -> int:
    if not isinstance(value, int) or isinstance(value, bool):
        raise WorkbenchError("That plan is not in the history.", ["see the current history"])
    return value


def _axis_order(value: Any, _name: str, _message: Mapping[str, Any]) -> tuple[str, ...]:
    if not isinstance(value, list) or not all(isinstance(name, str) for name in value):
        raise MeshError("The gesture names no order of the mesh axes.", ["reload the page"])
    return tuple(name[:80] for name in value)


def _recipe_axes(value: Any, _name: str, _message: Mapping[str, Any]) -> tuple[str, ...]:
    return tuple(str(axis)[:80] for axis in value[:4]) if isinstance(value, list) else ()


def _axis_names(value: Any, _name: str, _message: Mapping[str, Any]) -> tuple[str, ...]:
    return tuple(str(axis)[:80] for axis in value[:MOST_AXES]) if isinstance(value, list) else ()


def _number_or(other: int) -> Reader:
    return lambda value, _name, _message: value if isinstance(value, int) and not isinstance(value, bool) else other


def _string_or(other: str | None) -> Reader:
    return lambda value, _name, _message: value if isinstance(value, str) else other


Needed = Annotated[str, required_text()]
Needed200 = Annotated[str, required_text(200)]
Needed400 = Annotated[str, required_text(400)]
Text = Annotated[str, text()]
Text20 = Annotated[str, text(20)]
Text40 = Annotated[str, text(40)]
Text80 = Annotated[str, text(80)]
Text200 = Annotated[str, text(200)]
Text400 = Annotated[str, text(400)]
Text1200 = Annotated[str, text(1200)]
Text2000 = Annotated[str, text(2000)]
PathText = Annotated[str, text(MOST_PATH)]
Value = Annotated[str, lambda value, _name, _message: str(value)[:MOST_PATH].strip()]
MaybeText = Annotated[str | None, text()]
FileText = Annotated[str | None, _string_or(None)]
Zone = Annotated[str, _string_or("")]
Flag = Annotated[bool, lambda value, _name, _message: value is True]
FlagUnlessFalse = Annotated[bool, lambda value, _name, _message: value is not False]
Place = Annotated[int | None, _place]
Rank = Annotated[int | None, _rank]
Priority = Annotated[int, _priority]
Step = Annotated[int | None, _step]
PlanNumber = Annotated[int, _plan_number]
Purpose = Annotated[int, _number_or(-1)]
Shift = Annotated[int, _number_or(0)]
AxisOrder = Annotated[tuple[str, ...], _axis_order]
AxisNames = Annotated[tuple[str, ...], _axis_names]
RecipeAxes = Annotated[tuple[str, ...], _recipe_axes]


Message = Mapping[str, Any]
"""A received gesture: unchecked JSON."""
TABLES = "tables"
"""Zone of the tables, for gestures on their chips."""


@dataclass_transform(frozen_default=True, field_specifiers=(field,))
@dataclass(frozen=True)
class Gesture:
    """A user's gesture; each subclass declares its fields and their readers, and is a frozen dataclass.

    A subclass states in its header what its bases do not: `class MarkAllGesture(Gesture, refused_at="tools")`. `verb`
    defaults to the class name, `mark_all`, and is empty for a common base. Subclasses with one verb differ in the field
    `apart_by`, whose value is `apart`. A refusal is shown in `refused_at`, else in the zone named by a field of
    `refused_by`.
    """

    verb: ClassVar[str] = ""
    apart_by: ClassVar[str] = ""
    apart: ClassVar[str] = ""
    refused_at: ClassVar[str] = ""
    refused_by: ClassVar[tuple[str, ...]] = ("axis", "zone")

    zone: Zone = field(default="", kw_only=True)

    def __init_subclass__(
        cls,
        *,
        verb: str | None = None,
        apart_by: str | None = None,
        apart: str | None = None,
        refused_at: str | None = None,
        refused_by: tuple[str, ...] | None = None,
    ) -> None:
        if verb is None and not cls.verb:
            verb = re.sub(r"(?<!^)(?=[A-Z])", "_", cls.__name__.removesuffix("Gesture")).lower()
        stated = {"verb": verb, "apart_by": apart_by, "apart": apart, "refused_at": refused_at, "refused_by": refused_by}
        for name, value in stated.items():
            if value is not None:
                setattr(cls, name, value)
        dataclass(frozen=True)(cls)

    @classmethod
    def unknown(cls, name: Any) -> WorkbenchError:
        """Return the error for a message with this verb whose `apart_by` field has the unknown value `name`."""
        return WorkbenchError(f"`{str(name)[:40]}` is no `{cls.verb}`.", ["reload the page"])

    def as_message(self) -> dict[str, Any]:
        """Return the JSON that the page sends for this gesture, without `None` values and an empty zone."""
        shown = {attribute.name: getattr(self, attribute.name) for attribute in fields(self)}
        message = {name: list(value) if isinstance(value, tuple) else value for name, value in shown.items() if value is not None}
        if not self.zone:
            del message["zone"]
        return {"verb": self.verb, **({self.apart_by: self.apart} if self.apart_by else {}), **message}


class EditGesture(Gesture, verb=""):
    """A gesture that requests another plan; the board's table `EDITS` has its edit."""


# Tables of handlers by kind of gesture. The functions only make the type checker match handlers with gestures.

Kind = type[Gesture]
Handler = Callable[[Any], object]
Handlers = Mapping[Kind, Handler]
EditMaker = Callable[[Any, Plan, Report], Edit]
_G = TypeVar("_G", bound=Gesture)


def on(kind: type[_G], handler: Callable[[_G], object]) -> tuple[Kind, Handler]:
    return kind, handler


def handlers_of(*entries: tuple[Kind, Handler]) -> Handlers:
    return dict(entries)


def edits_of(*entries: tuple[Kind, EditMaker]) -> dict[Kind, EditMaker]:
    return dict(entries)


def means(kind: type[_G], make: Callable[[_G, Plan, Report], Edit]) -> tuple[Kind, EditMaker]:
    """Build an entry of a table of edits; `make` raises `WorkbenchError` if the gesture is invalid for the plan."""
    return kind, make
