"""The composition of a number, as a table: each part with its share of all, the largest first."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

from workbench.widgets.board.layer_folding import fold_paths, template
from workbench.widgets.tabs.blocks import Block, Cell, Column, Row, block, rest_text, row

MOST_ROWS = 40


@dataclass(frozen=True, slots=True)
class Contribution:
    """A part of a number; equal ones of repeated layers are one."""

    path: str
    amount: float
    source: str = ""
    shade: int = 0
    notes: tuple[Cell, ...] = ()
    count: int = 0  # 0 for what is not counted


def parts_table(
    what: str, columns: tuple[Column, ...], parts: Iterable[Contribution], show: Callable[[float], str], amount: str = "on one device"
) -> Block:
    """Parts with their share of all, equal layers together, the largest first."""
    merged = sorted(_merge_alike(parts), key=lambda each: -each[0].amount)
    total = sum(each.amount for each, _ in merged) or 1.0
    counted = any(each.count for each, _ in merged)
    times = (Column("times", number=True, title="a step"),) * counted
    heads = (Column("share"), Column(amount, number=True), Column(what), *columns, *times, Column("line"))
    rows = [_part_row(place, each, subject, total, show, counted=counted) for place, (each, subject) in enumerate(merged[:MOST_ROWS])]
    rest = total - sum(each.amount for each, _ in merged[:MOST_ROWS])
    more = rest_text(len(merged), MOST_ROWS)
    return block("", heads, rows, f"{more} The others make {rest / total:.1%}." if more else "")


def _part_row(place: int, part: Contribution, subject: str, total: float, show: Callable[[float], str], *, counted: bool) -> Row:
    share = part.amount / total
    return row(
        f"{place} {part.path}",
        {"share": round(share, 6), "shade": part.shade, "text": f"{share:.1%}"},
        {"text": show(part.amount)},
        {"path": part.path, "title": part.path},
        *part.notes,
        *([f"{part.count:,}" if part.count else ""] * counted),
        {"text": part.source, "tone": "muted"},
        subject=subject,
    )


def _merge_alike(parts: Iterable[Contribution]) -> Iterator[tuple[Contribution, str]]:
    """Equal parts of repeated layers as one, with the subject that names them all."""
    alike: dict[str, list[Contribution]] = {}
    for part in parts:
        alike.setdefault(f"{template(part.path)} {part.source} {part.shade} {part.notes}", []).append(part)
    for members in alike.values():
        first = members[0]
        subject, label = fold_paths(list(dict.fromkeys(each.path for each in members)))
        yield (
            Contribution(
                label, sum(each.amount for each in members), first.source, first.shade, first.notes, sum(each.count for each in members)
            ),
            subject,
        )
