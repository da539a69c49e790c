"""The step as a graph of kernels collapsed by named scope, with shardings, collectives and costs."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace

from workbench.core.installation import install_command
from workbench.core.mesh import Mesh
from workbench.core.text_tables import axes_text, dims_text, table_text
from workbench.reports.kernel import Graph, GraphNode, GraphSend
from workbench.reports.pipeline import PipelineReport
from workbench.reports.report import Report
from workbench.units import format_bytes, format_count, format_seconds
from workbench.visualize.draw.collapse_scopes import Collapsed, DrawnNode, collapse
from workbench.visualize.draw.drawing_marks import Area, Drawing, Label, Mark, Polyline, Rectangle, fit_drawing, text_width
from workbench.visualize.draw.graphviz_layout import GraphLayout, PixelRect, Point, dot_text, layout_dot
from workbench.visualize.draw.palette import HEAT, NEUTRAL, TEXT, axes_colour, axis_colour
from workbench.visualize.draw.picture import Picture
from workbench.visualize.graph_boxes import (
    LINE,
    PAD,
    STRIP,
    Pill,
    collect_pills,
    cost_text,
    dims_of,
    heading,
    pill_width,
    scope_name,
    second_line,
    send_text,
    share_text,
    shorten_text,
    size_of,
    times_text,
    totals,
)

LEVELS = (0.01, 0.05, 0.15, 0.3)
"""Shares of the total cost at which the next colour of `HEAT` begins."""
TOP = 66  # pixels above the first box, for title and legend
_NAMED = 2  # inputs of a box named in the text equivalent


def graph(report: Report, opened: Collection[str] | None = None) -> Picture:
    """A box for each closed scope and a frame for each open one, limited to a readable number.

    `opened` are the open scopes, by default the outermost. A box shows its name, its number of executions, its cost,
    the sharding of its result (dimensions in the colours of their axes), and its internal collectives; collectives
    between two boxes are on the arrow.
    """
    collapsed = collapse(shown_graph(report), opened)
    pills = collect_pills(collapsed)
    text = _text(report, collapsed)
    layout = layout_dot(dot_of(collapsed, pills)) if collapsed.boxes else None
    if layout is None:
        return Picture.of(outline_drawing(text), text)
    return Picture.of(_drawing(report, collapsed, pills, layout), text)


def _title(report: Report, collapsed: Collapsed) -> str:
    kernels = sum(not node.is_input for node in collapsed.graph.nodes)
    return f"{report.title}: {kernels:,} kernels of the step in {len(collapsed.boxes)} boxes"


def _text(report: Report, collapsed: Collapsed) -> str:
    rows = []
    headings: set[str] = set()
    for number, box in enumerate(collapsed.boxes):
        for scope in _open_around(box, collapsed):
            if scope not in headings:
                headings.add(scope)
                rows.append((f"{'  ' * scope.count('/')}− {scope_name(collapsed, scope)}", "", "", "", "", ""))
        depth = len(_open_around(box, collapsed))
        producers = [collapsed.boxes[maker].label for maker, reader in collapsed.arrows if reader == number]
        sends = ", ".join(f"{send.kind} {axes_text(send.axes)}" for send in totals(collapsed.sends_within(number)))
        name = f"{'  ' * depth}{'+ ' if box.can_open else ''}{box.label}"
        reads = ", ".join(map(shorten_text, producers[:_NAMED])) + (
            f" and {len(producers) - _NAMED} more" if len(producers) > _NAMED else ""
        )
        rows.append(
            (name, times_text(collapsed, box), share_text(collapsed, number), cost_text(collapsed, collapsed.costs[number]), sends, reads)
        )
    title = _title(report, collapsed)
    return f"{title}\n\n{table_text(['scope', 'times>', 'share>', 'cost>', 'sends~', 'reads~'], rows)}" if rows else title


def _open_around(box: DrawnNode, collapsed: Collapsed) -> tuple[str, ...]:
    return tuple(scope for scope in collapsed.opened if box.scope == scope or box.scope.startswith(f"{scope}/"))


def dot_of(collapsed: Collapsed, pills: Sequence[Pill]) -> str:
    sizes = [(box.key, box.scope, *size_of(collapsed, number)) for number, box in enumerate(collapsed.boxes)]
    common = [_common_scope(collapsed.boxes[pill.ends[0]].scope, collapsed.boxes[pill.ends[1]].scope, collapsed.opened) for pill in pills]
    sizes += [(pill.name, scope, pill_width(pill), 18.0) for pill, scope in zip(pills, common, strict=True)]
    scopes = [(scope, text_width(scope_name(collapsed, scope)) + 30) for scope in collapsed.opened]
    through = {pill.ends for pill in pills}
    arrows = [
        (collapsed.boxes[maker].key, collapsed.boxes[reader].key, float(maker < reader))
        for maker, reader in collapsed.essential_arrows
        if (maker, reader) not in through
    ]
    for pill in pills:
        maker, reader = (collapsed.boxes[end].key for end in pill.ends)
        arrows += [(maker, pill.name, 3.0), (pill.name, reader, 3.0)]
    return dot_text(sizes, scopes, arrows)


def _common_scope(one: str, other: str, opened: Collection[str]) -> str:
    words = []
    for word, other_word in zip(one.split("/"), other.split("/"), strict=False):
        if word != other_word:
            break
        words.append(word)
    scope = "/".join(words)
    return scope if scope in opened else ""


def _drawing(report: Report, collapsed: Collapsed, pills: Sequence[Pill], found: GraphLayout) -> Drawing:
    marks: list[Mark] = [Label(0, 12, _title(report, collapsed), bold=True), *_legend(collapsed)]
    for scope in collapsed.opened:
        if scope in found.scopes:
            marks += scope_marks(scope, scope_name(collapsed, scope), found.scopes[scope])
    labels = {
        (collapsed.boxes[maker].key, collapsed.boxes[reader].key): collapsed.graph.nodes[node]
        for (maker, reader), node in collapsed.arrows.items()
    }
    for tail, head, points in found.arrows:
        marks += arrow_marks(shift_points(points), labels.get((tail, head)), ends=not head.startswith("send "))
    for number, box in enumerate(collapsed.boxes):
        if (frame := found.boxes.get(box.key)) is not None:
            marks += _node(report.mesh, collapsed, number, PixelRect(frame.x, frame.y + TOP, frame.width, frame.height))
    for pill in pills:
        if (frame := found.boxes.get(pill.name)) is not None:
            marks += _pill(report.mesh, pill, PixelRect(frame.x, frame.y + TOP, frame.width, frame.height))
    return fit_drawing(tuple(marks))


def _legend(collapsed: Collapsed) -> Iterator[Mark]:
    bounds = [0.0, *LEVELS, 1.0]
    x = 0.0
    what = (
        f"share of {format_seconds(collapsed.total_cost)} in kernels"
        if collapsed.by_time
        else f"share of {format_count(collapsed.total_cost, 'FLOP')}"
    )
    yield Label(x, 34, what)
    x += text_width(what) + 12
    for colour, low, high in zip(HEAT, bounds[:-1], bounds[1:], strict=True):
        text = f"under {high:.0%}" if not low else f"{low:.0%} and more" if high == 1 else f"{low:.0%} to {high:.0%}"
        yield Rectangle(x, 25, 10, 10, fill=colour)
        yield Label(x + 15, 34, text)
        x += text_width(text) + 28
    yield Label(0, 50, "+ expand scope · − collapse scope · colour: mesh axis · redundant arrows omitted")


def scope_marks(scope: str, name: str, frame: PixelRect) -> Iterator[Mark]:
    y = frame.y + TOP
    yield Rectangle(frame.x, y, frame.width, frame.height, fill=NEUTRAL, alpha=0.07, line=NEUTRAL, round=6)
    name = f"− {name}"
    width = min(text_width(name) + 12, frame.width)
    yield Rectangle(frame.x + 2, y + 2, width, 17, fill=NEUTRAL, alpha=0.01, title=f"{scope}: close it", opens=scope, round=3)
    yield Label(frame.x + 8, y + 15, name, bold=True)


def shift_points(points: tuple[Point, ...]) -> tuple[Point, ...]:
    return tuple((x, y + TOP) for x, y in points)


def arrow_marks(points: tuple[Point, ...], node: GraphNode | None, *, ends: bool) -> Iterator[Mark]:
    title = "" if node is None else f"{node.path}: {node.dtype}[{dims_text(node.dims, node.shape)}] on {node.sharding}"
    yield Polyline(points, NEUTRAL, 1.2, alpha=0.75, title=title)
    if ends and len(points) > 1:
        (a, b), (x, y) = points[-2], points[-1]
        length = ((x - a) ** 2 + (y - b) ** 2) ** 0.5 or 1.0
        dx, dy = (x - a) / length, (y - b) / length
        wings = ((x - 6 * dx + 3 * dy, y - 6 * dy - 3 * dx), (x - 6 * dx - 3 * dy, y - 6 * dy + 3 * dx))
        yield Area(((x, y), *wings), NEUTRAL)


def heat_colour(share: float) -> str:
    return HEAT[sum(share >= level for level in LEVELS)]


def _node(mesh: Mesh, collapsed: Collapsed, number: int, frame: PixelRect) -> Iterator[Mark]:
    box = collapsed.boxes[number]
    is_input = collapsed.graph.nodes[box.members[0]].is_input
    colour = NEUTRAL if is_input else heat_colour(collapsed.costs[number] / collapsed.total_cost)
    subject = "" if box.can_open or box.rest else collapsed.costliest(box).subject
    opens, title = box.key if box.can_open else "", _hover_text(collapsed, number)
    yield Rectangle(
        frame.x, frame.y, frame.width, frame.height, colour, 0.16, line=colour, title=title, subject=subject, opens=opens, round=4
    )
    yield Rectangle(frame.x, frame.y, STRIP, frame.height, fill=colour)
    x, y = frame.x + STRIP + PAD - 2, frame.y + 15
    times = times_text(collapsed, box)
    yield Label(x, y, heading(collapsed, number).removesuffix(times).rstrip(), bold=True)
    if times:
        yield Label(frame.x + frame.width - PAD + 2, y, times, anchor="end")
    if second := second_line(collapsed, number):
        y += LINE
        yield Label(x, y, second)
    if not box.rest and (dims := dims_of(collapsed.costliest(box))):
        y += LINE
        yield from dim_labels(mesh, dims, x, y)
    for send in totals(collapsed.sends_within(number)):
        y += LINE
        yield Label(x, y, send_text(send), colour=axes_colour(send.axes, mesh), bold=True)


def dim_labels(mesh: Mesh, dims: list[tuple[str, tuple[str, ...]]], x: float, y: float) -> Iterator[Mark]:
    for name, axes in dims:
        yield Label(x, y, name, colour=axis_colour(axes[0], mesh) if axes else TEXT, bold=bool(axes))
        x += text_width(f"{name} ")


def _hover_text(collapsed: Collapsed, number: int) -> str:
    box = collapsed.boxes[number]
    node = collapsed.costliest(box)
    words = [box.key if not box.rest else f"{box.rest} boxes of {box.scope or 'the step'}"]
    if not node.is_input:
        kernels = len(box.members)
        words.append(
            f"{kernels} kernel{'s' * (kernels > 1)}, {second_line(collapsed, number)} of {cost_text(collapsed, collapsed.total_cost)}"
        )
    words.append(
        f"{'the most expensive produces' if box.can_open else 'makes'} {node.dtype}[{dims_text(node.dims, node.shape)}] on {node.sharding}"
    )
    words += [
        f"{send.kind} over {axes_text(send.axes)}, ×{send.count}, {_send_cost(send)}" for send in totals(collapsed.sends_within(number))
    ]
    return " · ".join(filter(None, (*words, "" if box.can_open else node.source)))


def _send_cost(send: GraphSend) -> str:
    sent = f"{format_bytes(send.sent)} sent per device"
    if not send.seconds:
        return sent
    return f"{sent} in {format_seconds(send.seconds)}, {format_seconds(send.exposed)} exposed"


def _pill(mesh: Mesh, pill: Pill, frame: PixelRect) -> Iterator[Mark]:
    send = pill.sends[0]
    colour = axes_colour(send.axes, mesh)
    title = f"{send.kind} over {axes_text(send.axes)}, ×{send.count}, {_send_cost(send)} · {send.path} · {send.source}"
    yield Rectangle(
        frame.x, frame.y, frame.width, frame.height, fill=colour, alpha=0.14, line=colour, round=9, title=title, subject=send.subject
    )
    yield Label(frame.x + frame.width / 2, frame.y + 13, send_text(send), anchor="middle", colour=colour, bold=True)


def outline_drawing(text: str) -> Drawing:
    """The rows of the text equivalent, for use without Graphviz."""
    lines = [*text.splitlines(), "", f"To draw it: {install_command('app')}, or install Graphviz."]
    return fit_drawing(tuple(Label(0, 12 + 14 * number, line, bold=not number) for number, line in enumerate(lines) if line))


# The displayed graph; for a pipelined plan the graphs of all stages, each in its own frame, with the transfers between them.
# A stage is a scope.

_GRAD = "grad/"


def shown_graph(report: Report) -> Graph:
    """The graph of a report; for a pipelined plan the joint graph of its stages, with scopes `stage0/...`."""
    if report.is_of_devices:
        return report.graph
    assert report.pipeline is not None, "a pipelined plan has one once its stages have reports"
    nodes: list[GraphNode] = []
    edges: list[tuple[int, int]] = []
    sends: list[GraphSend] = []
    for stage_report in report.stages:
        first = len(nodes)
        nodes += [replace(node, path=_in_stage(node.path, stage_report.stage), known_as=node.path) for node in stage_report.graph.nodes]
        edges += [(a + first, b + first) for a, b in stage_report.graph.edges]
        sends += [_moved(send, first, stage_report.stage) for send in stage_report.graph.sends]
    between = tuple(_between_stages(report.pipeline, _ends(nodes)))
    return Graph(tuple(nodes), (*edges, *((stage_report.maker, stage_report.reader) for stage_report in between)), (*sends, *between))


def _in_stage(path: str, stage: int | None) -> str:
    return f"stage{stage}/{path}"  # no space: a word that is a number would be taken for the index of a repeated scope


def _moved(send: GraphSend, first: int, stage: int | None) -> GraphSend:
    maker, reader = (node + first if node >= 0 else -1 for node in (send.maker, send.reader))
    return replace(send, maker=maker, reader=reader, path=_in_stage(send.path, stage), known_as=send.path)


def _ends(nodes: list[GraphNode]) -> Mapping[tuple[str, bool], tuple[int, int]]:
    """The first and last kernel of each block (`stage0/layers/3`), separately for its forward and backward task."""
    ends: dict[tuple[str, bool], tuple[int, int]] = {}
    for number, node in enumerate(nodes):
        stage, _, rest = node.path.partition("/")
        words = rest.removeprefix(_GRAD).split("/")
        for depth in range(1, len(words)):
            key = f"{stage}/{'/'.join(words[:depth])}", rest.startswith(_GRAD)
            ends[key] = ends.get(key, (number, number))[0], number
    return ends


def _between_stages(planned: PipelineReport, ends: Mapping[tuple[str, bool], tuple[int, int]]) -> Iterator[GraphSend]:
    """Activations from the last block of one virtual stage to the first of another, and their gradients back."""
    spec = planned.spec
    for one in planned.virtual_stages:
        for later, count in one.cost.sends:
            other = planned.virtual_stages[later]
            if one.device == other.device:
                continue
            makers, readers = _in_stage(one.blocks[-1], one.device), _in_stage(other.blocks[0], other.device)
            for back in (False, True):
                a, b = ends.get((makers, back)), ends.get((readers, back))
                if a and b:
                    maker, reader = (b[1], a[0]) if back else (a[1], b[0])
                    path = f"{'gradients' if back else 'activations'} between stages"
                    yield GraphSend("send", (spec.axis,), maker, reader, path, "", spec.micro_batches, count * spec.micro_batches)
