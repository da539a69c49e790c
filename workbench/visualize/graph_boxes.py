"""The texts in the boxes of a graph, and the sizes of the boxes. Texts and numbers only."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from workbench.core.sharding import Sharding
from workbench.core.text_tables import axes_text
from workbench.reports.step_graph import GraphNode, GraphSend
from workbench.units import format_bytes, format_count, format_seconds
from workbench.visualize.draw.collapse_scopes import Collapsed, DrawnNode
from workbench.visualize.draw.drawing_marks import text_width

LINE, PAD, STRIP = 15, 9, 4  # pixels
_LEAST, _WIDEST = 96, 290
_LONG, _LONG_DIMS = 26, 32  # characters of a name, and of a line of dimensions


@dataclass(frozen=True, slots=True)
class Pill:
    """A collective that one box sends to another: one kind over one set of mesh axes."""

    name: str
    ends: tuple[int, int]
    sends: tuple[GraphSend, ...]


def scope_name(collapsed: Collapsed, scope: str) -> str:
    """`mlp`, or `* ×96` for as many layers."""
    word = scope.rpartition("/")[2]
    return f"{word} ×{collapsed.count_alike(scope)}" if "*" in word else word


def times_text(collapsed: Collapsed, box: DrawnNode) -> str:
    """How often the kernels of a box run, if all run equally often; for a scope, how many equal ones there are."""
    if "*" in box.label and box.can_open:
        return f"×{collapsed.count_alike(box.key)}"
    counts = {collapsed.graph.nodes[member].count for member in box.members}
    return f"×{next(iter(counts))}" if len(counts) == 1 and counts != {1} else ""


def share_text(collapsed: Collapsed, number: int) -> str:
    share = collapsed.costs[number] / collapsed.total_cost
    return "" if collapsed.graph.nodes[collapsed.boxes[number].members[0]].is_input else f"{share:.0%}" if share >= 0.01 else "<1%"


def cost_text(collapsed: Collapsed, cost: float) -> str:
    if not cost:
        return ""
    return format_seconds(cost) if collapsed.by_time else format_count(cost, "FLOP")


def totals(sends: Sequence[GraphSend]) -> list[GraphSend]:
    """One for each kind and set of axes, the heaviest first."""
    sums: dict[tuple[str, tuple[str, ...]], list[GraphSend]] = {}
    for each in sends:
        sums.setdefault((each.kind, each.axes), []).append(each)
    return sorted(map(_total, sums.values()), key=lambda each: -each.sent)


def _total(alike: Sequence[GraphSend]) -> GraphSend:
    return replace(
        alike[0],
        maker=-1,
        reader=-1,
        count=sum(each.count for each in alike),
        sent=sum(each.sent for each in alike),
        seconds=sum(each.seconds for each in alike),
        exposed=sum(each.exposed for each in alike),
    )


def pills_of(collapsed: Collapsed) -> tuple[Pill, ...]:
    return tuple(
        Pill(f"send {ends[0]} {ends[1]} {each.kind} {axes_text(each.axes)}", ends, (each,))
        for ends, sends in collapsed.sends.items()
        if ends[0] != ends[1]
        for each in totals(sends)
    )


def size_of(collapsed: Collapsed, number: int) -> tuple[float, float]:
    lines = [
        heading(collapsed, number),
        second_line(collapsed, number),
        _dims_line(collapsed, number),
        *map(send_text, totals(collapsed.sends_within(number))),
    ]
    width = max(text_width(line) for line in lines) + 2 * PAD + STRIP
    return min(max(width, _LEAST), _WIDEST), LINE * sum(bool(line) for line in lines) + 8.0


def pill_width(pill: Pill) -> float:
    return text_width(send_text(pill.sends[0])) + 2 * PAD


def heading(collapsed: Collapsed, number: int) -> str:
    box = collapsed.boxes[number]
    times = times_text(collapsed, box)
    return f"{'+ ' if box.can_open else ''}{shorten_text(box.label)}{' ' if times else ''}{times}"


def shorten_text(text: str, most: int = _LONG) -> str:
    return text if len(text) <= most else "…" + text[1 - most :]


def second_line(collapsed: Collapsed, number: int) -> str:
    return "  ".join(filter(None, (share_text(collapsed, number), cost_text(collapsed, collapsed.costs[number]))))


def _dims_line(collapsed: Collapsed, number: int) -> str:
    return " ".join(name for name, _ in dims_of(collapsed.costliest(collapsed.boxes[number]))) if not collapsed.boxes[number].rest else ""


def dims_of(node: GraphNode, sharding: Sharding | None = None) -> list[tuple[str, tuple[str, ...]]]:
    """The last dimensions of its result, as many as fit, with the axes they are sharded over (`sharding`: another one); nameless ones by
    size."""
    entries = zip(node.dims, node.shape, (sharding or node.sharding).dims, strict=True)
    found = [(name if name != "_" else str(size), axes or ()) for name, size, axes in entries if name != "_" or size > 1]
    while found and sum(len(name) + 1 for name, _ in found) > _LONG_DIMS:
        found = found[1:]
    return found


def send_text(send: GraphSend) -> str:
    return f"{send.kind} {axes_text(send.axes)} {format_bytes(send.sent)}"
