"""Records of a room's log, and the plan history that they define.

Every entry has a `kind` and a JSON `body`:

- `edit`, `undo`, `redo`, `go`, `push`: the present plan afterwards, `head`, and the nodes `added` for it, each with
  `parent`, `edit` (`documents.edit_record`) and `author`. An undo names the node `undone`, a redo the one `redone`. A
  pushed plan comes from outside the room and has the author `EVERYBODY`: every editor can undo it;
- `name` and `pin`: the `node`, and its `name`, or whether it is `pinned`.

Nodes are numbered in order; the first plan is 0. Replaying a log therefore always gives the same history.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from reprlib import repr as short_repr
from typing import Any

from workbench.analysis.analyze import analyze
from workbench.core.program import Program
from workbench.documents import edit_record, parse_edit, parse_plan
from workbench.errors import DocumentError, WorkbenchError
from workbench.pipeline.balance import apply_edit
from workbench.plan import edits
from workbench.plan.mesh_edits import AddAxis, RemoveAxis, RenameAxis, ReorderAxes, ResizeAxis, SetMesh
from workbench.plan.plan import Plan
from workbench.plan.propagation_edits import GroupValues, Prioritize, SetBarrier, UngroupValues
from workbench.reports.report import Report
from workbench.session.plan_history import HistoryNode
from workbench.team.planning.grade_answers import describe_plan, description_record, figures_of
from workbench.team.rooms.room_records import EVERYBODY, MOVES


@dataclass(frozen=True, slots=True)
class RoomLogRecord:
    kind: str
    author: str
    body: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class AddedEdit:
    """An edit of the history's node `parent`, with its author."""

    parent: int
    edit: edits.Edit
    author: str

    def as_record(self) -> dict[str, Any]:
        return {"parent": self.parent, "edit": edit_record(self.edit), "author": self.author}

    @classmethod
    def from_record(cls, record: Mapping[str, Any], allow: Sequence[str], known: Program | None) -> "AddedEdit":
        edit = parse_edit(record["edit"], allow=tuple(allow), known=known)
        return cls(record["parent"], edit, _verify_text(record["author"], "author"))


@dataclass(frozen=True, slots=True)
class RoomHistory:
    """The nodes of a room with their authors, the present node, and the nodes that each user undid, latest last."""

    nodes: tuple[HistoryNode, ...]
    authors: tuple[str, ...]
    head: int = 0
    undone: Mapping[str, tuple[int, ...]] = field(default_factory=dict)

    @classmethod
    def of(cls, plan: Plan) -> "RoomHistory":
        return cls((HistoryNode(0, plan),), ("",))

    def with_record(self, record: RoomLogRecord, allow: Sequence[str] = (), known: Program | None = None) -> "RoomHistory":
        """Return the history after a log entry. Raises `WorkbenchError` if it cannot be replayed."""
        body = record.body
        try:
            if record.kind in MOVES:
                added = [AddedEdit.from_record(item, allow, known) for item in body["added"]]
                return self.extended(record, added, body["head"])
            return self.marked(record)
        except (LookupError, TypeError, ValueError) as error:
            raise DocumentError(f"It is damaged: {short_repr(error)}.", ["restore a backup of the team's store"]) from None

    def extended(self, record: RoomLogRecord, added: Sequence["AddedEdit"], head: int) -> "RoomHistory":
        """Return the history with added nodes and a new present one. Raises the `WorkbenchError` of an illegal edit."""
        nodes, authors = list(self.nodes), list(self.authors)
        for addition in added:
            plan = apply_edit(_find(nodes, addition.parent).plan, addition.edit)
            nodes.append(HistoryNode(len(nodes), plan, addition.parent, addition.edit))
            authors.append(addition.author)
        return RoomHistory(tuple(nodes), tuple(authors), _find(nodes, head).number, self._undone_after(record))

    def marked(self, record: RoomLogRecord) -> "RoomHistory":
        node, value = _find(self.nodes, record.body["node"]), record.body[{"name": "name", "pin": "pinned"}[record.kind]]
        changed = replace(node, name=_verify_text(value, "name")) if record.kind == "name" else replace(node, pinned=bool(value))
        return replace(self, nodes=(*self.nodes[: node.number], changed, *self.nodes[node.number + 1 :]))

    def _undone_after(self, record: RoomLogRecord) -> Mapping[str, tuple[int, ...]]:
        undone = self.undone.get(record.author, ())
        if record.kind == "undo":
            undone = (*undone, _find(self.nodes, record.body["undone"], first=1).number)
        elif record.kind == "redo":
            undone = tuple(number for number in undone if number != _find(self.nodes, record.body["redone"], first=1).number)
        elif record.kind == "edit":
            undone = ()  # an edit after an undo clears the redo list
        return {**self.undone, record.author: undone}

    def path(self) -> tuple[int, ...]:
        path = [self.head]
        while (parent := self.nodes[path[-1]].parent) is not None:
            path.append(parent)
        return tuple(reversed(path))

    def last_edit_of(self, author: str) -> int | None:
        """Return the latest node on the present path by the author or `EVERYBODY`."""
        return next((number for number in reversed(self.path()) if number and self.authors[number] in (author, EVERYBODY)), None)

    def words_of(self, record: RoomLogRecord) -> str:
        """Describe a log entry for colleagues: `d_ff → model`, or `took back d_ff → model`."""
        nodes, body = self.nodes, record.body
        match record.kind:
            case "name":
                return f"named plan {body['node']} {body['name']}" if body["name"] else f"took the name of plan {body['node']} away"
            case "pin":
                return f"{'' if body['pinned'] else 'un'}pinned plan {body['node']}"
            case "go":
                return f"went to {nodes[body['head']].name or 'plan ' + str(body['head'])}"
            case "undo":
                return f"took back {_named(nodes[body['undone']].edit)}"
            case "redo":
                return f"made {_named(nodes[body['redone']].edit)} again"
            case "push":
                return f"sent all {_named(nodes[body['head']].edit)}"
        return str(nodes[body["head"]].edit)


