"""A propagation in words: why a value is sharded as it is, every step of the replay, the conflicts."""

from collections.abc import Iterator, Sequence

from workbench.analysis.conflict_remedies import resolving_edits
from workbench.core.path_patterns import template
from workbench.core.selectors import is_line
from workbench.core.sharding import base_axis
from workbench.core.text_tables import count_text, wrap_text
from workbench.errors import unknown_name
from workbench.reports.propagation import Propagation, PropagationError
from workbench.reports.propagation_records import (
    BLOCKED_BY_OTHER_TENSOR,
    CLOSED,
    CONTESTED,
    DIFFERENT_ORDER,
    MINOR,
    NOT_PASSED,
    REPLICATED,
    UNEVEN,
    USED_ON_OTHER_DIM,
    AxisPropagation,
    Conflict,
    Explanation,
    Origin,
    RejectedAxis,
    ShardedValue,
)
from workbench.reports.report import Report

MOST_VALUES = 4  # of one pattern
_FIRST, _LAST = 3, 2  # steps of a long path that are listed
_MOST_REJECTIONS = 6
_MOST_OTHERS = 3


def explanation_text(report: Report, value: str, dim: int | str | None = None) -> str:
    """Why a value is sharded as it is; see `Report.explain`."""
    if not value:
        return conflicts_text(report)
    replay = report.propagation
    groups = group_alike(replay, replay.find(value))
    explanation = ["\n".join(_value_lines(replay, numbers, find_dims(replay.values[numbers[0]], dim))) for numbers in groups[:MOST_VALUES]]
    if len(groups) > MOST_VALUES:
        others = list(dict.fromkeys(accepted_name(replay.values[each[0]], value) for each in groups[MOST_VALUES:]))
        shown = ", ".join(f"`{each}`" for each in others[:MOST_VALUES])
        explanation.append(f"`{value}` also names {shown}" + (" and more." if len(others) > MOST_VALUES else "."))
    return "\n\n".join(explanation)


def accepted_name(sharded_value: ShardedValue, pattern: str) -> str:
    """A name for a value that distinguishes it from others matched by the same pattern: its path, or its line with it."""
    by_line = sharded_value.role == "value" and sharded_value.source and not sharded_value.path.startswith("grad/")
    return (
        f"{sharded_value.source}/{sharded_value.path}"
        if by_line and (sharded_value.path == pattern or not is_line(pattern))
        else sharded_value.path
    )


def group_alike(replay: Propagation, numbers: Sequence[int]) -> list[tuple[int, ...]]:
    """Groups of values of repeated layers, or of one path, with the same sharding; the first of each stands for all."""
    groups: dict[object, list[int]] = {}
    for number in numbers:
        sharded_value = replay.values[number]
        if sharded_value.kind != "data_flow_edge" or sharded_value.role != "value":
            key = (
                sharded_value.role,
                template(sharded_value.path),
                sharded_value.kind,
                sharded_value.shape,
                sharded_value.source,
                sharded_value.sharding,
                sharded_value.computed,
            )
            groups.setdefault(key, []).append(number)
    found = [tuple(group) for group in groups.values()]
    return found or [tuple(numbers)]


def find_dims(sharded_value: ShardedValue, dim: int | str | None) -> tuple[int, ...]:
    """The requested dimensions, by index or name. Raises `PropagationError` if there is none."""
    every = tuple(range(len(sharded_value.shape)))
    if dim is None:
        return every
    found = tuple(each for each in every if str(dim) in (str(each), sharded_value.dims[each]))
    if not found:
        raise PropagationError(*unknown_name("dimension", str(dim), sharded_value.dims, f" of `{sharded_value.path}`"))
    return found


def _value_lines(replay: Propagation, numbers: tuple[int, ...], dims: tuple[int, ...]) -> Iterator[str]:
    number = numbers[0]
    sharded_value = replay.values[number]
    yield f"{value_text(sharded_value)}, sharded as {sharded_value.sharding}" + (
        f", and {len(numbers) - 1} more like it" if len(numbers) > 1 else ""
    )
    if sharded_value.computed != sharded_value.sharding:
        yield f"  Its operation computes it as {sharded_value.computed}; it is resharded behind it."
    rejections = replay.rejections(number)
    for dim in dims:
        axes = sharded_value.sharding.dims[dim] or ()
        yield f"  {_dim_text(sharded_value, dim)}: {' then '.join(axes) or 'whole'}"
        for axis in axes:
            yield from _axis_lines(replay, replay.axis(number, dim, axis))
        lost = tuple(rejected for rejected in rejections if rejected.wanted.dim == dim)
        if not axes and not lost:
            yield "    no statement or operation splits it"
        yield from (f"    rejected: {rejection_text(replay, rejected)}" for rejected in lost[:_MOST_REJECTIONS])
        if len(lost) > _MOST_REJECTIONS:
            yield f"    and {count_text(len(lost) - _MOST_REJECTIONS, 'more rejected axis', 'more rejected axes')}"


