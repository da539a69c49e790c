"""Send a teacher's plan to the boards of students who have not answered yet, as an edit that they can undo."""

from collections.abc import Sequence
from typing import Annotated, Any

from msgspec import Meta
from sqlalchemy import select

from workbench.errors import unknown_name
from workbench.team.access import InputError, MissingError
from workbench.team.actions.action import Call, action, planner_of
from workbench.team.actions.classes.assignments import STAFF
from workbench.team.actions.classes.class_records import GradedWork, graded_work
from workbench.team.actions.plans import store_plan
from workbench.team.actions.schemas import NAME, Count, Digest, Id, Record
from workbench.team.rooms.room_records import PushedPlan, read_room
from workbench.team.store.tables import Assignment, StoredFigures, StoredPlan, StudentWork
from workbench.team.web.team_services import ReplayedRoom

START, SOMEBODYS = "the start plan", "a plan of this class"


class PushedRecord(Record, frozen=True):
    rooms: list[Id]
    sent: Count
    digest: Digest
    plan: str


WorkName = Annotated[str, Meta(max_length=NAME, description="the room whose plan is sent; default: the start plan of the assignment")]
QuestionName = Annotated[
    str, Meta(max_length=NAME, description="send only to students without a correct answer to this question; default: to any plan question")
]


async def _read_board(call: Call, work: WorkName = "") -> ReplayedRoom | None:
    """Return the current board of a student, or `None` to send the assignment's initial plan."""
    assignment: Assignment = call.found.resource
    if not work:
        return None
    with call.services.store.read() as session:
        row = session.get(StudentWork, work)
        if row is None or row.assignment_id != assignment.id:
            raise MissingError("work", work)
    source = read_room(call.services.store, work)
    return await planner_of(call).ask(ReplayedRoom, "replay", document=source.document, log=source.log)


async def _send(call: Call, answer: Any) -> None:
    if call.services.rooms is None or not answer["rooms"]:
        return
    with call.services.store.read() as session:
        plan = session.get_one(StoredPlan, answer["digest"])
        stored = session.scalars(select(StoredFigures).where(StoredFigures.digest == plan.digest, StoredFigures.tier == "planned")).first()
    figures = dict(stored.values) if stored is not None else {}
    card = {"layout": plan.layout, "mesh": plan.mesh, "figures": figures, "ticks": {}}
    thumbnail = stored.thumbnail if stored is not None else ""
    pushed = PushedPlan(call.person, plan.document, plan.digest, answer["plan"], card, thumbnail)
    await call.services.rooms.push_plan(answer["rooms"], pushed)


@action("work.push", "POST /assignments/{assignment}/boards", STAFF, "edit", prepare=_read_board, afterwards=_send, subject="digest")
def _push(call: Call, work: WorkName = "", question: QuestionName = "") -> PushedRecord:
    """Send a plan to the boards of all students who have not answered yet."""
    assignment: Assignment = call.found.resource
    board: ReplayedRoom | None = call.prepared
    if board is not None:
        store_plan(call.session, board.present)
    rooms = [student_work.row.room_id for student_work in _waiting(call, assignment, question) if student_work.row.room_id != work]
    digest = board.present.digest if board is not None else assignment.first
    call.note(digest=digest, rooms=len(rooms))
    return PushedRecord(rooms=rooms, sent=len(rooms), digest=digest, plan=START if board is None else SOMEBODYS)


def _waiting(call: Call, assignment: Assignment, asked: str) -> Sequence[GradedWork]:
    """Return the work without a right answer to the question, or to some question about a plan."""
    plans = [outlined["name"] for outlined in assignment.outline["questions"] if outlined["kind"] == "plan"]
    if asked and asked not in plans:
        raise InputError(*unknown_name("question about a plan", asked, plans))
    questions = [asked] if asked else plans
    return [
        student_work
        for student_work in graded_work(call.session, assignment.id)
        if not all(result.right for result in student_work.reached(assignment) if result.question in questions)
    ]
