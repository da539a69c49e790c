"""The effect of a drop, and why a dimension may not go there: checked before the drop, in words short enough for a zone."""

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
"""The kind of the notice that a rule has none."""
WHOLE = "*"
"""The source zone of a chip of the tables: the dimension with all its axes, where a chip of the board is one of them."""


def dropped_axes(axes: tuple[str, ...], source: str, target: str, *, add: bool) -> tuple[str, ...]:
    """The axes of a dimension after its chip in zone `source` is dropped on zone `target` (`""` is unsharded).

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
    """The zones that refuse this chip: by moving, and by adding the axis to those it has."""
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
    """Why `dim` may not be sharded over `axes`, short enough for a drop zone: `2048 % 3 = 2`; `None` if it may."""
    if set(axes) <= set(plan.layout.rule(dim)):  # fewer parts, or the same in another order: it still divides
        return None
    found = first_fault(judge, plan.mesh, plan.layout, dim, axes)
    return brief_fault(found[1], found[0], dim) if found else None


def rule_without_effect(plan: Plan, edit: Edit | None) -> Diagnostic | None:
    """That the rule which an edit states changes nothing, because overrides state the sharding of every argument with its dimension; with
    the edit that removes them. `None` where the rule has an effect."""
    if not isinstance(edit, ShardDim):
        return None
    having = [tensor for tensor in plan.program.arguments if edit.dim in tensor.dims]
    overriding = [_overriding(plan, tensor) for tensor in having]
    patterns = dict.fromkeys(filter(None, overriding))
    if not patterns or None in overriding:
        return None
    removal = EditGroup(f"remove {count_text(len(patterns), 'override')}", tuple(Override(pattern, None) for pattern in patterns))
    message = (
        f"`{edit}` changes nothing: overrides state the sharding of {'all ' * (len(having) > 1)}{count_text(len(having), 'tensor')} with "
        f"`{edit.dim}`: {', '.join(f'`{pattern}`' for pattern in list(patterns)[:3])}{' and others' * (len(patterns) > 3)}."
    )
    return Diagnostic(NO_EFFECT, f"no effect: {count_text(len(patterns), 'override')}", message, (removal,))


def _overriding(plan: Plan, tensor: Tensor) -> str | None:
    """The pattern of the override that states a tensor's sharding; `None` without one."""
    given = plan.layout.override_of(tensor)
    stated = (pattern for pattern, each in reversed(plan.layout.overrides) if each == given and matches(pattern, tensor.path))
    return next(stated, None)


def one_of_each_kind(plan: Plan) -> Program:
    """The program with one argument of each kind, for checking drops: equal layers are checked once."""
    kinds: dict[object, Tensor] = {}
    for tensor in plan.program.arguments:
        kinds.setdefault((tensor.dims, tensor.shape, plan.layout.override(tensor.path)), tensor)
    return replace(plan.program, arguments=tuple(kinds.values()))
