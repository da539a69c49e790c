"""Answers that students gave. One that comes from a board is graded by the room's process, another one by a planner here; both are
kept in the same way.

**Invariants**

- An answer is kept with its verdict, and never changes; one after the deadline is kept, and does not count.
- The number of a try is the server's: one more than there were.
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
from workbench.team.actions.plans import keep_plan
from workbench.team.actions.schemas import DOCUMENT, Word
from workbench.team.store.tables import Assignment, GivenAnswer, Participant, StudentWork
from workbench.team.web.team_services import GradedAnswer


def keep_answer(session: DatabaseSession, room_id: str, author_id: str, graded: GradedAnswer) -> GivenAnswer:
    """Keep an answer given in a room. Raises `ConflictError` where the room is none."""
    work = session.get(StudentWork, room_id)
    if work is None:
        raise ConflictError("This room belongs to no assignment.", ["open the assignment to start"])
    if graded.plan is not None:
        keep_plan(session, graded.plan)
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
    """For each question that was tried in a room how often, and whether with success."""
    right = func.max(case((GivenAnswer.score >= GivenAnswer.most, 1), else_=0))
    found = select(GivenAnswer.question, func.count(), right).where(GivenAnswer.room_id == room_id).group_by(GivenAnswer.question)
    return {question: (count, bool(is_right)) for question, count, is_right in session.execute(found)}


async def _judge(call: Call, question: Word, answer: Annotated[str, Meta(min_length=1, max_length=DOCUMENT)]) -> GradedAnswer:
    assignment: Assignment = call.found.resource
    names = [each["name"] for each in assignment.outline["questions"]]
    if question not in names:
        raise InputError(*unknown_name("question", question, names))
    with call.services.store.read() as session:
        attempt = tries_of(session, _own_room(call, session)).get(question, (0, False))[0] + 1
    asked = {"exercise": assignment.exercise, "question": question, "answer": answer, "attempt": attempt}
    return await planner_of(call).ask(GradedAnswer, "grade", **asked)


@action("answers.hand_in", "POST /assignments/{assignment}/answers", WORKER, "edit", prepare=_judge, status=201, subject="question")
def _hand_in(call: Call) -> GivenRecord:
    """Answer a question of an assignment: with the text of a plan's document, or with a number or choice."""
    return given_records(call.session, [keep_answer(call.session, _own_room(call, call.session), call.person.user_id, call.prepared)])[0]


def _own_room(call: Call, session: DatabaseSession) -> str:
    """The room that the person works in. Raises `ConflictError` for somebody who has not begun."""
    participant = session.get(Participant, (call.found.resource.id, call.person.user_id))
    if participant is None:
        raise ConflictError("You have not started this assignment.", ["start it: POST /assignments/{assignment}/submissions"])
    return participant.room_id


@action("answers.list", "GET /assignments/{assignment}/answers", STUDENT, "read")
def _list(call: Call, *, everybody: bool = False) -> list[GivenRecord]:
    """List one's own answers, or those of all."""
    # a student has their own whatever they ask for; the oldest come first
    all_work = graded_work(call.session, call.found.resource.id, "" if everybody and is_staff(call) else call.person.user_id)
    given = sorted((answer for each in all_work for answer in each.answers), key=lambda each: (each.created, each.id))
    return given_records(call.session, given[-1000:])
