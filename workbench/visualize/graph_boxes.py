"""Texts and sizes of graph boxes, and the row layout of a propagation graph."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial

from workbench.core.sharding import Sharding
from workbench.core.text_tables import axes_text, tail_text
from workbench.reports.kernel import GraphNode, GraphSend
from workbench.units import format_bytes, format_count, format_seconds
from workbench.visualize.draw.collapse_scopes import Collapsed, DrawnNode
from workbench.visualize.draw.drawing_marks import text_width

LINE, PAD, STRIP = 15, 9, 4  # pixels
_LEAST, _WIDEST = 96, 290
_LONG, _LONG_DIMS = 26, 32  # characters of a name and of a line of dimensions


@dataclass(frozen=True, slots=True)
class Pill:
    """A collective between two boxes: one kind over one set of mesh axes."""

    name: str
    ends: tuple[int, int]
    sends: tuple[GraphSend, ...]


def scope_name(collapsed: Collapsed, scope: str) -> str:
    """The name of a scope: `mlp`, or `* ×96` for repeated layers."""
    word = scope.rpartition("/")[2]
    return f"{word} ×{collapsed.count_instances(scope)}" if "*" in word else word


def times_text(collapsed: Collapsed, box: DrawnNode) -> str:
    """The number of executions of a box if equal for all its kernels; for a repeated scope, its number of instances."""
    if "*" in box.label and box.can_open:
        return f"×{collapsed.count_instances(box.key)}"
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
    """The total for each kind and set of axes, the largest first."""
    sums: dict[tuple[str, tuple[str, ...]], list[GraphSend]] = {}
    for send in sends:
        sums.setdefault((send.kind, send.axes), []).append(send)
    return sorted(map(_total, sums.values()), key=lambda total: -total.sent)


def _total(alike: Sequence[GraphSend]) -> GraphSend:
    return replace(
        alike[0],
        maker=-1,
        reader=-1,
        count=sum(send.count for send in alike),
        sent=sum(send.sent for send in alike),
        seconds=sum(send.seconds for send in alike),
        exposed=sum(send.exposed for send in alike),
    )


def collect_pills(collapsed: Collapsed) -> tuple[Pill, ...]:
    return tuple(
        Pill(f"send {ends[0]} {ends[1]} {send.kind} {axes_text(send.axes)}", ends, (send,))
        for ends, sends in collapsed.sends.items()
        if ends[0] != ends[1]
        for send in totals(sends)
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


shorten_text = partial(tail_text, length=_LONG)


def second_line(collapsed: Collapsed, number: int) -> str:
    return "  ".join(filter(None, (share_text(collapsed, number), cost_text(collapsed, collapsed.costs[number]))))


def _dims_line(collapsed: Collapsed, number: int) -> str:
    return " ".join(name for name, _ in dims_of(collapsed.costliest(collapsed.boxes[number]))) if not collapsed.boxes[number].rest else ""


def dims_of(node: GraphNode, sharding: Sharding | None = None) -> list[tuple[str, tuple[str, ...]]]:
    """The last dimensions of a result that fit, with their axes under `sharding`; unnamed ones are given by size."""
    entries = zip(node.dims, node.shape, (sharding or node.sharding).dims, strict=True)
    fitting = [(name if name != "_" else str(size), axes or ()) for name, size, axes in entries if name != "_" or size > 1]
    while fitting and sum(len(name) + 1 for name, _ in fitting) > _LONG_DIMS:
        fitting = fitting[1:]
    return fitting


def send_text(send: GraphSend) -> str:
    return f"{send.kind} {axes_text(send.axes)} {format_bytes(send.sent)}"


# Row layout of a propagation graph: one row per box of a collapsed graph, in program order, in frames for the open scopes, with
# lanes for the arrows beside them.
#
# The width does not depend on the number of boxes, so that the column fits beside a table and on a narrow screen.


WIDTH, HEIGHT, GAP, INDENT, HEAD, FRAME = 388.0, 20.0, 5.0, 9.0, 19.0, 6.0  # pixels
DIMS_AT = 200.0
"""The x in pixels at which the dimensions of every row begin, aligned for comparison."""
_LANE, _MOST_LANES = 6.0, 10

Ends = tuple[int, int]


@dataclass(frozen=True, slots=True)
class ScopeFrame:
    """The frame of an open scope around its rows."""

    scope: str
    x: float
    y: float
    width: float
    height: float


@dataclass(frozen=True)
class Rows:
    """A row layout by number: boxes, then the leading rows, then frames. `edge` is the x at which the lanes begin."""

    places: dict[int, tuple[float, float]]
    frames: tuple[ScopeFrame, ...]
    scopes: dict[str, int]  # numbers of the open scopes
    lanes: dict[Ends, int]
    edge: float  # pixels

    def arrow_points(self, ends: Ends) -> tuple[tuple[float, float], ...]:
        """The polyline of an arrow along its lane; an arrow without a lane runs outside all lanes."""
        start, stop = (self.places[end][1] for end in ends)
        down = 1 if stop > start else -1
        lane = self.lanes.get(ends, self.lanes.get((ends[1], ends[0]), -1))
        x = self.edge + _LANE * (lane + 1 if lane >= 0 else max(self.lanes.values(), default=-1) + 2)
        out, back = start + HEIGHT / 2 + 4 * down, stop + HEIGHT / 2 - 4 * down
        return (WIDTH, out), (x - 3, out), (x, out + 3 * down), (x, back - 3 * down), (x - 3, back), (WIDTH + 1, back)


def place_rows(collapsed: Collapsed, before: int, top: float) -> Rows:
    """Lay out the boxes from `top`, after `before` leading rows, which are numbered after the boxes."""
    places: dict[int, tuple[float, float]] = {}
    frames: list[ScopeFrame] = []
    depth = max((scope.count("/") + 1 for scope in collapsed.opened), default=0)
    y = top
    if before:
        y += HEAD
        for place in range(before):
            places[len(collapsed.boxes) + place] = INDENT, y
            y += HEIGHT + GAP
        frames.append(ScopeFrame("", 0.0, top, WIDTH + FRAME, y - top))
        y += 2 * GAP
    _lay_rows(_build_tree(collapsed), "", y, max(depth, bool(before)), places, frames)
    ranked = sorted(places, key=lambda number: places[number][1])
    order = {number: place for place, number in enumerate(ranked)}
    scopes = {frame.scope: len(places) + place for place, frame in enumerate(scope_frame for scope_frame in frames if scope_frame.scope)}
    places |= {scopes[frame.scope]: (frame.x, frame.y) for frame in frames if frame.scope}
    return Rows(places, tuple(frames), scopes, _lanes(collapsed.essential_arrows, order), WIDTH + FRAME * max(depth, bool(before)))


def _build_tree(collapsed: Collapsed) -> dict[str, list[int | str]]:
    tree: dict[str, list[int | str]] = {"": []}
    for number, box in enumerate(collapsed.boxes):
        words = box.scope.split("/") if box.scope else []
        for depth in range(len(words)):
            outer, inner = "/".join(words[:depth]), "/".join(words[: depth + 1])
            if inner not in tree:
                tree[inner] = []
                tree[outer].append(inner)
        tree[box.scope].append(number)
    for entries in tree.values():
        entries.sort(key=lambda entry: _middle(collapsed, entry))
    return tree


def _middle(collapsed: Collapsed, entry: int | str) -> float:
    """The program position of the middle kernel of a box or scope; inputs come first."""
    boxes = (
        [collapsed.boxes[entry]] if isinstance(entry, int) else [box for box in collapsed.boxes if f"{box.scope}/".startswith(f"{entry}/")]
    )
    members = sorted(member for box in boxes for member in box.members)
    return -1.0 if collapsed.graph.nodes[members[0]].is_input else float(members[len(members) // 2])


def _lay_rows(
    tree: dict[str, list[int | str]], scope: str, y: float, deepest: int, places: dict[int, tuple[float, float]], frames: list[ScopeFrame]
) -> float:
    level = scope.count("/") + 1 if scope else 0
    for entry in tree[scope]:
        if isinstance(entry, int):
            places[entry] = level * INDENT, y
            y += HEIGHT + GAP
            continue
        place, top = len(frames), y
        frames.append(ScopeFrame(entry, level * INDENT, top, WIDTH - level * INDENT + FRAME * (deepest - level), 0.0))
        y = _lay_rows(tree, entry, top + HEAD, deepest, places, frames)
        frames[place] = ScopeFrame(entry, frames[place].x, top, frames[place].width, y - top)
        y += GAP
    return y


def _lanes(arrows: Sequence[Ends], order: dict[int, int]) -> dict[Ends, int]:
    """The innermost free lane for each arrow, short arrows first; excess arrows share the last lane."""
    lane_spans: list[list[Ends]] = []
    lanes = {}
    for ends, low, high in sorted(_spans(arrows, order), key=lambda span: span[2] - span[1]):
        lane = next((lane for lane, spans in enumerate(lane_spans) if all(high <= a or b <= low for a, b in spans)), len(lane_spans))
        if lane == len(lane_spans) and lane < _MOST_LANES:
            lane_spans.append([])
        lane = min(lane, _MOST_LANES - 1)
        lane_spans[lane].append((low, high))
        lanes[ends] = lane
    return lanes


def _spans(arrows: Sequence[Ends], order: dict[int, int]) -> Iterator[tuple[Ends, int, int]]:
    for ends in arrows:
        low, high = sorted(order[end] for end in ends)
        yield ends, low, high
