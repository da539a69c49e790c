"""Reports as plain JSON values, for `--json` and for scripts that read it. Bytes and seconds, unrounded."""

from dataclasses import asdict
from typing import Any

from workbench.errors import PipelineError
from workbench.hardware.axis_placement import axis_assignment_error, default_axis_assignment
from workbench.reports.padding import Padding
from workbench.reports.placement import Placement
from workbench.reports.report import Report
from workbench.reports.reshard import Reshard


def _device_record(shown: Report) -> dict[str, Any]:
    """What one device holds, sends, computes and waits for."""
    time = shown.step_time
    return {
        "memory": {
            "peak": shown.memory.peak,
            "by_role": {str(role): count for role, count in shown.memory.by_role.items()},
            "host": shown.memory.host,
            "reserved": shown.memory.reserved,
        },
        "host_traffic": shown.host_traffic,
        "sent": shown.sent,
        "traffic": shown.traffic,
        "flops": {
            "unique": shown.flops.unique,
            "per_device": shown.flops.per_device,
            "duplication": shown.flops.duplication,
        },
        "step_time": time
        and {
            "total": time.total,
            "arithmetic": time.arithmetic,
            "memory": time.memory,
            "launch": time.launch,
            "exposed": time.exposed,
            "host": time.host,
            "idle": time.idle,
            "hidden": time.hidden,
            "mfu": time.mfu,
            "hfu": time.hfu,
            "hardware": time.hardware,
            "calibrated": time.calibrated,
            "shares_of": time.shares_of,
        },
    }


def report_record(report: Report) -> dict[str, Any]:
    """All figures of a report; bytes are per device, collectives per step. `tier`: the source of the collectives, `planned` or
    `partitioned`; `ranges`: the intervals of nine of ten true figures, for those that are not settled; `compiled_by`: the compiler that
    gave memory and kernel times, if one did. Of a plan with a pipeline the figures of a device are those of `stage`, the fullest, and
    `stages` has them for each; where it cannot be cut, they are of the program as one."""
    shown = report.most(lambda each: each.memory.peak)
    return {
        "program": report.plan.program.name,
        "plan": report.plan.name,
        "mesh": [list(axis) for axis in report.mesh.axes],
        "devices": report.mesh.size,
        "layout": str(report.plan.layout),
        "hardware": report.plan.hardware and str(report.plan.hardware),
        "axis_assignment": _axis_assignment(report),
        "own_annotations": _annotations_record(report),
        "pipeline": report.plan.pipeline and str(report.plan.pipeline),
        "pipeline_step": _pipeline_step_record(report),
        "remat": str(report.plan.program.remat),
        "precision": str(report.plan.program.precision),
        "offload": str(report.plan.program.offload),
        "stage": shown.stage,
        "stages": [_device_record(each) for each in report.stages] if shown.stage is not None and report.stage is None else [],
        **_device_record(shown),
        "ranges": {name: [each.low, each.high] for name, each in report.ranges.items()},
        "tier": report.prediction.tier,
        "compiled_by": report.compiled and report.compiled.compiler,
        "arguments": [_placement_record(each) for each in shown.arguments],
        "results": [_placement_record(each) for each in report.results],
        "collectives": [{**asdict(each), "axes": list(each.axes)} for each in shown.collectives],
        "reshards": [_reshard_record(each) for each in shown.reshards],
        "padding": [_padding_record(each) for each in shown.padding],
        "diagnostics": [
            {"kind": each.kind, "subject": each.subject, "message": each.message, "edits": [str(edit) for edit in each.edits]}
            for each in report.notes
        ],
    }


def _pipeline_step_record(report: Report) -> dict[str, Any] | None:
    """The figures of the pipeline; the other figures of its plan are of the whole program, on the devices of one stage."""
    try:
        planned = report.pipeline
    except PipelineError:
        return None
    if planned is None:
        return None
    step = planned.simulated
    return {
        "seconds": report.seconds if report.is_one_program else planned.seconds,
        "bubble": step.bubble,
        "balance": planned.balance,
        "peaks": [report.peak] * planned.spec.stages if report.is_one_program else list(step.peaks),
        "fits": report.memory.fits if report.is_one_program else planned.fits,
        "sent": sum(planned.traffic.values()),
        "stages": [{"stage": each.device, "blocks": list(each.blocks)} for each in planned.virtual_stages],
    }


def _annotations_record(report: Report) -> dict[str, Any]:
    """The function's own sharding annotations, as text."""
    annotations = report.source_annotations
    constraints = [{**asdict(each), "sharding": str(each.sharding)} for each in annotations.constraints]
    regions = [
        {**asdict(each), "incoming": [*map(str, each.incoming)], "outgoing": [*map(str, each.outgoing)]} for each in annotations.regions
    ]
    return {"types": {each.path: str(each.sharding) for each in annotations.types}, "constraints": constraints, "regions": regions}


def _axis_assignment(report: Report) -> str | None:
    """The axis assignment, chosen or default; none where there is no hardware or the mesh does not fit it."""
    plan = report.plan
    if plan.hardware is None or axis_assignment_error(plan.mesh, plan.hardware, plan.axis_assignment):
        return None
    return str(plan.axis_assignment or default_axis_assignment(plan.mesh, plan.hardware))


def _reshard_record(reshard: Reshard) -> dict[str, Any]:
    """Bytes are per device, `sent` and `seconds` of all executions of a step; without edits, which are tried on request."""
    return {
        "path": reshard.path,
        "source": reshard.source,
        "reader": reshard.reader,
        "reader_source": reshard.reader_source,
        "shape": list(reshard.shape),
        "dtype": reshard.dtype,
        "from": str(reshard.before),
        "to": str(reshard.after),
        "classes": list(reshard.classes),
        "rematerialises": reshard.rematerialises,
        "collectives": [{**move._asdict(), "axes": list(move.axes)} for move in reshard.moves],
        "temporary": reshard.temporary,
        "count": reshard.count,
        "sent": reshard.sent,
        "seconds": reshard.seconds,
    }


def _padding_record(padding: Padding) -> dict[str, Any]:
    return {
        "path": padding.path,
        "source": padding.source,
        "shape": list(padding.shape),
        "dtype": padding.dtype,
        "on": str(padding.sharding),
        "dim": padding.dim,
        "size": padding.size,
        "axes": list(padding.axes),
        "parts": padding.parts,
        "nearest": list(padding.nearest),
        "count": padding.count,
        "bytes": padding.bytes,
        "wasted_bytes": padding.wasted_bytes,
        "wasted_flops": padding.wasted_flops,
    }


def _placement_record(placement: Placement) -> dict[str, Any]:
    tensor = placement.tensor
    return {
        "path": tensor.path,
        "role": str(tensor.role),
        "dtype": tensor.dtype,
        "shape": list(tensor.shape),
        "dims": list(tensor.dims),
        "sharding": str(placement.sharding),
        "local_shape": list(placement.local_shape),
        "local_bytes": placement.local_bytes,
    }
