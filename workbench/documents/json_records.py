"""Reports, comparisons, runs and fleets as JSON values for `--json` and scripts, in unrounded bytes, seconds and FLOP."""

from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from typing import Any

from workbench.analysis.plan_diff import PlanDiff
from workbench.analysis.tier_comparison import Comparison
from workbench.errors import PipelineError
from workbench.hardware.axis_placement import axis_assignment_error, default_axis_assignment
from workbench.multimodel import FleetSchedule, lower_bound, strategies
from workbench.multimodel.fleet_measurement import FleetMeasurement, FleetTimes
from workbench.reports.compiled import Compiled
from workbench.reports.measurement import Measurement
from workbench.reports.padding import Padding
from workbench.reports.placement import Placement
from workbench.reports.propagation import Propagation
from workbench.reports.propagation_records import AxisPropagation, Conflict, Origin, RejectedAxis
from workbench.reports.propagation_step_text import rejection_text
from workbench.reports.propagation_text import MOST_VALUES, group_alike
from workbench.reports.report import Report
from workbench.reports.reshard import Reshard
from workbench.reports.run_events import finite

Record = dict[str, Any]


def plain(value: Any) -> Any:
    """A value as JSON: records as objects of their fields, or as text if they define `__str__`."""
    if value is None or isinstance(value, bool | int | float):
        return value
    if isinstance(value, Mapping):
        return {str(name): plain(entry) for name, entry in value.items()}
    if hasattr(value, "_asdict") or (is_dataclass(value) and type(value).__str__ is object.__str__):
        return all_fields(value)
    return [plain(entry) for entry in value] if isinstance(value, tuple | list) else str(value)


def all_fields(record: Any) -> Record:
    """All fields of a dataclass or named tuple as JSON."""
    names = record._fields if hasattr(record, "_fields") else [field.name for field in fields(record)]
    return {name: plain(getattr(record, name)) for name in names}


def select(record: Any, names: str) -> Record:
    """Fields and properties of a record as JSON; `names` are separated by spaces."""
    return {name: plain(getattr(record, name)) for name in names.split()}


def _payloads(volumes: Mapping[tuple[tuple[str, ...], str], int]) -> list[Record]:
    return [{"axes": list(axes), "kind": kind, "payload": payload} for (axes, kind), payload in volumes.items()]


def report_record(report: Report) -> Record:
    """All figures of a report; bytes are per device, collectives per step.

    - `tier`: the source of the collectives, `planned` or `partitioned`;
    - `ranges`: 90 % intervals of the figures that are uncertain;
    - `compiled_by`: the compiler that computed memory and kernel times, if any;
    - `stage`, `stages`: for a pipelined plan, the device figures are those of the fullest `stage`, and `stages` has all
      of them; if the program cannot be partitioned into stages, they are those of the whole program.
    """
    plan, shown = report.plan, report.most(lambda each: each.memory.peak)
    return {
        "program": plan.program.name,
        "plan": plan.name,
        "mesh": plain(report.mesh.axes),
        "devices": report.mesh.size,
        "layout": str(plan.layout),
        "hardware": plan.hardware and str(plan.hardware),
        "axis_assignment": _axis_assignment(report),
        "own_annotations": _annotations_record(report),
        "pipeline": plan.pipeline and str(plan.pipeline),
        "pipeline_step": _pipeline_step_record(report),
        **{name: str(getattr(plan.program, name)) for name in ("remat", "precision", "offload")},
        "stage": shown.stage,
        "stages": [_device_record(each) for each in report.stages] if shown.stage is not None and report.stage is None else [],
        **_device_record(shown),
        "ranges": {name: [each.low, each.high] for name, each in report.ranges.items()},
        "tier": report.prediction.tier,
        "compiled_by": report.compiled and report.compiled.compiler,
        "arguments": [_placement_record(each) for each in shown.arguments],
        "results": [_placement_record(each) for each in report.results],
        "collectives": [all_fields(each) for each in shown.collectives],
        "reshards": [_reshard_record(each) for each in shown.reshards],
        "padding": [_padding_record(each) for each in shown.padding],
        "diagnostics": [select(each, "kind subject message edits") for each in report.notes],
    }


def _device_record(shown: Report) -> Record:
    times = "total arithmetic memory launch exposed host idle hidden mfu hfu hardware calibrated shares_of"
    return {
        "memory": select(shown.memory, "peak by_role host reserved"),
        **select(shown, "host_traffic sent traffic"),
        "flops": select(shown.flops, "unique per_device duplication"),
        "step_time": shown.step_time and select(shown.step_time, times),
    }


