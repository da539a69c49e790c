"""Rejected axes: axes that a neighbor offered to a value and that the value did not take, with the reason.

Shardings only grow, so after propagation every factor on which the tensors of an operation differ has a rejected axis.
The reasons are those for which Shardy's factor propagation stops (`basic_factor_propagation.cc`,
`aggressive_factor_propagation.cc`): it takes the longest common major axes of a factor over *all* tensors of the
operation, without axes that one of them uses on another dimension, replicates explicitly, or could take only by
widening a closed dimension.
"""

from collections.abc import Iterable, Iterator
from functools import cached_property
from math import prod
from typing import NamedTuple

from workbench.core.sharding import axes_overlap, axis_size, base_axis
from workbench.plan.plan import Plan
from workbench.propagation.explain.factor_graph import FactorGraph, OperationFactors, project_axes
from workbench.propagation.explain.recorded_propagation import FinalSharding, RecordedPropagation
from workbench.propagation.explain.stated_origins import OriginResolver
from workbench.reports.propagation import Propagation
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
    AxisOnDim,
    Conflict,
    Origin,
    RejectedAxis,
)

Projection = list[dict[str, tuple[str, ...]]]  # axes by factor, for each tensor of an operation


class _Obstacle(NamedTuple):
    """The reason why an axis does not propagate, and its rival; an unnamed rival is a dimension kept whole."""

    reason: str
    rival: AxisOnDim | None = None