def _axis_lines(replay: Propagation, explanation: Explanation) -> Iterator[str]:
    yield f"    `{explanation.axis_on_dim.axis}` is from {explanation.origin}"
    path = explanation.path
    hidden = len(path) - _FIRST - _LAST
    for propagation in path if hidden <= 1 else path[:_FIRST]:
        yield f"      {axis_propagation_text(replay, propagation)}"
    if hidden > 1:
        yield f"      ... {hidden} more steps ..."
        yield from (f"      {axis_propagation_text(replay, propagation)}" for propagation in path[-_LAST:])
    if any(str(each) != str(explanation.origin) for each in explanation.others):
        yield f"      without it, `{base_axis(explanation.axis_on_dim.axis)}` could still come from {_others_text(explanation)}"


def _others_text(explanation: Explanation) -> str:
    """Origins by their statements: `batch:data` on x and 3 other places. A statement covers an argument and the result it becomes."""
    places: dict[str, dict[str, None]] = {}
    for origin in explanation.others:
        if str(origin) != str(explanation.origin):
            places.setdefault(origin.statement or origin.kind, {})[str(origin)] = None
    each = [next(iter(same)) + (f" and {count_text(len(same) - 1, 'other place')}" if len(same) > 1 else "") for same in places.values()]
    return " or ".join(each[:_MOST_OTHERS]) + (
        f" or {count_text(len(each) - _MOST_OTHERS, 'other statement')}" if len(each) > _MOST_OTHERS else ""
    )


def value_text(sharded_value: ShardedValue) -> str:
    """`mlp/dot_general: dot_general [batch=16, d_ff=64], mlp.py:7`."""
    dims = ", ".join(
        str(size) if name == "_" else f"{name}={size}" for name, size in zip(sharded_value.dims, sharded_value.shape, strict=True)
    )
    kind = {"input": "argument", "sharding_constraint": "behind a constraint"}.get(sharded_value.kind, sharded_value.kind)
    return f"{sharded_value.path or 'a value'}: {kind} [{dims}]" + (f", {sharded_value.source}" if sharded_value.source else "")


def _dim_text(sharded_value: ShardedValue, dim: int) -> str:
    name = sharded_value.dims[dim]
    return f"{'dimension ' + str(dim) if name == '_' else name} ({sharded_value.shape[dim]:,})"


def _place_text(replay: Propagation, value: int, dim: int) -> str:
    sharded_value = replay.values[value]
    name = sharded_value.dims[dim] if dim < len(sharded_value.dims) and sharded_value.dims[dim] != "_" else f"dimension {dim}"
    return f"{name} of {value_name(sharded_value)}"


def value_name(sharded_value: ShardedValue) -> str:
    """A value by its path; a result of an unnamed operation by what that does."""
    behind = {"sharding_constraint": " behind its constraint", "data_flow_edge": " as it is handed round"}.get(sharded_value.kind, "")
    if sharded_value.role == "result":
        return "the result" + (f" {sharded_value.path}" if sharded_value.path not in ("", "result") else "")
    return f"{sharded_value.path or 'a value'}{behind}"


def axis_propagation_text(replay: Propagation, propagation: AxisPropagation) -> str:
    """`step 3, forward: data from batch of x to batch of mlp/dot_general (dot_general, mlp.py:7)`."""
    source, target = (
        _place_text(replay, propagation.source, propagation.source_dim),
        _place_text(replay, propagation.target, propagation.target_dim),
    )
    kind = {"data_flow_edge": "handed round", "return": "returned"}.get(propagation.kind, propagation.kind)
    over = [kind] + (
        [propagation.over]
        if propagation.over not in ("", propagation.kind, replay.values[propagation.target].path, replay.values[propagation.source].path)
        else []
    )
    where = ", ".join((*over, *filter(None, [propagation.line])))
    return f"step {propagation.step}, {propagation.direction}: {propagation.axis} from {source} to {target} ({where})"


