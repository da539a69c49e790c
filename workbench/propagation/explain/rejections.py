"""What lost: axes that a neighbour had to give and that a value did not take, and what stood in the way.

Shardings only ever grow, so that at the end of a propagation every factor on which the tensors of an operation still differ is a wish that
lost. The reasons are those for which Shardy's factor propagation stops (`basic_factor_propagation.cc`, `aggressive_factor_propagation.cc`):
it takes the longest common major axes of a factor over *all* tensors of the operation, without what is used on another dimension of one
of them, kept out of it, or would widen a closed dimension of it.
"""

from collections.abc import Iterable, Iterator
from functools import cached_property
from math import prod
from typing import NamedTuple

from workbench.core.sharding import axis_size, base_axis, overlap
from workbench.plan.plan import Plan
from workbench.propagation.explain.factor_graph import FactorGraph, OperationFactors, projected
from workbench.propagation.explain.origin_resolver import OriginResolver
from workbench.propagation.explain.origins import Lying, Recorded
from workbench.reports.propagation import (
    CLOSED,
    CONTESTED,
    HELD_UP,
    MINOR,
    NOT_PASSED,
    ORDER,
    REPLICATED,
    UNEVEN,
    USED,
    AxisOnDim,
    Conflict,
    Origin,
    Propagation,
    RejectedAxis,
)

Projection = list[dict[str, tuple[str, ...]]]  # of each tensor of an operation: the axes of each factor


class _Obstacle(NamedTuple):
    """Why an axis goes no further in a tensor, and the axis in the way; one without a name is a dimension kept whole."""

    reason: str
    rival: AxisOnDim | None = None


