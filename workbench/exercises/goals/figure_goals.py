"""Goals about figures of a plan: what a device holds and sends, whether the plan fits, and what bounds the step."""

from dataclasses import dataclass
from typing import ClassVar

from workbench.core.tensor import Role
from workbench.errors import WorkbenchError
from workbench.exercises.goals.goal import Goal, one_of, quantity
from workbench.exercises.plan_figures import (
    ALL_FIGURES,
    BOUNDS,
    BYTES,
    COUNT,
    SECONDS,
    SHARE,
    find_figure,
    format_quantity,
    held,
    parse_quantity,
    read_figure,
    seconds_by_bound,
)
from workbench.plan.plan import Plan
from workbench.reports.collective import KINDS
from workbench.reports.report import Report
from workbench.units import format_bytes, format_seconds

# Bounds on a figure of the plan: five that most exercises ask for by a name of their own, and two for any figure.

_NAMES = tuple(each.name for each in ALL_FIGURES)


@dataclass(frozen=True, slots=True)
class Peak(Goal):
    """The fullest device holds at most so many bytes at its worst moment."""

    name: ClassVar[str] = "peak"
    at_most: float = quantity(BYTES)

    def describe(self) -> str:
        return f"The fullest device holds at most {format_quantity(self.at_most, BYTES)}."

    def miss(self, report: Report, _start: Plan) -> str:
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

    def miss(self, report: Report, _start: Plan) -> str:
        if report.seconds is None:
            raise WorkbenchError("The step time is unknown: the plan has no hardware.", ["set hardware in the plan"])
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

    def miss(self, report: Report, _start: Plan) -> str:
        return _miss("mfu", report, at_least=self.at_least)


@dataclass(frozen=True, slots=True)
class Bubble(Goal):
    """A pipeline's devices do nothing for at most this share of their time; there has to be a pipeline."""

    name: ClassVar[str] = "bubble"
    at_most: float = quantity(SHARE)

    def describe(self) -> str:
        return f"The pipeline's bubble is at most {format_quantity(self.at_most, SHARE)}."

    def miss(self, report: Report, _start: Plan) -> str:
        if report.plan.pipeline is None:
            return "There is no pipeline, so there is no bubble."
        return _miss("bubble", report, at_most=self.at_most)


@dataclass(frozen=True, slots=True)
class Devices(Goal):
    """The plan takes at most so many devices."""

    name: ClassVar[str] = "devices"
    at_most: int = quantity(COUNT)

    def describe(self) -> str:
        return f"It takes at most {self.at_most:,.0f} devices."

    def miss(self, report: Report, _start: Plan) -> str:
        found = report.plan.mesh.size
        return "" if found <= self.at_most else f"It uses {found:,} devices; the limit is {self.at_most:,.0f}."


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

    def miss(self, report: Report, _start: Plan) -> str:
        return _miss(self.figure, report, at_most=float(self.value))


@dataclass(frozen=True, slots=True)
class FigureAtLeast(_FigureBound):
    """A figure is at least this, in its unit."""

    name: ClassVar[str] = "at_least"

    def describe(self) -> str:
        return _bound_text(self.figure, "at least", float(self.value))

    def miss(self, report: Report, _start: Plan) -> str:
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
        return f"{text} {format_quantity(at_least, asked.unit)} is required."
    return ""


# What a device holds of a role.


@dataclass(frozen=True, slots=True)
class Holds(Goal):
    """At its peak a device holds at most so many bytes of a role: `parameter`, `optimizer state`, ..."""

    name: ClassVar[str] = "holds"
    role: str = one_of(*Role)
    at_most: float = quantity(BYTES)

    def describe(self) -> str:
        return f"A device holds at most {format_bytes(self.at_most)} of {self.role}."

    def miss(self, report: Report, _start: Plan) -> str:
        found = held(self.role, report)
        if found <= self.at_most:
            return ""
        return f"Each device holds {format_bytes(found)} of {self.role}; the limit is {format_bytes(self.at_most)}."


# How much a step sends.


@dataclass(frozen=True, slots=True)
class Sends(Goal):
    """At most so many bytes leave each device per step; with `kind`, by collectives of that kind and no other."""

    name: ClassVar[str] = "sends"
    at_most: float = quantity(BYTES, default=0)
    kind: str = one_of(*KINDS, default="")

    def describe(self) -> str:
        most = f"at most {format_bytes(self.at_most)} leave" if self.at_most else "nothing leaves"
        return f"In a step {most} a device{f', by {self.kind} alone' if self.kind else ''}."

    def miss(self, report: Report, _start: Plan) -> str:
        report = report.most(lambda each: each.sent)
        if report.sent > self.at_most:
            allowed = f"not more than {format_bytes(self.at_most)}" if self.at_most else "nothing"
            return f"{format_bytes(report.sent)} are sent per device and step: {_largest_text(report)}. Let it send {allowed}."
        others = sorted({each.kind for each in report.collectives} - {self.kind}) if self.kind else []
        return f"It sends by {' and '.join(others)} where {self.kind} would suffice." if others else ""


def _largest_text(report: Report) -> str:
    largest = max(report.collectives, key=lambda each: each.total_sent)
    return f"most of it by {largest.kind} over {'+'.join(largest.axes)} at {largest.path}"


# The plan fits into the devices' memory.


@dataclass(frozen=True, slots=True)
class Fits(Goal):
    """The fullest device has room for its part of the plan; always so without hardware."""

    name: ClassVar[str] = "fits"

    def describe(self) -> str:
        return "The plan fits into the memory of every device."

    def miss(self, report: Report, _start: Plan) -> str:
        room = report.plan.hardware.chip.memory if report.plan.hardware else None
        if room is None or report.peak <= room:
            return ""
        return f"The fullest device holds {format_bytes(report.peak)} and has {format_bytes(room)}."


# What a step spends most of its time on.

_SPENT = ("arithmetic", "reading and writing memory", "waiting for communication", "waiting for other stages", "the host")
_WORDS = dict(zip(BOUNDS, _SPENT, strict=True))
_UNSPENT = (
    "no kernel is compute-bound",
    "no kernel is memory-bound",
    "no communication is exposed",
    "no stage is idle",
    "no time is spent waiting for the host",
)
_NOTHING = dict(zip(BOUNDS, _UNSPENT, strict=True))
"""What is so where no time is spent; of arithmetic and memory a kernel counts whole as what takes it longer."""


@dataclass(frozen=True, slots=True)
class BoundBy(Goal):
    """A step of the longest stage spends more time on this than on any other of `compute`, `memory`, `communication`, `bubble`, `host`."""

    name: ClassVar[str] = "bound_by"
    what: str = one_of(*BOUNDS)

    def describe(self) -> str:
        return f"A step is bound by {self.what}: most of its time goes to {_WORDS[self.what]}."

    def miss(self, report: Report, _start: Plan) -> str:
        found = seconds_by_bound(report)
        if not found:
            raise WorkbenchError("The bottleneck of a step is unknown: the plan has no hardware.", ["set hardware in the plan"])
        most = max(found, key=lambda each: found[each])
        if most == self.what:
            return ""
        spent, rest = format_seconds(found[self.what]), f"{format_seconds(found[most])} on {_WORDS[most]}"
        if spent == format_seconds(0):
            return f"A step spends {rest}; {_NOTHING[self.what]}."
        return f"A step spends {spent} on {_WORDS[self.what]}, and {rest}."
