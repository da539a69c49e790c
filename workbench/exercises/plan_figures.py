"""Figures of a plan that goals and questions refer to by name, and parsing of quantities in answers."""

import re
from collections.abc import Callable
from dataclasses import dataclass

from workbench.errors import DocumentError, WorkbenchError, unknown_name
from workbench.reports.report import Report
from workbench.units import format_bytes, format_count, format_seconds, parse_bytes, parse_time

# Quantities in answers: `16 KiB`, `23 us`, `2.5e9`, `12 %`.


BYTES, SECONDS, SHARE, COUNT = "bytes", "seconds", "share", "count"
"""Units of quantities: a share is a number from 0 to 1, which may be written in per cent; a count covers all else."""
UNITS = (BYTES, SECONDS, SHARE, COUNT)
_EXAMPLES = {BYTES: "3 KiB", SECONDS: "23 us", SHARE: "12 %", COUNT: "2,048"}
_DIGITS = r"(-?\d[\d,_]*(?:\.\d+)?(?:e[+-]?\d{1,3})?)"
_COUNT = re.compile(_DIGITS + r"\s*([kMGTP]?)(?![a-z]).*", re.IGNORECASE | re.DOTALL)
_SHARE = re.compile(_DIGITS + r"\s*(%|per ?cent)?(?:\s+of\b.*)?", re.IGNORECASE)
_POWERS = {"": 1.0, "k": 1e3, "m": 1e6, "g": 1e9, "t": 1e12, "p": 1e15}


def parse_quantity(given: str | float, unit: str) -> float:
    """A quantity in its base unit. Raises `DocumentError` with an example.

    >>> parse_quantity("16 KiB", "bytes"), parse_quantity("23 us", "seconds"), parse_quantity("12 %", "share")
    (16384.0, 2.3e-05, 0.12)
    >>> parse_quantity("2,048 tokens", "count"), parse_quantity("1.5M", "count"), parse_quantity(3, "count")
    (2048.0, 1500000.0, 3.0)
    """
    if isinstance(given, int | float) and not isinstance(given, bool):
        return float(given)
    text = str(given).strip()
    plain = text.replace(",", "")
    parse = {BYTES: parse_bytes, SECONDS: parse_time, SHARE: _parse_share}.get(unit, _parse_count)
    value = parse(plain)
    if value is None:
        expected = {BYTES: "an amount of bytes", SECONDS: "a time with its unit", SHARE: "a share"}.get(unit, "a number")
        raise DocumentError(f"`{text[:80]}` is not {expected}.", [f'write it like "{_EXAMPLES.get(unit, _EXAMPLES[COUNT])}"'])
    return float(value)


def _parse_count(text: str) -> float | None:
    """A number, which a noun may follow."""
    match = _COUNT.fullmatch(text)
    return None if match is None else float(match[1].replace("_", "")) * _POWERS[match[2].lower()]


def _parse_share(text: str) -> float | None:
    """A number or a percentage, which its whole may follow: `12 % of the time`."""
    match = _SHARE.fullmatch(text)
    return None if match is None else float(match[1].replace("_", "")) / (100 if match[2] else 1)


def format_quantity(value: float, unit: str) -> str:
    """A quantity of this unit as text.

    >>> format_quantity(16384, "bytes"), format_quantity(0.125, "share"), format_quantity(2048, "count")
    ('16.0 KiB', '12.5 %', '2,048')
    """
    if unit == BYTES:
        return format_bytes(value)
    if unit == SECONDS:
        return format_seconds(value)
    if unit == SHARE:
        return f"{100 * value:.1f} %"
    return f"{value:,.0f}" if value == int(value) and abs(value) < 1e6 else format_count(value)


COMPUTE, MEMORY, COMMUNICATION, BUBBLE, HOST = "compute", "memory", "communication", "bubble", "host"
BOUNDS = (COMPUTE, MEMORY, COMMUNICATION, BUBBLE, HOST)
"""What can bound a step: arithmetic, memory traffic, exposed communication, idle pipeline stages, the host."""


