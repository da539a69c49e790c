"""What a predicted time rests on that a compiler does not tell: the causes of a difference between it and a measured step."""

from collections.abc import Iterator
from typing import NamedTuple

from workbench.analysis.collective_causes import Cause
from workbench.core.sharding import base_axis
from workbench.cost.communication import closest_spans
from workbench.reports.report import Report

HOST = Cause("bound by the host", "the device waits for the host to call the next kernel: another host, or fewer calls, change it")
RING = Cause("ring over nodes", "collectives between nodes take what NCCL's rings and trees need over this network, as far as it is known")
TIME_CAUSES = (HOST, RING)
_MIN_SHARE = 0.01  # of the step


class TimeCause(NamedTuple):
    """Predicted seconds of a step that rest on a cause."""

    cause: Cause
    seconds: float


def explain_time(report: Report) -> tuple[TimeCause, ...]:
    """The causes that at least a hundredth of the step rests on, the largest first; none without hardware."""
    if report.step_time is None:
        return ()
    least = _MIN_SHARE * report.step_time.total
    return tuple(sorted((each for each in _causes(report) if each.seconds >= max(least, 1e-12)), key=lambda each: -each.seconds))


def _causes(report: Report) -> Iterator[TimeCause]:
    assert report.step_time is not None
    yield TimeCause(HOST, report.step_time.host)
    between = sum(each.seconds * each.count for each in report.collectives if _crosses_nodes(report, each.axes))
    yield TimeCause(RING, min(between, report.step_time.exposed))


def _crosses_nodes(report: Report, axes: tuple[str, ...]) -> bool:
    plan, hardware = report.plan, report.hardware
    if hardware is None or hardware.chip.platform != "cuda" or len(hardware.axes) == 1:
        return False
    spans = closest_spans(plan.mesh, hardware, plan.axis_assignment)
    inside = hardware.axes[-1].name
    return any(span.physical.name != inside and span.size > 1 for axis in axes for span in spans.get(base_axis(axis), ()))
