"""Why a value is sharded as it is, as plain JSON values."""

from dataclasses import asdict
from typing import Any

from workbench.reports.propagation import Propagation
from workbench.reports.propagation_records import AxisPropagation, Conflict, Origin, RejectedAxis
from workbench.reports.propagation_step_text import rejection_text
from workbench.reports.propagation_text import MOST_VALUES, group_alike
from workbench.reports.report import Report


def explanation_record(report: Report, value: str) -> list[dict[str, Any]]:
    """One entry for each value that a path or pattern names, equal ones together; the content of `Report.explain`."""
    replay = report.propagation
    return [_value_record(replay, numbers) for numbers in group_alike(replay, replay.find(value))[:MOST_VALUES]]


def _value_record(replay: Propagation, numbers: tuple[int, ...]) -> dict[str, Any]:
    sharded_value = replay.values[numbers[0]]
    dims = [
        {
            "name": name,
            "size": size,
            "axes": [_axis_record(replay, numbers[0], dim, axis) for axis in sharded_value.sharding.dims[dim] or ()],
        }
        for dim, (name, size) in enumerate(zip(sharded_value.dims, sharded_value.shape, strict=True))
    ]
    return {
        "path": sharded_value.path,
        "role": sharded_value.role,
        "kind": sharded_value.kind,
        "source": sharded_value.source,
        "sharding": str(sharded_value.sharding),
        "computed": str(sharded_value.computed),
        "count": len(numbers),
        "dims": dims,
        "lost": [_rejection_record(replay, rejected) for rejected in replay.rejections(numbers[0])],
    }


def _axis_record(replay: Propagation, value: int, dim: int, axis: str) -> dict[str, Any]:
    explanation = replay.axis(value, dim, axis)
    return {
        "axis": axis,
        "origin": origin_record(explanation.origin),
        "path": [_axis_propagation_record(replay, propagation) for propagation in explanation.path],
        "others": [origin_record(origin) for origin in explanation.others],
    }


def origin_record(origin: Origin) -> dict[str, Any]:
    """The origin of an axis."""
    return {
        **{key: each for key, each in asdict(origin).items() if key != "axis_on_dim"},
        "axis": origin.axis,
        "dim": origin.axis_on_dim.dim,
    }


def _axis_propagation_record(replay: Propagation, propagation: AxisPropagation) -> dict[str, Any]:
    ends = {
        name: {"path": replay.values[value].path, "dim": dim}
        for name, value, dim in (("from", propagation.source, propagation.source_dim), ("to", propagation.target, propagation.target_dim))
    }
    return {
        "step": propagation.step,
        "direction": propagation.direction,
        "over": propagation.over,
        "kind": propagation.kind,
        "source": propagation.line,
        **ends,
    }


def _rejection_record(replay: Propagation, rejected: RejectedAxis) -> dict[str, Any]:
    return {
        "axis": rejected.wanted.axis,
        "dim": rejected.wanted.dim,
        "origin": origin_record(rejected.origin),
        "reason": rejected.reason,
        "rival": rejected.rival_origin and origin_record(rejected.rival_origin),
        "text": rejection_text(replay, rejected),
    }


def conflict_record(replay: Propagation, conflict: Conflict) -> dict[str, Any]:
    """Both sides of a conflict."""
    return {
        "winner": origin_record(conflict.winner),
        "loser": origin_record(conflict.loser),
        "reason": conflict.reason,
        "places": len(conflict.rejections),
        "first": _rejection_record(replay, conflict.first) | {"path": replay.values[conflict.first.wanted.value].path},
    }
