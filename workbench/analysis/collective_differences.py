"""Why the compiled program does not send what the plan does: every collective without a match on the other side, and its cause.

Collectives are matched by mesh axes, class and payload. What is left over on both sides is matched against known compiler transformations.
"""

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace

from workbench.analysis.difference_causes import (
    BORDERS,
    COMBINED,
    FOLDED,
    GATHERED_AGAIN,
    HOISTED,
    KEPT,
    LOOKED_UP,
    NARROWED,
    NOT_PARTITIONED,
    NOT_SENT,
    OTHERWISE,
    PADDED,
    REWRITTEN,
    SPLIT,
    TOO_FINE,
    UNEXPLAINED,
    WIDENED,
    WINDOWED,
    Cause,
)
from workbench.core.sharding import base_axis
from workbench.reports.collective import Collective, collective_class
from workbench.reports.compiled import Compiled, CompiledCollective
from workbench.reports.report import Report

_SHIFT_OPS = (
    "slice",
    "pad",
    "concatenate",
    "conv",
    "reduce_window",
    "roll",
    "cumsum",
    "dynamic_update_slice",
    "rev",
    "select_and_scatter",
)
_LOOKUP_OPS = ("gather", "scatter")
_EXPANDED_OPS = ("select_and_scatter", "top_k", "fft")
_UNPARTITIONED_OPS = ("top_k", "sort", "fft", "cholesky", "triangular_solve", "custom_call", "ragged_dot")


@dataclass(frozen=True, slots=True)
class Difference:
    """Payload bytes per device and step that differ over `axes` at one place of the program; equal where only their form differs."""

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
    reader: str = ""

    @property
    def total(self) -> int:
        return self.payload * self.count


def explain_collectives(report: Report, compiled: Compiled) -> tuple[Difference, ...]:
    """The differences, largest first; those that were only combined or windowed come last, as their bytes are equal."""
    order = {name: place for place, name in enumerate(report.mesh.names)}
    ours, theirs = _remove_matches([_planned_item(each, order) for each in report.collectives], list(_list_compiled_items(compiled, order)))
    thin = {_scope(each.path) for each in report.padding if each.size < each.parts} if ours or theirs else set[str]()
    fine = [*_explain_too_fine(ours, thin, is_ours=True), *_explain_too_fine(theirs, thin, is_ours=False)]
    pairs = list(_pair_leftovers(ours, theirs, narrows="cpu" not in compiled.target.lower()))
    otherwise = {_path_tail(each.path) for each in pairs if each.cause is OTHERWISE}
    has_loops = any(each.kind == "while" for each in report.plan.program.operations)
    found = [*fine, *pairs, *_explain_leftovers(ours, theirs, otherwise, has_loops=has_loops)]
    found.sort(key=lambda each: -abs(each.predicted - each.compiled))
    return (*found, *_list_other_forms(compiled))


def _planned_item(each: Collective, order: dict[str, int]) -> _Item:
    axes = tuple(sorted({base_axis(axis) for axis in each.axes}, key=order.__getitem__))
    return _Item(axes, collective_class(each.kind), each.payload, each.count, each.path, each.source)


def _list_compiled_items(compiled: Compiled, order: dict[str, int]) -> Iterator[_Item]:
    for each in compiled.collectives:
        axes = tuple(sorted(each.axes, key=lambda axis: order.get(axis, 0)))
        parts = each.parts or (each.payload,)
        paths = each.part_paths if len(each.part_paths) == len(parts) else (each.path,) * len(parts)
        for payload, path in zip(parts, paths, strict=True):
            source = each.source if path == each.path else ""  # its source line is that of the first
            yield _Item(axes, collective_class(each.part_of or each.kind), payload, each.count, path, source, each.reader)


def _remove_matches(ours: list[_Item], theirs: list[_Item]) -> tuple[list[_Item], list[_Item]]:
    """What is left of each side when equal payloads over equal axes are matched, execution by execution: those of one path first, then
    those whose paths have the same tail (a compiled loop's body does not say where the loop is), then any."""
    for parts in (None, 2, 0):
        ours, theirs = _remove_matches_by(ours, theirs, parts)
    return ours, theirs[::-1]


