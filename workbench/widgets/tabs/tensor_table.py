"""The tensor table: arguments by role with dimensions as chips, repeated layers folded, and the step's results."""

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from workbench.core.layout import Layout
from workbench.core.path_patterns import matches
from workbench.core.program import STATE
from workbench.core.sharding import Sharding, base_axis
from workbench.core.tensor import Role
from workbench.reports.placement import Placement
from workbench.reports.report import Report
from workbench.units import format_bytes
from workbench.widgets.board.annotation_marks import marks_of, tags_of
from workbench.widgets.board.layer_folding import fold_paths, group_arguments, stacked_layers, template
from workbench.widgets.tabs.table_blocks import Block, Cell, Column, Paint, Row, block, dtype_cell, note_block, rest_text, row

MOST_ROWS = 400
TENSOR, VALUE = "tensor", "value"
FOLDED_AT_FIRST = frozenset({f"role {Role.OPTIMIZER_STATE.value}"})
"""Sections closed by default: optimizer state is sharded like its parameters."""
_SECTIONS = {
    Role.PARAMETER: "Parameters",
    Role.OPTIMIZER_STATE: "Optimizer state",
    Role.MODEL_STATE: "Model state",
    Role.INPUT: "Inputs",
    Role.GRADIENT: "Gradients",
    Role.ACTIVATION: "Activations",
    Role.OUTPUT: "Outputs",
}
_COLUMNS = (
    Column("tensor"),
    Column("dimensions", title="drag onto a mesh axis"),
    Column("per device"),
    Column("bytes", number=True, title="on one device"),
    Column("global shape"),
    Column("dtype"),
)


_ELSEWHERE = {"text": "other stages", "tone": "muted", "title": "not on this stage"}


@dataclass(frozen=True, slots=True)
class Group:
    """Equal arguments with equal sharding; `held` maps paths to placements on the selected stage's device."""

    placed: tuple[Placement, ...]
    subject: str
    label: str
    held: Mapping[str, Placement] | None = None

    @property
    def first(self) -> Placement:
        return self.placed[0]

    @property
    def bytes(self) -> int:
        return sum(placement.local_bytes for placement in self.on_device)

    @property
    def on_device(self) -> tuple[Placement, ...]:
        held = self.held
        return (
            self.placed
            if held is None
            else tuple(held[placement.tensor.path] for placement in self.placed if placement.tensor.path in held)
        )


def tensor_blocks(
    report: Report, paint: Paint, search: str = "", toggled: Collection[str] = (), more: Iterable[Row] = (), stage: Report | None = None
) -> list[Block]:
    """Build the table; `toggled` are opened or closed rows, `more` rows are appended, `stage` limits the shards."""
    held = None if stage is None or stage.stage is None else {placed.tensor.path: placed for placed in stage.arguments}
    groups, more = [replace(group, held=held) for group in groups_of(report, search.lower().split())], list(more)
    if not groups and not more:
        return [note_block(f"No tensor matches “{search[:80]}”." if search else "The program takes no arguments.")]
    rows = [*_rows(report, groups, paint, toggled, is_search=bool(search)), *more]
    return [block("", _COLUMNS, rows[:MOST_ROWS], rest_text(len(rows), MOST_ROWS, " Search to see others."))]


def groups_of(report: Report, words: Collection[str] = ()) -> Iterator[Group]:
    """Yield the arguments that match all `words`, grouped if equal with equal sharding."""
    for indices in group_arguments(report.plan.program):
        by_sharding: dict[object, list[Placement]] = {}
        for placed in (report.arguments[index] for index in indices):
            if not words or has_words(placed, words):
                by_sharding.setdefault(placed.sharding, []).append(placed)
        for members in by_sharding.values():
            subject, label = fold_paths([placed.tensor.path for placed in members])
            first = members[0].tensor
            yield Group(
                tuple(members), subject, (stacked_layers(first.path, first.dims, first.shape) if first.role in STATE else "") or label
            )


