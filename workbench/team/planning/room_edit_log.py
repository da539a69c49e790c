"""What a room's log holds, as records; and the history of plans that follows from them.

Every entry has a `kind` and a `body` of plain JSON:

- `edit`, `undo`, `redo`, `go`, `push`: the plan that is present afterwards, `head`, and the nodes `added` for it, each with its `parent`,
  `edit` (`documents.edit_record`) and `author`. An undo names the node that is `undone`, a redo the one `redone`. What is pushed comes from
  outside of the room, and is by `EVERYBODY`: whoever edits there may take it back;
- `name` and `pin`: the `node`, and its `name`, or whether it is `pinned`.

A node's number is its place: the first plan is 0. So a log is replayed without a decision, and gives the same history each time.
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
from workbench.plan.edits import (
    Constrain,
    Edit,
    EditGroup,
    OpenPlan,
    Override,
    RenameDim,
    SetAxisAssignment,
    SetHardware,
    SetOffload,
    SetPipeline,
    SetPrecision,
    SetRemat,
    ShardDim,
)
from workbench.plan.mesh_edits import AddAxis, RemoveAxis, RenameAxis, ReorderAxes, ResizeAxis, SetMesh
from workbench.plan.plan import Plan
from workbench.plan.propagation_edits import GroupValues, Prioritize, SetBarrier, UngroupValues
from workbench.reports.report import Report
from workbench.session.plan_history import HistoryNode
from workbench.team.planning.grade_answers import describe_plan, description_record, figures_of
from workbench.team.rooms.room_records import EVERYBODY, MOVES


@dataclass(frozen=True, slots=True)
class RoomLogRecord:
    """One thing that somebody did."""

    kind: str
    author: str
    body: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class AddedEdit:
    """An edit of the plan `parent` of the history, and who made it."""

    parent: int
    edit: Edit
    author: str

    def as_record(self) -> dict[str, Any]:
        """As the log has it."""
        return {"parent": self.parent, "edit": edit_record(self.edit), "author": self.author}

    @classmethod
    def from_record(cls, record: Mapping[str, Any], allow: Sequence[str], known: Program | None) -> "AddedEdit":
        """The edit of a record. Raises `WorkbenchError` for one that cannot be read."""
        edit = parse_edit(record["edit"], allow=tuple(allow), known=known)
        return cls(record["parent"], edit, _verify_text(record["author"], "author"))


@dataclass(frozen=True, slots=True)
class RoomHistory:
    """The nodes of a room, who made each, the present one, and by person what they undid and may redo, last one last."""

    nodes: tuple[HistoryNode, ...]
    authors: tuple[str, ...]
    head: int = 0
    undone: Mapping[str, tuple[int, ...]] = field(default_factory=dict)

    @classmethod
    def of(cls, plan: Plan) -> "RoomHistory":
        """The history of a room in which nothing has happened yet."""
        return cls((HistoryNode(0, plan),), ("",))

    def with_record(self, record: RoomLogRecord, allow: Sequence[str] = (), known: Program | None = None) -> "RoomHistory":
        """The history after an entry of the log. Raises `WorkbenchError` for an entry that cannot be replayed."""
        body = record.body
        try:
            if record.kind in MOVES:
                added = [AddedEdit.from_record(each, allow, known) for each in body["added"]]
                return self.extended(record, added, body["head"])
            return self.marked(record)
        except (LookupError, TypeError, ValueError) as error:
            raise DocumentError(f"It is damaged: {short_repr(error)}.", ["restore a backup of the team's store"]) from None

    def extended(self, record: RoomLogRecord, added: Sequence["AddedEdit"], head: int) -> "RoomHistory":
        """The history with plans added, and another one present. Raises the `WorkbenchError` of an edit that would be illegal."""
        nodes, authors = list(self.nodes), list(self.authors)
        for each in added:
            plan = apply_edit(_find(nodes, each.parent).plan, each.edit)
            nodes.append(HistoryNode(len(nodes), plan, each.parent, each.edit))
            authors.append(each.author)
        return RoomHistory(tuple(nodes), tuple(authors), _find(nodes, head).number, self._undone_after(record))

    def marked(self, record: RoomLogRecord) -> "RoomHistory":
        """The history with a plan named or pinned."""
        node, value = _find(self.nodes, record.body["node"]), record.body[{"name": "name", "pin": "pinned"}[record.kind]]
        changed = replace(node, name=_verify_text(value, "name")) if record.kind == "name" else replace(node, pinned=bool(value))
        return replace(self, nodes=(*self.nodes[: node.number], changed, *self.nodes[node.number + 1 :]))

    def _undone_after(self, record: RoomLogRecord) -> Mapping[str, tuple[int, ...]]:
        mine = self.undone.get(record.author, ())
        if record.kind == "undo":
            mine = (*mine, _find(self.nodes, record.body["undone"], first=1).number)
        elif record.kind == "redo":
            mine = tuple(each for each in mine if each != _find(self.nodes, record.body["redone"], first=1).number)
        elif record.kind == "edit":
            mine = ()  # as everywhere: who edits after an undo does not redo
        return {**self.undone, record.author: mine}

    def path(self) -> tuple[int, ...]:
        """The nodes from the first plan to the present one."""
        path = [self.head]
        while (parent := self.nodes[path[-1]].parent) is not None:
            path.append(parent)
        return tuple(reversed(path))

    def last_edit_of(self, author: str) -> int | None:
        """The node of the person's last edit, or of what was sent to all, that is in the present plan."""
        return next((number for number in reversed(self.path()) if number and self.authors[number] in (author, EVERYBODY)), None)

    def words_of(self, record: RoomLogRecord) -> str:
        """What an entry of the log did, for colleagues: `d_ff → model`, or `took back d_ff → model`."""
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


