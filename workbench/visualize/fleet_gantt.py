"""A fleet's schedule over time: predicted above measured, one row per device, one colour per model."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from workbench.multimodel import FleetSchedule, Job, lower_bound
from workbench.multimodel.fleet_measurement import FleetMeasurement
from workbench.multimodel.fleet_text import schedules_text
from workbench.units import format_seconds
from workbench.visualize.charts.chart import KeyEntry
from workbench.visualize.charts.fleet_chart import RunSoFar, fleet_chart, run_section
from workbench.visualize.charts.still_drawing import still_drawing
from workbench.visualize.draw.drawing_marks import Drawing
from workbench.visualize.draw.palette import model_colour
from workbench.visualize.draw.picture import Picture

_MOST_NAMED = 24  # models in the legend


def fleet(run: FleetMeasurement | FleetSchedule, jobs: Sequence[Job] = (), measured: FleetSchedule | None = None) -> Picture:
    """A run's predicted schedule above its measured one, or the schedule of `jobs` above its `measured` one.

    Forward units are light; a thin line below shows when a unit's state was copied in; units lost with their device are
    hatched. The dashed line is the lower bound on the makespan, from units timed before the run, without units restored
    from a checkpoint.
    """
    if isinstance(run, FleetMeasurement):
        jobs, schedules, bound = run.jobs, {"predicted": run.predicted, "measured": run.schedule}, run.bound
        times = f", {run.policy}: {format_seconds(run.schedule.makespan)} measured, {format_seconds(run.predicted.makespan)} predicted"
    else:
        schedules, bound = {"predicted": run, "measured": measured} if measured else {"schedule": run}, lower_bound(jobs, run.devices)
        times = f": {format_seconds(run.makespan)}"
    title = f"{_on_devices(len(jobs), next(iter(schedules.values())).devices)}{times}"
    about = f"{title}; lower bound {format_seconds(bound)}"
    return Picture(about, lambda: _drawing(title, tuple(schedules.values()), jobs, bound), lambda: _text(about, schedules, jobs))


def _text(about: str, schedules: Mapping[str, FleetSchedule], jobs: Sequence[Job]) -> str:
    return f"{about}\n\n{schedules_text(schedules, [job.name for job in jobs])}"


def _drawing(title: str, schedules: Sequence[FleetSchedule], jobs: Sequence[Job], bound: float) -> Drawing:
    predicted, *measured = schedules
    chart = fleet_chart(jobs, predicted, bound)
    if chart and measured:
        section = run_section(jobs, predicted, bound, RunSoFar(measured[0].placed))
        chart = replace(section, sources={**chart.sources, **section.sources}, spans=(*chart.spans, *section.spans))
    return still_drawing(title, chart and replace(chart, key=(*_models(jobs), *chart.key)))


def _models(jobs: Sequence[Job]) -> Iterator[KeyEntry]:
    for number, job in enumerate(jobs[:_MOST_NAMED]):
        yield KeyEntry(model_colour(number), f"{number + 1} {job.name}")
    if len(jobs) > _MOST_NAMED:
        yield KeyEntry("", f"and {len(jobs) - _MOST_NAMED} more")


def _on_devices(models: int, devices: int) -> str:
    return f"{models} model{'s' * (models != 1)} on {devices} device{'s' * (devices != 1)}"