def argument_blocks(report: Report, paint: Paint, path: str) -> list[Block]:
    groups = [group for group in groups_of(report) if any(placed.tensor.path == path for placed in group.placed)]
    rows = [_row(report.plan.layout, group, paint, f"selected {path}") for group in groups]
    return [block("Selected", _COLUMNS, rows)] if rows else []


def has_words(placed: Placement, words: Collection[str]) -> bool:
    tensor = placed.tensor
    text = f"{tensor.path} {tensor.role.value} {' '.join(tensor.dims)} {tensor.dtype} {placed.sharding}".lower()
    return all(word in text for word in words)


def _rows(report: Report, groups: list[Group], paint: Paint, toggled: Collection[str], *, is_search: bool) -> Iterator[Row]:
    for role, title in _SECTIONS.items():
        mine = [group for group in groups if group.first.tensor.role is role]
        if not mine:
            continue
        key = f"role {role.value}"
        is_open = is_search or (key in FOLDED_AT_FIRST) == (key in toggled)
        yield _section(key, title, mine, is_open=is_open)
        for group in mine if is_open else ():
            yield from _group_rows(report.plan.layout, group, paint, toggled)


def _section(key: str, title: str, groups: list[Group], *, is_open: bool) -> Row:
    count = sum(len(group.placed) for group in groups)
    total = sum(group.bytes for group in groups)
    note = f"{count:,} tensor{'s' * (count != 1)} · {format_bytes(total)} per device"
    return {**row(key), "section": {"title": title, "note": note}, "fold": {"key": key, "open": is_open}}


def _group_rows(layout: Layout, group: Group, paint: Paint, toggled: Collection[str]) -> Iterator[Row]:
    many = len(group.placed) > 1
    key = f"{group.subject} {group.first.tensor.shape} {group.first.sharding}"
    is_open = many and key in toggled
    yield {**_row(layout, group, paint, key), "fold": {"key": key, "open": is_open} if many else None}
    for placed in group.placed if is_open else ():
        path = placed.tensor.path
        yield {**_row(layout, Group((placed,), path, path, group.held), paint, f"{path} alone"), "fold": None, "level": 1}


def _row(layout: Layout, group: Group, paint: Paint, key: str) -> Row:
    tensor, count = group.first.tensor, len(group.placed)
    local_placements = group.on_device
    local = local_placements[0].local_shape if local_placements else ()
    bytes_title = (
        f"{len(local_placements)} × {format_bytes(local_placements[0].local_bytes)} on each device"
        if len(local_placements) > 1
        else f"{group.bytes:,} bytes on each device"
    )
    return row(
        key,
        {"path": group.label, "count": f"×{count}" if count > 1 else "", "title": tensor.path if count == 1 else group.label},
        {**_chips_of(layout, group, paint), "tags": tags_of(layout, tensor.path)},
        {"text": shape_text(local), "tone": "same" if local == tensor.shape else ""} if local_placements else _ELSEWHERE,
        {"text": format_bytes(group.bytes), "title": bytes_title, "why": f"tensor {group.subject}"}
        if local_placements
        else {"text": "–", "tone": "muted"},
        shape_text(tensor.shape),
        dtype_cell(tensor.dtype),
        subject=group.subject,
    )


def _chips_of(layout: Layout, group: Group, paint: Paint) -> Cell:
    tensor, dims = group.first.tensor, group.first.sharding.dims
    return chips(
        TENSOR,
        group.subject,
        tensor.dims,
        tensor.shape,
        dims,
        paint,
        next((f"override {pattern}" for pattern, _ in reversed(layout.overrides) if matches(pattern, tensor.path)), ""),
        None if layout.is_plain else layout.sharding(tensor),
    )


