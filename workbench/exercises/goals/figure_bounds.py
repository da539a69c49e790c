"""Bounds on a figure of the plan: five that most exercises ask for by a name of their own, and two for any figure."""

from dataclasses import dataclass
from typing import ClassVar

from workbench.errors import WorkbenchError
from workbench.exercises.goals.goal import Goal, quantity
from workbench.exercises.plan_figures import ALL_FIGURES, find_figure, read_figure
from workbench.exercises.quantities import BYTES, COUNT, SECONDS, SHARE, format_quantity, parse_quantity
from workbench.plan.plan import Plan
from workbench.reports.report import Report

_NAMES = tuple(each.name for each in ALL_FIGURES)


@dataclass(frozen=True, slots=True)
class Peak(Goal):
    """The fullest device holds at most so many bytes at its worst moment."""

    name: ClassVar[str] = "peak"
    at_most: float = quantity(BYTES)

    def describe(self) -> str:
        return f"The fullest device holds at most {format_quantity(self.at_most, BYTES)}."

    def miss(self, report: Report, start: Plan) -> str:
        del start
        if report.peak <= self.at_most:
            return ""
        return f"The fullest device holds {format_quantity(report.peak, BYTES)}; {format_quantity(self.at_most, BYTES)} are allowed."


@dataclass(frozen=True, slots=True)
class StepWithin(Goal):
    """A step takes at most so many seconds: `StepWithin("300 ms")`."""

    name: ClassVar[str] = "step_time"
    at_most: float = quantity(SECONDS)

    def describe(self) -> str:
        return f"A step takes at most {format_quantity(self.at_most, SECONDS)}."

    def miss(self, report: Report, start: Plan) -> str:
        del start
        if report.seconds is None:
            raise WorkbenchError("How long a step takes is not known: the plan names no hardware.", ["give the plan hardware"])
        if report.seconds <= self.at_most:
            return ""
        return f"A step takes {format_quantity(report.seconds, SECONDS)}; {format_quantity(self.at_most, SECONDS)} are allowed."


@dataclass(frozen=True, slots=True)
class Mfu(Goal):
    """The model FLOPs utilisation is at least this share, a pipeline's bubble counted."""

    name: ClassVar[str] = "mfu"
    at_least: float = quantity(SHARE)

    def describe(self) -> str:
        return f"The devices reach a model FLOPs utilisation of {format_quantity(self.at_least, SHARE)}."

    def miss(self, report: Report, start: Plan) -> str:
        del start
        return _miss("mfu", report, at_least=self.at_least)


@dataclass(frozen=True, slots=True)
class Bubble(Goal):
    """A pipeline's devices do nothing for at most this share of their time; there has to be a pipeline."""

    name: ClassVar[str] = "bubble"
    at_most: float = quantity(SHARE)

    def describe(self) -> str:
        return f"The pipeline's bubble is at most {format_quantity(self.at_most, SHARE)}."

    def miss(self, report: Report, start: Plan) -> str:
        del start
        if report.plan.pipeline is None:
            return "There is no pipeline, and so no bubble to make small."
        return _miss("bubble", report, at_most=self.at_most)


@dataclass(frozen=True, slots=True)
class Devices(Goal):
    """The plan takes at most so many devices."""

    name: ClassVar[str] = "devices"
    at_most: int = quantity(COUNT)

    def describe(self) -> str:
        return f"It takes at most {self.at_most:,.0f} devices."

    def miss(self, report: Report, start: Plan) -> str:
        del start
        found = report.plan.mesh.size
        return "" if found <= self.at_most else f"It takes {found:,} devices, where {self.at_most:,.0f} are allowed."


@dataclass(frozen=True, slots=True)
class _FigureBound(Goal):
    """A bound on any figure, in its unit."""

    figure: str
    value: str | float

    def __post_init__(self) -> None:
        object.__setattr__(self, "value", parse_quantity(self.value, find_figure(self.figure).unit))


@dataclass(frozen=True, slots=True)
class FigureAtMost(_FigureBound):
    """A figure is at most this, in its unit: `FigureAtMost("activations", "2 GiB")`."""

    name: ClassVar[str] = "at_most"

    def describe(self) -> str:
        return _bound_text(self.figure, "at most", float(self.value))

    def miss(self, report: Report, start: Plan) -> str:
        del start
        return _miss(self.figure, report, at_most=float(self.value))


@dataclass(frozen=True, slots=True)
class FigureAtLeast(_FigureBound):
    """A figure is at least this, in its unit."""

    name: ClassVar[str] = "at_least"

    def describe(self) -> str:
        return _bound_text(self.figure, "at least", float(self.value))

    def miss(self, report: Report, start: Plan) -> str:
        del start
        return _miss(self.figure, report, at_least=float(self.value))


def _bound_text(figure: str, how: str, value: float) -> str:
    found = find_figure(figure)
    return f"{found.title}: {how} {format_quantity(value, found.unit)}."


def _miss(figure: str, report: Report, *, at_most: float | None = None, at_least: float | None = None) -> str:
    """Why a figure is beyond its bound; empty where it is not."""
    asked = find_figure(figure)
    found = read_figure(figure, report)
    text = f"{asked.title}: {format_quantity(found, asked.unit)};"
    if at_most is not None and found > at_most:
        return f"{text} {format_quantity(at_most, asked.unit)} is allowed."
    if at_least is not None and found < at_least:
        return f"{text} {format_quantity(at_least, asked.unit)} is asked for."
    return ""
