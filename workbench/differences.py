"""Why the compiled program sends something else than the plan: every collective without a match on the other side, and its cause.

Collectives are matched by mesh axes, class and payload. What is left over on both sides is tried against what compilers are known to do.
"""

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from typing import NamedTuple

from workbench.compiled import Compiled, CompiledCollective
from workbench.report import Collective, Report, collective_class
from workbench.sharding import base_axis


class Cause(NamedTuple):
    """A named thing that compilers do, and what it means."""

    name: str
    text: str


COMBINED = Cause("combined", "the compiler sends several arrays in one collective: fewer latencies, the same bytes")
WINDOWED = Cause("windowed einsum", "the compiler sends shards around a ring and multiplies each as it arrives: communication hides")
WIDENED = Cause("widened", "this compiler reduces 2-byte floats as 4-byte ones: twice the bytes")
GATHERED_AGAIN = Cause("gathered again", "the compiler gathers a second time what it would have to keep for long: more bytes, less memory")
KEPT = Cause("kept", "the compiler keeps for the second use what the plan sends twice")
HOISTED = Cause("moved out of a loop", "the compiler found that each turn of the loop sends the same, and sends it once")
FOLDED = Cause("folded", "the compiler reduces over all axes at once what the plan reduces over one after the other")
SPLIT = Cause("reduced axis by axis", "the compiler reduces over one axis after the other what the plan reduces at once")
BORDERS = Cause("borders", "each device fetches what a shift, window or pad needs around its own slice, in another way than planned")
REWRITTEN = Cause("rewritten first", "this compiler makes other operations of this one before it partitions them, and those send otherwise")
NARROWED = Cause("narrowed", "this compiler rounds to 2-byte floats before it sends, as the product that reads them would")
NOT_PARTITIONED = Cause("not partitioned", "the compiler has no partitioned form of this operation, and gathers its operand")
OTHERWISE = Cause("resharded otherwise", "the compiler takes another way between the same two shardings")
NOT_SENT = Cause("not sent", "the compiler found this value already there, or not needed")
UNEXPLAINED = Cause("unexplained", "no cause that the workbench knows; tell us")

ALL_CAUSES = (
    *(COMBINED, WINDOWED, WIDENED, GATHERED_AGAIN, KEPT, HOISTED, FOLDED, SPLIT),
    *(BORDERS, REWRITTEN, NARROWED, NOT_PARTITIONED, OTHERWISE, NOT_SENT, UNEXPLAINED),
)

_SHIFTING = (
    "slice",
    "pad",
    "concatenate",
    "conv",
    "reduce_window",
    "roll",
    "cumsum",
    "dynamic_update_slice",
    "reverse",
    "scatter",
    "gather",
)
_EXPANDED = ("select_and_scatter", "top_k", "fft")
_WHOLE = ("top_k", "sort", "fft", "cholesky", "triangular_solve", "custom_call", "ragged_dot")


@dataclass(frozen=True, slots=True)
class Difference:
    """Payload bytes a device and step that differ over `axes` at one place of the program; equal where only their form differs."""

    axes: tuple[str, ...]
    kind: str
    path: str
    source: str
    predicted: int
    compiled: int
    cause: Cause


@dataclass(frozen=True, slots=True)
class _Item:
    """One collective of either side, by class."""

    axes: tuple[str, ...]
    kind: str
    payload: int
    count: int
    path: str
    source: str

    @property
    def total(self) -> int:
        return self.payload * self.count


def explain(report: Report, compiled: Compiled) -> tuple[Difference, ...]:
    """The differences, heaviest first; what was only combined or windowed stands at the end, as its bytes are equal."""
    order = {name: place for place, name in enumerate(report.mesh.names)}
    ours, theirs = _unmatched([_planned(each, order) for each in report.collectives], list(_found(compiled, order)))
    found = [*_pairs(ours, theirs), *_left_over(ours, theirs)]
    found.sort(key=lambda each: -abs(each.predicted - each.compiled))
    return (*found, *_forms(compiled))


def _planned(each: Collective, order: dict[str, int]) -> _Item:
    axes = tuple(sorted({base_axis(axis) for axis in each.axes}, key=order.__getitem__))
    return _Item(axes, collective_class(each.kind), each.payload, each.count, each.path, each.source)


def _found(compiled: Compiled, order: dict[str, int]) -> Iterator[_Item]:
    for each in compiled.collectives:
        axes = tuple(sorted(each.axes, key=lambda axis: order.get(axis, 0)))
        parts = each.parts or (each.payload,)
        paths = each.part_paths if len(each.part_paths) == len(parts) else (each.path,) * len(parts)
        for payload, path in zip(parts, paths, strict=True):
            source = each.source if path == each.path else ""  # the line is that of the first
            yield _Item(axes, collective_class(each.part_of or each.kind), payload, each.count, path, source)


def _unmatched(ours: list[_Item], theirs: list[_Item]) -> tuple[list[_Item], list[_Item]]:
    """What is left of each side when equal payloads over equal axes are taken away, execution by execution."""
    executions: Counter[tuple[tuple[str, ...], str, int]] = Counter()
    for each in theirs:
        executions[each.axes, each.kind, each.payload] += each.count
    left = []
    for each in ours:
        key = each.axes, each.kind, each.payload
        taken = min(executions[key], each.count)
        executions[key] -= taken
        if each.count > taken:
            left.append(replace(each, count=each.count - taken))
    rest = []
    for each in reversed(theirs):  # the later ones are the repetitions
        key = each.axes, each.kind, each.payload
        taken = min(executions[key], each.count)
        executions[key] -= taken
        if taken:
            rest.append(replace(each, count=taken))
    return left, rest


