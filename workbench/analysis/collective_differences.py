"""Explain why planned and compiled communication differ: every unmatched collective with its cause.

Collectives are matched by mesh axes, class and payload; leftovers are matched against known compiler transformations.
"""

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace

from workbench.analysis import difference_causes as causes
from workbench.core.sharding import base_axis
from workbench.reports.collective import Collective, collective_class
from workbench.reports.compiled import Compiled, CompiledCollective
from workbench.reports.report import Report

_SHIFT_OPS = ("slice", "pad", "concatenate", "conv", "reduce_window", "roll", "cumsum", "dynamic_update_slice", "rev", "select_and_scatter")
_LOOKUP_OPS = ("gather", "scatter")
_EXPANDED_OPS = ("select_and_scatter", "top_k", "fft")
_UNPARTITIONED_OPS = ("top_k", "sort", "fft", "cholesky", "triangular_solve", "custom_call", "ragged_dot")


@dataclass(frozen=True, slots=True)
class Difference:
    """Payload bytes per device and step that differ over `axes` at one place; equal if only the form differs."""

    axes: tuple[str, ...]
    kind: str
    path: str
    source: str
    predicted: int
    compiled: int
    cause: causes.Cause


@dataclass(frozen=True, slots=True)
class _Item:
    """One planned or compiled collective, by class."""

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
    """Return the differences, largest first; combined or windowed collectives, with equal bytes, come last."""
    order = {name: place for place, name in enumerate(report.mesh.names)}
    ours, theirs = _remove_matches([_planned_item(each, order) for each in report.collectives], list(_list_compiled_items(compiled, order)))
    thin = {_scope(each.path) for each in report.padding if each.size < each.parts} if ours or theirs else set[str]()
    fine = [*_explain_too_fine(ours, thin, is_ours=True), *_explain_too_fine(theirs, thin, is_ours=False)]
    pairs = list(_pair_leftovers(ours, theirs, narrows="cpu" not in compiled.target.lower()))
    otherwise = {_path_tail(each.path) for each in pairs if each.cause is causes.OTHERWISE}
    has_loops = any(each.kind == "while" for each in report.plan.program.operations)
    found = [*fine, *pairs, *_explain_leftovers(ours, theirs, otherwise, has_loops=has_loops)]
    found.sort(key=lambda each: -abs(each.predicted - each.compiled))
    return (*found, *_list_other_forms(compiled))


def _planned_item(each: Collective, order: dict[str, int]) -> _Item:
    axes = tuple(sorted({base_axis(axis) for axis in each.axes}, key=order.__getitem__))
    return _Item(axes, collective_class(each.kind), each.payload, each.count, each.path, each.source)


def _list_compiled_items(compiled: Compiled, order: dict[str, int]) -> Iterator[_Item]:
    for collective in compiled.collectives:
        axes = tuple(sorted(collective.axes, key=lambda axis: order.get(axis, 0)))
        parts = collective.parts or (collective.payload,)
        paths = collective.part_paths if len(collective.part_paths) == len(parts) else (collective.path,) * len(parts)
        for payload, path in zip(parts, paths, strict=True):
            source = collective.source if path == collective.path else ""  # the source line belongs to the first part
            yield _Item(
                axes, collective_class(collective.part_of or collective.kind), payload, collective.count, path, source, collective.reader
            )


def _remove_matches(ours: list[_Item], theirs: list[_Item]) -> tuple[list[_Item], list[_Item]]:
    """Return unmatched items after matching equal payloads over equal axes, execution by execution.

    Equal paths match first, then equal path tails (a compiled loop body omits the loop's path), then any paths.
    """
    for parts in (None, 2, 0):
        ours, theirs = _remove_matches_by(ours, theirs, parts)
    return ours, theirs[::-1]


def _remove_matches_by(ours: list[_Item], theirs: list[_Item], parts: int | None) -> tuple[list[_Item], list[_Item]]:
    """Match items whose paths have the same last `parts` (`None`: the whole path)."""

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
    for each in reversed(theirs):  # repetitions come later
        matched = min(executions[key(each)], each.count)
        executions[key(each)] -= matched
        if matched:
            rest.append(replace(each, count=matched))
    return left, rest[::-1]


def _pair_leftovers(ours: list[_Item], theirs: list[_Item], *, narrows: bool) -> Iterator[Difference]:
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
        for item_to_match in list(ours):
            if item_to_match in ours and (match := test(item_to_match, theirs, ours)):
                our_items, their_items, cause = match
                for item in our_items:
                    ours.remove(item)
                for item in their_items:
                    theirs.remove(item)
                yield _make_difference(item_to_match, sum(item.total for item in our_items), sum(item.total for item in their_items), cause)


_Match = tuple[list[_Item], list[_Item], causes.Cause] | None


def _match_combined(each: _Item, theirs: list[_Item], ours: list[_Item]) -> _Match:
    """Match all leftovers of one kind over equal axes with equal bytes: combined before sending."""
    our_items, their_items = ([item for item in side if (item.axes, item.kind) == (each.axes, each.kind)] for side in (ours, theirs))
    planned, found = (sum(item.total for item in side) for side in (our_items, their_items))
    return (our_items, their_items, causes.COMBINED) if their_items and planned == found else None


def _match_widened(each: _Item, theirs: list[_Item], _: list[_Item]) -> _Match:
    if each.kind != "reduce":
        return None
    match = _find_first(theirs, lambda item: (item.axes, item.kind, item.payload) == (each.axes, each.kind, 2 * each.payload))
    return ([each], [match], causes.WIDENED) if match else None


def _match_padded(each: _Item, theirs: list[_Item], _: list[_Item]) -> _Match:
    """Match a reduction with slightly more bytes, and an unnamed shift of at most that excess."""
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
    return [each], [wide, *(item for item in shifts if item.payload <= wide.payload - each.payload)], causes.PADDED


