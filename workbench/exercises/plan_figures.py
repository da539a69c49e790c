"""The figures of a plan that a goal can bound and a question can ask for, each by its name in an exercise; and quantities as a person
answers them, `16 KiB`, `23 us`, `12 %`."""

import re
from collections.abc import Callable
from dataclasses import dataclass

from workbench.errors import DocumentError, WorkbenchError, unknown_name
from workbench.reports.report import Report
from workbench.units import format_bytes, format_count, format_seconds, parse_bytes, parse_time

# Quantities as a person answers them: `16 KiB`, `23 us`, `2.5e9`, `12 %`.


BYTES, SECONDS, SHARE, COUNT = "bytes", "seconds", "share", "count"
"""What a quantity is measured in: a share is a number from 0 to 1, written with or without a percent sign; all else is counted."""
UNITS = (BYTES, SECONDS, SHARE, COUNT)
_EXAMPLES = {BYTES: "3 KiB", SECONDS: "23 us", SHARE: "12 %", COUNT: "2,048"}
_NUMBER = re.compile(r"\s*(-?\d[\d,_]*(?:\.\d+)?(?:e[+-]?\d{1,3})?)\s*([kKMGTP]?)(?![a-zA-Z])\s*(%?)[^%]*", re.IGNORECASE)
_POWERS = {"": 1.0, "k": 1e3, "m": 1e6, "g": 1e9, "t": 1e12, "p": 1e15}


def parse_quantity(given: str | float, unit: str) -> float:
    """A quantity in bytes, in seconds, from 0 to 1, or a count. Raises `DocumentError` for what is none, with an example of one.

    >>> parse_quantity("16 KiB", "bytes"), parse_quantity("23 us", "seconds"), parse_quantity("12 %", "share")
    (16384.0, 2.3e-05, 0.12)
    >>> parse_quantity("2,048 tokens", "count"), parse_quantity("1.5M", "count"), parse_quantity(3, "count")
    (2048.0, 1500000.0, 3.0)
    """
    if isinstance(given, int | float) and not isinstance(given, bool):
        return float(given)
    text = str(given).strip()
    plain = text.replace(",", "")
    found = parse_bytes(plain) if unit == BYTES else parse_time(plain) if unit == SECONDS else _parse_number(plain, unit)
    if found is None:
        what = {BYTES: "an amount of bytes", SECONDS: "a time with its unit", SHARE: "a share"}.get(unit, "a number")
        raise DocumentError(f"`{text[:80]}` is not {what}.", [f'write it like "{_EXAMPLES.get(unit, _EXAMPLES[COUNT])}"'])
    return float(found)


def _parse_number(text: str, unit: str) -> float | None:
    found = _NUMBER.fullmatch(text)
    if found is None:
        return None
    value = float(found[1].replace("_", "")) * _POWERS[found[2].lower()]
    return value / 100 if found[3] and unit == SHARE else value


def format_quantity(value: float, unit: str) -> str:
    """
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
"""What a step can spend most of its time on: arithmetic, reading and writing memory, waiting for what is sent, for other stages, for the
host."""


def mfu(report: Report) -> float | None:
    """Model FLOPs utilisation, a pipeline's bubble counted; `None` without hardware."""
    time, seconds = report.step_time, report.seconds
    if time is None or not seconds:
        return None
    return time.mfu * (time.total / seconds if report.staged_pipeline else 1.0)


def bubble(report: Report) -> float:
    """The share of the devices' time in which a pipeline does nothing; 0 without a pipeline. Raises `PipelineError` as the report does."""
    return report.pipeline.simulated.bubble if report.pipeline else 0.0


def sent(report: Report) -> int:
    """Bytes that leave the device that sends the most."""
    return report.most(lambda each: each.sent).sent


def flops(report: Report) -> int:
    """Floating-point operations of matrix products of the device that has the most."""
    return report.most(lambda each: each.flops.per_device).flops.per_device


def seconds_by_bound(report: Report) -> dict[str, float]:
    """Seconds of a step of the longest stage by what they are spent on; empty without hardware."""
    time = report.most(lambda each: each.step_time.total if each.step_time else 0.0).step_time
    if time is None:
        return {}
    spent = (time.arithmetic, time.memory, time.exposed, time.idle, time.host + time.launch)
    return dict(zip(BOUNDS, spent, strict=True))


@dataclass(frozen=True, slots=True)
class PlanFigure:
    """A figure of a plan: its name in an exercise, its unit (`quantities`), what it is in words, and how it is read from a report; `None`
    where the report lacks it, as times without hardware."""

    name: str
    unit: str
    words: str
    read: Callable[[Report], float | None]

    @property
    def title(self) -> str:
        """Its words, to begin a line with: `Bytes of parameters on a device`."""
        return self.words[0].upper() + self.words[1:]


def held(role: str, report: Report) -> int:
    """Bytes of a role at the peak, on the devices of the stage that holds the most of it."""
    return max(next((size for each, size in of.memory.by_role.items() if each == role), 0) for of in report.stages)


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
    """Raises `DocumentError` for a figure that there is not."""
    found = next((each for each in ALL_FIGURES if each.name == name), None)
    if found is None:
        raise DocumentError(*unknown_name("figure", name, (each.name for each in ALL_FIGURES)))
    return found


def read_figure(name: str, report: Report) -> float:
    """The figure of a report. Raises `WorkbenchError` where the report lacks it."""
    figure = find_figure(name)
    found = figure.read(report)
    if found is None:
        message = f"{figure.title}: for `{report.plan.name}` this is unknown: the plan has no hardware."
        raise WorkbenchError(message, ["set hardware in the plan"])
    return float(found)
