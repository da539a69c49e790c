"""Shardy's records made into a replay: every axis of every value with its origin and the moves that brought it.

Shardy names as the source of an axis the first tensor of the operation that has it, on whatever dimension; where that is another
dimension than the one it came along, the tensor that has it on the right one is the source here. A part of an axis that grows later
(`x:(1)2`, then `x:(1)4`) arrives whole.
"""

from collections.abc import Callable, Iterator, Sequence

from workbench.partition.attributes import Dims
from workbench.partition.links import RETURN, Link, Links, links_of, overlap
from workbench.partition.origins import Inserted, Record, Recorded, Slot, record
from workbench.partition.starts import Starts
from workbench.partition.wishes import Wishes
from workbench.plan import Plan
from workbench.propagation import ACROSS, BACKWARD, FORWARD, Move, Point, Propagation, Site
from workbench.sharding import Sharding

_AT_HAND = -1  # the step of what was there before the first


def propagation_of(plan: Plan, computed: Sequence[Dims | None] = ()) -> Propagation:
    """The replay of a plan's propagation; `computed` is where each value lies as its operation computes it, if that is known.

    Raises `PartitionError` with Shardy's words.
    """
    recorded = record(plan)
    links = links_of(plan.program, recorded)
    sites = tuple(_sites(plan, recorded, links, computed))
    moves = _Moves(plan, recorded, links).found()
    starts, brought = Starts(plan, recorded, links), {move.point for move in moves}
    origins = {
        point: starts.origin(point)
        for value, lying in recorded.lying.items()
        if links.one[value] == value
        for point in _points(value, lying.dims)
        if point not in brought
    }
    wishes = Wishes(plan, recorded, links)
    return Propagation(sites, moves, origins, tuple(links.one), wishes.of, wishes.others, wishes.conflicts)


def _points(value: int, dims: Dims) -> Iterator[Point]:
    return (Point(value, dim, axis) for dim, axes in enumerate(dims) for axis in axes)


def _sites(plan: Plan, recorded: Recorded, links: Links, computed: Sequence[Dims | None]) -> Iterator[Site]:
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
            yield Site("argument", tensor.path, "input", tensor.shape, tensor.dims, "", where, where)
        elif each.born < 0:
            yield Site("value", "", "block argument", each.shape, ("_",) * len(each.shape), "", where, where)
        else:
            operation = program.operations[each.born]
            names = operation.dims if each.result == 0 else ("_",) * len(each.shape)
            found = computed[value] if computed else None
            made = where if found is None else sharding(found)
            yield Site("value", operation.path, operation.kind, each.shape, names, operation.source, where, made)
    for added in recorded.inserted:
        yield _inserted(plan, recorded, added, lies)
    for value, tensor in zip(recorded.results, program.results, strict=True):
        where = lies(value, len(tensor.shape))
        yield Site("result", tensor.path, "result", tensor.shape, tensor.dims, "", where, where)


def _inserted(plan: Plan, recorded: Recorded, added: Inserted, lies: Callable[[int, int], Sharding]) -> Site:
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
        return Site("value", tensor.path, kind, each.shape, tensor.dims, "", where, where)
    operation = program.operations[each.born]
    return Site("value", operation.path, kind, each.shape, operation.dims, operation.source, where, where)


class _Moves:
    """All moves in the order of their steps, which count from 1, each with the tensor it really came from."""

    def __init__(self, plan: Plan, recorded: Recorded, links: Links) -> None:
        self._plan, self._mesh, self._lying, self._links = plan, plan.mesh, recorded.lying, links
        found = [(each, link) for link in links.links for each in recorded.records.get(link.key, ())]
        self._records = sorted(found, key=lambda pair: pair[0].step)
        self._arrived: dict[Point, int] = {}

    def found(self) -> tuple[Move, ...]:
        targets = [(each, link, slot, point) for each, link in self._records for slot in each.targets if (point := self._target(link, slot, each))]
        recorded = {point for *_, point in targets}
        moves: list[Move] = []
        for value, lying in self._lying.items():
            self._arrived.update((point, _AT_HAND) for point in _points(value, lying.dims) if point not in recorded)
        for each, link, slot, point in targets:
            if point not in self._arrived:
                source = self._source(link, slot, each, point)
                if source is None:
                    continue
                self._arrived[point] = each.step
                moves.append(self._move(link, slot, each, source, point))
        numbers = {step: number for number, step in enumerate(dict.fromkeys(move.step for move in moves), start=1)}
        return tuple(move._replace(step=numbers[move.step]) for move in moves)

    def _target(self, link: Link, slot: Slot, record: Record) -> Point | None:
        """Where an axis ended up in a tensor that it was handed to; `None` if Shardy thought better of it."""
        value = link.value(slot)
        lying = self._lying.get(value)
        for dim, axes in enumerate(lying.dims if lying else ()):
            if record.axis in axes:
                return Point(value, dim, record.axis)
        for dim, axes in enumerate(lying.dims if lying else ()):
            for axis in axes:
                if overlap(axis, record.axis, self._mesh):
                    return Point(value, dim, axis)
        return None

    def _source(self, link: Link, slot: Slot, record: Record, point: Point) -> tuple[int, int, Slot] | None:
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
                    if overlap(axis, point.axis, self._mesh) and self._arrived.get(Point(value, dim, axis), record.step) < record.step:
                        return value, dim, Slot(place >= link.operands, place)
        return None

    def _move(self, link: Link, slot: Slot, record: Record, source: tuple[int, int, Slot], point: Point) -> Move:
        value, dim, giver = source
        direction = ACROSS if giver.is_result == slot.is_result else FORWARD if slot.is_result else BACKWARD
        over, line = self._over(link)
        return Move(record.step, point.axis, value, dim, point.value, point.dim, over, link.kind, line, direction)

    def _over(self, link: Link) -> tuple[str, str]:
        operations = self._plan.program.operations
        return (operations[link.op].path, operations[link.op].source) if link.op >= 0 else (RETURN, "")
