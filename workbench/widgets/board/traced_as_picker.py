"""How the program is traced: what layers keep for the backward pass, in which types it computes, what stays on the host."""

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from workbench.core.offload import OPTIMIZER_STATE, Offload
from workbench.core.precision import FLOATS, Precision
from workbench.core.program import Program
from workbench.core.remat import EVERY, OFFLOAD_DOTS, Remat
from workbench.errors import WorkbenchError, unknown_name
from workbench.plan.edits import Edit, SetOffload, SetPrecision, SetRemat
from workbench.plan.plan import Plan
from workbench.reports.report import Report
from workbench.widgets.board.chip_menus import item
from workbench.widgets.gestures.setup_gestures import PROGRAM_ZONE, TracedAsGesture

_POLICIES = {
    "as traced": "policy of the function",
    "none": "keeps everything",
    "full": "keeps layer inputs",
    "dots": "keeps products",
    "dots_no_batch": "keeps weight products",
    OFFLOAD_DOTS: "keeps weight products on the host",
}


def traced_as_edit(gesture: TracedAsGesture, _plan: Plan, _report: Report) -> Edit:
    """The edit of a choice; raises a `WorkbenchError` for a text that says none."""
    if gesture.option not in _OPTIONS:
        raise WorkbenchError(*unknown_name("option", gesture.option, _OPTIONS))
    return _OPTIONS[gesture.option].edit(gesture.name)


def traced_as_state(program: Program) -> dict[str, Any]:
    """The options with the menus of their choices; none for a program that cannot be traced again."""
    trained = program.step.training is not None
    names = [name for name in _OPTIONS if program.retrace is not None and (trained or name == "precision")]
    return {"zone": PROGRAM_ZONE, "options": [_option(program, name) for name in names]}


def _option(program: Program, name: str) -> dict[str, Any]:
    option, value = _OPTIONS[name], str(getattr(program, name))
    choices = tuple(option.choices(program))
    menu = [{**item(text, TracedAsGesture(name, text)), "note": "now" if text == value else about} for text, about in choices]
    if name != "offload":
        ask = {"label": name, "value": value, "verb": "Set", "options": [text for text, _ in choices]}
        menu.append(item("Other…", TracedAsGesture(name, name=""), ask=ask))
    return {"key": name, "label": option.label, "value": value, "title": option.about, "menu": menu}


def _remats(program: Program) -> Iterator[tuple[str, str]]:
    yield from _POLICIES.items()
    yield f"{EVERY}:2", "keeps every second weight product"
    yield "full layers:1/2", "keeps everything in every second layer"
    yield from ((f"save:{name}", "") for name in program.named_values)


def _precisions(_program: Program) -> Iterator[tuple[str, str]]:
    yield "as traced", "types of the function"
    yield from ((kind, f"computed in {kind}, kept as traced") for kind in FLOATS)
    yield "params=bfloat16,moments=float32", "parameters in bfloat16, the optimiser in float32"


def _offloads(_program: Program) -> Iterator[tuple[str, str]]:
    yield "nothing", "all state on the devices"
    yield OPTIMIZER_STATE, "the update streams it from the host"


class _Option(NamedTuple):
    """One option: its label, what it is about, the edit that a text stands for, and the choices of a menu with a word on each."""

    label: str
    about: str
    edit: Callable[[str], Edit]
    choices: Callable[[Program], Iterator[tuple[str, str]]]


_OPTIONS = {
    "remat": _Option(
        "remat",
        "Activations kept for the backward pass; the rest is recomputed",
        lambda text: SetRemat(Remat.parse(text)),
        _remats,
    ),
    "precision": _Option(
        "precision",
        "Data types of the arithmetic and the state",
        lambda text: SetPrecision(Precision.parse(text)),
        _precisions,
    ),
    "offload": _Option(
        "host",
        "State kept in host memory between steps",
        lambda text: SetOffload(Offload.parse(text)),
        _offloads,
    ),
}
