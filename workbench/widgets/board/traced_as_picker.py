"""Tracing options of a program: rematerialisation policy, precision, and state kept on the host."""

from collections.abc import Callable
from typing import Any, NamedTuple

from workbench.core.offload import OPTIMIZER_STATE, Offload
from workbench.core.precision import FLOAT8, FLOATS, WIDE_MOMENTS, Precision
from workbench.core.program import Program
from workbench.core.remat import EVERY, OFFLOAD_DOTS, Remat
from workbench.errors import WorkbenchError, unknown_name
from workbench.plan.edits import Edit, SetOffload, SetPrecision, SetRemat
from workbench.plan.plan import Plan
from workbench.reports.report import Report
from workbench.widgets.board.chip_menus import item
from workbench.widgets.gestures.setup_gestures import PROGRAM_ZONE, TracedAsGesture

_NOTES = {
    "remat": {
        "as traced": "policy of the function",
        "none": "keeps everything",
        "full": "keeps layer inputs",
        "dots": "keeps products",
        "dots_no_batch": "keeps weight products",
        OFFLOAD_DOTS: "keeps weight products on the host",
        f"{EVERY}:2": "keeps every second weight product",
        "full layers:1/2": "keeps everything in every second layer",
    },
    "precision": {
        "as traced": "types of the function",
        **{kind: f"computed in {kind}, kept as traced" for kind in FLOATS},
        WIDE_MOMENTS: "parameters in bfloat16, the optimizer in float32",
        **{word: f"weight products of layers, operands scaled {scaling}" for word, scaling in FLOAT8.items()},
    },
    "offload": {"nothing": "all state on the devices", OPTIMIZER_STATE: "the update streams it from the host"},
}


def traced_as_edit(gesture: TracedAsGesture, _plan: Plan, _report: Report) -> Edit:
    """Return the edit of a choice; raises a `WorkbenchError` for an invalid text."""
    if gesture.option not in _OPTIONS:
        raise WorkbenchError(*unknown_name("option", gesture.option, _OPTIONS))
    return _OPTIONS[gesture.option].edit(gesture.name)


def traced_as_state(program: Program) -> dict[str, Any]:
    """Return the options with their menus; none for a program that cannot be traced again."""
    offered = dict.fromkeys(option for option, _ in program.choices if program.retrace is not None)
    return {"zone": PROGRAM_ZONE, "options": [_option(program, name) for name in offered]}


def _option(program: Program, name: str) -> dict[str, Any]:
    option, value = _OPTIONS[name], str(getattr(program, name))
    texts = [text for key, text in program.choices if key == name]
    menu = [{**item(text, TracedAsGesture(name, text)), "note": "now" if text == value else _NOTES[name].get(text, "")} for text in texts]
    if name != "offload":
        ask = {"label": name, "value": value, "verb": "Set", "options": texts}
        menu.append(item("Other…", TracedAsGesture(name, name=""), ask=ask))
    return {"key": name, "label": option.label, "value": value, "title": option.about, "menu": menu}


class _Option(NamedTuple):
    """One option: its label, a description, and the edit of a text."""

    label: str
    about: str
    edit: Callable[[str], Edit]


_OPTIONS = {
    "remat": _Option("remat", "Activations kept for the backward pass; the rest is recomputed", lambda text: SetRemat(Remat.parse(text))),
    "precision": _Option("precision", "Data types of the arithmetic and the state", lambda text: SetPrecision(Precision.parse(text))),
    "offload": _Option("host", "State kept in host memory between steps", lambda text: SetOffload(Offload.parse(text))),
}
