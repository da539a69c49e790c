"""Shardy's records made into a replay: every axis of every value with its origin and the moves that brought it.

Shardy names as the source of an axis the first tensor of the operation that has it, on whatever dimension; where that is another
dimension than the one it came along, the tensor that has it on the right one is the source here. A part of an axis that grows later
(`x:(1)2`, then `x:(1)4`) arrives whole.
"""

from collections.abc import Callable, Iterator, Sequence
from operator import itemgetter

from workbench.core.sharding import Sharding, overlap
from workbench.plan.plan import Plan
from workbench.propagation.explain.factor_graph import GROUP, RETURN, FactorGraph, OperationFactors, links_of
from workbench.propagation.explain.origin_resolver import OriginResolver
from workbench.propagation.explain.origins import Inserted, PropagationRecord, Recorded, Slot, record
from workbench.propagation.explain.rejections import Rejections
from workbench.propagation.module.attributes import Dims
from workbench.propagation.module.garbage import gc_paused
from workbench.propagation.module.naming import value_names
from workbench.reports.propagation import ACROSS, BACKWARD, FORWARD, AxisOnDim, AxisPropagation, Conflict, Propagation, ShardedValue

_AT_HAND = -1  # the step of what was there before the first
_AT_ONCE = 1 / 16  # of a step: less than any other follows
_UNRECORDED = (RETURN, GROUP, "sharding_constraint")


def propagation_of(plan: Plan, computed: Sequence[Dims | None] = ()) -> Propagation:
    """The replay of a plan's propagation; `computed` is where each value lies as its operation computes it, if that is known.

    Raises `PartitionError` with Shardy's words.
    """
    with gc_paused():
        return _replay(plan, computed)


def _replay(plan: Plan, computed: Sequence[Dims | None]) -> Propagation:
    recorded = record(plan)
    links = links_of(plan.program, recorded)
    sites = tuple(_sites(plan, recorded, links, computed))
    starts = OriginResolver(plan, recorded, links)
    moves = _Moves(plan, recorded, links, starts).found()
    brought = {move.point for move in moves}
    origins = {
        point: starts.origin(point)
        for value, lying in recorded.lying.items()
        if links.one[value] == value
        for point in _points(value, lying.dims)
        if point not in brought
    }
    rejections = Rejections(plan, recorded, links)

    def conflicts(replay: Propagation) -> tuple[Conflict, ...]:
        with gc_paused():
            return rejections.conflicts(replay)

    return Propagation(sites, moves, origins, tuple(links.one), rejections.of, rejections.others, conflicts)


def _points(value: int, dims: Dims) -> Iterator[AxisOnDim]:
    return (AxisOnDim(value, dim, axis) for dim, axes in enumerate(dims) for axis in axes)


def _sites(plan: Plan, recorded: Recorded, links: FactorGraph, computed: Sequence[Dims | None]) -> Iterator[ShardedValue]:
    """Arguments, intermediate values, what the plan inserted, results, in the order of their numbers."""
    program, structure = plan.program, recorded.structure
    arguments = dict(zip(structure.arguments, program.arguments, strict=True))
    known: dict[Dims, Sharding] = {}

    def lies(value: int, rank: int) -> Sharding:
        lying = recorded.lying.get(links.one[value])
        return sharding(lying.dims if lying else ((),) * rank)

    def sharding(dims: Dims) -> Sharding:
        return known.get(dims) or known.setdefault(dims, Sharding(dims))

    for value, each in enumerate(structure.values):
        where = lies(value, len(each.shape))
        if value in arguments:
            tensor = arguments[value]
            yield ShardedValue("argument", tensor.path, "input", each.shape, value_names(tensor, len(each.shape)), "", where, where)
        elif each.born < 0:
            yield ShardedValue("value", "", "block argument", each.shape, ("_",) * len(each.shape), "", where, where)
        else:
            operation = program.operations[each.born]
            names = operation.dims if each.result == 0 else ("_",) * len(each.shape)
            found = computed[value] if computed else None
            made = where if found is None else sharding(found)
            yield ShardedValue("value", operation.path, operation.kind, each.shape, names, operation.source, where, made)
    for added in recorded.inserted:
        yield _inserted(plan, recorded, added, lies)
    for value, returned, tensor in zip(recorded.results, structure.returned, program.results, strict=True):
        shape = structure.values[returned].shape
        where = lies(value, len(shape))
        yield ShardedValue("result", tensor.path, "result", shape, value_names(tensor, len(shape)), "", where, where)


def _inserted(plan: Plan, recorded: Recorded, added: Inserted, lies: Callable[[int, int], Sharding]) -> ShardedValue:
    """What the plan put behind a value goes by that value's names."""
    program, structure = plan.program, recorded.structure
    behind = {each.result: each.operand for each in recorded.inserted}
    value = added.operand
    while value in behind:
        value = behind[value]
    each, kind = structure.values[value], added.kind.partition(".")[2]
    where = lies(added.result, len(each.shape))
    if each.born < 0:
        tensor = program.arguments[structure.arguments.index(value)]
        return ShardedValue("value", tensor.path, kind, each.shape, value_names(tensor, len(each.shape)), "", where, where)
    operation = program.operations[each.born]
    return ShardedValue("value", operation.path, kind, each.shape, operation.dims, operation.source, where, where)