def _remove_matches_by(ours: list[_Item], theirs: list[_Item], parts: int | None) -> tuple[list[_Item], list[_Item]]:
    """As `_remove_matches`, of items whose paths have the same last `parts`; all of the path if `None`."""

    def key(each: _Item) -> tuple[object, ...]:
        return each.axes, each.kind, each.payload, _path_tail(each.path, parts)

    executions: Counter[tuple[object, ...]] = Counter()
    for each in theirs:
        executions[key(each)] += each.count
    left = []
    for each in ours:
        matched = min(executions[key(each)], each.count)
        executions[key(each)] -= matched
        if each.count > matched:
            left.append(replace(each, count=each.count - matched))
    rest = []
    for each in reversed(theirs):  # the later ones are the repetitions
        matched = min(executions[key(each)], each.count)
        executions[key(each)] -= matched
        if matched:
            rest.append(replace(each, count=matched))
    return left, rest[::-1]


def _pair_leftovers(ours: list[_Item], theirs: list[_Item], *, narrows: bool) -> Iterator[Difference]:
    """Leftovers of both sides that belong together; they are removed from the lists."""
    for test in (
        _match_combined,
        _match_widened,
        _match_padded,
        *((_match_narrowed,) if narrows else ()),
        _match_split,
        _match_folded,
        _match_rewritten,
        _match_other_path,
    ):
        for each in list(ours):
            if each in ours and (match := test(each, theirs, ours)):
                our_items, their_items, cause = match
                for item in our_items:
                    ours.remove(item)
                for item in their_items:
                    theirs.remove(item)
                yield _make_difference(each, sum(item.total for item in our_items), sum(item.total for item in their_items), cause)


_Match = tuple[list[_Item], list[_Item], Cause] | None


def _match_combined(each: _Item, theirs: list[_Item], ours: list[_Item]) -> _Match:
    """All that is left of one kind over the same axes, with equal bytes: combined before they are sent."""
    our_items, their_items = ([item for item in side if (item.axes, item.kind) == (each.axes, each.kind)] for side in (ours, theirs))
    planned, found = (sum(item.total for item in side) for side in (our_items, their_items))
    return (our_items, their_items, COMBINED) if their_items and planned == found else None


def _match_widened(each: _Item, theirs: list[_Item], _: list[_Item]) -> _Match:
    if each.kind != "reduce":
        return None
    match = _find_first(theirs, lambda item: (item.axes, item.kind, item.payload) == (each.axes, each.kind, 2 * each.payload))
    return ([each], [match], WIDENED) if match else None


def _match_padded(each: _Item, theirs: list[_Item], _: list[_Item]) -> _Match:
    """A reduction of somewhat more bytes, and the shift of no more than that, which has no name of its own."""
    if each.kind != "reduce":
        return None

    def is_it(item: _Item) -> bool:
        place = item.axes, item.kind, item.count, _path_tail(item.path)
        return place == (each.axes, each.kind, each.count, _path_tail(each.path)) and 0 < item.payload - each.payload <= each.payload // 8

    wide = _find_first(theirs, is_it)
    if wide is None:
        return None
    shift = ("collective-permute", each.axes, each.count, "")
    shifts = [item for item in theirs if (item.kind, item.axes, item.count, item.path) == shift]
    return [each], [wide, *(item for item in shifts if item.payload <= wide.payload - each.payload)], PADDED


def _match_narrowed(each: _Item, theirs: list[_Item], _: list[_Item]) -> _Match:
    match = _find_first(theirs, lambda item: (item.axes, item.kind, 2 * item.payload) == (each.axes, each.kind, each.payload))
    return ([each], [match], NARROWED) if match and each.kind == "collective-permute" else None


def _match_rewritten(each: _Item, theirs: list[_Item], ours: list[_Item]) -> _Match:
    """All that either side sends for an operation that some compilers rewrite before they partition."""
    name = each.path.rpartition("/")[2]
    if not any(word in name for word in _EXPANDED_OPS):
        return None
    our_items = [item for item in ours if item.path == each.path]
    their_items = [item for item in theirs if item.path.rpartition("/")[0] == each.path.rpartition("/")[0] and item.axes == each.axes]
    return (our_items, their_items, REWRITTEN) if their_items else None


def _match_split(each: _Item, theirs: list[_Item], _: list[_Item]) -> _Match:
    """One reduction over several axes, found as one per axis."""
    if each.kind != "reduce" or len(each.axes) < 2:
        return None
    by_axis = {item.axes: item for item in theirs if (item.kind, item.payload) == (each.kind, each.payload) and len(item.axes) == 1}
    found = [by_axis[axis,] for axis in each.axes if (axis,) in by_axis]
    return ([each], found, SPLIT) if len(found) == len(each.axes) else None


