"""A fleet's run and its simulation as plain JSON values. Seconds and bytes, not rounded."""

from collections.abc import Mapping
from typing import Any

from workbench.multimodel import FleetSchedule, lower_bound, strategies
from workbench.multimodel.fleet_measurement import FleetMeasurement, FleetTimes


def fleet_record(measured: FleetMeasurement) -> dict[str, Any]:
    """All figures of a run; `placed` is `[model, unit, device, start, end, lost]` per unit."""
    return {
        "models": list(measured.names),
        "policy": measured.policy,
        "devices": measured.schedule.devices,
        "device_kind": measured.device_kind,
        "makespan": measured.schedule.makespan,
        "predicted": measured.predicted.makespan,
        "bound": measured.bound,
        "ran_bound": measured.ran_bound,
        "busy": measured.schedule.busy,
        "strategies": {each.name: each.seconds for each in strategies(measured.jobs, measured.schedule.devices)},
        "shards": dict(zip(measured.names, measured.shards, strict=True)),
        "losses": {name: list(losses) for name, losses in measured.losses.items()},
        "peaks": list(measured.peaks),
        "budget": measured.budget,
        "moved": measured.moved,
        "hidden": measured.hidden,
        "decision_seconds": measured.decision_seconds,
        "compile_seconds": measured.compile_seconds,
        "resumed": measured.resumed,
        "ended": dict(measured.ended),
        "failed": list(measured.failed),
        "placed": _placement_rows(measured.schedule),
        "predicted_placed": _placement_rows(measured.predicted),
    }


def simulation_record(times: FleetTimes, devices: int, schedules: Mapping[str, FleetSchedule]) -> dict[str, Any]:
    """All figures of a simulation; a makespan per policy."""
    return {
        "models": [each.name for each in times.jobs],
        "devices": devices,
        "device_kind": times.device_kind,
        "planned_for": times.planned_for or None,
        "bound": lower_bound(times.jobs, devices),
        "makespans": {name: each.makespan for name, each in schedules.items()},
        "strategies": {each.name: each.seconds for each in strategies(times.jobs, devices)},
        "shards": {job.name: shards for job, shards in zip(times.jobs, times.shards, strict=True)},
        "seconds": {each.name: each.seconds for each in times.jobs},
        "placed": {name: _placement_rows(each) for name, each in schedules.items()},
    }


def _placement_rows(schedule: FleetSchedule) -> list[list[Any]]:
    return [[each.model, each.unit, each.device, each.start, each.end, each.lost] for each in schedule.placed]
