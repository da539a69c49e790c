"""The figures of a plan that a goal can bound and a question can ask for, each by its name in an exercise."""

from collections.abc import Callable
from dataclasses import dataclass

from workbench.errors import DocumentError, WorkbenchError, unknown_name
from workbench.exercises.quantities import BYTES, COUNT, SECONDS, SHARE
from workbench.reports.report import Report

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
    PlanFigure("peak", BYTES, "bytes of the fullest device at its worst moment", lambda report: report.peak),
    PlanFigure("parameters", BYTES, "bytes of parameters on a device", _role("parameter")),
    PlanFigure("optimizer_state", BYTES, "bytes of optimizer state on a device", _role("optimizer state")),
    PlanFigure("model_state", BYTES, "bytes of model state on a device, such as a cache of keys and values", _role("model state")),
    PlanFigure("input", BYTES, "bytes of the inputs on a device", _role("input")),
    PlanFigure("activations", BYTES, "bytes of activations on a device at its worst moment", _role("activation")),
    PlanFigure("sent", BYTES, "bytes that leave a device in a step", sent),
    PlanFigure("step_time", SECONDS, "seconds of a step", lambda report: report.seconds),
    PlanFigure("communication_time", SECONDS, "seconds of a step in which a device waits for what is sent", _time_of(COMMUNICATION)),
    PlanFigure("flops", COUNT, "floating-point operations of matrix products on a device in a step", flops),
    PlanFigure("duplication", COUNT, "how often the same product is computed", lambda report: report.duplication),
    PlanFigure("mfu", SHARE, "model FLOPs utilisation", mfu),
    PlanFigure("bubble", SHARE, "bubble, the share of the devices' time in which a pipeline does nothing", bubble),
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
        message = f"{figure.title}: for `{report.plan.name}` that is not known: the plan names no hardware."
        raise WorkbenchError(message, ["give the plan hardware"])
    return float(found)
