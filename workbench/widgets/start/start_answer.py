"""The answer of the start panel as JSON: whether the model fits, and a row for each layout that can be opened."""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from workbench.core.text_tables import count_text
from workbench.errors import WorkbenchError
from workbench.hardware.hardware import Hardware
from workbench.models.sizing.cluster_answer import ClusterAnswer, cost_text, figures_of, headline_text, notes_of
from workbench.models.sizing.cluster_question import format_amount
from workbench.models.sizing.plan_layout import ESTIMATED, PlannedLayout
from workbench.plan.plan import Plan
from workbench.units import format_bytes, format_dollars, format_seconds
from workbench.widgets.start.program_layouts import ProgramLayouts, RecipeLayout

_OPTION = re.compile(r"(?:; say )?`--(\w+)`")  # command-line options in notes
THOUSAND, HOUR = 1000, 3600
GOAL_LABELS = {"fastest": "Fastest", "fewest devices": "Fewest devices", "cheapest": "Cheapest"}


def _field_name(found: re.Match[str]) -> str:
    """Replace an option by the page's field of the same meaning; drop advice to pass an option."""
    return "" if found[0].startswith(";") else {"on": "Machines", "seq": "Sequence"}.get(found[1], found[1].capitalize())


class StartAnswer(Protocol):
    """An answer that the start panel shows and opens."""

    def state(self) -> dict[str, Any]:
        """Return the answer as JSON."""

    def plan(self, goal: str) -> Plan:
        """Return the plan of a row, which may require tracing. Raises `WorkbenchError` for a goal without a layout."""


@dataclass(frozen=True, slots=True)
class SizedAnswer:
    """The answer of `plan_config`, with `notes` once it is complete."""

    answer: ClusterAnswer
    notes: tuple[str, ...] = ()

    @classmethod
    def complete(cls, answer: ClusterAnswer) -> "SizedAnswer":
        """Add the notes, which may take time to compute."""
        return cls(answer, tuple(_OPTION.sub(_field_name, note) for note in notes_of(answer) if not note.startswith("Examined")))

    def plan(self, goal: str) -> Plan:
        return self.answer.plan(goal)

    def state(self) -> dict[str, Any]:
        rows = [_row(goal, self._cells(layout)) for goal, layout in self.answer.layouts.items()]
        return _state(headline_text(self.answer), self.answer.fits, rows, self.notes)

    def _cells(self, layout: PlannedLayout) -> dict[str, str]:
        question = self.answer.question
        figures = figures_of(question, layout)
        doubt = " (estimated)" if layout.tier == ESTIMATED else f", {figures['range']}" if layout.step_range else ""
        return {
            "devices": figures["devices"],
            "layout": figures["layout"],
            "step time": figures["step time"] + doubt,
            "tokens/s per device": figures["tokens/s a device"],
            "MFU": figures["MFU"],
            "memory": figures["memory"],
            f"cost of {format_amount(question.tokens)} tokens" if question.tokens else "cost": cost_text(question, layout),
        }


@dataclass(frozen=True, slots=True)
class RecipeAnswer:
    """The layouts of a program made by recipes."""

    name: str
    hardware: Hardware
    layouts: Mapping[str, RecipeLayout]
    leanest: RecipeLayout | None
    most: int
    """Largest number of devices tried."""

    @classmethod
    def of(cls, tried: ProgramLayouts) -> "RecipeAnswer":
        best = tried.best()
        return cls(tried.name, tried.hardware, best, tried.leanest, max((layout.devices for layout in tried.tried), default=0))

    def plan(self, goal: str) -> Plan:
        if goal not in self.layouts:
            raise WorkbenchError(f"The answer has no layout `{goal[:40]}`.", ["choose one of its rows"])
        return self.layouts[goal].plan

    def state(self) -> dict[str, Any]:
        rows = [_row(goal, self._cells(layout)) for goal, layout in self.layouts.items()]
        fits = "fastest" in self.layouts
        notes = ["Recipes alone were tried; `Find` on the board searches all layouts."] if rows else []
        return _state(self._headline(fits), fits, rows, notes)

    def _headline(self, fits: bool) -> str:
        fewest = self.layouts.get("fewest devices")
        if fewest is None:
            return f"{self.name} on {self.hardware}: no recipe fits, on up to {self.most:,} devices.{self._least()}"
        if not fits:
            few = count_text(fewest.devices, "device")
            return f"{self.name} does not fit on {self.hardware}; it fits on {few}, {fewest.hardware}.{self._least()}"
        enough = f"{count_text(fewest.devices, 'device')} {'is' if fewest.devices == 1 else 'are'} enough"
        return f"{self.name} fits on {self.hardware}; {enough}."

    def _least(self) -> str:
        if self.leanest is None:
            return ""
        return f" The leanest layout there needs {_memory_text(self.leanest.memory, self.hardware)} per device."

    def _cells(self, layout: RecipeLayout) -> dict[str, str]:
        hourly = layout.hardware.hourly_price
        return {
            "devices": f"{layout.devices:,}",
            "layout": layout.recipes,
            "step time": format_seconds(layout.seconds),
            "memory": _memory_text(layout.memory, layout.hardware),
            "cost of 1,000 steps": "" if hourly is None else format_dollars(THOUSAND * layout.seconds / HOUR * hourly),
        }


def _row(goal: str, cells: Mapping[str, str]) -> dict[str, Any]:
    return {"goal": goal, "label": GOAL_LABELS[goal], "cells": [{"label": label, "text": text} for label, text in cells.items()]}


def _state(headline: str, fits: bool, rows: Iterable[Mapping[str, Any]], notes: Iterable[str]) -> dict[str, Any]:
    return {"headline": headline, "tone": "good" if fits else "bad", "rows": list(rows), "notes": list(notes)}


def _memory_text(memory: float, hardware: Hardware) -> str:
    return f"{format_bytes(memory)} of {format_bytes(hardware.chip.memory)}"