class _Moves:
    """All moves in the order of their steps, which count from 1, each with the tensor it really came from.

    Shardy writes no record of what it hands on within a sharding group, and mixes up those of several results: these follow at once when
    an axis arrives.
    """

    def __init__(self, plan: Plan, recorded: Recorded, links: FactorGraph, starts: OriginResolver) -> None:
        self._plan, self._mesh, self._lying, self._links, self._starts = plan, plan.mesh, recorded.lying, links, starts
        found = [(each, link) for link in links.links for each in recorded.records.get(link.key, ())]
        self._records = sorted(found, key=lambda pair: pair[0].step)
        self._arrived: dict[AxisOnDim, float] = {}
        self._unrecorded: set[AxisOnDim] = set()
        self._moves: list[tuple[float, AxisPropagation]] = []

    def found(self) -> tuple[AxisPropagation, ...]:
        targets = [
            (each, link, slot, point) for each, link in self._records for slot in each.targets if (point := self._target(link, slot, each))
        ]
        recorded = {point for *_, point in targets}
        at_hand: list[AxisOnDim] = []
        for value, lying in self._lying.items():
            for point in _points(value, lying.dims):
                if self._links.one[value] == value and point not in recorded:
                    (at_hand.append if self._starts.is_asked(point) else self._unrecorded.add)(point)
        self._arrived.update((point, _AT_HAND) for point in at_hand)
        for point in at_hand:
            self._follow(point)
        for each, link, slot, point in targets:
            if point not in self._arrived and (source := self._source(link, slot, each, point)):
                self._arrive(link, each.step, slot, source, point)
        self._moves.sort(key=itemgetter(0))
        numbers = {step: number for number, step in enumerate(dict.fromkeys(step for step, _ in self._moves), start=1)}
        return tuple(move._replace(step=numbers[step]) for step, move in self._moves)

    def _arrive(self, link: OperationFactors, step: float, slot: Slot, source: tuple[int, int, Slot], point: AxisOnDim) -> None:
        self._arrived[point] = step
        self._moves.append((step, self._move(link, slot, source, point)))
        self._follow(point)

    def _follow(self, point: AxisOnDim) -> None:
        """What gets the axis from here without a record of it."""
        for number in self._links.of_value.get(point.value, ()) if self._unrecorded else ():
            link = self._links.links[number]
            if link.kind not in _UNRECORDED:
                continue
            giver = link.values.index(point.value)
            for place, value in enumerate(link.values):
                to = AxisOnDim(value, point.dim, point.axis)
                if to in self._unrecorded and to not in self._arrived:
                    step = self._arrived[point] + _AT_ONCE
                    slots = (Slot(each >= link.operands, each) for each in (place, giver))
                    self._arrive(link, step, next(slots), (point.value, point.dim, next(slots)), to)

    def _target(self, link: OperationFactors, slot: Slot, record: PropagationRecord) -> AxisOnDim | None:
        """Where an axis ended up in a tensor that it was handed to; `None` if Shardy thought better of it."""
        value = link.value(slot)
        lying = self._lying.get(value)
        for dim, axes in enumerate(lying.dims if lying else ()):
            if record.axis in axes:
                return AxisOnDim(value, dim, record.axis)
        for dim, axes in enumerate(lying.dims if lying else ()):
            for axis in axes:
                if overlap(axis, record.axis):
                    return AxisOnDim(value, dim, axis)
        return None

    def _source(self, link: OperationFactors, slot: Slot, record: PropagationRecord, point: AxisOnDim) -> tuple[int, int, Slot] | None:
        """The tensor that had the axis before this step on a dimension of the same factor, Shardy's own choice first."""
        factors = set(link.mappings[link.place(slot)][point.dim])
        named = link.place(record.source)
        for place in (named, *(each for each in range(len(link.values)) if each != named)):
            value = link.values[place]
            if value == point.value or (lying := self._lying.get(value)) is None:
                continue
            for dim, axes in enumerate(lying.dims):
                if factors.isdisjoint(link.mappings[place][dim]):
                    continue
                for axis in axes:
                    is_it = axis == point.axis or overlap(axis, point.axis)
                    if is_it and self._arrived.get(AxisOnDim(value, dim, axis), record.step) < record.step:
                        return value, dim, Slot(place >= link.operands, place)
        return None

    def _move(self, link: OperationFactors, slot: Slot, source: tuple[int, int, Slot], point: AxisOnDim) -> AxisPropagation:
        value, dim, giver = source
        direction = ACROSS if giver.is_result == slot.is_result else FORWARD if slot.is_result else BACKWARD
        over, line = self._over(link)
        return AxisPropagation(0, point.axis, value, dim, point.value, point.dim, over, link.kind, line, direction)

    def _over(self, link: OperationFactors) -> tuple[str, str]:
        operations = self._plan.program.operations
        return (operations[link.op].path, operations[link.op].source) if link.op >= 0 else (link.kind, "")
