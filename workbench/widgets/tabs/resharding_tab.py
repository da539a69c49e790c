"""The Resharding section. Edits are tried on request, because each needs a report, and cached with their report."""

from collections.abc import Iterator

from workbench.core.path_patterns import template
from workbench.core.text_tables import group_items
from workbench.errors import WorkbenchError
from workbench.plan.edits import Edit
from workbench.reports.padding import Padding, padding_table
from workbench.reports.report import Report
from workbench.reports.reshard import CLASS_TEXTS, REMATERIALISATION, Remedy, Reshard, ReshardCollective
from workbench.units import format_bytes
from workbench.widgets.board.background_queries import BackgroundQueries, compute_in_background
from workbench.widgets.board.comparison_state import ComparisonState
from workbench.widgets.tabs.table_blocks import (
    Block,
    Cell,
    Column,
    Paint,
    Row,
    block,
    byte_cell,
    note_block,
    rest_text,
    row,
    seconds_cell,
    table_block,
)

MOST_ROWS = 40
MOST_FREE = 8
MOST_PADDED = 24


def resharding_blocks(report: Report, comparison_state: ComparisonState | None, paint: Paint) -> list[Block]:
    sending = [reshard for reshard in report.reshards if not reshard.is_free]
    free = [reshard for reshard in report.reshards if reshard.is_free]
    if not sending:
        entries = [note_block("No resharding: each value already has the sharding that its readers need.")]
    else:
        entries = [note_block(_summary(report, sending)), _sending(report, sending, paint)]
    return [*entries, *_warning_blocks(report, comparison_state), *padding_blocks(report, paint), *_free(free, paint)]


def try_edits(key: str, report: Report, background: BackgroundQueries | None = None) -> None:
    """Find remedies of one reshard; raises `WorkbenchError` if the plan no longer has it."""
    match = next((reshard for reshard in report.reshards if key_of(reshard) == key), None)
    if match is None:
        raise WorkbenchError("The plan no longer reshards this value.", ["see the current table"])
    compute_in_background(background, report, f"remedies {key}", lambda: match.remedies)


def list_tried_edits(report: Report) -> Iterator[Edit]:
    """Yield the edits found for reshards of this report."""
    for reshard in report.reshards:
        if reshard.is_tried:
            yield from reshard.edits


def key_of(each: Reshard) -> str:
    return f"{each.path} {each.reader} {each.before} {each.after} {each.shape} {each.source}"


def _sending(report: Report, sending: list[Reshard], paint: Paint) -> Block:
    groups = group_items(
        sending, lambda item: (template(item.path), template(item.reader), item.before, item.after, item.shape, item.classes)
    )
    timed = report.step_time is not None
    groups.sort(key=lambda group: (not group[0].rematerialises, -sum(reshard.seconds or reshard.sent for reshard in group)))
    columns = (
        Column("value → reader", title="producer and reader, with source lines"),
        Column("made → needed", title="sharding at the producer and at the reader"),
        Column("way", title="one of eight methods of XLA's partitioner, and its collectives; as planned by Shardy"),
        Column("sent a step", number=True, title="bytes sent per device"),
        Column(
            "held, time" if timed else "held",
            number=True,
            title="temporary memory on one device at the peak" + (", and seconds per step, exposed and hidden" if timed else ""),
        ),
        Column("fix", title="tested edits: the plan stays legal and sends less here, without sending more in total"),
    )
    rows = [_row(report, group, paint, timed=timed) for group in groups[:MOST_ROWS]]
    return block("Resharded values", columns, rows, rest_text(len(groups), MOST_ROWS))


def _summary(report: Report, sending: list[Reshard]) -> str:
    sent = sum(reshard.sent for reshard in sending)
    share = f", {sent / report.sent:.0%} of all bytes sent" if report.sent else ""
    whole = sum(reshard.rematerialises for reshard in sending)
    gathered = f" XLA gathers {whole} of them whole, because it has no other method." if whole else ""
    return f"{format_bytes(sent)} sent per device and step for resharding{share}.{gathered}"


def _row(report: Report, group: list[Reshard], paint: Paint, *, timed: bool) -> Row:
    first = group[0]
    sent, seconds = sum(reshard.sent for reshard in group), sum(reshard.seconds for reshard in group)
    times = sum(reshard.count for reshard in group)
    ways = {"terms": [CLASS_TEXTS[number] for number in first.classes], "tone": "bad" if first.rematerialises else ""}
    return row(
        key_of(first),
        *_ends(group, paint),
        {"stack": [ways, *(_move(move, paint) for move in first.moves)]},
        {"stack": [byte_cell(sent), {"text": f"{times:,} × {format_bytes(sent / times)}" if times > 1 else "once", "tone": "muted"}]},
        {"stack": [byte_cell(first.temporary), *([seconds_cell(seconds, "muted")] if timed else [])]},
        _remedies(report, first),
        subject=_path(group),
        tone="bad" if first.rematerialises else "",
    )


