"""Why a value lies as it does, as plain JSON values."""

from dataclasses import asdict
from typing import Any

from workbench.reports.propagation import AxisPropagation, Conflict, Origin, Propagation, RejectedAxis
from workbench.reports.report import Report
from workbench.text.propagation import MOST_VALUES, alike, rejection_text


def explanation_record(report: Report, value: str) -> list[dict[str, Any]]:
    """One entry for each value that a path or pattern names, alike ones together; what `Report.explain` tells."""
    replay = report.propagation
    return [_value_record(replay, numbers) for numbers in alike(replay, replay.find(value))[:MOST_VALUES]]


def _value_record(replay: Propagation, numbers: tuple[int, ...]) -> dict[str, Any]:
    site = replay.sites[numbers[0]]
    dims = [
        {"name": name, "size": size, "axes": [_axis_record(replay, numbers[0], dim, axis) for axis in site.sharding.dims[dim] or ()]}
        for dim, (name, size) in enumerate(zip(site.dims, site.shape, strict=True))
    ]
    return {
        "path": site.path,
        "role": site.role,
        "kind": site.kind,
        "source": site.source,
        "sharding": str(site.sharding),
        "computed": str(site.computed),
        "count": len(numbers),
        "dims": dims,
        "lost": [_rejection_record(replay, rejected) for rejected in replay.rejections(numbers[0])],
    }


def _axis_record(replay: Propagation, value: int, dim: int, axis: str) -> dict[str, Any]:
    explanation = replay.axis(value, dim, axis)
    return {
        "axis": axis,
        "origin": origin_record(explanation.origin),
        "path": [_move_record(replay, move) for move in explanation.path],
        "others": [origin_record(origin) for origin in explanation.others],
    }


def origin_record(origin: Origin) -> dict[str, Any]:
    """Whose an axis is."""
    return {**{key: each for key, each in asdict(origin).items() if key != "point"}, "axis": origin.axis, "dim": origin.point.dim}


def _move_record(replay: Propagation, move: AxisPropagation) -> dict[str, Any]:
    ends = {
        name: {"path": replay.sites[value].path, "dim": dim}
        for name, value, dim in (("from", move.source, move.source_dim), ("to", move.target, move.target_dim))
    }
    return {"step": move.step, "direction": move.direction, "over": move.over, "kind": move.kind, "source": move.line, **ends}


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
        "first": _rejection_record(replay, conflict.first) | {"path": replay.sites[conflict.first.wanted.value].path},
    }