def _pairs(ours: list[_Item], theirs: list[_Item]) -> Iterator[Difference]:
    """Leftovers of both sides that belong together; they are taken out of the lists."""
    for test in (_together, _widened, _narrowed, _split, _folded, _rewritten, _otherwise):
        for each in list(ours):
            if each in ours and (match := test(each, theirs, ours)):
                mine, his, cause = match
                for item in mine:
                    ours.remove(item)
                for item in his:
                    theirs.remove(item)
                yield _difference(each, sum(item.total for item in mine), sum(item.total for item in his), cause)


_Match = tuple[list[_Item], list[_Item], Cause] | None


def _together(each: _Item, theirs: list[_Item], ours: list[_Item]) -> _Match:
    """All that is left of one kind over the same axes, and its bytes are the same: packed together before they are sent."""
    mine, his = ([item for item in side if (item.axes, item.kind) == (each.axes, each.kind)] for side in (ours, theirs))
    planned, found = (sum(item.total for item in side) for side in (mine, his))
    return (mine, his, COMBINED) if his and planned == found else None


def _widened(each: _Item, theirs: list[_Item], _: list[_Item]) -> _Match:
    match = _first(theirs, lambda item: (item.axes, item.kind, item.payload) == (each.axes, each.kind, 2 * each.payload))
    return ([each], [match], WIDENED) if match else None


def _narrowed(each: _Item, theirs: list[_Item], _: list[_Item]) -> _Match:
    match = _first(theirs, lambda item: (item.axes, item.kind, 2 * item.payload) == (each.axes, each.kind, each.payload))
    return ([each], [match], NARROWED) if match and each.kind == "collective-permute" else None


def _rewritten(each: _Item, theirs: list[_Item], ours: list[_Item]) -> _Match:
    """All that either side sends for an operation that some compilers know no more when they partition."""
    name = each.path.rpartition("/")[2]
    if not any(word in name for word in _EXPANDED):
        return None
    mine = [item for item in ours if item.path == each.path]
    his = [item for item in theirs if item.path.rpartition("/")[0] == each.path.rpartition("/")[0] and item.axes == each.axes]
    return (mine, his, REWRITTEN) if his else None


def _split(each: _Item, theirs: list[_Item], _: list[_Item]) -> _Match:
    """One reduction over several axes, found as one an axis."""
    if each.kind != "reduce" or len(each.axes) < 2:
        return None
    by_axis = {item.axes: item for item in theirs if (item.kind, item.payload) == (each.kind, each.payload) and len(item.axes) == 1}
    found = [by_axis[axis,] for axis in each.axes if (axis,) in by_axis]
    return ([each], found, SPLIT) if len(found) == len(each.axes) else None


def _folded(each: _Item, theirs: list[_Item], ours: list[_Item]) -> _Match:
    """Several reductions of one value, found as one over all their axes."""
    if each.kind != "reduce":
        return None
    for wide in theirs:
        if wide.kind == "reduce" and set(each.axes) < set(wide.axes) and wide.payload == each.payload:
            mine = [item for item in ours if item.kind == "reduce" and item.payload == each.payload and set(item.axes) < set(wide.axes)]
            return mine, [wide], FOLDED
    return None


def _otherwise(each: _Item, theirs: list[_Item], _: list[_Item]) -> _Match:
    match = _first(theirs, lambda item: item.path == each.path and bool(set(item.axes) & set(each.axes)))
    return ([each], [match], OTHERWISE) if match else None


def _first(items: Iterable[_Item], test: Callable[[_Item], bool]) -> _Item | None:
    return next((item for item in items if test(item)), None)


def _left_over(ours: list[_Item], theirs: list[_Item]) -> Iterator[Difference]:
    for each in ours:
        yield _difference(each, each.total, 0, HOISTED if each.count > 1 else KEPT if each.kind == "all-gather" else NOT_SENT)
    for each in theirs:
        yield _difference(each, 0, each.total, _extra(each))


def _extra(each: _Item) -> Cause:
    """Why the compiled program sends what the plan does not."""
    words = each.path.rpartition("/")[2]
    if any(word in words for word in _WHOLE):
        return NOT_PARTITIONED
    if any(word in words for word in _SHIFTING):
        return BORDERS
    return GATHERED_AGAIN if each.kind == "all-gather" else UNEXPLAINED


def _difference(each: _Item, predicted: int, compiled: int, cause: Cause) -> Difference:
    return Difference(each.axes, each.kind, each.path, each.source, predicted, compiled, cause)


def _forms(compiled: Compiled) -> Iterator[Difference]:
    """What is sent in another form, byte for byte the same: a line for each kind and axes."""
    forms: dict[tuple[Cause, tuple[str, ...], str], list[CompiledCollective]] = defaultdict(list)
    for each in compiled.collectives:
        if each.part_of and each.part_of != each.kind:
            forms[WINDOWED, each.axes, each.part_of].append(each)
        elif len(each.parts) > 1:
            forms[COMBINED, each.axes, each.kind].append(each)
    for (cause, axes, kind), group in forms.items():
        total = sum(each.total_payload for each in group)
        yield Difference(axes, kind, group[0].path, group[0].source, total, total, cause)