def _pipeline_step_record(report: Report) -> Record | None:
    try:
        planned = report.pipeline
    except PipelineError:
        return None
    if planned is None:
        return None
    step, is_one = planned.simulated, report.is_one_program
    return {
        "seconds": report.seconds if is_one else planned.seconds,
        "bubble": step.bubble,
        "balance": planned.balance,
        "peaks": [report.peak] * planned.spec.stages if is_one else list(step.peaks),
        "fits": report.memory.fits if is_one else planned.fits,
        "sent": sum(planned.traffic.values()),
        "stages": [{"stage": stage.device, "blocks": list(stage.blocks)} for stage in planned.virtual_stages],
    }


def _annotations_record(report: Report) -> Record:
    annotations = report.source_annotations
    return {
        "types": {annotation.path: str(annotation.sharding) for annotation in annotations.types},
        "constraints": [all_fields(annotation) for annotation in annotations.constraints],
        "regions": [all_fields(annotation) for annotation in annotations.regions],
    }


def _axis_assignment(report: Report) -> str | None:
    """The chosen or default axis assignment; `None` without hardware or if the mesh does not fit it."""
    plan = report.plan
    if plan.hardware is None or axis_assignment_error(plan.mesh, plan.hardware, plan.axis_assignment):
        return None
    return str(plan.axis_assignment or default_axis_assignment(plan.mesh, plan.hardware))


def _reshard_record(reshard: Reshard) -> Record:
    """Bytes are per device, `sent` and `seconds` per step; edits are left out, as they are computed on request."""
    return {
        **select(reshard, "path source reader reader_source shape dtype"),
        "from": str(reshard.before),
        "to": str(reshard.after),
        **select(reshard, "classes rematerialises"),
        "collectives": plain(reshard.moves),
        **select(reshard, "temporary count sent seconds"),
    }


def _padding_record(padding: Padding) -> Record:
    named = select(padding, "dim size axes parts nearest count bytes wasted_bytes wasted_flops")
    return {**select(padding, "path source shape dtype"), "on": str(padding.sharding), **named}


def _placement_record(placement: Placement) -> Record:
    return {**select(placement.tensor, "path role dtype shape dims"), **select(placement, "sharding local_shape local_bytes")}


def comparison_record(comparison: Comparison) -> Record:
    """Figures by tier, collectives by mesh axes and class, and differences with causes."""
    return {
        "plan": str(comparison.report.plan),
        "target": comparison.compiled.target if comparison.compiled else None,
        "figures": [{**all_fields(row), "error": row.error} for row in comparison.figures],
        "collectives": [{**all_fields(row), "close": row.is_close} for row in comparison.collectives],
        "differences": [
            {"cause": row.cause.name, "meaning": row.cause.text, **select(row, "axes kind path source predicted compiled")}
            for row in comparison.differences
        ],
    }


def compiled_record(compiled: Compiled) -> Record:
    """All figures of a compiled plan; payloads are per device and step."""
    return {
        **select(compiled, "target devices compiler compile_seconds from_cache"),
        "memory": {**all_fields(compiled.memory), "peak": compiled.memory.peak},
        "alive_at_peak": [{"path": path, "bytes": count} for path, count in compiled.alive_at_peak],
        **select(compiled, "flops compute_seconds"),
        "payload": _payloads(compiled.by_axis_and_kind),
        **select(compiled, "collectives rematerialised kernels"),
        "stages": [compiled_record(stage) for stage in compiled.stages],
    }


def measurement_record(measurement: Measurement) -> Record:
    """All figures of a run; `compiled` has payloads per device and step; trace events are only counted."""
    trace = measurement.trace
    return {
        **select(measurement, "device_kind devices processes compile_seconds median_seconds"),
        "decile_seconds": plain(measurement.spread_seconds),
        **select(measurement, "predicted_seconds step_seconds losses"),
        "shards": [{**all_fields(check), "agrees": check.agrees} for check in measurement.shards],
        "shards_agree": measurement.shards_agree,
        "compiled": _payloads(measurement.compiled),
        **select(measurement, "compiled_peak device_peak"),
        "max_error": finite(measurement.max_error),
        "explained_error": finite(measurement.explained_error),
        "is_wrong": measurement.is_wrong if measurement.is_judged else None,
        **select(measurement, "first_wrong wrong_text not_numbers"),
        "trace": trace and {**select(trace, "seconds devices operations"), "events": len(trace.events) + trace.events_left_out},
        **select(measurement, "why_untraced tasks task_overhead"),
    }


