"""From what a hand did to an `Edit`. Gestures come over the wire: every field is checked here, and nothing else is believed."""

import re
from collections.abc import Callable, Mapping
from itertools import chain
from typing import Any

from workbench.errors import DimensionError, LayoutError, MeshError, unknown_name
from workbench.hardware.axis_assignment import parse_axis_assignment
from workbench.plan.edits import Edit, RenameDim, SetAxisAssignment, SetHardware, ShardDim
from workbench.plan.mesh_edits import AddAxis, RemoveAxis, RenameAxis, ReorderAxes, ResizeAxis
from workbench.plan.plan import Plan
from workbench.reports.report import Report
from workbench.widgets.board.annotating import annotate, prioritize, unbar, ungroup
from workbench.widgets.board.drops import dropped_axes
from workbench.widgets.board.hardware import ZONE, hardware_of
from workbench.widgets.board.recipes import recipe_edit
from workbench.widgets.board.tensor_edits import by_the_rules, opened, own_way, own_whole
from workbench.widgets.pipeline.edits import stage_edit
from workbench.widgets.tabs.resharding import tried_edits

Gesture = Mapping[str, Any]
TOOLS = (
    *("undo", "redo", "history", "go", "name_plan", "pin", "compare_plans", "swap_plans", "stop_comparing"),
    *("save", "open_file", "export", "link", "close_sheet"),
    *("recipes", "recipe", "recipe_axis", "try_edits"),
)
"""Gestures of the head; what is refused of them is said under it."""
MOST_FIELDS, MOST_ENTRIES, MOST_LETTERS = 24, 64, 2_000
"""Of a gesture; entries of a list in it, letters of a text. The longest texts are places, the longest lists the axes of a mesh."""
TABLES = "tables"
"""The zone over the tables, for what is done with their chips."""
_DIMENSION = re.compile(r"[A-Za-z_][A-Za-z0-9_.]{0,63}")


def verify_gesture(gesture: Gesture) -> None:
    """Raises `LayoutError` for a gesture that no page makes: too many fields, or too long ones. A file's text has a bound of its own."""
    if len(gesture) > MOST_FIELDS:
        raise LayoutError(f"The gesture has {len(gesture):,} fields; {MOST_FIELDS} are the most.", ["reload the page"])
    for name, value in gesture.items():
        kind, size = _measured(value)
        most = MOST_ENTRIES if kind == "entries" else MOST_LETTERS
        if size > most and (gesture.get("verb"), name) != ("open_file", "text"):
            raise LayoutError(f"`{str(name)[:40]}` of the gesture has {size:,} {kind}; {most:,} are the most.", ["reload the page"])


def _measured(value: object) -> tuple[str, int]:
    """What a field has many of, and how many: entries of a list, else letters."""
    if isinstance(value, list | Mapping):
        inner = max((len(str(each)[: MOST_LETTERS + 1]) for each in value), default=0)
        return ("entries", len(value)) if inner <= MOST_LETTERS else ("letters", inner)
    if isinstance(value, str):
        return "letters", len(value)
    return "digits", len(f"{value:e}") if isinstance(value, float) else 0 if value is None else _digits(value)


def _digits(value: object) -> int:
    """Of a whole number; Python refuses to print one of thousands."""
    return value.bit_length() // 3 if isinstance(value, int) else 1


def edit_of(gesture: Gesture, plan: Plan, report: Report) -> Edit:
    """The edit a gesture asks for; raises a `WorkbenchError` if it makes no sense. Whether it is legal, the plan says."""
    verb = _text(gesture, "verb")
    if verb not in _EDITS:
        raise LayoutError(*unknown_name("gesture", verb, _EDITS))
    return _EDITS[verb](gesture, plan, report)


def zone_of(gesture: Gesture) -> str:
    """Where the hand was: the zone that shows the refusal of this gesture."""
    verb, fields = gesture.get("verb"), ("target",) if gesture.get("verb") == "drop" else ("axis", "zone")
    if verb in ("hardware", "wiring"):
        return ZONE
    if gesture.get("zone") == TABLES:
        return TABLES
    if verb == "add_axis":
        return "+"
    if verb in TOOLS:
        return "tools"
    return next((gesture[field] for field in fields if isinstance(gesture.get(field), str)), "")


def asked_hardware(gesture: Gesture) -> tuple[str, str] | None:
    """The chip and the shape that a gesture asks for; `None` if it is no such gesture."""
    if gesture.get("verb") != "hardware":
        return None
    return str(gesture.get("chip", ""))[:80], str(gesture.get("shape", ""))[:200]


def whole_number(text: str, what: str, least: int = 1, most: int = 1 << 20) -> int:
    """A number typed by a person; raises `MeshError`."""
    if not re.fullmatch(r"\s*\d{1,9}\s*", text) or not least <= int(text) <= most:
        raise MeshError(f"`{text[:40]}` is not a {what}; it is a whole number from {least} to {most:,}.")
    return int(text)


