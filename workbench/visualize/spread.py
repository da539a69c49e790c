"""The graph of the step while a propagation goes on: only what has an axis so far is coloured. The boxes are those of `graph`.

A box has the colour of the axis that splits its value first; what a step has just reached has a heavy frame.
"""

from collections.abc import Collection, Iterator, Sequence

from workbench.report import Report
from workbench.sharding import Sharding
from workbench.tables import table_text
from workbench.visualize.collapse import Collapsed, collapse
from workbench.visualize.dot import Frame, placed
from workbench.visualize.drawing import Label, Mark, Rectangle, fitted
from workbench.visualize.graph import TOP, arrow_marks, dim_labels, dot_of, moved, outline, scope_marks
from workbench.visualize.graph_boxes import LINE, PAD, STRIP, dims_of, heading, scope_name
from workbench.visualize.palette import NEUTRAL, axis_colour
from workbench.visualize.picture import Picture


def laid_out(report: Report, opened: Collection[str] | None = None) -> Collapsed:
    """The boxes with `opened` scopes, their places found: what takes long of a `spread`, and is the same at every step."""
    seen = collapse(report.graph, opened)
    if seen.boxes:
        placed(dot_of(seen, ()))
    return seen


def spread(report: Report, lies: Sequence[Sharding | None], fresh: Collection[int] = (), seen: Collapsed | None = None) -> Picture:
    """`lies` says of each node of `report.graph` how its value lies so far, `None` where nothing is known; `fresh` are the nodes just
    reached; `seen` is what `laid_out` gave."""
    seen = seen or collapse(report.graph)
    text = _text(report, seen, lies, fresh)
    found = placed(dot_of(seen, ())) if seen.boxes else None
    if found is None:
        return Picture(outline(text), text)
    marks: list[Mark] = [Label(0, 12, _title(report, lies), bold=True), Label(0, 34, _LEGEND)]
    for scope in seen.opened:
        if scope in found.scopes:
            marks += scope_marks(scope, scope_name(seen, scope), found.scopes[scope])
    for _, _, points in found.arrows:
        marks += arrow_marks(moved(points), None, ends=True)
    for number, box in enumerate(seen.boxes):
        if (frame := found.boxes.get(box.key)) is not None:
            marks += _box(report, seen, number, Frame(frame.x, frame.y + TOP, frame.width, frame.height), lies, fresh)
    return Picture(fitted(tuple(marks)), text)


ARRIVED = "→ "
"""Before the title of a box that was just reached."""
_LEGEND = "coloured by the axes there are so far; a heavy frame where this step went; grey: nothing yet"


def _title(report: Report, lies: Sequence[Sharding | None]) -> str:
    split = sum(each is not None and bool(each.axes) for each in lies)
    return f"{report.plan.name} on {report.mesh}: {split:,} of {len(lies):,} kernels and inputs have an axis"


def _told(seen: Collapsed, number: int, lies: Sequence[Sharding | None], fresh: Collection[int]) -> tuple[int, Sharding | None]:
    """The member a box speaks of: one just reached, else one that has an axis, else the one that costs most."""
    members, largest = seen.boxes[number].members, _largest(seen, number)
    told = max(members, key=lambda member: (member in fresh, bool(_axes(lies[member])), member == largest))
    return told, lies[told]


def _largest(seen: Collapsed, number: int) -> int:
    box = seen.boxes[number]
    largest = seen.largest(box)
    return next(member for member in box.members if seen.graph.nodes[member] is largest)


def _axes(sharding: Sharding | None) -> tuple[str, ...]:
    return sharding.axes if sharding else ()


def _box(
    report: Report, seen: Collapsed, number: int, frame: Frame, lies: Sequence[Sharding | None], fresh: Collection[int]
) -> Iterator[Mark]:
    box = seen.boxes[number]
    member, sharding = _told(seen, number, lies, fresh)
    node, is_fresh = seen.graph.nodes[member], any(each in fresh for each in box.members)
    axes = _axes(sharding) or next((found for each in box.members if (found := _axes(lies[each]))), ())
    colour = axis_colour(axes[0], report.mesh) if axes else NEUTRAL
    about = f"{node.path} {sharding or ''}".strip() + (f" · {node.source}" if node.source else "")
    subject = "" if box.can_open or box.rest else node.path
    yield Rectangle(
        frame.x,
        frame.y,
        frame.width,
        frame.height,
        colour,
        0.34 if is_fresh else 0.16 if axes else 0.05,
        line=colour,
        title=f"{ARRIVED if is_fresh else ''}{box.key}: {about}",
        subject=subject,
        opens=box.key if box.can_open else "",
        round=4,
    )
    yield Rectangle(frame.x, frame.y, STRIP * (2 if is_fresh else 1), frame.height, fill=colour, alpha=1.0 if axes else 0.3)
    x, y = frame.x + STRIP + PAD - 2 + (STRIP if is_fresh else 0), frame.y + 15
    yield Label(x, y, heading(seen, number), bold=True)
    if not box.rest and sharding is not None and (dims := dims_of(node, sharding)):
        yield from dim_labels(report.mesh, dims, x, y + LINE)


def _text(report: Report, seen: Collapsed, lies: Sequence[Sharding | None], fresh: Collection[int]) -> str:
    rows = []
    for number, box in enumerate(seen.boxes):
        _, sharding = _told(seen, number, lies, fresh)
        mark = "→" if any(member in fresh for member in box.members) else ""
        rows.append((mark, box.key, str(sharding) if _axes(sharding) else ""))
    title = _title(report, lies)
    return f"{title}\n\n{table_text(['', 'scope', 'lies so far'], rows)}" if rows else title
