"""Buttons in the tabs: a suggested edit, and cells that hold several."""

from collections.abc import Callable
from typing import Any

from workbench.analysis.conflict_remedies import resolving_edits
from workbench.plan.edits import Edit
from workbench.reports.propagation_records import Conflict
from workbench.reports.report import Report
from workbench.widgets.board.background_queries import BackgroundQueries, compute_in_background
from workbench.widgets.gestures.gesture import TABLES, Gesture
from workbench.widgets.gestures.suggestions import DecideGesture
from workbench.widgets.tabs.blocks import Cell


def edits_cell(report: Report, conflict: Conflict, background: BackgroundQueries | None) -> Cell:
    """Buttons for the edits that resolve a conflict, once they are found; `why_axis.resolving_cell` does so for a rejected axis."""
    name = f"decide {conflict.first.wanted} {conflict.first.giver}"
    edits = compute_in_background(background, report, name, lambda: resolving_edits(report, conflict), patience=0.0)
    if edits is None:
        return {"text": "trying…", "tone": "muted"}
    return (
        buttons_cell(*(edit_button(edit) for edit in edits))
        if edits
        else {"text": "only another program or mesh", "tone": "muted", "wrap": True}
    )


def edit_button(edit: Edit, label: str = "") -> dict[str, Any]:
    """A button for an edit that was found for the present plan."""
    return act(label or str(edit), DecideGesture(str(edit), zone=TABLES))


def act(label: str, gesture: Gesture, **more: str) -> dict[str, Any]:
    """A button for a gesture."""
    return {"label": label, "gesture": gesture.as_message(), **more}


def buttons_cell(*each: dict[str, Any]) -> Cell:
    """Buttons, each with its own gesture."""
    return {"acts": list(each)}


def find_edit(text: str, report: Report, known: Callable[[Report], dict[str, Any]]) -> Edit | None:
    """The edit of that text among those found for a report."""
    for found in known(report).values():
        edits = found if isinstance(found, tuple) else [getattr(found, "edit", None)]
        for edit in edits:
            if edit is not None and str(edit) == text:
                return edit
    return None
