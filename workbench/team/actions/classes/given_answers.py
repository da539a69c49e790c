"""Students' answers. The room's process grades answers from a board, the planner all others; both are stored in the
same way.

**Invariants**

- An answer is stored with its verdict and never changes; an answer after the deadline is stored but does not count.
- The server numbers the attempts.
"""

from collections.abc import Mapping
from typing import Annotated

from msgspec import Meta
from sqlalchemy import case, func, select
from sqlalchemy.orm import Session as DatabaseSession

from workbench.errors import unknown_name
from workbench.team.access import ConflictError, InputError
from workbench.team.actions.action import Call, action, planner_of
from workbench.team.actions.classes.assignments import STUDENT, WORKER
from workbench.team.actions.classes.class_records import GivenRecord, given_records, graded_work, is_over, is_staff
from workbench.team.actions.plans import store_plan
from workbench.team.actions.schemas import DOCUMENT, Word
from workbench.team.store.tables import Assignment, GivenAnswer, Participant, StudentWork
from workbench.team.web.team_services import GradedAnswer


def store_answer(session: DatabaseSession, room_id: str, author_id: str, graded: GradedAnswer) -> GivenAnswer:
    """Store an answer given in a room. Raises `ConflictError` if the room belongs to no assignment."""
    work = session.get(StudentWork, room_id)
    if work is None:
        raise ConflictError("This room belongs to no assignment.", ["open the assignment to start"])
    if graded.plan is not None:
        store_plan(session, graded.plan)
    answer = GivenAnswer(
        room_id=room_id,
        author_id=author_id,
        question=graded.question,
        attempt=tries_of(session, room_id).get(graded.question, (0, False))[0] + 1,
        text=graded.text,
        digest=graded.plan.digest if graded.plan else None,
        score=graded.score,
        most=graded.most,
        verdict=dict(graded.verdict),
        late=is_over(session.get_one(Assignment, work.assignment_id)),
    )
    session.add(answer)
    session.flush()
    return answer


def tries_of(session: DatabaseSession, room_id: str) -> Mapping[str, tuple[int, bool]]:
    """Return the number of tries in a room, and whether one succeeded, by question."""
    right = func.max(case((GivenAnswer.score >= GivenAnswer.most, 1), else_=0))
    statement = select(GivenAnswer.question, func.count(), right).where(GivenAnswer.room_id == room_id).group_by(GivenAnswer.question)
    return {question: (count, bool(is_right)) for question, count, is_right in session.execute(statement)}


async def _judge(call: Call, question: Word, answer: Annotated[str, Meta(min_length=1, max_length=DOCUMENT)]) -> GradedAnswer:
    assignment: Assignment = call.found.resource
    names = [row["name"] for row in assignment.outline["questions"]]
    if question not in names:
        raise InputError(*unknown_name("question", question, names))
    with call.services.store.read() as session:
        attempt = tries_of(session, _own_room(call, session)).get(question, (0, False))[0] + 1
    arguments = {"exercise": assignment.exercise, "question": question, "answer": answer, "attempt": attempt}
    return await planner_of(call).ask(GradedAnswer, "grade", **arguments)


@action("answers.hand_in", "POST /assignments/{assignment}/answers", WORKER, "edit", prepare=_judge, status=201, subject="question")
def _hand_in(call: Call) -> GivenRecord:
    """Answer a question of an assignment with a plan document, a number or a choice."""
    return given_records(call.session, [store_answer(call.session, _own_room(call, call.session), call.person.user_id, call.prepared)])[0]


def _own_room(call: Call, session: DatabaseSession) -> str:
    """Return the user's room. Raises `ConflictError` before they start."""
    participant = session.get(Participant, (call.found.resource.id, call.person.user_id))
    if participant is None:
        raise ConflictError("You have not started this assignment.", ["start it: POST /assignments/{assignment}/submissions"])
    return participant.room_id


@action("answers.list", "GET /assignments/{assignment}/answers", STUDENT, "read")
def _list(call: Call, *, everybody: bool = False) -> list[GivenRecord]:
    """List my answers, or everybody's."""
    # students always get their own only; oldest first
    all_work = graded_work(call.session, call.found.resource.id, "" if everybody and is_staff(call) else call.person.user_id)
    answers = sorted((answer for work in all_work for answer in work.answers), key=lambda answer: (answer.created, answer.id))
    return given_records(call.session, answers[-1000:])
