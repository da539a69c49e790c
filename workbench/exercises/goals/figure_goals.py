"""Goals on figures of a plan: memory, communication, time, and the bottleneck of the step."""

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

# Bounds on figures of the plan: five frequent ones with their own names, and two for any figure.

_NAMES = tuple(figure.name for figure in ALL_FIGURES)


@dataclass(frozen=True, slots=True)
class Peak(Goal):
    """Limit the peak memory of the fullest device, in bytes."""

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
    """The model FLOPs utilisation is at least this share; a pipeline's bubble lowers it."""

    name: ClassVar[str] = "mfu"
    at_least: float = quantity(SHARE)

    def describe(self) -> str:
        return f"The devices reach a model FLOPs utilisation of {format_quantity(self.at_least, SHARE)}."

    def miss(self, report: Report, _start: Plan) -> str:
        return _miss("mfu", report, at_least=self.at_least)


@dataclass(frozen=True, slots=True)
class Bubble(Goal):
    """The bubble of the pipeline is at most this share of the device time. A plan without a pipeline misses the goal."""

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
        count = report.plan.mesh.size
        return "" if count <= self.at_most else f"It uses {count:,} devices; the limit is {self.at_most:,.0f}."


@dataclass(frozen=True, slots=True)
class _FigureBound(Goal):
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
    bounded = find_figure(figure)
    return f"{bounded.title}: {how} {format_quantity(value, bounded.unit)}."


def _miss(figure: str, report: Report, *, at_most: float | None = None, at_least: float | None = None) -> str:
    bounded = find_figure(figure)
    actual = read_figure(figure, report)
    text = f"{bounded.title}: {format_quantity(actual, bounded.unit)};"
    if at_most is not None and actual > at_most:
        return f"{text} {format_quantity(at_most, bounded.unit)} is allowed."
    if at_least is not None and actual < at_least:
        return f"{text} {format_quantity(at_least, bounded.unit)} is required."
    return ""


# Memory of a tensor role.


@dataclass(frozen=True, slots=True)
class Holds(Goal):
    """Limit the bytes of a role that a device holds at its peak: `parameter`, `optimizer state`, ..."""

    name: ClassVar[str] = "holds"
    role: str = one_of(*Role)
    at_most: float = quantity(BYTES)

    def describe(self) -> str:
        return f"A device holds at most {format_bytes(self.at_most)} of {self.role}."

    def miss(self, report: Report, _start: Plan) -> str:
        count = held(self.role, report)
        if count <= self.at_most:
            return ""
        return f"Each device holds {format_bytes(count)} of {self.role}; the limit is {format_bytes(self.at_most)}."


# Communication of a step.


@dataclass(frozen=True, slots=True)
class Sends(Goal):
    """Limit the bytes that each device sends per step. With `kind`, only collectives of that kind are allowed."""

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


# Device memory.


@dataclass(frozen=True, slots=True)
class Fits(Goal):
    """The plan fits into the memory of the fullest device. A plan without hardware meets the goal."""

    name: ClassVar[str] = "fits"

    def describe(self) -> str:
        return "The plan fits into the memory of every device."

    def miss(self, report: Report, _start: Plan) -> str:
        room = report.plan.hardware.chip.memory if report.plan.hardware else None
        if room is None or report.peak <= room:
            return ""
        return f"The fullest device holds {format_bytes(report.peak)} and has {format_bytes(room)}."


# Bottleneck of a step.

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
"""Facts to state if no time goes to a bound; a kernel counts wholly as compute or as memory, whichever takes longer."""


@dataclass(frozen=True, slots=True)
class BoundBy(Goal):
    """A step of the longest stage spends more time on this than on any other of `compute`, `memory`, `communication`, `bubble`, `host`."""

    name: ClassVar[str] = "bound_by"
    what: str = one_of(*BOUNDS)

    def describe(self) -> str:
        return f"A step is bound by {self.what}: most of its time goes to {_WORDS[self.what]}."

    def miss(self, report: Report, _start: Plan) -> str:
        seconds = seconds_by_bound(report)
        if not seconds:
            raise WorkbenchError("The bottleneck of a step is unknown: the plan has no hardware.", ["set hardware in the plan"])
        most = max(seconds, key=lambda bound: seconds[bound])
        if most == self.what:
            return ""
        spent, rest = format_seconds(seconds[self.what]), f"{format_seconds(seconds[most])} on {_WORDS[most]}"
        if spent == format_seconds(0):
            return f"A step spends {rest}; {_NOTHING[self.what]}."
        return f"A step spends {spent} on {_WORDS[self.what]}, and {rest}."
