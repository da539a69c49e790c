"""Edits that resolve a conflict the other way. Each is tried: what is suggested does let the loser's axis through where it was rejected.

Candidates: the loser's rule with a user priority before the winner's (Shardy), the value constrained to what the loser wants, the winner's
axis taken out of its own statement, or for this one tensor alone.
"""

from collections.abc import Iterator, Sequence

from workbench.core.layout import Layout
from workbench.core.sharding import Sharding, base_axis
from workbench.errors import WorkbenchError
from workbench.pipeline.balance import apply_edit
from workbench.plan.edits import Constrain, Edit, Override, ShardDim
from workbench.plan.plan import Plan
from workbench.plan.propagation_edits import Prioritize
from workbench.propagation import propagation_of
from workbench.reports.propagation import Propagation
from workbench.reports.propagation_records import AxisOnDim, Conflict, Origin, RejectedAxis, ShardedValue
from workbench.reports.report import Report


def resolving_edits(report: Report, conflict: Conflict) -> tuple[Edit, ...]:
    """The edits after which the loser's axis splits the dimension where it was first rejected; empty if only the function itself can be
    changed."""
    plan, replay = report.plan, report.propagation
    return tuple(edit for edit in dict.fromkeys(_candidates(plan, replay, conflict)) if resolves(plan, replay, edit, conflict.first))


def resolves(plan: Plan, replay: Propagation, edit: Edit, rejected: RejectedAxis) -> bool:
    """Whether a rejected axis is accepted after an edit."""
    try:
        after = propagation_of(apply_edit(plan, edit))
    except WorkbenchError:  # illegal, or refused by Shardy
        return False
    sharded_value = replay.values[rejected.wanted.value]
    before, now = (_named_alike(values, sharded_value) for values in (replay.values, after.values))
    place = before.index(rejected.wanted.value) if len(now) == len(before) else 0
    return bool(now) and base_axis(rejected.wanted.axis) in map(
        base_axis, after.values[now[place]].sharding.dims[rejected.wanted.dim] or ()
    )


def _named_alike(values: Sequence[ShardedValue], sharded_value: ShardedValue) -> list[int]:
    """The numbers of the values with the same role, path, kind and shape as this one, in the order of the program."""
    wanted = (sharded_value.role, sharded_value.path, sharded_value.kind, sharded_value.shape)
    return [number for number, each in enumerate(values) if (each.role, each.path, each.kind, each.shape) == wanted]


def _candidates(plan: Plan, replay: Propagation, conflict: Conflict) -> Iterator[Edit]:
    winner, loser = conflict.winner, conflict.loser
    if (dim := _dim_of_rule(plan.layout, winner)) and (other := _dim_of_rule(plan.layout, loser)) and dim != other:
        yield Prioritize(dim, plan.layout.priority(other) + 1)
        if plan.layout.priority(dim):
            yield Prioritize(other, plan.layout.priority(dim) - 1)
    yield from _constraint_edits(replay, conflict.first)
    yield from _without(plan.layout, replay, winner)


def _dim_of_rule(layout: Layout, origin: Origin) -> str:
    """The dimension whose rule an origin is; empty if it is none."""
    dim = origin.statement.partition(":")[0]
    return dim if origin.kind in ("argument", "result") and "=" not in origin.statement and layout.rule(dim) else ""


def _constraint_edits(replay: Propagation, rejected: RejectedAxis) -> Iterator[Edit]:
    """Edits that shard the value as the loser wants it in this dimension: an intermediate one with its other dimensions left to
    propagation."""
    sharded_value = replay.values[rejected.wanted.value]
    axes = _axes_of_giver(replay, rejected)
    if sharded_value.role == "argument" and not any(":" in axis for axis in axes):
        kept = (tuple(axis for axis in each or () if axis not in axes) for each in sharded_value.sharding.dims)
        yield Override(sharded_value.path, Sharding(tuple(axes if dim == rejected.wanted.dim else each for dim, each in enumerate(kept))))
    if sharded_value.role == "value" and sharded_value.path and not any(":" in axis for axis in axes):
        dims = tuple(axes if dim == rejected.wanted.dim else None for dim in range(len(sharded_value.shape)))
        yield Constrain(f"/{sharded_value.path}", Sharding(dims))


def _axes_of_giver(replay: Propagation, rejected: RejectedAxis) -> tuple[str, ...]:
    """The axes of the value that gives the rejected axis, from the major one to that."""
    held = replay.values[rejected.giver.value].sharding.dims[rejected.giver.dim] or ()
    place = held.index(rejected.giver.axis) if rejected.giver.axis in held else 0
    return held[: place + 1]


def _without(layout: Layout, replay: Propagation, winner: Origin) -> Iterator[Edit]:
    """Edits that take the winner's axis out of its statement: for its own tensor, then everywhere."""
    axis = base_axis(winner.axis) if winner.axis else ""
    sharded_value = replay.values[winner.axis_on_dim.value]
    if (dim := _dim_of_rule(layout, winner)) and winner.kind == "argument":
        yield Override(winner.path, _less(Sharding(tuple(layout.rule(each) for each in sharded_value.dims)), winner.axis_on_dim, axis))
    if dim:
        yield ShardDim(dim, tuple(each for each in layout.rule(dim) if each != axis))
    for kind, entries, edit in (("argument", layout.overrides, Override), ("constraint", layout.constraints, Constrain)):
        for pattern, sharding in entries:
            if winner.kind == kind and winner.statement in (f"{pattern}={sharding}", f"@{pattern}={sharding}"):
                yield edit(pattern, _less(sharding, winner.axis_on_dim, axis))
                yield edit(pattern, None)


def _less(sharding: Sharding, axis_on_dim: AxisOnDim, axis: str) -> Sharding:
    """A sharding without one axis of one dimension; a dimension replicated explicitly is left open."""
    left = tuple(each for each in sharding.dims[axis_on_dim.dim] or () if each != axis)
    return sharding.with_dim(axis_on_dim.dim, left if axis else None)
