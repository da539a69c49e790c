"""The session of a room in the test's process, its log kept as a store keeps it; and what people do in it, drawn at random."""

import json
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import cache
from typing import Any

from hypothesis import strategies as st

from workbench.core.program import Program
from workbench.core.sharding import Sharding
from workbench.errors import WorkbenchError
from workbench.models import build
from workbench.plan.edits import Edit, EditGroup, Override, RenameDim, SetHardware, ShardDim
from workbench.plan.mesh_edits import AddAxis, RemoveAxis, RenameAxis, ReorderAxes, ResizeAxis
from workbench.plan.propagation_edits import Prioritize
from workbench.public_plan import Plan
from workbench.team.access import ProjectRole
from workbench.team.planning.room_edit_log import RoomHistory, RoomLogRecord, replay
from workbench.team.planning.room_session import RoomPerson, RoomSession

ADA, BOB = RoomPerson("u-ada", "Ada", ProjectRole.OWNER), RoomPerson("u-bob", "Bob", ProjectRole.EDITOR)
CAROL, VIC = RoomPerson("u-carol", "Carol", ProjectRole.RUNNER), RoomPerson("u-vic", "Vic", ProjectRole.VIEWER)


@cache
def two_layer() -> Program:
    """x[batch=16, io=8], w[io=8, hidden=16], v[hidden=16, io=8]."""
    return build("two_layer", batch=16, io=8, hidden=16)


def first_plan() -> Plan:
    """The plan that the rooms of the tests begin with."""
    return Plan(two_layer(), "data:4 model:2", "batch:data")


@dataclass
class KeptLog:
    """A log as the store has it: texts of JSON. With `problem` set nothing can be kept; `on_keep` is called after an entry was."""

    entries: list[str] = field(default_factory=list)
    plans: list[Plan] = field(default_factory=list)
    problem: Exception | None = None
    on_keep: Callable[[], None] = lambda: None

    def keep(self, record: RoomLogRecord, plan: Plan) -> None:
        if self.problem is not None:
            raise self.problem
        self.entries.append(json.dumps({"kind": record.kind, "author": record.author, "body": record.body}))
        self.plans.append(plan)
        self.on_keep()

    @property
    def records(self) -> list[RoomLogRecord]:
        """What a restarted room is given."""
        return [RoomLogRecord(**json.loads(each)) for each in self.entries]


@dataclass
class Room:
    """A room of the test: `do(person, verb, ...)` is one thing that somebody does in it."""

    session: RoomSession
    log: KeptLog
    first: Plan

    @classmethod
    def begin(cls, plan: Plan | None = None) -> "Room":
        log, first = KeptLog(), plan or first_plan()
        return cls(RoomSession.begin(RoomHistory.of(first), log.keep), log, first)

    def do(self, person: RoomPerson, verb: str, *arguments: Any, saw: int | None = None) -> None:
        with self.session.acting(person, saw):
            getattr(self.session, verb)(*arguments)

    def shard(self, person: RoomPerson, dim: str, *axes: str, saw: int | None = None) -> None:
        self.do(person, "apply", ShardDim(dim, axes), saw=saw)

    def replayed(self) -> RoomHistory:
        """The history that the log gives."""
        return replay(self.first, self.log.records)

    @property
    def layout(self) -> str:
        return str(self.session.plan.layout)


def state_of(session: RoomSession) -> dict[str, Any]:
    """All that a refused or unkept edit must leave as it was. What was undone is empty for somebody who never undid anything."""
    history = session._history
    return {
        "nodes": session.nodes,
        "head": session.node.number,
        "history": history.nodes,
        "history head": history.head,
        "authors": tuple(session.authors),
        "undone": {person: numbers for person, numbers in history.undone.items() if numbers},
        "report": session.report,
        "summaries": dict(session.summaries),
        "revision": session.revision,
        "recent": list(session.recent),
    }


_AXIS = st.sampled_from(("data", "model", "pipe"))
_DIM = st.sampled_from(("batch", "io", "hidden", "width"))
_SHARDING = st.sampled_from((None, Sharding((None, ())), Sharding((("model",), ())), Sharding(((), ("data", "model")))))
PLAIN_EDITS: st.SearchStrategy[Edit] = st.one_of(
    st.builds(ShardDim, _DIM, st.lists(_AXIS, max_size=2, unique=True).map(tuple)),
    st.builds(Override, st.sampled_from(("w", "v", "x")), _SHARDING),
    st.builds(Prioritize, _DIM, st.integers(0, 2)),
    st.builds(AddAxis, _AXIS, st.sampled_from((2, 4))),
    st.builds(RemoveAxis, _AXIS),
    st.builds(ResizeAxis, _AXIS, st.sampled_from((2, 4, 8))),
    st.builds(RenameAxis, _AXIS, _AXIS),
    st.builds(ReorderAxes, st.permutations(("data", "model")).map(tuple)),
    st.builds(RenameDim, _DIM, _DIM),
    st.just(SetHardware(None)),
)
"""Edits of `first_plan` and what becomes of it: most are legal at some time."""
EDITS_OF_ROOM = PLAIN_EDITS | st.lists(PLAIN_EDITS, min_size=1, max_size=2).map(lambda edits: EditGroup("both", tuple(edits)))
_NUMBER = st.integers(0, 12)
DEEDS: st.SearchStrategy[tuple[Any, ...]] = st.one_of(
    st.tuples(st.just("apply"), EDITS_OF_ROOM),
    st.tuples(st.just("apply"), EDITS_OF_ROOM),  # as often as all else together
    st.tuples(st.just("undo")),
    st.tuples(st.just("redo")),
    st.tuples(st.just("go"), _NUMBER),
    st.tuples(st.just("name"), _NUMBER, st.sampled_from(("", "best", "  été \n 1 "))),
    st.tuples(st.just("pin"), _NUMBER, st.booleans()),
)
STORIES = st.lists(st.tuples(st.sampled_from((ADA, BOB, CAROL)), DEEDS), max_size=14)
"""Who does what, one after another."""


def tell(room: Room, story: list[tuple[RoomPerson, tuple[Any, ...]]]) -> int:
    """Do all of it; how much of it was refused."""
    refused = 0
    for person, deed in story:
        try:
            room.do(person, *deed)
        except WorkbenchError:
            refused += 1
    return refused


def with_role(person: RoomPerson, role: ProjectRole) -> RoomPerson:
    """The same person with another role."""
    return replace(person, role=role)
