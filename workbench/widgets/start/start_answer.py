"""The answer of the start panel as JSON: whether the model fits, and a row for each layout that can be opened."""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

from workbench.core.mesh import Mesh
from workbench.core.program import Program
from workbench.core.remat import Remat
from workbench.core.text_tables import count_text
from workbench.cost.estimate import estimate
from workbench.errors import HardwareError, SearchError, WorkbenchError
from workbench.hardware.hardware import Hardware
from workbench.hardware.resize_hardware import resize_hardware
from workbench.models.sizing.candidate_layouts import ParallelLayout, powers_of_two
from workbench.models.sizing.cluster_answer import ClusterAnswer, cost_text, figures_of, headline_text, notes_of
from workbench.models.sizing.cluster_question import format_amount
from workbench.models.sizing.plan_layout import ESTIMATED, PlannedLayout, apply_recipes
from workbench.plan.plan import Plan
from workbench.public_plan import Plan as PublicPlan
from workbench.units import format_bytes, format_dollars, format_seconds

# First plans of any program by recipes; known architectures use `models.sizing.plan_config`, which compares more.


MOST_GROWTH = 6  # times the devices are doubled where nothing fits
TENSOR_SIZES = (8, 4, 2)  # devices of a tensor-parallel axis, the first that divides
FULL = Remat.parse("full")

Report = Callable[[str], None]
"""Callback for each phase; may raise to stop."""


@dataclass(frozen=True, slots=True)
class RecipeLayout:
    """A plan made by recipes with planned figures: step time in seconds, memory of the fullest device in bytes."""

    plan: Plan
    hardware: Hardware
    recipes: str
    seconds: float
    memory: float

    @property
    def devices(self) -> int:
        return self.plan.mesh.size

    @property
    def fits(self) -> bool:
        return self.memory <= self.hardware.chip.memory

    @property
    def price(self) -> float:
        """Dollars per step; device seconds if no price is known."""
        hourly = self.hardware.hourly_price
        return self.seconds * (self.devices if hourly is None else hourly / 3600)


@dataclass
class ProgramLayouts:
    program: Program
    name: str
    hardware: Hardware
    report: Report
    tried: list[RecipeLayout] = field(default_factory=list)
    problem: WorkbenchError | None = None

    def best(self) -> Mapping[str, RecipeLayout]:
        """Return the best layout by goal; on a larger cluster only the smallest. Raises `SearchError` if none applies."""
        self._try_cluster()
        if not self.tried and self.problem is not None:
            raise SearchError(f"No first layout of {self.name}: {self.problem.message}", self.problem.ways_out)
        fitting = [layout for layout in self.tried if layout.fits]
        if not fitting:
            return {}
        goals = {
            "fastest": lambda layout: (layout.seconds, layout.devices),
            "fewest devices": lambda layout: (layout.devices, layout.seconds),
            "cheapest": lambda layout: (layout.price, layout.devices),
        }
        layouts = {goal: min(fitting, key=key) for goal, key in goals.items()}
        fewest = layouts["fewest devices"]
        return layouts if fewest.devices <= self.hardware.size else {"fewest devices": fewest}

    @property
    def leanest(self) -> RecipeLayout | None:
        """The layout on the cluster that needs the least memory."""
        layouts = [layout for layout in self.tried if layout.devices <= self.hardware.size]
        return min(layouts, key=lambda layout: layout.memory, default=None)

    def _try_cluster(self) -> None:
        """Try all layouts on the whole cluster, lean ones on fewer devices while they fit, and on more if nothing fits."""
        size = self.hardware.size
        self._try_size(size)
        for count in reversed([count for count in powers_of_two(size) if count < size]):
            if self._try_size(count, lean=True) is False:
                break
        count = size
        while not any(layout.fits for layout in self.tried) and count < size << MOST_GROWTH:
            count *= 2
            self._try_size(count, lean=True)

    def _try_size(self, count: int, *, lean: bool = False) -> bool | None:
        """Try the layouts on `count` devices; returns whether one fits, `None` if none applies."""
        try:
            hardware = self.hardware if count == self.hardware.size else resize_hardware(self.hardware, count)
        except HardwareError:
            return None
        can_recompute = self.program.retrace is not None and self.program.step.training is not None
        layouts: list[RecipeLayout] = []
        for remat in (None, FULL) if can_recompute else (None,):
            self.report(f"Planning {self.name} on {count_text(count, 'device')}")
            layouts += filter(None, (self._try_first(choices, remat, hardware) for choices in self._choices(count, lean=lean)))
            if any(layout.fits for layout in layouts):
                break
        self.tried += layouts
        return any(layout.fits for layout in layouts) if layouts else None

    def _choices(self, count: int, *, lean: bool) -> Iterator[Iterator[tuple[str, tuple[str, ...]]]]:
        """Yield groups of mesh and recipes; the first applicable one of each group is planned."""
        sharded = ("zero_3",) if self.program.step.training is not None else ()
        if count == 1:
            yield iter([("data:1", ())])
            return
        if not (lean and sharded):
            yield iter([(f"data:{count}", ("data_parallel",))])
        if sharded:
            yield iter([(f"data:{count}", ("data_parallel", *sharded))])
        yield (_tensor_parallel(count, size, sharded) for size in TENSOR_SIZES if count % size == 0)

    def _try_first(self, choices: Iterator[tuple[str, tuple[str, ...]]], remat: Remat | None, hardware: Hardware) -> RecipeLayout | None:
        return next((layout for choice in choices if (layout := self._try(*choice, remat, hardware)) is not None), None)

    def _try(self, mesh: str, names: tuple[str, ...], remat: Remat | None, hardware: Hardware) -> RecipeLayout | None:
        try:
            program = self.program if remat is None else self.program.variant(remat=remat)
            plan = apply_recipes(PublicPlan(program, Mesh(mesh), "", f"{self.name} on {hardware}", hardware), names)
            figures = estimate(plan)
        except WorkbenchError as error:
            self.problem = self.problem or error
            return None
        assert figures.step_time is not None  # the plan has hardware
        zero = next((name for name in names if name.startswith("zero")), "")
        sizes = dict(plan.mesh.axes)
        used = ParallelLayout(sizes.get("data", 1), 1, sizes.get("model", 1), 1, zero, "full" if remat else "")
        return RecipeLayout(plan, hardware, str(used), figures.step_time.total, figures.memory.peak)


def _tensor_parallel(count: int, size: int, sharded: tuple[str, ...]) -> tuple[str, tuple[str, ...]]:
    if count == size:
        return f"model:{size}", ("megatron",)
    return f"data:{count // size} model:{size}", ("data_parallel", "megatron", *sharded)


# The answer, and its rows.


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
