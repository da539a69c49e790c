"""Encode a session's history as incremental records: `before.with_record(record_between(before, now), parse) == now`.

Plans are stored as documents.
"""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from workbench.core.mesh import Mesh
from workbench.core.program import Program
from workbench.documents.plan_documents import dump_plan, parse_layout
from workbench.errors import DocumentError
from workbench.plan.edits import Edit
from workbench.plan.plan import Plan
from workbench.session.journal_lines import MOST_DOCUMENT, Record, document_record, read_document
from workbench.session.plan_history import HistoryNode, ReportSummary, Session

Parse = Callable[[str], Plan]


@dataclass(frozen=True, slots=True)
class RecordedEdit:
    """An edit restored from its text and resulting plan."""

    text: str
    plan: Plan

    def apply(self, _: Plan) -> Plan:
        return self.plan

    def __str__(self) -> str:
        return self.text


@dataclass(frozen=True, slots=True)
class History:
    """The persistent part of a session; reports are recomputed."""

    nodes: tuple[HistoryNode, ...]
    now: int
    redo_children: Mapping[int, int]
    summaries: Mapping[int, ReportSummary]

    @classmethod
    def from_session(cls, session: Session) -> "History":
        return cls(session.nodes, session.node.number, dict(session.redo_children), dict(session.summaries))

    def with_record(self, record: Record, parse: Parse) -> "History":
        """Extend by a record. Raises errors of `parse`, and `LookupError`, `TypeError` or `ValueError` if malformed."""
        nodes = list(self.nodes)
        for row in record.get("nodes", ()):
            nodes.append(_read_node(len(nodes), row, parse))
        for number, name, pinned in record.get("marks", ()):
            nodes[number] = replace(nodes[number], name=str(name), pinned=bool(pinned))
        redo_children = {int(number): int(child) for number, child in record.get("later", {}).items()}
        summaries = {int(number): ReportSummary(*summary) for number, summary in record.get("glances", {}).items()}
        earlier = {} if record.get("anew") else self.summaries
        return History(tuple(nodes), int(record.get("now", self.now)), {**self.redo_children, **redo_children}, {**earlier, **summaries})

    def session(self) -> Session:
        """Return a session without step times for calibrated hardware, which no plan names. Raises `WorkbenchError`."""
        summaries = {
            number: summary if self.nodes[number].plan.hardware else summary._replace(seconds=None)
            for number, summary in self.summaries.items()
        }
        return Session.from_history(self.nodes, self.now, self.redo_children, summaries)


EMPTY_HISTORY = History((), 0, {}, {})


def record_between(before: History, now: History) -> Record:
    """Return the changes since `before`; empty if there are none. Raises `DocumentError` if a plan cannot be saved."""
    count = len(before.nodes)
    marks = [
        [node.number, node.name, node.pinned]
        for node, old in zip(now.nodes, [*before.nodes, *(HistoryNode(item.number, item.plan) for item in now.nodes[count:])], strict=True)
        if (node.name, node.pinned) != (old.name, old.pinned)
    ]
    anew = not before.summaries.keys() <= now.summaries.keys()
    summaries = {number: list(item) for number, item in now.summaries.items() if anew or before.summaries.get(number) != item}
    record: dict[str, Any] = {
        "nodes": [_node_record(node, now.nodes[0].plan.program) for node in now.nodes[count:]],
        "marks": marks,
        "later": {str(number): child for number, child in now.redo_children.items() if before.redo_children.get(number) != child},
        "glances": {str(number): item for number, item in summaries.items()},
        "anew": anew,
    }
    position = {"now": now.now} if now.now != before.now or not before.nodes else {}
    return {**{key: value for key, value in record.items() if value}, **position}


def share_programs(parse: Parse) -> Parse:
    """Wrap `parse` to share programs between documents, since tracing takes a thousand times as long as the rest."""
    plans: dict[str, Plan] = {}

    def parse_shared(text: str) -> Plan:
        document = json.loads(text)
        key = json.dumps([document.get(name) for name in ("program", "dims", "remat", "precision", "offload")])
        if key not in plans:
            plans[key] = parse(text)
            return plans[key]
        return plans[key].updated(
            mesh=Mesh(tuple((axis, size) for axis, size in document["mesh"])),
            layout=parse_layout(document["layout"]),
            name=document["name"],
            hardware=document.get("hardware"),
            axis_assignment=document.get("axis_assignment", document.get("wiring")),
            pipeline=document.get("pipeline"),
        )

    return parse_shared


def _node_record(node: HistoryNode, first: Program) -> Record:
    """Encode a plan; the board's initial program needs no reference."""
    text = dump_plan(node.plan, first)
    if len(text) > MOST_DOCUMENT:
        raise DocumentError(f"`{node.plan.name}` has a document of {len(text):,} characters; the history keeps at most {MOST_DOCUMENT:,}.")
    return {**document_record(text), **({} if node.edit is None else {"parent": node.parent, "edit": str(node.edit)})}


def _read_node(number: int, row: Record, parse: Parse) -> HistoryNode:
    plan = parse(read_document(row))
    edit: Edit | None = RecordedEdit(str(row["edit"]), plan) if "edit" in row else None
    return HistoryNode(number, plan, row.get("parent"), edit)
