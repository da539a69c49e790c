"""Format one propagation step, rejected axis or conflict as text."""

from typing import Protocol

from workbench.core.text_tables import count_text
from workbench.reports import propagation_records as records


class HasValues(Protocol):
    """A propagation replay, whose steps refer to values by number."""

    @property
    def values(self) -> tuple[records.ShardedValue, ...]: ...


def place_text(replay: HasValues, value: int, dim: int) -> str:
    sharded_value = replay.values[value]
    name = sharded_value.dims[dim] if dim < len(sharded_value.dims) and sharded_value.dims[dim] != "_" else f"dimension {dim}"
    return f"{name} of {value_name(sharded_value)}"


def value_name(sharded_value: records.ShardedValue) -> str:
    suffix = {"sharding_constraint": " after its constraint", "data_flow_edge": " as propagated"}.get(sharded_value.kind, "")
    if sharded_value.role == "result":
        return "the result" + (f" {sharded_value.path}" if sharded_value.path not in ("", "result") else "")
    return f"{sharded_value.path or 'a value'}{suffix}"


def axis_propagation_text(replay: HasValues, propagation: records.AxisPropagation) -> str:
    """Format as `step 3, forward: data from batch of x to batch of mlp/dot_general (dot_general, mlp.py:7)`."""
    source, target = (
        place_text(replay, propagation.source, propagation.source_dim),
        place_text(replay, propagation.target, propagation.target_dim),
    )
    kind = {"data_flow_edge": "handed round", "return": "returned"}.get(propagation.kind, propagation.kind)
    over = [kind] + (
        [propagation.over]
        if propagation.over not in ("", propagation.kind, replay.values[propagation.target].path, replay.values[propagation.source].path)
        else []
    )
    where = ", ".join((*over, *filter(None, [propagation.line])))
    return f"step {propagation.step}, {propagation.direction}: {propagation.axis} from {source} to {target} ({where})"


def rejection_text(replay: HasValues, rejected: records.RejectedAxis) -> str:
    line = f" ({rejected.line})" if rejected.line else ""
    over = " ".join(dict.fromkeys(word for word in (rejected.kind, rejected.over) if word))
    return f"`{rejected.wanted.axis}`, {rejected.origin}, over {over}{line}: {_reason_text(replay, rejected)}"


def _reason_text(replay: HasValues, rejected: records.RejectedAxis) -> str:
    rival, axis = rejected.rival, rejected.wanted.axis
    where = place_text(replay, rival.value, rival.dim) if rival else ""
    by = f", by {rejected.rival_origin}" if rejected.rival_origin and rival and rival.axis else ""
    first = _priority_text(rejected)
    if rejected.reason == records.USED_ON_OTHER_DIM:
        return f"{rival.axis if rival else axis} already splits {where}{by}{first}"
    if rejected.reason == records.CONTESTED:
        return f"{where} requests the same axis for another dimension, so neither has it{by}"
    if rejected.reason == records.DIFFERENT_ORDER:
        return f"{rival.axis if rival else 'another axis'} is there, and major axes must agree{by}{first}"
    if rejected.reason == records.CLOSED:
        return f"the dimension is closed {_closed_by_text(rejected.rival_origin)}"
    texts = {
        records.REPLICATED: f"the tensor excludes {axis}",
        records.BLOCKED_BY_OTHER_TENSOR: f"{where} conflicts with it in the same operation{by}",
        records.UNEVEN: "it does not divide this part of the dimension",
        records.MINOR: "it shards only a minor part of this dimension, so shards would not be contiguous",
        records.NOT_PASSED: "the operation does not propagate this dimension",
    }
    return texts[rejected.reason]


def _closed_by_text(origin: records.Origin | None) -> str:
    if origin is None:
        return "there"
    if origin.kind in ("argument", "result"):
        rule = origin.statement if not origin.statement.endswith(":") else f"no rule for `{origin.statement[:-1]}`"
        return f"by the plan ({rule}); an {'argument' if origin.kind == 'argument' else 'output'} is sharded as the plan says"
    return f"by {origin}"


def _priority_text(rejected: records.RejectedAxis) -> str:
    if rejected.rival_origin is None or rejected.rival_origin.priority == rejected.origin.priority:
        return ""
    priority, rival_priority = rejected.origin.priority, rejected.rival_origin.priority
    return f": priority {rival_priority} precedes {priority}" if rival_priority < priority else ""


def conflict_text(replay: HasValues, conflict: records.Conflict) -> str:
    places = count_text(len(conflict.rejections), "place")
    rejected = conflict.first
    at = place_text(replay, rejected.wanted.value, rejected.wanted.dim)
    return (
        f"{conflict.winner} against {conflict.loser}, {conflict.reason}, in {places}; first at {at}: "
        f"`{rejected.wanted.axis}` lost: {_reason_text(replay, rejected)}"
    )