def chips(
    kind: str,
    subject: str,
    names: tuple[str, ...],
    shape: tuple[int, ...],
    dims: tuple[tuple[str, ...] | None, ...],
    paint: Paint,
    own: str = "",
    given: Sharding | None = None,
) -> Cell:
    """Build a tensor's dimensions as draggable chips; `own` names its override or constraint, `given` is the request."""
    entries: list[dict[str, Any]] = []
    marks = marks_of(given)
    for place, (name, size, axes) in enumerate(zip(names, shape, dims, strict=True)):
        where = f"split over {' then '.join(axes)}" if axes else "whole on every device"
        entry = {
            "place": place,
            "dim": name,
            "label": name if name not in ("", "_") else str(size),
            "axes": [{"name": axis, "colour": paint.colours.get(base_axis(axis))} for axis in axes or ()],
            "title": f"{name or 'unnamed'} = {size}, {where}",
            "marks": marks[place] if marks else (),
        }
        entries.append(entry)
    return {
        "chips": entries,
        "of": kind,
        "path": subject,
        "own": own,
        "given": str(given) if own and given and _is_explicit(kind, given) else "",
    }


def _is_explicit(kind: str, given: Sharding) -> bool:
    return kind != TENSOR or not given.is_plain


def shape_text(shape: tuple[int, ...]) -> str:
    return "×".join(map(str, shape)) or "scalar"


# Results of a step as rows of the tensor table; a result carried to the next step has the sharding of its argument and no
# row.

RESULT = "result"
KEY = "results"


def separate_results(report: Report) -> tuple[Placement, ...]:
    """Return the results that are not carried to the next step; each may be annotated."""
    carried = {result for result, _ in report.plan.program.carried}
    return tuple(placement for number, placement in enumerate(report.results) if number not in carried)


def result_rows(report: Report, paint: Paint, words: Collection[str], toggled: Collection[str]) -> Iterator[Row]:
    """Yield a section of results, repeated layers folded; nothing if all results are carried."""
    placements = [placement for placement in separate_results(report) if not words or has_words(placement, words)]
    if not placements:
        return
    is_open = bool(words) or KEY not in toggled
    yield {**row(KEY), "section": {"title": "Results", "note": _note(report, placements)}, "fold": {"key": KEY, "open": is_open}}
    groups: dict[object, list[Placement]] = {}
    for placement in placements if is_open else ():
        tensor = placement.tensor
        groups.setdefault((template(tensor.path), tensor.shape, tensor.dtype, tensor.dims, placement.sharding), []).append(placement)
    for members in groups.values():
        yield _result_row(report.plan.layout, members, paint)


def _note(report: Report, found: Collection[Placement]) -> str:
    local_bytes = sum(placement.local_bytes for placement in found)
    text = f"{len(found):,} of the step, {format_bytes(local_bytes)} per device, sharded by propagation unless overridden"
    if carried := len(report.plan.program.carried):
        text += f"; {carried:,} more {'is' if carried == 1 else 'are'} carried to the next step"
    return text


def _result_row(layout: Layout, members: list[Placement], paint: Paint) -> Row:
    first, tensor, count = members[0], members[0].tensor, len(members)
    subject, label = fold_paths([placement.tensor.path for placement in members])
    override = next((f"override {pattern}" for pattern, _ in reversed(layout.overrides) if matches(pattern, tensor.path)), "")
    requested = layout.override(tensor.path)
    dims_cell: dict[str, Any] = chips(RESULT, subject, tensor.dims, tensor.shape, first.sharding.dims, paint, override, requested)
    return {
        **row(
            f"result {subject} {tensor.shape} {first.sharding}",
            {"path": label, "count": f"×{count}" if count > 1 else "", "title": label},
            dims_cell,
            {"text": shape_text(first.local_shape), "tone": "same" if first.local_shape == tensor.shape else ""},
            {"text": format_bytes(first.local_bytes * count), "title": f"{first.local_bytes:,} bytes on each device"},
            shape_text(tensor.shape),
            dtype_cell(tensor.dtype),
            subject=subject,
        ),
        "fold": None,
    }
