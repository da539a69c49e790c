"""Resharding and padding as text."""

from collections.abc import Sequence

from workbench.core.path_patterns import template
from workbench.core.text_tables import axes_text, group_items, table_text, tail_text
from workbench.reports.padding import Padding
from workbench.reports.reshard import Reshard
from workbench.units import format_bytes, format_count

LARGEST = 8  # rows shown


def reshards_text(reshards: Sequence[Reshard]) -> str:
    """Reshards that send something; empty where there are none."""
    sending = [each for each in reshards if not each.is_free]
    if not sending:
        return ""
    groups = group_items(
        sending, lambda each: (template(each.path), template(each.reader), each.before, each.after, each.shape, each.classes)
    )
    groups.sort(key=lambda group: (not group[0].rematerialises, -sum(each.sent for each in group)))
    rows = []
    for group in groups[:LARGEST]:
        first = group[0]
        rows.append(
            (
                tail_text(template(first.path) if len(group) > 1 else first.path, 30),
                f"{first.before} → {first.after}",
                "+".join(map(str, first.classes)),
                " ".join(f"{move.kind}:{axes_text(move.axes)}" for move in first.moves),
                format_bytes(sum(each.sent for each in group)),
                format_bytes(first.temporary),
                tail_text(first.source or first.reader_source, 16),
            )
        )
    text = table_text(["value~", "from → to~", "way", "collectives~", "sent>", "held>", "source"], rows)
    free = len(reshards) - len(sending)
    more = [f"{len(groups) - LARGEST} smaller ones"] if len(groups) > LARGEST else []
    more += [f"{free} that only slice"] if free else []
    tail = f"\n  and {' and '.join(more)}" if more else ""
    return f"Resharded between operations (way: of the eight of XLA's partitioner; 8 gathers the whole value)\n\n{text}{tail}"


def padding_text(paddings: Sequence[Padding]) -> str:
    """Dimensions that do not divide, one row for each of a kind; empty where all do."""
    if not paddings:
        return ""
    groups = group_items(paddings, lambda each: (each.dim, each.size, each.axes))
    rows = []
    for group in groups[:LARGEST]:
        first = group[0]
        wasted = sum(each.wasted_bytes * each.count for each in group)
        flops = sum(each.wasted_flops * each.count for each in group)
        rows.append(
            (
                f"{first.dim}={first.size}",
                axes_text(first.axes),
                f"{first.parts} × {first.part}",
                f"{first.share:.0%}",
                format_bytes(wasted),
                format_count(flops, "FLOP") if flops else "-",
                tail_text(first.path, 28),
                first.way_out,
            )
        )
    head = ["dimension", "mesh axis", "parts>", "waste>", "wasted bytes>", "wasted work>", "largest value~", "sizes~"]
    return f"Padded, as the parts do not divide\n\n{table_text(head, rows)}"


__all__ = ["padding_text", "reshards_text"]