class Rejections:
    """The rejected axes of a finished propagation."""

    def __init__(self, plan: Plan, recorded: RecordedPropagation, graph: FactorGraph) -> None:
        self._plan, self._mesh, self._recorded, self._graph = plan, plan.mesh, recorded, graph
        self._resolver = OriginResolver(plan, recorded, graph)

    def list_rejections(self, replay: Propagation, value: int) -> tuple[RejectedAxis, ...]:
        """The axes rejected on a value, each origin and reason once; none for dead values, which Shardy drops."""
        rejections: dict[object, RejectedAxis] = {}
        for number in self._graph.operations_of.get(value, ()):
            operation = self._graph.operations[number]
            for rejected in self._rejections_at_operation(replay, operation, value):
                rejections.setdefault((rejected.wanted, rejected.origin, rejected.reason, rejected.rival), rejected)
        return tuple(rejections.values())

    def find_connected_origins(self, replay: Propagation, axis_on_dim: AxisOnDim) -> tuple[Origin, ...]:
        """The origins of an axis, or of parts of it, on all dimensions that factors connect with this one."""
        root = self._families.find_root(axis_on_dim.value, axis_on_dim.dim)
        base = base_axis(axis_on_dim.axis)
        return tuple(
            origin
            for at, origin in replay.origins.items()
            if base_axis(at.axis) == base and self._families.find_root(at.value, at.dim) == root
        )

    def conflicts(self, replay: Propagation) -> tuple[Conflict, ...]:
        """All pairs of conflicting statements: one holds where the other's axis was rejected."""
        grouped: dict[object, list[RejectedAxis]] = {}
        for number, operation in enumerate(self._graph.operations):
            if self._has_differences(number):
                for value in dict.fromkeys(operation.values):
                    for rejected in self._rejections_at_operation(replay, operation, value):
                        if (winner := rejected.rival_origin) and self._is_conflict(rejected):
                            key = (
                                winner.kind,
                                winner.statement,
                                winner.axis,
                                rejected.origin.kind,
                                rejected.origin.statement,
                                rejected.origin.axis,
                            )
                            grouped.setdefault((key, rejected.reason), []).append(rejected)
        return tuple(
            Conflict(rejections[0].rival_origin or rejections[0].origin, rejections[0].origin, rejections[0].reason, tuple(rejections))
            for rejections in grouped.values()
        )

    def _is_conflict(self, rejected: RejectedAxis) -> bool:
        """Return whether two axes compete, or a constraint keeps a dimension whole. (Arguments request nothing.)"""
        winner = rejected.rival_origin
        if winner is None or (winner.statement, winner.path) == (rejected.origin.statement, rejected.origin.path):
            return False
        return rejected.reason in (USED_ON_OTHER_DIM, CONTESTED, DIFFERENT_ORDER) or (
            rejected.reason == CLOSED and "constraint" in winner.kind
        )

    def _rejections_at_operation(self, replay: Propagation, operation: OperationFactors, value: int) -> Iterator[RejectedAxis]:
        if value not in self._live:
            return
        axes = self._project(operation)
        for position, number in enumerate(operation.values):
            if number != value:
                continue
            for dim, factors in enumerate(operation.mappings[position]):
                for factor in factors:
                    yield from self._rejected_on_factor(replay, operation, axes, position, dim, factor)
            return  # an operand that is read twice is one value

    def _rejected_on_factor(
        self, replay: Propagation, operation: OperationFactors, axes: Projection, position: int, dim: int, factor: str
    ) -> Iterator[RejectedAxis]:
        mine, value = axes[position].get(factor, ()), operation.values[position]
        for giver, theirs in enumerate(item.get(factor, ()) for item in axes):
            same = _common_prefix_length(mine, theirs)
            if giver == position or operation.values[giver] == value or same == len(theirs):
                continue
            wanted_axis = theirs[same]
            if any(axes_overlap(wanted_axis, item) for item in self._dims_of(value)[dim]):
                continue  # present already, in another part of a dimension of several factors
            at = self._axis_on_giver(operation, giver, factor, wanted_axis)
            obstacle = self._find_obstacle(operation, axes, (position, giver), (dim, factor), same, theirs)
            origin = replay.origin_of(at)
            rival_origin = self._rival_origin(replay, obstacle.rival) if obstacle.rival else None
            over, line = operation.name_and_line(self._plan.program)
            yield RejectedAxis(
                AxisOnDim(value, dim, wanted_axis), at, origin, over, operation.kind, line, obstacle.reason, obstacle.rival, rival_origin
            )

    def _rival_origin(self, replay: Propagation, rival: AxisOnDim) -> Origin | None:
        return replay.origin_of(rival) if rival.axis else self._resolver.find_origin(rival)

    def _axis_on_giver(self, operation: OperationFactors, giver: int, factor: str, wanted_axis: str) -> AxisOnDim:
        """The axis as the giver has it, whole even if only a part of it was requested."""
        value = operation.values[giver]
        for dim, factors in enumerate(operation.mappings[giver]):
            if factor in factors:
                for axis in self._dims_of(value)[dim]:
                    if axes_overlap(axis, wanted_axis):
                        return AxisOnDim(value, dim, axis)
        raise LookupError(f"{wanted_axis} is not on factor {factor} of value {value}")

    def _find_obstacle(
        self,
        operation: OperationFactors,
        axes: Projection,
        positions: tuple[int, int],
        at: tuple[int, str],
        same: int,
        theirs: tuple[str, ...],
    ) -> _Obstacle:
        """The first obstacle: on the value itself, then on another tensor of the operation, then in the operation."""
        position, giver = positions
        dim, factor = at
        if obstacle := self._obstacle_on(operation, axes, position, dim, factor, same, theirs[same]):
            return obstacle
        if rival := self._find_contestant(operation, axes, position, factor, theirs[same]):
            return _Obstacle(CONTESTED, rival)
        for other, mapping in enumerate(operation.mappings):
            if other in positions or operation.values[other] in (operation.values[position], operation.values[giver]):
                continue
            for other_dim, factors in enumerate(mapping):
                lacks = factor in factors and theirs[same] not in axes[other].get(factor, ())
                if lacks and (obstacle := self._obstacle_on(operation, axes, other, other_dim, factor, same, theirs[same])):
                    return _Obstacle(BLOCKED_BY_OTHER_TENSOR, obstacle.rival or AxisOnDim(operation.values[other], other_dim, ""))
        parts = prod(axis_size(axis, self._mesh) for axis in theirs[: same + 1])
        if operation.mappings[position][dim][-1] != factor and operation.sizes[factor] % parts:
            return _Obstacle(UNEVEN)
        return _Obstacle(MINOR if self._is_minor(operation, axes, position, dim, factor) else NOT_PASSED)

    def _is_minor(self, operation: OperationFactors, axes: Projection, position: int, dim: int, factor: str) -> bool:
        """Return whether a more major factor of the dimension is not fully split: `(ij)` by `j` alone."""
        factors = operation.mappings[position][dim]
        major = factors[: factors.index(factor)]
        return any(prod(axis_size(axis, self._mesh) for axis in axes[position].get(name, ())) < operation.sizes[name] for name in major)

    def _find_contestant(
        self, operation: OperationFactors, axes: Projection, position: int, factor: str, wanted_axis: str
    ) -> AxisOnDim | None:
        """The same axis on a tensor that would propagate it to another dimension of this one; then neither propagates."""
        mine = {item for factors in operation.mappings[position] for item in factors} - {factor}
        for other, item in enumerate(axes):
            for rival in mine & item.keys():
                if operation.values[other] != operation.values[position] and any(axes_overlap(wanted_axis, axis) for axis in item[rival]):
                    return self._axis_on_giver(operation, other, rival, wanted_axis)
        return None

    def _obstacle_on(
        self, operation: OperationFactors, axes: Projection, position: int, dim: int, factor: str, same: int, wanted_axis: str
    ) -> _Obstacle | None:
        value, mine = operation.values[position], axes[position].get(factor, ())
        final_sharding = self._recorded.final_shardings.get(value)
        if final_sharding is None:
            return None
        if any(axes_overlap(wanted_axis, item) for item in final_sharding.replicated):
            return _Obstacle(REPLICATED, AxisOnDim(value, dim, ""))
        for other_dim, dim_axes in enumerate(final_sharding.dims):
            for axis in dim_axes:
                if other_dim != dim and axes_overlap(axis, wanted_axis):
                    return _Obstacle(USED_ON_OTHER_DIM, AxisOnDim(value, other_dim, axis))
        if len(mine) > same:
            return _Obstacle(
                DIFFERENT_ORDER, next(AxisOnDim(value, dim, item) for item in final_sharding.dims[dim] if axes_overlap(item, mine[same]))
            )
        return _Obstacle(CLOSED, AxisOnDim(value, dim, "")) if final_sharding.closed[dim] else None

    def _has_differences(self, number: int) -> bool:
        """Return whether two tensors of an operation are sharded differently: a cheap check, mostly false."""
        operation = self._graph.operations[number]
        final_shardings: list[FinalSharding | None] = [self._recorded.final_shardings.get(value) for value in operation.values]
        return any(sharding is not None and any(sharding.dims) for sharding in final_shardings) and not (
            len({sharding.dims if sharding else None for sharding in final_shardings}) == 1 and len(set(operation.mappings)) == 1
        )

    def _project(self, operation: OperationFactors) -> Projection:
        return [
            project_axes(self._dims_of(value), mapping, operation.sizes, self._mesh)
            for value, mapping in zip(operation.values, operation.mappings, strict=True)
        ]

    def _dims_of(self, value: int) -> tuple[tuple[str, ...], ...]:
        final_sharding = self._recorded.final_shardings.get(value)
        return final_sharding.dims if final_sharding else ((),) * 32

    @cached_property
    def _live(self) -> frozenset[int]:
        """The values that main's results depend on, and main's arguments: Shardy drops all others as it goes."""
        live = {*self._recorded.structure.arguments, *self._recorded.results}
        pending = list(self._recorded.results)
        makers: dict[int, list[OperationFactors]] = {}
        for operation in self._graph.operations:
            for value in operation.values[operation.operands :]:
                makers.setdefault(value, []).append(operation)
        while pending:
            for operation in makers.get(pending.pop(), ()):
                new = set(operation.values[: operation.operands]) - live
                live |= new
                pending += new
        return frozenset(live)

    @cached_property
    def _families(self) -> "_ConnectedDims":
        return _ConnectedDims(self._graph.operations)


def _common_prefix_length(mine: tuple[str, ...], theirs: tuple[str, ...]) -> int:
    return next((i for i, (one, other) in enumerate(zip(mine, theirs, strict=False)) if one != other), min(len(mine), len(theirs)))


class _ConnectedDims:
    """A union-find of dimensions between which an axis could propagate, over any number of operations."""

    def __init__(self, operations: Iterable[OperationFactors]) -> None:
        self._parent: dict[tuple[int, int], tuple[int, int]] = {}
        for operation in operations:
            first: dict[str, tuple[int, int]] = {}
            for value, mapping in zip(operation.values, operation.mappings, strict=True):
                for dim, factors in enumerate(mapping):
                    for factor in factors:
                        if factor in first:
                            self._unite(first[factor], (value, dim))
                        else:
                            first[factor] = value, dim

    def find_root(self, value: int, dim: int) -> tuple[int, int]:
        parent, at = self._parent, (value, dim)
        while (above := parent.get(at, at)) != at:
            parent[at] = parent.get(above, above)
            at = above
        return at

    def _unite(self, one: tuple[int, int], other: tuple[int, int]) -> None:
        first, second = self.find_root(*one), self.find_root(*other)
        if first != second:
            self._parent[second] = first
