"""Format the explanation of a value's sharding, and the conflicts, as text."""

from collections.abc import Callable, Iterator, Sequence

from workbench.core.path_patterns import is_line, template
from workbench.core.sharding import base_axis
from workbench.core.text_tables import count_text, wrap_text
from workbench.errors import unknown_name
from workbench.plan.edits import Edit
from workbench.reports.propagation import Propagation, PropagationError
from workbench.reports.propagation_records import Conflict, Explanation, ShardedValue
from workbench.reports.propagation_step_text import axis_propagation_text, conflict_text, rejection_text

MOST_VALUES = 4  # per pattern
_FIRST, _LAST = 3, 2  # listed steps at both ends of a long path
_MOST_REJECTIONS = 6
_MOST_OTHERS = 3


def explanation_text(replay: Propagation, value: str, dim: int | str | None = None) -> str:
    groups = group_alike(replay, replay.find(value))
    explanation = ["\n".join(_value_lines(replay, numbers, find_dims(replay.values[numbers[0]], dim))) for numbers in groups[:MOST_VALUES]]
    if len(groups) > MOST_VALUES:
        others = list(dict.fromkeys(accepted_name(replay.values[numbers[0]], value) for numbers in groups[MOST_VALUES:]))
        names = ", ".join(f"`{name}`" for name in others[:MOST_VALUES])
        explanation.append(f"`{value}` also names {names}" + (" and more." if len(others) > MOST_VALUES else "."))
    return "\n\n".join(explanation)


def accepted_name(sharded_value: ShardedValue, pattern: str) -> str:
    """Return a name that distinguishes a value from other matches of the pattern: its path, or its line and path."""
    by_line = sharded_value.role == "value" and sharded_value.source and not sharded_value.path.startswith("grad/")
    return (
        f"{sharded_value.source}/{sharded_value.path}"
        if by_line and (sharded_value.path == pattern or not is_line(pattern))
        else sharded_value.path
    )


def group_alike(replay: Propagation, numbers: Sequence[int]) -> list[tuple[int, ...]]:
    """Group values of repeated layers, or of one path, with the same sharding; the first represents the group."""
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
    alike = [tuple(group) for group in groups.values()]
    return alike or [tuple(numbers)]


def find_dims(sharded_value: ShardedValue, dim: int | str | None) -> tuple[int, ...]:
    """Return the requested dimensions by index or name. Raises `PropagationError` if there is none."""
    all_dims = tuple(range(len(sharded_value.shape)))
    if dim is None:
        return all_dims
    matches = tuple(i for i in all_dims if str(dim) in (str(i), sharded_value.dims[i]))
    if not matches:
        raise PropagationError(*unknown_name("dimension", str(dim), sharded_value.dims, f" of `{sharded_value.path}`"))
    return matches


def _value_lines(replay: Propagation, numbers: tuple[int, ...], dims: tuple[int, ...]) -> Iterator[str]:
    number = numbers[0]
    sharded_value = replay.values[number]
    yield f"{value_text(sharded_value)}, sharded as {sharded_value.sharding}" + (
        f", and {len(numbers) - 1} similar values" if len(numbers) > 1 else ""
    )
    if sharded_value.computed != sharded_value.sharding:
        yield f"  Its operation computes it as {sharded_value.computed}; a reshard follows."
    rejections = replay.rejections(number)
    for dim in dims:
        axes = sharded_value.sharding.dims[dim] or ()
        yield f"  {_dim_text(sharded_value, dim)}: {' then '.join(axes) or 'whole'}"
        for axis in axes:
            yield from _axis_lines(replay, replay.axis(number, dim, axis))
        lost = tuple(rejected for rejected in rejections if rejected.wanted.dim == dim)
        if not axes and not lost:
            yield "    no statement or operation shards it"
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
    if any(str(other) != str(explanation.origin) for other in explanation.others):
        yield f"      without it, `{base_axis(explanation.axis_on_dim.axis)}` could still come from {_others_text(explanation)}"


def _others_text(explanation: Explanation) -> str:
    """Format origins by statement, since a statement covers an argument and the result it becomes."""
    places: dict[str, dict[str, None]] = {}
    for origin in explanation.others:
        if str(origin) != str(explanation.origin):
            places.setdefault(origin.statement or origin.kind, {})[str(origin)] = None
    phrases = [
        next(iter(origins)) + (f" and {count_text(len(origins) - 1, 'other place')}" if len(origins) > 1 else "")
        for origins in places.values()
    ]
    return " or ".join(phrases[:_MOST_OTHERS]) + (
        f" or {count_text(len(phrases) - _MOST_OTHERS, 'other statement')}" if len(phrases) > _MOST_OTHERS else ""
    )


def value_text(sharded_value: ShardedValue) -> str:
    """Format as `mlp/dot_general: dot_general [batch=16, d_ff=64], mlp.py:7`."""
    dims = ", ".join(
        str(size) if name == "_" else f"{name}={size}" for name, size in zip(sharded_value.dims, sharded_value.shape, strict=True)
    )
    kind = {"input": "argument", "sharding_constraint": "after a constraint"}.get(sharded_value.kind, sharded_value.kind)
    return f"{sharded_value.path or 'a value'}: {kind} [{dims}]" + (f", {sharded_value.source}" if sharded_value.source else "")


def _dim_text(sharded_value: ShardedValue, dim: int) -> str:
    name = sharded_value.dims[dim]
    return f"{'dimension ' + str(dim) if name == '_' else name} ({sharded_value.shape[dim]:,})"


def conflicts_text(replay: Propagation, resolving_edits: Callable[[Conflict], Sequence[Edit]]) -> str:
    """Format all conflicts with the edits that reverse them; trying the edits takes a moment each."""
    if not replay.conflicts:
        return f"No conflict: in {count_text(len(replay.steps), 'step')} no axis was rejected."
    explanation = []
    for conflict in replay.conflicts:
        edits = resolving_edits(conflict)
        ways = " · ".join(map(str, edits)) or "only a change of the function or the mesh"
        explanation.append(
            "\n".join([wrap_text(conflict_text(replay, conflict)), wrap_text(f"to resolve it the other way: {ways}", "    ", "  ")])
        )
    return "\n\n".join(explanation)
