"""The effect of a drop, and why a dimension may not go there: checked before the drop, in words short enough for a zone."""

from collections.abc import Iterator
from dataclasses import replace

from workbench.core.program import Program
from workbench.core.tensor import Tensor
from workbench.plan.layout_legality import first_fault
from workbench.plan.plan import Plan
from workbench.plan.sharding_legality import brief_fault

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


def one_of_each_kind(plan: Plan) -> Program:
    """The program with one argument of each kind, for checking drops: equal layers are checked once."""
    kinds: dict[object, Tensor] = {}
    for tensor in plan.program.arguments:
        kinds.setdefault((tensor.dims, tensor.shape, plan.layout.override(tensor.path)), tensor)
    return replace(plan.program, arguments=tuple(kinds.values()))