def _text(gesture: Gesture, field: str) -> str:
    value = gesture.get(field)
    if not isinstance(value, str):
        raise LayoutError(f"The gesture lacks its `{field}`.", ["reload the page"])
    return value.strip()


def _rule(gesture: Gesture, plan: Plan) -> tuple[str, tuple[str, ...]]:
    dim = _text(gesture, "dim")
    return dim, plan.layout.rule(dim)


def _drop(gesture: Gesture, plan: Plan, _: Report) -> Edit:
    dim, axes = _rule(gesture, plan)
    return ShardDim(dim, dropped_axes(axes, _text(gesture, "source"), _text(gesture, "target"), add=gesture.get("add") is True))


def _major(gesture: Gesture, plan: Plan, _: Report) -> Edit:
    dim, axes = _rule(gesture, plan)
    axis = _text(gesture, "axis")
    return ShardDim(dim, (axis, *(each for each in axes if each != axis)))


def _whole(gesture: Gesture, plan: Plan, _: Report) -> Edit:
    return ShardDim(_rule(gesture, plan)[0])


def _rename_dim(gesture: Gesture, _plan: Plan, _: Report) -> Edit:
    name = _text(gesture, "name")
    if not _DIMENSION.fullmatch(name):
        raise DimensionError(f"`{name[:80]}` cannot name a dimension.", ["use letters, digits and `_`, at most 64 of them"])
    return RenameDim(_text(gesture, "dim"), name)


def _resize(gesture: Gesture, _plan: Plan, _: Report) -> Edit:
    return ResizeAxis(_text(gesture, "axis"), whole_number(_text(gesture, "size"), "size of a mesh axis"))


def _add_axis(gesture: Gesture, _plan: Plan, _: Report) -> Edit:
    return AddAxis(_text(gesture, "axis"), whole_number(_text(gesture, "size"), "size of a mesh axis"))


def _remove_axis(gesture: Gesture, _plan: Plan, _: Report) -> Edit:
    return RemoveAxis(_text(gesture, "axis"))


def _rename_axis(gesture: Gesture, _plan: Plan, _: Report) -> Edit:
    return RenameAxis(_text(gesture, "axis"), _text(gesture, "name"))


def _shift_axis(gesture: Gesture, plan: Plan, _: Report) -> Edit:
    axis, by = _text(gesture, "axis"), gesture.get("by")
    names = list(plan.mesh.names)
    if axis not in names or by not in (-1, 1):
        raise MeshError(*unknown_name("mesh axis", axis, names))
    place = names.index(axis)
    names.insert(min(max(place + by, 0), len(names) - 1), names.pop(place))
    return ReorderAxes(tuple(names))


def _order_axes(gesture: Gesture, plan: Plan, _: Report) -> Edit:
    names = gesture.get("names")
    if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
        raise MeshError("The gesture names no order of the mesh axes.", ["reload the page"])
    return ReorderAxes(tuple(name[:80] for name in names[: len(plan.mesh.names) + 1]))


def _hardware(gesture: Gesture, plan: Plan, _: Report) -> Edit:
    return SetHardware(hardware_of(_text(gesture, "chip"), _text(gesture, "shape")[:200], plan.mesh))


def _axis_assignment(gesture: Gesture, _plan: Plan, _: Report) -> Edit:
    text = _text(gesture, "name")[:400]
    return SetAxisAssignment(parse_axis_assignment(text) if text else None)


def _mend(gesture: Gesture, _plan: Plan, report: Report) -> Edit:
    """An edit that a note or a tried remedy of the present report suggests, by its text: one of an older report is not obeyed."""
    wanted = _text(gesture, "edit")
    for edit in chain((edit for note in report.notes for edit in note.edits), tried_edits(report.prediction)):
        if str(edit) == wanted:
            return edit
    raise LayoutError(f"No note suggests `{wanted[:80]}` any more.", ["look at the notes again"])


_EDITS: dict[str, Callable[[Gesture, Plan, Report], Edit]] = {
    "drop": _drop,
    "major": _major,
    "own": own_way,
    "own_whole": own_whole,
    "open_dim": opened,
    "by_rules": by_the_rules,
    "annotate": annotate,
    "prioritize": prioritize,
    "untie": ungroup,
    "unbar": unbar,
    "whole": _whole,
    "rename_dim": _rename_dim,
    "resize": _resize,
    "add_axis": _add_axis,
    "remove_axis": _remove_axis,
    "rename_axis": _rename_axis,
    "shift_axis": _shift_axis,
    "order_axes": _order_axes,
    "hardware": _hardware,
    "wiring": _axis_assignment,
    "mend": _mend,
    "pipeline": stage_edit,
    "recipe": lambda gesture, plan, _: recipe_edit(gesture, plan),
}