def _path(group: list[Reshard]) -> str:
    return template(group[0].path) if len(group) > 1 else group[0].path


def _ends(group: list[Reshard], paint: Paint) -> tuple[Cell, Cell]:
    first = group[0]
    reader = template(first.reader) if len(group) > 1 else first.reader
    names = tuple(name if name not in ("", "_") else str(size) for name, size in zip(first.dims, first.shape, strict=True))
    count = f"×{len(group)}" if len(group) > 1 else ""
    before, after = (paint.sharding_cell(sharding, names) for sharding in (first.before, first.after))
    made = {"path": _path(group), "count": count, "beside": first.source} if first.path else {"text": "a value", "beside": first.source}
    read = {"path": reader, "lead": "→", "beside": first.reader_source}
    return {"stack": [made, read]}, {"stack": [before, {**after, "lead": "→"} if isinstance(after, dict) else after]}


def _move(move: ReshardCollective, paint: Paint) -> Cell:
    return {**paint.axes(move.axes), "lead": move.kind, "title": f"{move.payload:,} bytes of payload on one device, one execution"}


def _remedies(report: Report, each: Reshard) -> Cell:
    """Return the remedies found; before a search, the edits of the diagnostic and a search button."""
    cell = {"key": key_of(each), "about": f"{each.path} for {each.reader}"}
    if each.is_tried:
        return {**cell, "remedies": [_remedy(remedy) for remedy in each.remedies], "find": ""}
    noted = [edit for note in report.diagnostics if (note.kind, note.subject) == (REMATERIALISATION, each.path) for edit in note.edits]
    entries = [{"edit": str(edit), "note": "avoids it", "tone": "good", "title": "Tested with the partitioner"} for edit in noted]
    return {**cell, "remedies": entries, "find": "Try more edits" if entries else "Try edits"}


def _remedy(remedy: Remedy) -> dict[str, str]:
    note = f"{_change(-remedy.saved)} a step" if remedy.saved else "less here, same total"
    held = (
        {"held": f"{_change(remedy.added_bytes)} at the peak", "held_tone": "warn" if remedy.added_bytes > 0 else "good"}
        if remedy.added_bytes
        else {}
    )
    title = f"Tried: {format_bytes(remedy.sent)} are still sent here."
    return {"edit": str(remedy.edit), "note": note, "tone": "good" if remedy.saved else "muted", "title": title, **held}


def _change(count: int) -> str:
    return f"{'−' if count < 0 else '+'}{format_bytes(abs(count))}"


def _warning_blocks(report: Report, comparison_state: ComparisonState | None) -> Iterator[Block]:
    """Return the compiler's warnings of full rematerialisations, and whether they were predicted."""
    compiled = comparison_state.comparison.compiled if comparison_state and not comparison_state.stale else None
    if compiled is None:
        return
    foreseen = {warning.path for warning in report.reshards if warning.rematerialises}
    if not compiled.rematerialised:
        if foreseen:
            yield note_block("Compiled: no compiler warning of a full rematerialisation.")
        return
    columns = (Column("compiler warning"), Column("shape"), Column("from"), Column("to"), Column("foreseen"))
    rows = [
        row(
            f"{place} {warning.path} {warning.name}",
            {"path": warning.path or warning.name, "title": warning.name},
            warning.shape,
            {"text": warning.before, "title": warning.before},
            {"text": warning.after, "title": warning.after},
            {"text": "yes", "tone": "good"} if warning.path in foreseen else {"text": "no", "tone": "warn"},
            subject=warning.path,
        )
        for place, warning in enumerate(compiled.rematerialised)
    ]
    yield block("Full rematerialisations (compiler warnings)", columns, rows[:MOST_ROWS], rest_text(len(rows), MOST_ROWS))


def padding_blocks(report: Report, paint: Paint) -> Iterator[Block]:
    """Return the padded dimensions with suggested edits; nothing if every dimension divides evenly."""
    if report.padding:
        yield table_block(padding_table(report.padding, lambda padding: _padding_edits(report, padding)), paint, MOST_PADDED)


def _padding_edits(report: Report, padding: Padding) -> list[str]:
    notes = (note for note in report.diagnostics if note.kind == "padding" and note.message.startswith(padding.arithmetic))
    return [str(edit) for note in notes for edit in note.edits]


def _free(free: list[Reshard], paint: Paint) -> Iterator[Block]:
    if not free:
        return
    groups = group_items(free, lambda item: (template(item.path), template(item.reader), item.before, item.after, item.shape))
    columns = (Column("sliced → reader"), Column("made → needed"))
    rows = [row(key_of(group[0]), *_ends(group, paint), subject=_path(group)) for group in groups[:MOST_FREE]]
    yield block("Free: each device slices its local data", columns, rows, rest_text(len(groups), MOST_FREE))
