"""Effect and legality of a drop, checked before the drop and worded briefly enough for a zone."""

from collections.abc import Iterator
from dataclasses import replace

from workbench.core.path_patterns import matches
from workbench.core.program import Program
from workbench.core.tensor import Tensor
from workbench.core.text_tables import count_text
from workbench.plan.edits import Edit, EditGroup, Override, ShardDim
from workbench.plan.layout_legality import first_fault
from workbench.plan.plan import Plan
from workbench.plan.sharding_legality import brief_fault
from workbench.reports.diagnostic import Diagnostic

NO_EFFECT = "no effect"
"""Diagnostic kind for a rule that has no effect."""
WHOLE = "*"
"""Source zone of a table chip, which stands for the dimension with all its axes; a board chip stands for one axis."""


def dropped_axes(axes: tuple[str, ...], source: str, target: str, *, add: bool) -> tuple[str, ...]:
    """Return the axes of a dimension after its chip in zone `source` is dropped on zone `target` (`""` is unsharded).

    >>> dropped_axes(("data", "model"), "data", "pipe", add=False)  # moving takes the old axis's place
    ('pipe', 'model')
    >>> dropped_axes(("data",), "data", "model", add=True)  # adding splits further: minor to what is there
    ('data', 'model')
    >>> dropped_axes(("data", "model"), "model", "data", add=False)  # onto another of its own axes: the order changes
    ('model', 'data')
    >>> dropped_axes(("data", "model"), "data", "", add=False)  # only the chip that was dragged goes
    ('model',)
    >>> dropped_axes(("data", "model"), "*", "pipe", add=False)  # the whole dimension goes
    ('pipe',)
    """
    if source == WHOLE and not add:
        return (target,) if target else ()
    if not target:
        return tuple(axis for axis in axes if axis != source)
    if source in axes and target in axes and not add:
        rest = [axis for axis in axes if axis != source]
        rest.insert(axes.index(target), source)
        return tuple(rest)
    if add or not source:
        return axes if target in axes else (*axes, target)
    return tuple(dict.fromkeys(target if axis == source else axis for axis in axes))


def illegal_drops(plan: Plan, judge: Program, dim: str, source: str) -> Iterator[tuple[str, dict[str, str]]]:
    """Yield the zones that refuse this chip, with the reasons for moving it and for adding the axis."""
    axes = plan.layout.rule(dim)
    for target in ("", *plan.mesh.names):
        reasons = {
            verb: reason
            for verb, add in (("move", False), ("add", True))
            if (reason := brief_reason(plan, judge, dim, dropped_axes(axes, source, target, add=add)))
        }
        if reasons:
            yield target, reasons


def brief_reason(plan: Plan, judge: Program, dim: str, axes: tuple[str, ...]) -> str | None:
    """Return why `dim` may not be sharded over `axes`, briefly (`2048 % 3 = 2`); `None` if it may."""
    if set(axes) <= set(plan.layout.rule(dim)):  # fewer parts, or another order: still divides evenly
        return None
    fault = first_fault(judge, plan.mesh, plan.layout, dim, axes)
    return brief_fault(fault[1], fault[0], dim) if fault else None


def rule_without_effect(plan: Plan, edit: Edit | None) -> Diagnostic | None:
    """Warn that an edit's rule has no effect because overrides shard every tensor with its dimension."""
    if not isinstance(edit, ShardDim):
        return None
    tensors = [tensor for tensor in plan.program.arguments if edit.dim in tensor.dims]
    overriding = [_overriding(plan, tensor) for tensor in tensors]
    patterns = dict.fromkeys(filter(None, overriding))
    if not patterns or None in overriding:
        return None
    removal = EditGroup(f"remove {count_text(len(patterns), 'override')}", tuple(Override(pattern, None) for pattern in patterns))
    message = (
        f"`{edit}` changes nothing: overrides state the sharding of {'all ' * (len(tensors) > 1)}{count_text(len(tensors), 'tensor')} with "
        f"`{edit.dim}`: {', '.join(f'`{pattern}`' for pattern in list(patterns)[:3])}{' and others' * (len(patterns) > 3)}."
    )
    return Diagnostic(NO_EFFECT, f"no effect: {count_text(len(patterns), 'override')}", message, (removal,))


def _overriding(plan: Plan, tensor: Tensor) -> str | None:
    """Return the pattern of the override that states a tensor's sharding; `None` without one."""
    requested = plan.layout.override_of(tensor)
    stated = (pattern for pattern, sharding in reversed(plan.layout.overrides) if sharding == requested and matches(pattern, tensor.path))
    return next(stated, None)


def distinct_arguments(plan: Plan) -> Program:
    """Keep one argument of each kind, so that drops on equal layers are checked once."""
    kinds: dict[object, Tensor] = {}
    for tensor in plan.program.arguments:
        kinds.setdefault((tensor.dims, tensor.shape, plan.layout.override(tensor.path)), tensor)
    return replace(plan.program, arguments=tuple(kinds.values()))