def plan_diff_record(diff: PlanDiff) -> Record:
    """All rows of a diff; figures are per device and step."""
    return {
        "before": str(diff.before.plan),
        "after": str(diff.after.plan),
        "changes": plain(diff.changes),
        "figures": [{**all_fields(row), "delta": row.delta, "ratio": row.ratio} for row in diff.figures],
        "traffic": [{**all_fields(row), "delta": row.delta} for row in diff.traffic],
        "placements": [{**all_fields(row), "delta": row.delta} for row in diff.placements],
    }


def fleet_record(measured: FleetMeasurement) -> Record:
    """All figures of a fleet run; `placed` is `[model, unit, device, start, end, lost]` per unit."""
    schedule = measured.schedule
    return {
        "models": list(measured.names),
        "policy": measured.policy,
        "devices": schedule.devices,
        "device_kind": measured.device_kind,
        "makespan": schedule.makespan,
        "predicted": measured.predicted.makespan,
        **select(measured, "bound ran_bound"),
        "busy": schedule.busy,
        "strategies": {strategy.name: strategy.seconds for strategy in strategies(measured.jobs, schedule.devices)},
        "shards": dict(zip(measured.names, measured.shards, strict=True)),
        **select(measured, "losses peaks budget moved hidden decision_seconds compile_seconds resumed ended failed"),
        "placed": _placement_rows(schedule),
        "predicted_placed": _placement_rows(measured.predicted),
    }


def simulation_record(times: FleetTimes, devices: int, schedules: Mapping[str, FleetSchedule]) -> Record:
    """All figures of a fleet simulation, with a makespan per policy."""
    return {
        "models": [item.name for item in times.jobs],
        "devices": devices,
        "device_kind": times.device_kind,
        "planned_for": times.planned_for or None,
        "bound": lower_bound(times.jobs, devices),
        "makespans": {name: item.makespan for name, item in schedules.items()},
        "strategies": {item.name: item.seconds for item in strategies(times.jobs, devices)},
        "shards": {job.name: shards for job, shards in zip(times.jobs, times.shards, strict=True)},
        "seconds": {item.name: item.seconds for item in times.jobs},
        "placed": {name: _placement_rows(item) for name, item in schedules.items()},
    }


def _placement_rows(schedule: FleetSchedule) -> list[list[Any]]:
    return [[unit.model, unit.unit, unit.device, unit.start, unit.end, unit.lost] for unit in schedule.placed]


def explanation_record(report: Report, value: str) -> list[Record]:
    """Why the values that match a path or pattern have their shardings (`Report.explain`)."""
    replay = report.propagation
    return [_value_record(replay, numbers) for numbers in group_alike(replay, replay.find(value))[:MOST_VALUES]]


def _value_record(replay: Propagation, numbers: tuple[int, ...]) -> Record:
    first = numbers[0]
    value = replay.values[first]
    dims = [
        {"name": name, "size": size, "axes": [_axis_record(replay, first, dim, axis) for axis in value.sharding.dims[dim] or ()]}
        for dim, (name, size) in enumerate(zip(value.dims, value.shape, strict=True))
    ]
    return {
        **select(value, "path role kind source sharding computed"),
        "count": len(numbers),
        "dims": dims,
        "lost": [_rejection_record(replay, rejected) for rejected in replay.rejections(first)],
    }


def _axis_record(replay: Propagation, value: int, dim: int, axis: str) -> Record:
    explanation = replay.axis(value, dim, axis)
    return {
        "axis": axis,
        "origin": origin_record(explanation.origin),
        "path": [_axis_propagation_record(replay, propagation) for propagation in explanation.path],
        "others": [origin_record(origin) for origin in explanation.others],
    }


def origin_record(origin: Origin) -> Record:
    return {**select(origin, "kind path statement source priority axis"), "dim": origin.axis_on_dim.dim}


def _axis_propagation_record(replay: Propagation, propagation: AxisPropagation) -> Record:
    return {
        **select(propagation, "step direction over kind"),
        "source": propagation.line,
        "from": {"path": replay.values[propagation.source].path, "dim": propagation.source_dim},
        "to": {"path": replay.values[propagation.target].path, "dim": propagation.target_dim},
    }


def _rejection_record(replay: Propagation, rejected: RejectedAxis) -> Record:
    return {
        **select(rejected.wanted, "axis dim"),
        "origin": origin_record(rejected.origin),
        "reason": rejected.reason,
        "rival": rejected.rival_origin and origin_record(rejected.rival_origin),
        "text": rejection_text(replay, rejected),
    }


def conflict_record(replay: Propagation, conflict: Conflict) -> Record:
    return {
        "winner": origin_record(conflict.winner),
        "loser": origin_record(conflict.loser),
        "reason": conflict.reason,
        "places": len(conflict.rejections),
        "first": _rejection_record(replay, conflict.first) | {"path": replay.values[conflict.first.wanted.value].path},
    }