def _named(edit: edits.Edit | None) -> str:
    return edit.source if isinstance(edit, edits.OpenPlan) else str(edit)


def replay(first: Plan, records: Sequence[RoomLogRecord], allow: Sequence[str] = ()) -> RoomHistory:
    """Replay a room's log. Raises `WorkbenchError`, which names the entry, if one is invalid."""
    history = RoomHistory.of(first)
    for place, record in enumerate(records, 1):
        try:
            history = history.with_record(record, allow, first.program)
        except WorkbenchError as error:
            raise DocumentError(f"Entry {place:,} of the room's log cannot be replayed: {error.message}", error.ways_out) from None
    return history


def _find(nodes: Sequence[HistoryNode], number: Any, first: int = 0) -> HistoryNode:
    """Return the node of a number from `first` on. Raises `LookupError`, also for negative numbers."""
    if type(number) is not int or not first <= number < len(nodes):
        raise LookupError(number)
    return nodes[number]


def _verify_text(value: Any, name: str) -> str:
    if not isinstance(value, str):
        raise TypeError(name)
    return value


_OF_THE_PLAN: dict[type, str] = {
    SetMesh: "the mesh",
    ReorderAxes: "the order of the mesh axes",
    edits.SetRemat: "rematerialisation",
    edits.SetPrecision: "precision",
    edits.SetOffload: "offloading",
    edits.SetHardware: "the hardware",
    edits.SetAxisAssignment: "the axis assignment",
    edits.SetPipeline: "the pipeline",
}


def statements_of(edit: edits.Edit) -> frozenset[str]:
    """Return the statements that an edit changes, as texts; `everything` if it replaces the layout or the plan."""
    match edit:
        case edits.EditGroup():
            return frozenset().union(*(statements_of(inner) for inner in edit.edits))
        case edits.ShardDim() | edits.RenameDim():
            return frozenset({f"dimension {edit.dim}"})
        case Prioritize():
            return frozenset({f"the priority of {edit.dim}"})
        case edits.Override():
            return frozenset({edit.pattern})
        case edits.Constrain():
            return frozenset({f"@{edit.pattern}"})
        case SetBarrier():
            return frozenset({f"the barrier at {edit.place}"})
        case GroupValues() | UngroupValues():
            return frozenset({f"the group of {', '.join(edit.places)}"})
        case AddAxis() | RemoveAxis() | ResizeAxis() | RenameAxis():
            return frozenset({f"mesh axis {edit.axis}"})
    return frozenset({_OF_THE_PLAN.get(type(edit), "everything")})


def common_statements(one: edits.Edit, other: edits.Edit) -> frozenset[str]:
    """Return the statements that both edits change; `everything` matches all of the other's."""
    first, second = statements_of(one), statements_of(other)
    if "everything" in first or "everything" in second:
        return (first | second) - {"everything"} or frozenset({"everything"})
    return first & second


MOST_STEPS = 300
"""Maximum number of steps; earlier ones of a longer log are omitted."""


def replay_room(document: str, log: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Return the steps of a room's log and its present plan. Raises `WorkbenchError` if the log cannot be replayed."""
    first = parse_plan(document, "The plan of this room")
    history, plans = RoomHistory.of(first), [("it begins", first)]
    for entry in log:
        record = RoomLogRecord(entry["kind"], entry["author"], entry["body"])
        history = history.with_record(record, known=first.program)
        if record.kind in MOVES:
            plans.append((history.words_of(record), history.nodes[history.head].plan))
    present = plans[-1][1]
    last_plans = plans[-MOST_STEPS:]
    reports = {id(plan): analyze(plan) for plan in {id(plan): plan for _, plan in last_plans}.values()}
    steps = [_step(text, plan, reports[id(plan)]) for text, plan in last_plans]
    return {"steps": steps, "present": description_record(describe_plan(present, reports[id(present)]))}


def _step(words: str, plan: Plan, report: Report) -> dict[str, Any]:
    return {"text": words, "name": plan.name, "mesh": str(plan.mesh), "layout": str(plan.layout), "figures": dict(figures_of(report))}