def _match_narrowed(each: _Item, theirs: list[_Item], _: list[_Item]) -> _Match:
    match = _find_first(theirs, lambda item: (item.axes, item.kind, 2 * item.payload) == (each.axes, each.kind, each.payload))
    return ([each], [match], causes.NARROWED) if match and each.kind == "collective-permute" else None


def _match_rewritten(each: _Item, theirs: list[_Item], ours: list[_Item]) -> _Match:
    """Match all collectives of an operation that some compilers rewrite before partitioning."""
    name = each.path.rpartition("/")[2]
    if not any(word in name for word in _EXPANDED_OPS):
        return None
    our_items = [item for item in ours if item.path == each.path]
    their_items = [item for item in theirs if item.path.rpartition("/")[0] == each.path.rpartition("/")[0] and item.axes == each.axes]
    return (our_items, their_items, causes.REWRITTEN) if their_items else None


def _match_split(each: _Item, theirs: list[_Item], _: list[_Item]) -> _Match:
    """Match one reduction over several axes with one reduction per axis."""
    if each.kind != "reduce" or len(each.axes) < 2:
        return None
    by_axis = {item.axes: item for item in theirs if (item.kind, item.payload) == (each.kind, each.payload) and len(item.axes) == 1}
    reductions = [by_axis[axis,] for axis in each.axes if (axis,) in by_axis]
    return ([each], reductions, causes.SPLIT) if len(reductions) == len(each.axes) else None


def _match_folded(each: _Item, theirs: list[_Item], ours: list[_Item]) -> _Match:
    """Match several reductions of one value with one over all their axes."""
    if each.kind != "reduce":
        return None
    for wide in theirs:
        if wide.kind == "reduce" and set(each.axes) < set(wide.axes) and wide.payload == each.payload:
            our_items = [
                item for item in ours if item.kind == "reduce" and item.payload == each.payload and set(item.axes) < set(wide.axes)
            ]
            return our_items, [wide], causes.FOLDED
    return None


def _match_other_path(each: _Item, theirs: list[_Item], _: list[_Item]) -> _Match:
    match = _find_first(theirs, lambda item: item.path == each.path and bool(set(item.axes) & set(each.axes)))
    return ([each], [match], causes.OTHERWISE) if match else None


def _find_first(items: Iterable[_Item], test: Callable[[_Item], bool]) -> _Item | None:
    return next((item for item in items if test(item)), None)


def _explain_too_fine(items: list[_Item], thin: set[str], *, is_ours: bool) -> Iterator[Difference]:
    for item_in_scope in [item for item in items if _scope(item.path) in thin]:
        items.remove(item_in_scope)
        yield _make_difference(item_in_scope, item_in_scope.total if is_ours else 0, 0 if is_ours else item_in_scope.total, causes.TOO_FINE)


def _explain_leftovers(ours: list[_Item], theirs: list[_Item], resharded: set[str], *, has_loops: bool) -> Iterator[Difference]:
    """Explain items without a match; `resharded` are the places where the compiler reshards in other steps."""
    for item in ours:
        yield _make_difference(item, item.total, 0, _cause_of_missing(item, has_loops=has_loops))
    for item in theirs:
        yield _make_difference(item, 0, item.total, _cause_of_extra(item, resharded))


def _scope(path: str) -> str:
    return path.rpartition("/")[0]


def _cause_of_missing(each: _Item, *, has_loops: bool) -> causes.Cause:
    if _is_operation_in(each, _LOOKUP_OPS):
        return causes.LOOKED_UP
    if each.kind == "collective-permute" and _is_operation_in(each, _SHIFT_OPS):
        return causes.BORDERS
    return causes.HOISTED if has_loops and each.count > 1 else causes.KEPT if each.kind == "all-gather" else causes.NOT_SENT


def _cause_of_extra(each: _Item, resharded: set[str]) -> causes.Cause:
    if _is_operation_in(each, _UNPARTITIONED_OPS):
        return causes.NOT_PARTITIONED
    if _path_tail(each.path) in resharded:
        return causes.OTHERWISE
    if _is_operation_in(each, _SHIFT_OPS):
        return causes.BORDERS
    if _is_operation_in(each, _LOOKUP_OPS):
        return causes.LOOKED_UP
    return causes.GATHERED_AGAIN if each.kind == "all-gather" else causes.UNEXPLAINED


def _path_tail(path: str, parts: int | None = 2) -> str:
    words = path.split("/")
    return path if parts is None else "/".join(words[max(0, len(words) - parts) :])


def _is_operation_in(each: _Item, words: Iterable[str]) -> bool:
    names = each.path.rpartition("/")[2], each.reader.rpartition("/")[2]
    return any(word in name for word in words for name in names)


def _make_difference(each: _Item, predicted: int, compiled: int, cause: causes.Cause) -> Difference:
    return Difference(each.axes, each.kind, each.path, each.source, predicted, compiled, cause)


def _list_other_forms(compiled: Compiled) -> Iterator[Difference]:
    forms: dict[tuple[causes.Cause, tuple[str, ...], str], list[CompiledCollective]] = defaultdict(list)
    for collective in compiled.collectives:
        if collective.part_of and collective.part_of != collective.kind:
            forms[causes.WINDOWED, collective.axes, collective.part_of].append(collective)
        elif len(collective.parts) > 1:
            forms[causes.COMBINED, collective.axes, collective.kind].append(collective)
    for (cause, axes, kind), group in forms.items():
        total = sum(collective.total_payload for collective in group)
        yield Difference(axes, kind, group[0].path, group[0].source, total, total, cause)