def _match_folded(each: _Item, theirs: list[_Item], ours: list[_Item]) -> _Match:
    """Several reductions of one value, found as one over all their axes."""
    if each.kind != "reduce":
        return None
    for wide in theirs:
        if wide.kind == "reduce" and set(each.axes) < set(wide.axes) and wide.payload == each.payload:
            our_items = [
                item for item in ours if item.kind == "reduce" and item.payload == each.payload and set(item.axes) < set(wide.axes)
            ]
            return our_items, [wide], FOLDED
    return None


def _match_other_path(each: _Item, theirs: list[_Item], _: list[_Item]) -> _Match:
    match = _find_first(theirs, lambda item: item.path == each.path and bool(set(item.axes) & set(each.axes)))
    return ([each], [match], OTHERWISE) if match else None


def _find_first(items: Iterable[_Item], test: Callable[[_Item], bool]) -> _Item | None:
    return next((item for item in items if test(item)), None)


def _explain_too_fine(items: list[_Item], thin: set[str], *, is_ours: bool) -> Iterator[Difference]:
    """Those in scopes of values that have fewer elements than devices along a dimension; they are removed from the list."""
    for each in [item for item in items if _scope(item.path) in thin]:
        items.remove(each)
        yield _make_difference(each, each.total if is_ours else 0, 0 if is_ours else each.total, TOO_FINE)


def _explain_leftovers(ours: list[_Item], theirs: list[_Item], resharded: set[str], *, has_loops: bool) -> Iterator[Difference]:
    """What has no match; `resharded` are the places where the compiler reshards in other steps, of which this may be one."""
    for each in ours:
        yield _make_difference(each, each.total, 0, _cause_of_missing(each, has_loops=has_loops))
    for each in theirs:
        yield _make_difference(each, 0, each.total, _cause_of_extra(each, resharded))


def _scope(path: str) -> str:
    """The named scope that an operation is in."""
    return path.rpartition("/")[0]


def _cause_of_missing(each: _Item, *, has_loops: bool) -> Cause:
    """Why the compiled program does not send what the plan does."""
    if _is_operation_in(each, _LOOKUP_OPS):
        return LOOKED_UP
    if each.kind == "collective-permute" and _is_operation_in(each, _SHIFT_OPS):
        return BORDERS
    return HOISTED if has_loops and each.count > 1 else KEPT if each.kind == "all-gather" else NOT_SENT


def _cause_of_extra(each: _Item, resharded: set[str]) -> Cause:
    """Why the compiled program sends what the plan does not."""
    if _is_operation_in(each, _UNPARTITIONED_OPS):
        return NOT_PARTITIONED
    if _path_tail(each.path) in resharded:
        return OTHERWISE
    if _is_operation_in(each, _SHIFT_OPS):
        return BORDERS
    if _is_operation_in(each, _LOOKUP_OPS):
        return LOOKED_UP
    return GATHERED_AGAIN if each.kind == "all-gather" else UNEXPLAINED


def _path_tail(path: str, parts: int | None = 2) -> str:
    """The last `parts` of a path; all of it if `None`."""
    words = path.split("/")
    return path if parts is None else "/".join(words[max(0, len(words) - parts) :])


def _is_operation_in(each: _Item, words: Iterable[str]) -> bool:
    """Whether the operation that sends, or that reads what is sent, is one of these."""
    names = each.path.rpartition("/")[2], each.reader.rpartition("/")[2]
    return any(word in name for word in words for name in names)


def _make_difference(each: _Item, predicted: int, compiled: int, cause: Cause) -> Difference:
    return Difference(each.axes, each.kind, each.path, each.source, predicted, compiled, cause)


def _list_other_forms(compiled: Compiled) -> Iterator[Difference]:
    """What is sent in another form with the same bytes: a line for each kind and axes."""
    forms: dict[tuple[Cause, tuple[str, ...], str], list[CompiledCollective]] = defaultdict(list)
    for each in compiled.collectives:
        if each.part_of and each.part_of != each.kind:
            forms[WINDOWED, each.axes, each.part_of].append(each)
        elif len(each.parts) > 1:
            forms[COMBINED, each.axes, each.kind].append(each)
    for (cause, axes, kind), group in forms.items():
        total = sum(each.total_payload for each in group)
        yield Difference(axes, kind, group[0].path, group[0].source, total, total, cause)