def replay_text(replay: Propagation) -> str:
    """The whole replay, one line per step, and the shardings before the first step."""
    by_hand: dict[str, None] = {}
    for point, origin in replay.origins.items():
        by_hand[f"by hand: {point.axis} splits {_place_text(replay, point.value, point.dim)}, {origin}"] = None
    return "\n".join([*by_hand, *(axis_propagation_text(replay, propagation) for propagation in replay.axis_propagations)])


def rejection_text(replay: Propagation, rejected: RejectedAxis) -> str:
    """The statement of a rejected axis, and what rejected it."""
    line = f" ({rejected.line})" if rejected.line else ""
    over = " ".join(dict.fromkeys(word for word in (rejected.kind, rejected.over) if word))
    return f"`{rejected.wanted.axis}`, {rejected.origin}, over {over}{line}: {_reason_text(replay, rejected)}"


def _reason_text(replay: Propagation, rejected: RejectedAxis) -> str:
    rival, axis = rejected.rival, rejected.wanted.axis
    where = _place_text(replay, rival.value, rival.dim) if rival else ""
    by = f", by {rejected.rival_origin}" if rejected.rival_origin and rival and rival.axis else ""
    first = _priority_text(rejected)
    if rejected.reason == USED_ON_OTHER_DIM:
        return f"{rival.axis if rival else axis} already splits {where}{by}{first}"
    if rejected.reason == CONTESTED:
        return f"{where} gives the same axis to another dimension, so that neither has it{by}"
    if rejected.reason == DIFFERENT_ORDER:
        return f"{rival.axis if rival else 'another axis'} is there, and major axes must agree{by}{first}"
    if rejected.reason == CLOSED:
        return f"the dimension is closed {_closed_by_text(rejected.rival_origin)}"
    texts = {
        REPLICATED: f"the tensor keeps {axis} out",
        BLOCKED_BY_OTHER_TENSOR: f"{where} stands against it in the same operation{by}",
        UNEVEN: "it does not divide this part of the dimension",
        MINOR: "it splits only a minor part of what is one dimension here, and that would not be one contiguous part for each device",
        NOT_PASSED: "the operation does not propagate this dimension",
    }
    return texts[rejected.reason]


def _closed_by_text(origin: Origin | None) -> str:
    if origin is None:
        return "there"
    if origin.kind in ("argument", "result"):
        rule = origin.statement if not origin.statement.endswith(":") else f"no rule for `{origin.statement[:-1]}`"
        return f"by the plan ({rule}); an {'argument' if origin.kind == 'argument' else 'output'} is sharded as the plan says"
    return f"by {origin}"


def _priority_text(rejected: RejectedAxis) -> str:
    """A note where priorities decided."""
    if rejected.rival_origin is None or rejected.rival_origin.priority == rejected.origin.priority:
        return ""
    mine, theirs = rejected.origin.priority, rejected.rival_origin.priority
    return f": priority {theirs} goes before {mine}" if theirs < mine else ""


def conflict_text(replay: Propagation, conflict: Conflict) -> str:
    """Both sides, and where they first met."""
    places = count_text(len(conflict.rejections), "place")
    rejected = conflict.first
    at = _place_text(replay, rejected.wanted.value, rejected.wanted.dim)
    return (
        f"{conflict.winner} against {conflict.loser}, {conflict.reason}, in {places}; first at {at}: "
        f"`{rejected.wanted.axis}` lost, for {_reason_text(replay, rejected)}"
    )


def conflicts_text(report: Report) -> str:
    """All conflicts, each with the edits that would resolve it the other way; those are tried, which takes a moment each."""
    replay = report.propagation
    if not replay.conflicts:
        return f"No conflict: in {count_text(len(replay.steps), 'step')} no axis was rejected."
    explanation = []
    for conflict in replay.conflicts:
        edits = resolving_edits(report, conflict)
        ways = " · ".join(map(str, edits)) or "only a change of the function, or of the mesh"
        explanation.append(
            "\n".join([wrap_text(conflict_text(replay, conflict)), wrap_text(f"to decide it the other way: {ways}", "    ", "  ")])
        )
    return "\n\n".join(explanation)
