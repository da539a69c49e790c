"""How a plan of a ranking came to be: the edits of its room, step by step, without the names of those who made them. Students see the
winner's once the deadline has passed."""

from collections.abc import Mapping
from typing import Any

from sqlalchemy import select

from workbench.team.access import ForbiddenError, MissingError
from workbench.team.actions.action import Call, action, planner_of
from workbench.team.actions.classes.assignments import STUDENT
from workbench.team.actions.classes.class_records import is_over, is_staff
from workbench.team.actions.classes.scores import RankedPlan, ranking
from workbench.team.actions.schemas import Count, Figures, Record
from workbench.team.rooms.room_records import read_room
from workbench.team.store.tables import Assignment, LogEntry
from workbench.team.web.team_services import ReplayedRoom


class ReplayStep(Record, frozen=True):
    """An edit, and the plan after it."""

    text: str
    name: str
    mesh: str
    layout: str
    figures: Figures


class ReplayRecord(Record, frozen=True):
    """How a plan came to be; `elsewhere` if it was not made in its room."""

    place: Count
    elsewhere: bool
    steps: list[ReplayStep]
    planned: Figures


async def _read(call: Call) -> Mapping[str, Any]:
    """Up to where the plan was that is ranked; what came after that is not shown."""
    with call.services.store.read() as session:
        here = Call(call.services, call.principal, session, call.inputs, call.found)
        ranked = _ranked(here)
        last = select(LogEntry.seq).where(LogEntry.room_id == ranked.room_id, LogEntry.digest == ranked.digest)
        end = session.scalar(last.order_by(LogEntry.seq.desc()).limit(1))
    source = read_room(call.services.store, ranked.room_id)
    steps = (await planner_of(call).ask(ReplayedRoom, "replay", document=source.document, log=source.log[: end or 0])).steps
    return {"steps": [dict(each) for each in steps], "elsewhere": end is None, "planned": dict(ranked.figures.get("planned", {}))}


def _ranked(call: Call) -> RankedPlan:
    """The plan at the place of the path. Raises `MissingError` for none, `ForbiddenError` for what is not shown to students yet."""
    assignment: Assignment = call.found.resource
    place = call.inputs.path["place"]
    if not is_staff(call):
        if not (is_over(assignment) or assignment.released is not None):
            raise ForbiddenError("Replay of the winner is shown once the deadline has passed.", ["wait for it"])
        if place != "1":
            raise ForbiddenError("Students see only the replay of the winner.", ["open the first place"])
    plans = ranking(call, assignment)
    if not place.isdecimal() or not 1 <= int(place) <= len(plans):
        raise MissingError("place", place)
    return plans[int(place) - 1]


@action("assignments.replay", "GET /assignments/{assignment}/ranking/{place}", STUDENT, "read", prepare=_read)
def _answer(call: Call, place: str) -> ReplayRecord:
    """See how a plan of a ranking came to be, step by step."""
    return ReplayRecord(place=int(place), **call.prepared)
