"""The content of a journal as records, each with what is new since the one before: `was.after(record_between(was, now)) == now`.

A plan is stored as its document. Documents are long and much alike, so a long one is compressed.
"""

import base64
import json
import zlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from workbench.core.mesh import Mesh
from workbench.core.program import Program
from workbench.documents.plan_documents import dump_plan, parse_layout
from workbench.errors import DocumentError
from workbench.plan.edits import Edit
from workbench.plan.plan import Plan
from workbench.session.journal.journal_lines import Record
from workbench.session.plan_history import HistoryNode, ReportSummary, Session

MOST_DOCUMENT = 1 << 24
"""Characters of one plan."""
COMPRESSED_FROM = 2000  # characters above which a document is compressed

Parse = Callable[[str], Plan]


@dataclass(frozen=True, slots=True)
class RecordedEdit:
    """An edit whose text is known, and the plan it made."""

    text: str
    plan: Plan

    def apply(self, _: Plan) -> Plan:
        return self.plan

    def __str__(self) -> str:
        return self.text


@dataclass(frozen=True, slots=True)
class History:
    """Everything of a session that outlives it. Reports do not: they are computed again."""

    nodes: tuple[HistoryNode, ...]
    now: int
    redo_children: Mapping[int, int]
    summaries: Mapping[int, ReportSummary]

    @classmethod
    def from_session(cls, session: Session) -> "History":
        return cls(session.nodes, session.node.number, dict(session.redo_children), dict(session.summaries))

    def with_record(self, record: Record, parse: Parse) -> "History":
        """The history extended by a record; raises what `parse` raises, and `LookupError`, `TypeError` or `ValueError` for a malformed
        record."""
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
        """A session with this history; raises `WorkbenchError` if it is invalid.

        Step times that were predicted for measured hardware, which no plan names, are left out.
        """
        summaries = {
            number: each if self.nodes[number].plan.hardware else each._replace(seconds=None) for number, each in self.summaries.items()
        }
        return Session.from_history(self.nodes, self.now, self.redo_children, summaries)


EMPTY_HISTORY = History((), 0, {}, {})


def record_between(before: History, now: History) -> Record:
    """What is new since `before`; empty if nothing is. Raises `DocumentError` if a plan cannot be saved."""
    known = len(before.nodes)
    marks = [
        [node.number, node.name, node.pinned]
        for node, was in zip(now.nodes, [*before.nodes, *(HistoryNode(each.number, each.plan) for each in now.nodes[known:])], strict=True)
        if (node.name, node.pinned) != (was.name, was.pinned)
    ]
    anew = not before.summaries.keys() <= now.summaries.keys()
    summaries = {number: list(each) for number, each in now.summaries.items() if anew or before.summaries.get(number) != each}
    record: dict[str, Any] = {
        "nodes": [_node_record(node, now.nodes[0].plan.program) for node in now.nodes[known:]],
        "marks": marks,
        "later": {str(number): child for number, child in now.redo_children.items() if before.redo_children.get(number) != child},
        "glances": {str(number): each for number, each in summaries.items()},
        "anew": anew,
    }
    position = {"now": now.now} if now.now != before.now or not before.nodes else {}
    return {**{key: value for key, value in record.items() if value}, **position}


def share_programs(parse: Parse) -> Parse:
    """`parse` with programs shared between documents: tracing a program takes a thousand times as long as the rest."""
    known: dict[str, Plan] = {}

    def parse_shared(text: str) -> Plan:
        document = json.loads(text)
        key = json.dumps([document.get(name) for name in ("program", "dims", "remat", "precision", "offload")])
        if key not in known:
            known[key] = parse(text)
            return known[key]
        return known[key].updated(
            mesh=Mesh(tuple((axis, size) for axis, size in document["mesh"])),
            layout=parse_layout(document["layout"]),
            name=document["name"],
            hardware=document.get("hardware"),
            axis_assignment=document.get("axis_assignment", document.get("wiring")),
            pipeline=document.get("pipeline"),
        )

    return parse_shared


def read_document(row: Record) -> str:
    """The plan document of a plan's row. Raises `ValueError`, or `LookupError`, if there is none."""
    if "plan" in row:
        return str(row["plan"])
    unpacker = zlib.decompressobj()
    try:
        text = unpacker.decompress(base64.b64decode(row["packed"], validate=True), MOST_DOCUMENT)
    except zlib.error as error:
        raise ValueError(str(error)) from None
    if not unpacker.eof:
        raise ValueError("a plan is cut off")
    return text.decode()


def _node_record(node: HistoryNode, first: Program) -> Record:
    """A plan's row. Plans may be of the program that the board began with, though nothing names it."""
    text = dump_plan(node.plan, first)
    if len(text) > MOST_DOCUMENT:
        raise DocumentError(f"`{node.plan.name}` has a document of {len(text):,} characters; the history keeps at most {MOST_DOCUMENT:,}.")
    document = {"plan": text} if len(text) < COMPRESSED_FROM else {"packed": base64.b64encode(zlib.compress(text.encode())).decode()}
    return {**document, **({} if node.edit is None else {"parent": node.parent, "edit": str(node.edit)})}


def _read_node(number: int, row: Record, parse: Parse) -> HistoryNode:
    plan = parse(read_document(row))
    edit: Edit | None = RecordedEdit(str(row["edit"]), plan) if "edit" in row else None
    return HistoryNode(number, plan, row.get("parent"), edit)