def mfu(report: Report) -> float | None:
    """Model FLOPs utilisation, pipeline bubble included; `None` without hardware."""
    time, seconds = report.step_time, report.seconds
    if time is None or not seconds:
        return None
    return time.mfu * (time.total / seconds if report.staged_pipeline else 1.0)


def bubble(report: Report) -> float:
    """The idle share of the devices' time in a pipeline; 0 without one. Raises `PipelineError` as the report does."""
    return report.pipeline.simulated.bubble if report.pipeline else 0.0


def sent(report: Report) -> int:
    """Bytes sent by the device that sends the most."""
    return report.most(lambda each: each.sent).sent


def flops(report: Report) -> int:
    """Floating-point operations in dots on the device that has the most."""
    return report.most(lambda each: each.flops.per_device).flops.per_device


def seconds_by_bound(report: Report) -> dict[str, float]:
    """Seconds of a step of the longest stage by bound; empty without hardware."""
    time = report.most(lambda each: each.step_time.total if each.step_time else 0.0).step_time
    if time is None:
        return {}
    spent = (time.arithmetic, time.memory, time.exposed, time.idle, time.host + time.launch)
    return dict(zip(BOUNDS, spent, strict=True))


@dataclass(frozen=True, slots=True)
class PlanFigure:
    """A figure of a plan; `read` returns `None` if the report lacks it, as times without hardware."""

    name: str
    unit: str
    words: str
    read: Callable[[Report], float | None]

    @property
    def title(self) -> str:
        """The description capitalised, such as `Bytes of parameters on a device`."""
        return self.words[0].upper() + self.words[1:]


def held(role: str, report: Report) -> int:
    """Bytes of a role at the peak, on a device of the stage with the most of it."""
    return max(next((size for name, size in stage.memory.by_role.items() if name == role), 0) for stage in report.stages)


def _role(role: str) -> Callable[[Report], float]:
    return lambda report: held(role, report)


def _time_of(part: str) -> Callable[[Report], float | None]:
    return lambda report: seconds_by_bound(report).get(part)


ALL_FIGURES = (
    PlanFigure("peak", BYTES, "peak bytes on the fullest device", lambda report: report.peak),
    PlanFigure("parameters", BYTES, "bytes of parameters on a device", _role("parameter")),
    PlanFigure("optimizer_state", BYTES, "bytes of optimizer state on a device", _role("optimizer state")),
    PlanFigure("model_state", BYTES, "bytes of model state on a device, such as a cache of keys and values", _role("model state")),
    PlanFigure("input", BYTES, "bytes of the inputs on a device", _role("input")),
    PlanFigure("activations", BYTES, "peak bytes of activations on a device", _role("activation")),
    PlanFigure("sent", BYTES, "bytes sent per device and step", sent),
    PlanFigure("step_time", SECONDS, "seconds of a step", lambda report: report.seconds),
    PlanFigure("communication_time", SECONDS, "seconds of exposed communication per step", _time_of(COMMUNICATION)),
    PlanFigure("flops", COUNT, "floating-point operations of matrix products on a device in a step", flops),
    PlanFigure("duplication", COUNT, "how many times the same product is computed", lambda report: report.duplication),
    PlanFigure("mfu", SHARE, "model FLOPs utilisation", mfu),
    PlanFigure("bubble", SHARE, "bubble, the idle share of the devices' time in a pipeline", bubble),
    PlanFigure("devices", COUNT, "devices", lambda report: report.plan.mesh.size),
    PlanFigure("collectives", COUNT, "collectives a step", lambda report: sum(each.count for each in report.collectives)),
)


def find_figure(name: str) -> PlanFigure:
    """The figure with this name. Raises `DocumentError` if there is none."""
    match = next((figure for figure in ALL_FIGURES if figure.name == name), None)
    if match is None:
        raise DocumentError(*unknown_name("figure", name, (figure.name for figure in ALL_FIGURES)))
    return match


def read_figure(name: str, report: Report) -> float:
    """The value of a figure in a report. Raises `WorkbenchError` if the report lacks it."""
    figure = find_figure(name)
    value = figure.read(report)
    if value is None:
        message = f"{figure.title}: for `{report.plan.name}` this is unknown: the plan has no hardware."
        raise WorkbenchError(message, ["set hardware in the plan"])
    return float(value)
