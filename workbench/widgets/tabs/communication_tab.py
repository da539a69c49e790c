"""Bytes sent, by mesh axes and by collective, with times exposed or overlapped, predicted and compiled."""

from collections import Counter, defaultdict
from collections.abc import Mapping

from workbench.core.sharding import base_axis
from workbench.reports.collective import KINDS, Collective
from workbench.reports.report import Report
from workbench.units import format_bytes, format_seconds
from workbench.widgets.tabs.table_blocks import Block, Cell, Column, Paint, Row, block, byte_cell, note_block, rest_text, row, seconds_cell

MOST_ROWS = 300
PAYLOAD = (
    "Payload is the data of a collective on one device. The bytes sent differ: on a ring of n devices 2 (n − 1)/n of the payload "
    "for an all-reduce, (n − 1)/n for the others, all of it for a permute."
)
_Exposed = Mapping[tuple[str, str, str, float], float]  # (stream, kind, path, seconds of one execution) -> exposed seconds per step


def communication_blocks(report: Report, paint: Paint) -> list[Block]:
    if not report.collectives:
        who = "XLA's partitioner makes" if report.partitioned else "Shardy inserts"
        return [note_block(f"{who} no collective: every operation of the step is local.")]
    return [_totals(report, paint), _operations(report, paint)]


def collectives_source_text(report: Report) -> str:
    if report.partitioned is None:
        return "Planned: collectives as Shardy inserts them."
    return f"Partitioned: collectives as XLA's partitioner makes them ({report.partitioned.compiler})."


def _totals(report: Report, paint: Paint) -> Block:
    totals = report.by_axis_and_kind
    kinds = [kind for kind in KINDS if any(key[1] == kind for key in totals)]
    timed = report.step_time is not None
    rows = []
    for axes in dict.fromkeys(axes for axes, _ in totals):
        counts = [totals.get((axes, kind), 0) for kind in kinds]
        seconds = sum(table_row.seconds * table_row.count for table_row in report.collectives if table_row.axes == axes)
        mine = "+".join(axes)
        kind_cells = [
            {**byte_cell(count), "why": f"sent {mine} {kind}" if count else ""} for kind, count in zip(kinds, counts, strict=True)
        ]
        cells = (*kind_cells, {"text": format_bytes(sum(counts)), "why": f"sent {mine}"}, *([seconds_cell(seconds)] * timed))
        rows.append((sum(counts), row("+".join(axes), paint.axes(axes), *cells)))
    rows.sort(key=lambda pair: -pair[0])
    columns = (Column("mesh axes"), *(Column(kind, number=True) for kind in kinds), Column("all kinds", number=True))
    if timed:
        columns = (*columns, Column("time a step", number=True, title="total seconds, exposed and hidden"))
    return block("Payload per device and step, by axis and kind", columns, [table_row for _, table_row in rows], PAYLOAD)


def _operations(report: Report, paint: Paint) -> Block:
    columns: tuple[Column, ...] = (
        Column("collective"),
        Column("mesh axes"),
        Column("payload, once", number=True, title="bytes of one execution on one device: the larger of its input and output"),
        Column("times", number=True, title="executions per step, loop iterations included"),
        Column("sent a step", number=True, title="bytes sent per device: from payload, kind and ring size, times executions"),
    )
    if timed := report.step_time is not None:
        columns += (
            Column("time a step", number=True, title="total seconds of its executions, exposed and hidden"),
            Column("waited for", number=True, title="exposed: the device is idle meanwhile; the rest overlaps with computation"),
        )
    columns += (Column("scope"), Column("line"))
    alike: Counter[Collective] = Counter(report.collectives)
    ordered = sorted(alike, key=lambda collective: -collective.total_sent * alike[collective])
    exposed = exposed_seconds(report) if timed else {}
    rows = [_operation_row(op, alike[op], paint, _times(op, alike[op], exposed) if timed else ()) for op in ordered[:MOST_ROWS]]
    return block("Operations, most sent first", columns, rows, rest_text(len(ordered), MOST_ROWS))


def _operation_row(each: Collective, times: int, paint: Paint, seconds: tuple[Cell, ...]) -> Row:
    return row(
        f"{each}",
        each.kind,
        paint.axes(each.axes),
        {"text": format_bytes(each.payload), "title": f"{each.payload:,} bytes on one device, one execution"},
        f"{each.count * times:,}",
        {
            "text": format_bytes(each.total_sent * times),
            "title": f"{each.total_sent * times:,} bytes sent per device and step",
            "why": f"collective {each.kind} {'+'.join(each.axes)} {each.path}",
        },
        *seconds,
        {"path": each.path},
        {"text": each.source, "tone": "muted"},
        subject=each.path,
    )


def _times(each: Collective, times: int, exposed: _Exposed) -> tuple[Cell, ...]:
    total = each.seconds * each.count * times
    waited = min(exposed.get(_key(each), 0.0), total)
    share = waited / total if total else 0.0
    if share < 0.005:
        verdict: Cell = {"text": "hidden", "tone": "good", "title": "all of it overlaps with computation"}
    else:
        title = f"{share:.0%} of {format_seconds(total)} is exposed; {format_seconds(total - waited)} overlaps with computation"
        verdict = {"text": "all" if share > 0.995 else f"{share:.0%}", "tone": "warn", "title": title}
    return seconds_cell(total, title=f"{each.count * times:,} × {format_seconds(each.seconds)}"), verdict


def _key(each: Collective) -> tuple[str, str, str, float]:
    return "+".join(dict.fromkeys(map(base_axis, each.axes))), each.kind, each.path, each.seconds


def exposed_seconds(report: Report) -> _Exposed:
    """Return the exposed seconds per step of collectives, by stream, kind, path and seconds of one execution."""
    seconds: dict[tuple[str, str, str, float], float] = defaultdict(float)
    for event in report.timeline.events if report.timeline else ():
        seconds[event.stream, event.kind, event.path, event.seconds] += event.exposed * event.count
    return seconds
