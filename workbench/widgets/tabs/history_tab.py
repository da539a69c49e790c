"""The history panel: the tree of plans, newest first with a lane per branch, and a comparison of two of them."""

from typing import Any

from workbench.analysis.plan_diff import PlanDiff, figures_table
from workbench.errors import WorkbenchError
from workbench.session.plan_history import HistoryNode, ReportSummary, Session
from workbench.units import format_bytes, format_seconds
from workbench.visualize.draw.palette import number_axes
from workbench.widgets.gestures.gesture import Handlers, handlers_of, on
from workbench.widgets.gestures.view_gestures import (
    ComparePlansGesture,
    GoGesture,
    HistoryGesture,
    NamePlanGesture,
    PinGesture,
    StopComparingGesture,
    SwapPlansGesture,
)
from workbench.widgets.tabs.table_blocks import MOST_ROWS, Block, Paint, axis_colours, page_blocks, table_block

MOST_NODES = 200
"""Number of newest plans listed; all plans with a name or pin are listed too."""
MOST_TITLE = 300  # characters of a layout


class HistoryPanel:
    """The history on one board; `first` is compared with `second`, by default the present plan."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._open = False
        self._first: int | None = None
        self._second: int | None = None

    def handlers(self) -> Handlers:
        session = self._session
        return handlers_of(
            on(HistoryGesture, self._show),
            on(GoGesture, lambda gesture: session.go(self._verify_number(gesture.number))),
            on(NamePlanGesture, lambda gesture: session.name(self._verify_number(gesture.number), gesture.name)),
            on(PinGesture, lambda gesture: session.pin(self._verify_number(gesture.number), gesture.pinned)),
            on(ComparePlansGesture, lambda gesture: self._pick(self._verify_number(gesture.number))),
            on(SwapPlansGesture, self._swap),
            on(StopComparingGesture, self._stop_comparing),
        )

    def state(self) -> dict[str, Any]:
        """Return the JSON state; for a closed history only the number of plans."""
        nodes = self._session.nodes
        shown: dict[str, Any] = {"open": self._open, "count": len(nodes)}
        if not self._open:
            return {**shown, "nodes": [], "lanes": 0, "note": "", "compared": None}
        listed = [node for node in nodes if node.number >= len(nodes) - MOST_NODES or node.name or node.pinned or node.number == 0]
        lanes = lanes_of(nodes)
        rows = [self._row(node, lanes[node.number]) for node in reversed(listed)]
        note = (
            f"{len(nodes) - len(listed):,} older plans are not listed; name or pin a plan to keep it listed."
            if len(listed) < len(nodes)
            else ""
        )
        return {**shown, "nodes": rows, "lanes": max(lanes.values()) + 1, "note": note, "compared": self._comparison()}

    def _show(self, gesture: HistoryGesture) -> None:
        self._open = gesture.open

    def _swap(self, _gesture: SwapPlansGesture) -> None:
        if self._first is not None:
            self._first, self._second = self._other_number(), self._first

    def _stop_comparing(self, _gesture: StopComparingGesture) -> None:
        self._first = self._second = None

    def _verify_number(self, number: int) -> int:
        if not 0 <= number < len(self._session.nodes):
            raise WorkbenchError("That plan is not in the history.", ["see the current history"])
        return number

    def _other_number(self) -> int:
        return self._session.node.number if self._second is None else self._second

    def _pick(self, number: int) -> None:
        if number == self._first:
            self._first, self._second = self._second, None
        elif number == self._second:
            self._second = None
        elif self._first is None:
            self._first = number
        else:
            self._second = number

    def _row(self, node: HistoryNode, lane: int) -> dict[str, Any]:
        session = self._session
        number, is_present = node.number, node.number == session.node.number
        summary = session.summaries.get(number)
        before = session.summaries.get(node.parent) if node.parent is not None else None
        picked = "A" if number == self._first else "B" if self._first is not None and number == self._other_number() else ""
        return {
            "key": str(number),
            "number": number,
            "parent": node.parent,
            "lane": lane,
            "edit": str(node.edit) if node.edit else "start",
            "name": node.name,
            "pinned": node.pinned,
            "here": is_present,
            "picked": picked,
            "figures": _figures(summary, before),
            "title": str(node.plan.layout)[:MOST_TITLE] or "everything replicated",
        }

    def _comparison(self) -> dict[str, Any] | None:
        if self._first is None:
            return None
        session, second = self._session, self._other_number()
        diff = PlanDiff(session.report_of(self._first), session.report_of(second))
        colours = axis_colours(session, diff.before.plan.mesh) | axis_colours(session, diff.after.plan.mesh)
        blocks: list[Block] = diff_blocks(diff, colours)
        return {
            "first": {"number": self._first, "label": label_of(session.nodes[self._first])},
            "second": {"number": second, "label": label_of(session.nodes[second])},
            "follows": self._second is None,
            "blocks": blocks,
            "text": str(diff),
        }


def label_of(node: HistoryNode) -> str:
    return node.name or (str(node.edit) if node.edit else "start")


def lanes_of(nodes: tuple[HistoryNode, ...]) -> dict[int, int]:
    """Assign lanes: a first child keeps its parent's lane, any other takes the leftmost free one."""
    chains: dict[int, list[int]] = {}  # the first plan of a chain -> the plans on it
    chain_of: dict[int, int] = {}
    continued: set[int] = set()
    for node in nodes:
        keeps = node.parent is not None and node.parent not in continued
        head = chain_of[node.parent] if keeps and node.parent is not None else node.number
        if node.parent is not None:
            continued.add(node.parent)
        chain_of[node.number] = head
        chains.setdefault(head, []).append(node.number)
    lane_ends: list[int] = []  # for each lane the last plan on it
    lane_of_chain: dict[int, int] = {}
    for head, members in chains.items():
        parent = nodes[head].parent
        start = head if parent is None else parent
        lane = next((lane for lane, last in enumerate(lane_ends) if last < start), len(lane_ends))
        lane_ends[lane : lane + 1] = [members[-1]]
        lane_of_chain[head] = lane
    return {number: lane_of_chain[head] for number, head in chain_of.items()}


def _figures(summary: ReportSummary | None, before: ReportSummary | None) -> list[dict[str, str]]:
    """Return peak memory, traffic and time, each better or worse than the parent's if both are of one tier."""
    if summary is None:
        return []
    figures, is_alike = [], before is not None and summary.tier == before.tier != ""
    for label, texts, now, was in (
        ("peak", format_bytes, summary.peak, before and before.peak),
        ("sent", format_bytes, summary.sent, before and before.sent),
        ("step", format_seconds, summary.seconds, before and before.seconds),
    ):
        if now is not None:
            tone = "" if not is_alike or was is None or was == now else "good" if now < was else "bad"
            figures.append({"label": label, "text": texts(now), "tone": tone})
    return figures


def diff_blocks(diff: PlanDiff, colours: dict[str, int] | None = None) -> list[Block]:
    """Return changes, figures, traffic and placements; `colours` of mesh axes default to their order."""
    meshes = diff.before.plan.mesh, diff.after.plan.mesh
    paint = Paint(colours or {name: place for mesh in meshes for name, place in number_axes((), mesh).items()})
    blocks = [*page_blocks(diff.page(with_zeros=False), paint, MOST_ROWS)]
    return blocks if diff.changes else [*blocks, table_block(figures_table(diff, with_zeros=False), paint, MOST_ROWS)]
