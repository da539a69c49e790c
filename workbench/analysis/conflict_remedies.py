"""Edits that resolve a conflict the other way; each is tried, so that it lets the loser's axis through where it was
rejected.

Candidates: a user priority (Shardy) for the loser's rule before the winner's, a constraint as the loser wants it, and
removal of the winner's axis from its statement, or for this tensor alone.
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
    """Return edits after which the loser's axis shards the dimension; empty if only the function can be changed."""
    plan, replay = report.plan, report.propagation
    return tuple(edit for edit in dict.fromkeys(_candidates(plan, replay, conflict)) if resolves(plan, replay, edit, conflict.first))


def resolves(plan: Plan, replay: Propagation, edit: Edit, rejected: RejectedAxis) -> bool:
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
    wanted = (sharded_value.role, sharded_value.path, sharded_value.kind, sharded_value.shape)
    return [
        number for number, candidate in enumerate(values) if (candidate.role, candidate.path, candidate.kind, candidate.shape) == wanted
    ]


def _candidates(plan: Plan, replay: Propagation, conflict: Conflict) -> Iterator[Edit]:
    winner, loser = conflict.winner, conflict.loser
    if (dim := _dim_of_rule(plan.layout, winner)) and (other := _dim_of_rule(plan.layout, loser)) and dim != other:
        yield Prioritize(dim, plan.layout.priority(other) + 1)
        if plan.layout.priority(dim):
            yield Prioritize(other, plan.layout.priority(dim) - 1)
    yield from _constraint_edits(replay, conflict.first)
    yield from _without(plan.layout, replay, winner)


def _dim_of_rule(layout: Layout, origin: Origin) -> str:
    dim = origin.statement.partition(":")[0]
    return dim if origin.kind in ("argument", "result") and "=" not in origin.statement and layout.rule(dim) else ""


def _constraint_edits(replay: Propagation, rejected: RejectedAxis) -> Iterator[Edit]:
    """Yield edits that shard the value in this dimension as the loser wants; other dimensions stay open."""
    sharded_value = replay.values[rejected.wanted.value]
    axes = _axes_of_giver(replay, rejected)
    if sharded_value.role == "argument" and not any(":" in axis for axis in axes):
        remaining = (tuple(axis for axis in old_axes or () if axis not in axes) for old_axes in sharded_value.sharding.dims)
        yield Override(
            sharded_value.path, Sharding(tuple(axes if dim == rejected.wanted.dim else old_axes for dim, old_axes in enumerate(remaining)))
        )
    if sharded_value.role == "value" and sharded_value.path and not any(":" in axis for axis in axes):
        dims = tuple(axes if dim == rejected.wanted.dim else None for dim in range(len(sharded_value.shape)))
        yield Constrain(f"/{sharded_value.path}", Sharding(dims))


def _axes_of_giver(replay: Propagation, rejected: RejectedAxis) -> tuple[str, ...]:
    """Return the giver's axes up to the rejected one, major first."""
    axes = replay.values[rejected.giver.value].sharding.dims[rejected.giver.dim] or ()
    place = axes.index(rejected.giver.axis) if rejected.giver.axis in axes else 0
    return axes[: place + 1]


def _without(layout: Layout, replay: Propagation, winner: Origin) -> Iterator[Edit]:
    """Yield edits that remove the winner's axis from its statement: for its own tensor, then everywhere."""
    axis = base_axis(winner.axis) if winner.axis else ""
    sharded_value = replay.values[winner.axis_on_dim.value]
    if (dim := _dim_of_rule(layout, winner)) and winner.kind == "argument":
        yield Override(winner.path, _less(Sharding(tuple(layout.rule(item) for item in sharded_value.dims)), winner.axis_on_dim, axis))
    if dim:
        yield ShardDim(dim, tuple(item for item in layout.rule(dim) if item != axis))
    for kind, entries, edit in (("argument", layout.overrides, Override), ("constraint", layout.constraints, Constrain)):
        for pattern, sharding in entries:
            if winner.kind == kind and winner.statement in (f"{pattern}={sharding}", f"@{pattern}={sharding}"):
                yield edit(pattern, _less(sharding, winner.axis_on_dim, axis))
                yield edit(pattern, None)


def _less(sharding: Sharding, axis_on_dim: AxisOnDim, axis: str) -> Sharding:
    """Return a sharding without one axis of one dimension; an explicitly replicated dimension becomes open."""
    remaining = tuple(name for name in sharding.dims[axis_on_dim.dim] or () if name != axis)
    return sharding.with_dim(axis_on_dim.dim, remaining if axis else None)