class Rejections:
    """Reads the wishes off a finished propagation."""

    def __init__(self, plan: Plan, recorded: Recorded, links: FactorGraph) -> None:
        self._plan, self._mesh, self._recorded, self._links = plan, plan.mesh, recorded, links
        self._starts = OriginResolver(plan, recorded, links)

    def of(self, replay: Propagation, value: int) -> tuple[RejectedAxis, ...]:
        """The wishes that lost on a value, over any operation it is in; each origin and reason once. What nothing comes of is dropped, and
        has none."""
        found: dict[object, RejectedAxis] = {}
        for number in self._links.of_value.get(value, ()):
            link = self._links.links[number]
            for rejected in self._lost(replay, link, value):
                found.setdefault((rejected.wanted, rejected.origin, rejected.reason, rejected.rival), rejected)
        return tuple(found.values())

    def others(self, replay: Propagation, point: AxisOnDim) -> tuple[Origin, ...]:
        """The origins of an axis, or of parts of it, on dimensions that this one is connected with by factors, near or far."""
        home = self._families.of(point.value, point.dim)
        base = base_axis(point.axis)
        return tuple(
            origin for at, origin in replay.origins.items() if base_axis(at.axis) == base and self._families.of(at.value, at.dim) == home
        )

    def conflicts(self, replay: Propagation) -> tuple[Conflict, ...]:
        """All pairs of statements of which one had its way where the other wanted its own."""
        found: dict[object, list[RejectedAxis]] = {}
        for number, link in enumerate(self._links.links):
            if self._differ(number):
                for value in dict.fromkeys(link.values):
                    for rejected in self._lost(replay, link, value):
                        if (winner := rejected.rival_origin) and self._is_conflict(rejected):
                            key = (
                                winner.kind,
                                winner.statement,
                                winner.axis,
                                rejected.origin.kind,
                                rejected.origin.statement,
                                rejected.origin.axis,
                            )
                            found.setdefault((key, rejected.reason), []).append(rejected)
        return tuple(
            Conflict(rejections[0].rival_origin or rejections[0].origin, rejections[0].origin, rejections[0].reason, tuple(rejections))
            for rejections in found.values()
        )

    def _is_conflict(self, rejected: RejectedAxis) -> bool:
        """Two axes for one place, or a constraint that keeps a dimension whole; an argument lies as the plan says, and wants nothing."""
        winner = rejected.rival_origin
        if winner is None or (winner.statement, winner.path) == (rejected.origin.statement, rejected.origin.path):
            return False
        return rejected.reason in (USED, CONTESTED, ORDER) or (rejected.reason == CLOSED and "constraint" in winner.kind)

    def _lost(self, replay: Propagation, link: OperationFactors, value: int) -> Iterator[RejectedAxis]:
        if value not in self._live:
            return
        axes = self._projection(link)
        for place, number in enumerate(link.values):
            if number != value:
                continue
            for dim, factors in enumerate(link.mappings[place]):
                for factor in factors:
                    yield from self._of_factor(replay, link, axes, place, dim, factor)
            return  # an operand read twice is one value

    def _of_factor(
        self, replay: Propagation, link: OperationFactors, axes: Projection, place: int, dim: int, factor: str
    ) -> Iterator[RejectedAxis]:
        mine, value = axes[place].get(factor, ()), link.values[place]
        for giver, theirs in enumerate(each.get(factor, ()) for each in axes):
            same = _common(mine, theirs)
            if giver == place or link.values[giver] == value or same == len(theirs):
                continue
            wanted = theirs[same]
            if any(overlap(wanted, each) for each in self._dims(value)[dim]):
                continue  # it is there, in another part of a dimension that several factors share
            at = self._held(link, giver, factor, wanted)
            stop = self._stop(link, axes, (place, giver), (dim, factor), same, theirs)
            origin = replay.whose(at)
            rival_origin = self._whose(replay, stop.rival) if stop.rival else None
            over, line = self._over(link)
            yield RejectedAxis(AxisOnDim(value, dim, wanted), at, origin, over, link.kind, line, stop.reason, stop.rival, rival_origin)

    def _whose(self, replay: Propagation, rival: AxisOnDim) -> Origin | None:
        return replay.whose(rival) if rival.axis else self._starts.origin(rival)

    def _held(self, link: OperationFactors, giver: int, factor: str, wanted: str) -> AxisOnDim:
        """The axis as the giver has it, whole where only a part of it was wanted."""
        value = link.values[giver]
        for dim, factors in enumerate(link.mappings[giver]):
            if factor in factors:
                for axis in self._dims(value)[dim]:
                    if overlap(axis, wanted):
                        return AxisOnDim(value, dim, axis)
        raise LookupError(f"{wanted} is not on factor {factor} of value {value}")

    def _stop(
        self, link: OperationFactors, axes: Projection, places: tuple[int, int], at: tuple[int, str], same: int, theirs: tuple[str, ...]
    ) -> _Obstacle:
        """What stood in the way on the value itself, then on another tensor of the operation, then in the operation."""
        place, giver = places
        dim, factor = at
        if stop := self._stop_on(link, axes, place, dim, factor, same, theirs[same]):
            return stop
        if rival := self._contestant(link, axes, place, factor, theirs[same]):
            return _Obstacle(CONTESTED, rival)
        for other, mapping in enumerate(link.mappings):
            if other in places or link.values[other] in (link.values[place], link.values[giver]):
                continue
            for other_dim, factors in enumerate(mapping):
                lacks = factor in factors and theirs[same] not in axes[other].get(factor, ())
                if lacks and (stop := self._stop_on(link, axes, other, other_dim, factor, same, theirs[same])):
                    return _Obstacle(HELD_UP, stop.rival or AxisOnDim(link.values[other], other_dim, ""))
        taken = prod(axis_size(axis, self._mesh) for axis in theirs[: same + 1])
        if link.mappings[place][dim][-1] != factor and link.sizes[factor] % taken:
            return _Obstacle(UNEVEN)
        return _Obstacle(MINOR if self._is_minor(link, axes, place, dim, factor) else NOT_PASSED)

    def _is_minor(self, link: OperationFactors, axes: Projection, place: int, dim: int, factor: str) -> bool:
        """Whether a dimension is made of several factors, and one that is major to this is not split to its end: `(ij)` by `j` alone."""
        factors = link.mappings[place][dim]
        major = factors[: factors.index(factor)]
        return any(prod(axis_size(axis, self._mesh) for axis in axes[place].get(each, ())) < link.sizes[each] for each in major)

    def _contestant(self, link: OperationFactors, axes: Projection, place: int, factor: str, wanted: str) -> AxisOnDim | None:
        """The same axis on a tensor that would give it to another dimension of this one: then neither comes."""
        mine = {each for factors in link.mappings[place] for each in factors} - {factor}
        for other, each in enumerate(axes):
            for rival in mine & each.keys():
                if link.values[other] != link.values[place] and any(overlap(wanted, axis) for axis in each[rival]):
                    return self._held(link, other, rival, wanted)
        return None

    def _stop_on(
        self, link: OperationFactors, axes: Projection, place: int, dim: int, factor: str, same: int, wanted: str
    ) -> _Obstacle | None:
        value, mine = link.values[place], axes[place].get(factor, ())
        lying = self._recorded.lying.get(value)
        if lying is None:
            return None
        if any(overlap(wanted, each) for each in lying.replicated):
            return _Obstacle(REPLICATED, AxisOnDim(value, dim, ""))
        for elsewhere, held in enumerate(lying.dims):
            for axis in held:
                if elsewhere != dim and overlap(axis, wanted):
                    return _Obstacle(USED, AxisOnDim(value, elsewhere, axis))
        if len(mine) > same:
            return _Obstacle(ORDER, next(AxisOnDim(value, dim, each) for each in lying.dims[dim] if overlap(each, mine[same])))
        return _Obstacle(CLOSED, AxisOnDim(value, dim, "")) if lying.closed[dim] else None

    def _differ(self, number: int) -> bool:
        """Whether any tensor of an operation lies otherwise than another: cheap, and false for most."""
        link = self._links.links[number]
        lying: list[Lying | None] = [self._recorded.lying.get(value) for value in link.values]
        return any(each is not None and any(each.dims) for each in lying) and not (
            len({each.dims if each else None for each in lying}) == 1 and len(set(link.mappings)) == 1
        )

    def _projection(self, link: OperationFactors) -> Projection:
        return [
            projected(self._dims(value), mapping, link.sizes, self._mesh) for value, mapping in zip(link.values, link.mappings, strict=True)
        ]

    def _dims(self, value: int) -> tuple[tuple[str, ...], ...]:
        lying = self._recorded.lying.get(value)
        return lying.dims if lying else ((),) * 32

    def _over(self, link: OperationFactors) -> tuple[str, str]:
        operations = self._plan.program.operations
        return (operations[link.op].path, operations[link.op].source) if link.op >= 0 else (link.kind, "")

    @cached_property
    def _live(self) -> frozenset[int]:
        """The values that what main returns comes from, and what main takes: Shardy drops all others as it goes."""
        live = {*self._recorded.structure.arguments, *self._recorded.results}
        pending = list(self._recorded.results)
        makers: dict[int, list[OperationFactors]] = {}
        for link in self._links.links:
            for value in link.values[link.operands :]:
                makers.setdefault(value, []).append(link)
        while pending:
            for link in makers.get(pending.pop(), ()):
                new = set(link.values[: link.operands]) - live
                live |= new
                pending += new
        return frozenset(live)

    @cached_property
    def _families(self) -> "_Families":
        return _Families(self._links.links)


def _common(mine: tuple[str, ...], theirs: tuple[str, ...]) -> int:
    """How many major axes two factors share."""
    return next((i for i, (one, other) in enumerate(zip(mine, theirs, strict=False)) if one != other), min(len(mine), len(theirs)))


class _Families:
    """Dimensions that factors connect: two are of one family if an axis could go from one to the other, over any number of operations."""

    def __init__(self, links: Iterable[OperationFactors]) -> None:
        self._parent: dict[tuple[int, int], tuple[int, int]] = {}
        for link in links:
            first: dict[str, tuple[int, int]] = {}
            for value, mapping in zip(link.values, link.mappings, strict=True):
                for dim, factors in enumerate(mapping):
                    for factor in factors:
                        if factor in first:
                            self._join(first[factor], (value, dim))
                        else:
                            first[factor] = value, dim

    def of(self, value: int, dim: int) -> tuple[int, int]:
        parent, at = self._parent, (value, dim)
        while (above := parent.get(at, at)) != at:
            parent[at] = parent.get(above, above)
            at = above
        return at

    def _join(self, one: tuple[int, int], other: tuple[int, int]) -> None:
        first, second = self.of(*one), self.of(*other)
        if first != second:
            self._parent[second] = first