def _named(edit: Edit | None) -> str:
    """An edit as a thing: of a plan that was opened its name alone."""
    return edit.source if isinstance(edit, OpenPlan) else str(edit)


def replay(first: Plan, records: Sequence[RoomLogRecord], allow: Sequence[str] = ()) -> RoomHistory:
    """The history of a room from its log. Raises `WorkbenchError`, which names the entry, if one cannot be replayed."""
    history = RoomHistory.of(first)
    for place, record in enumerate(records, 1):
        try:
            history = history.with_record(record, allow, first.program)
        except WorkbenchError as error:
            raise DocumentError(f"Entry {place:,} of the room's log cannot be replayed: {error.message}", error.ways_out) from None
    return history


def _find(nodes: Sequence[HistoryNode], number: Any, first: int = 0) -> HistoryNode:
    """The plan of a number that a log names, from `first` on. Raises `LookupError`: a list would take a negative one."""
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
    SetRemat: "rematerialisation",
    SetPrecision: "precision",
    SetOffload: "offloading",
    SetHardware: "the hardware",
    SetAxisAssignment: "the axis assignment",
    SetPipeline: "the pipeline",
}


def statements_of(edit: Edit) -> frozenset[str]:
    """The statements that an edit changes, in words; one that replaces the whole layout, or the plan, changes `everything`."""
    match edit:
        case EditGroup():
            return frozenset().union(*(statements_of(each) for each in edit.edits))
        case ShardDim() | RenameDim():
            return frozenset({f"dimension {edit.dim}"})
        case Prioritize():
            return frozenset({f"the priority of {edit.dim}"})
        case Override():
            return frozenset({edit.pattern})
        case Constrain():
            return frozenset({f"@{edit.pattern}"})
        case SetBarrier():
            return frozenset({f"the barrier at {edit.place}"})
        case GroupValues() | UngroupValues():
            return frozenset({f"the group of {', '.join(edit.places)}"})
        case AddAxis() | RemoveAxis() | ResizeAxis() | RenameAxis():
            return frozenset({f"mesh axis {edit.axis}"})
    return frozenset({_OF_THE_PLAN.get(type(edit), "everything")})


def common_statements(one: Edit, other: Edit) -> frozenset[str]:
    """What both change; if one of them changes everything, that is all of the other's."""
    mine, theirs = statements_of(one), statements_of(other)
    if "everything" in mine or "everything" in theirs:
        return (mine | theirs) - {"everything"} or frozenset({"everything"})
    return mine & theirs


MOST_STEPS = 300
"""Of a longer log the first ones are left out."""


def replay_room(document: str, log: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """The steps, and the present plan as the gallery keeps it. Raises `WorkbenchError` for a log that cannot be replayed."""
    first = parse_plan(document, "The plan of this room")
    history, made = RoomHistory.of(first), [("it begins", first)]
    for each in log:
        record = RoomLogRecord(each["kind"], each["author"], each["body"])
        history = history.with_record(record, known=first.program)
        if record.kind in MOVES:
            made.append((history.words_of(record), history.nodes[history.head].plan))
    present = made[-1][1]
    shown = made[-MOST_STEPS:]
    reports = {id(plan): analyze(plan) for plan in {id(plan): plan for _, plan in shown}.values()}
    steps = [_step(words, plan, reports[id(plan)]) for words, plan in shown]
    return {"steps": steps, "present": description_record(describe_plan(present, reports[id(present)]))}


def _step(words: str, plan: Plan, report: Report) -> dict[str, Any]:
    return {"text": words, "name": plan.name, "mesh": str(plan.mesh), "layout": str(plan.layout), "figures": dict(figures_of(report))}
