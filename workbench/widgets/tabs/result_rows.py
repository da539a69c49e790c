"""The results of a step, as rows of the tensor board: one that becomes an argument of the next step has that argument's sharding, and no
row."""

from collections.abc import Collection, Iterator
from typing import Any

from workbench.core.layout import Layout
from workbench.core.path_patterns import matches
from workbench.reports.placement import Placement
from workbench.reports.report import Report
from workbench.units import format_bytes
from workbench.widgets.board.layer_folding import fold_paths, template
from workbench.widgets.tabs.blocks import Paint, Row, dtype_cell, row
from workbench.widgets.tabs.tensors import chips, has_words, shape_text

RESULT = "result"
KEY = "results"


def uncarried_results(report: Report) -> tuple[Placement, ...]:
    """The results that are not carried on; each may be annotated."""
    carried = {result for result, _ in report.plan.program.carried}
    return tuple(each for number, each in enumerate(report.results) if number not in carried)


def result_rows(report: Report, paint: Paint, words: Collection[str], toggled: Collection[str]) -> Iterator[Row]:
    """A section of them, repeated layers as one row; nothing where all results become arguments."""
    found = [each for each in uncarried_results(report) if not words or has_words(each, words)]
    if not found:
        return
    is_open = bool(words) or KEY not in toggled
    yield {**row(KEY), "section": {"title": "Results", "note": _note(report, found)}, "fold": {"key": KEY, "open": is_open}}
    groups: dict[object, list[Placement]] = {}
    for each in found if is_open else ():
        tensor = each.tensor
        groups.setdefault((template(tensor.path), tensor.shape, tensor.dtype, tensor.dims, each.sharding), []).append(each)
    for members in groups.values():
        yield _row(report.plan.layout, members, paint)


def _note(report: Report, found: Collection[Placement]) -> str:
    held = sum(each.local_bytes for each in found)
    text = f"{len(found):,} of the step, {format_bytes(held)} per device, laid out by propagation unless you say"
    if carried := len(report.plan.program.carried):
        text += f"; the {carried:,} other{'s' * (carried != 1)} become arguments of the next step, and are sharded like those"
    return text


def _row(layout: Layout, members: list[Placement], paint: Paint) -> Row:
    first, tensor, count = members[0], members[0].tensor, len(members)
    subject, label = fold_paths([each.tensor.path for each in members])
    own = next((f"override {pattern}" for pattern, _ in reversed(layout.overrides) if matches(pattern, tensor.path)), "")
    given = layout.override(tensor.path)
    dims_cell: dict[str, Any] = chips(RESULT, subject, tensor.dims, tensor.shape, first.sharding.dims, paint, own, given)
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
