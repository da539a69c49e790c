"""The board's state as JSON, computed by pure functions of a session. The front end draws it and decides nothing.

A chip stands for one dimension on one mesh axis; a dimension sharded over several axes has a chip in each of their
zones, numbered major to minor. Each chip lists the zones that refuse it, with the reason, so that the page can show it
at once.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

from workbench.core.program import Program
from workbench.core.text_tables import count_text, sizes_text
from workbench.errors import WorkbenchError
from workbench.plan.edits import Edit
from workbench.plan.plan import Plan
from workbench.reports.diagnostic import DOES_NOT_FIT, Diagnostic
from workbench.reports.report import Report
from workbench.session.figure_tiers import SettlingState
from workbench.session.plan_history import Session
from workbench.widgets.board.annotation_marks import priority_mark
from workbench.widgets.board.annotation_menu import rule_items
from workbench.widgets.board.background_queries import BackgroundQueries
from workbench.widgets.board.chip_menus import axis_menu, dim_menu, spare_axis_name
from workbench.widgets.board.comparison_state import ComparisonState
from workbench.widgets.board.drop_legality import NO_EFFECT, brief_reason, distinct_arguments, illegal_drops, rule_without_effect
from workbench.widgets.board.figure_changes import figure_states
from workbench.widgets.board.hardware_picker import hardware_state
from workbench.widgets.board.key_figures import figures
from workbench.widgets.board.tier_marks import Figure, settling_record
from workbench.widgets.board.traced_as_picker import traced_as_state
from workbench.widgets.shared_states import SharedList, SharedStates
from workbench.widgets.tabs.board_tabs import ALWAYS_SHOWN, SECTIONS, VIEWS, Section, section_of
from workbench.widgets.tabs.table_blocks import axis_colours

_PATIENCE = 0.02  # seconds that an alarm waits for its suggested fixes
ALARM_KINDS = (DOES_NOT_FIT, "cannot be cut", NO_EFFECT)
"""Kinds of diagnostics that are shown over the board as well as among the notes."""


@dataclass(frozen=True, slots=True)
class Refusal:
    """A refused edit, and the zone where the pointer was."""

    error: WorkbenchError
    zone: str
    asked: tuple[str, str] | None = None  # chip and shape of a refused hardware choice, which stay in their fields
    edits: tuple[Edit, ...] = ()  # alternatives with a similar effect


def board_state(
    session: Session,
    *,
    now: tuple[Figure, ...] | None = None,
    before: tuple[Figure, ...] = (),
    earlier: tuple[Figure, ...] = (),
    refusal: Refusal | None = None,
    tab: str = "tensors",
    opened: Mapping[str, str] | None = None,
    comparison_state: ComparisonState | None = None,
    settling_state: SettlingState | None = None,
    found: str | None = "",
    needed: Collection[str] = (),
    remedies: BackgroundQueries | None = None,
    shared: SharedStates | None = None,
) -> dict[str, Any]:
    """Return key figures, zones and tabs of a session as JSON without infinities.

    `before` and `earlier` are figures as in `figure_states`; `opened` maps each view to its last open section; `found`
    is the badge of the search, `None` where search is not offered; `needed` are the sections to show besides the overview,
    all if empty; `remedies` computes suggested fixes of alarms,
    `None` to hide them; `shared` caches states across the boards of the session.
    """
    plan, report, shared = session.plan, session.report, shared or SharedStates()
    requested = refusal.asked if refusal else None
    settling = settling_record(settling_state, report)
    notes = (rule_without_effect(plan, session.undoable), *report.notes)
    sections = [section for section in SECTIONS if _is_shown(section, needed) and (section.key != "find" or found is not None)]
    return {
        "name": plan.name,
        "mesh": " × ".join(f"{name}:{size}" for name, size in plan.mesh.axes) or "no mesh axes",
        "devices": count_text(plan.mesh.size, "device"),
        "count": device_count(plan),
        "layout": str(plan.layout) or "everything replicated",
        "undo": f"Undo {session.undoable}" if session.can_undo else None,
        "redo": f"Redo {session.undone}" if session.can_redo else None,
        "program": shared.get(plan, "program", lambda: traced_as_state(plan.program)),
        "hardware": shared.get(plan, ("hardware", requested), lambda: hardware_state(plan, axis_colours(session), requested)),
        "figures": figure_states(figures(report) if now is None else now, before, earlier, is_settling=settling["settling"]),
        "standing": settling,
        "alarms": [_alarm(report, note, remedies) for note in notes if note is not None and note.kind in ALARM_KINDS],
        "zones": shared.get(plan, "zones", lambda: SharedList(list(_zones(plan, axis_colours(session))))),
        "spare": {"name": spare_axis_name(plan.mesh.names), "size": "2"},
        "refusal": refusal and refusal_state(refusal),
        "said": refusal.error.message if refusal else str(session.edits[-1]) if session.edits else "",
        "views": list(_views(sections, tab, opened or {}, len(report.notes))),
        "tabs": [
            {
                "key": section.key,
                "label": section.label,
                "view": section.view,
                "badge": found if section.key == "find" else _badge(section.key, report, comparison_state),
                "open": section.key == tab,
                "opens": section.key,
            }
            for section in sections
        ],
    }


def _is_shown(section: Section, needed: Collection[str]) -> bool:
    return not needed or section.key in needed or section.key in ALWAYS_SHOWN


def _views(sections: Sequence[Section], tab: str, opened: Mapping[str, str], warnings: int) -> Iterator[dict[str, Any]]:
    """Yield the views that have a section."""
    firsts = {section.view: section.key for section in reversed(sections)}
    for key, label in VIEWS:
        if key in firsts:
            badge = count_text(warnings, "warning") if key == "overview" and warnings else ""
            yield {"key": key, "label": label, "badge": badge, "open": section_of(tab).view == key, "opens": opened.get(key, firsts[key])}


def refusal_state(refusal: Refusal) -> dict[str, Any]:
    return {
        "zone": refusal.zone,
        "message": refusal.error.message,
        "ways_out": list(refusal.error.ways_out),
        "edits": list(map(str, refusal.edits)),
    }


def device_count(plan: Plan) -> dict[str, str]:
    """Compare the number of devices of the mesh with that of the hardware: `4 × 2 = 8 of 8 devices`."""
    size, room = plan.mesh.size, plan.hardware.size if plan.hardware else 0
    product = f"{' × '.join(map(str, plan.mesh.sizes))} = " if len(plan.mesh.sizes) > 1 else ""
    if not room:
        return {"text": f"{product}{count_text(size, 'device')}", "tone": "", "title": "Choose hardware to see how many devices it has."}
    text = f"{product}{size:,} of {count_text(room, 'device')}"
    if size > room:
        return {"text": f"{text}: {size - room:,} too many for {plan.hardware}", "tone": "bad", "title": "Make an axis smaller."}
    if size < room:
        return {"text": f"{text}: {room - size:,} idle", "tone": "warn", "title": f"{plan.hardware} has more devices than the mesh."}
    return {"text": text, "tone": "", "title": f"The mesh uses all of {plan.hardware}."}


def _zones(plan: Plan, colours: Mapping[str, int]) -> Iterator[dict[str, Any]]:
    judge = distinct_arguments(plan)
    whole = [dim for dim in plan.program.dims if not plan.layout.rule(dim)]
    yield {
        "axis": "",
        "title": "unsharded",
        "colour": None,
        "size": None,
        "hint": "" if whole else "Every dimension is sharded.",
        "chips": [_chip(plan, judge, dim, "") for dim in whole],
        "menu": [],
    }
    for axis, size in plan.mesh.axes:
        sharded = [dim for dim in plan.program.dims if axis in plan.layout.rule(dim)]
        yield {
            "axis": axis,
            "title": axis,
            "colour": colours[axis],
            "size": str(size),
            "hint": "" if sharded else "Drop a dimension here.",
            "chips": [_chip(plan, judge, dim, axis) for dim in sharded],
            "menu": axis_menu(plan.mesh.names, axis),
        }


def _chip(plan: Plan, judge: Program, dim: str, source: str) -> dict[str, Any]:
    axes = plan.layout.rule(dim)
    sizes = plan.program.dims[dim]
    parts = prod(plan.mesh[axis] for axis in axes)
    carried = sum(dim in tensor.dims for tensor in plan.program.arguments)
    shown = sizes_text(sizes)
    return {
        "key": f"{dim}@{source}",
        "dim": dim,
        "source": source,
        "size": shown if parts == 1 else f"{shown} → {sizes_text(tuple(-(-size // parts) for size in sizes))}",
        "order": f"{axes.index(source) + 1}" if len(axes) > 1 else "",
        "carried": str(carried),
        "title": f"{dim}: {', '.join(map(str, sizes))} · in {count_text(carried, 'tensor')}"
        + (f" · on {' then '.join(axes)}" if axes else ""),
        "illegal": dict(illegal_drops(plan, judge, dim, source)),
        "marks": [priority_mark(plan.layout.priority(dim))] if plan.layout.priority(dim) else [],
        "menu": [
            *dim_menu(plan.mesh.names, dim, source, axes, lambda trial: brief_reason(plan, judge, dim, trial)),
            *rule_items(plan, dim),
        ],
    }


def _alarm(report: Report, note: Diagnostic, remedies: BackgroundQueries | None) -> dict[str, Any]:
    """Build an alarm; suggested fixes that take long to find are added later."""
    key = f"{note.kind} {note.subject} {note.message}"
    edits = remedies.ask(report, key, lambda: note.edits, patience=_PATIENCE) if remedies else None
    return {"key": key, "kind": note.kind, "message": note.message, "edits": list(map(str, edits or ()))}


def _badge(tab: str, report: Report, comparison_state: ComparisonState | None) -> str:
    if tab == "compared" and comparison_state:
        return "stale" if comparison_state.stale else str(len(comparison_state.comparison.differences) or "")
    counts = {
        "tensors": len(report.arguments),
        "communication": len(report.most(lambda stage: stage.memory.peak).collectives),
        "notes": len(report.notes),
    }
    return str(counts[tab]) if counts.get(tab) else ""
