"""What people write on the nodes of a room's history. A comment is taken away by who wrote it, and by owners."""

from typing import Any

from sqlalchemy import select
from sqlalchemy.orm import Session as DatabaseSession

from workbench.team.access import ForbiddenError, MissingError, ProjectRole
from workbench.team.actions.action import Action, Call, member
from workbench.team.actions.people_records import people_by_id
from workbench.team.actions.schemas import COUNT, ID, NOTE, NOTHING, PERSON, TEXT, TIME, list_of, record, text, whole
from workbench.team.store.store import new_id, now
from workbench.team.store.tables import Comment

MOST = 1000
_COMMENT = record({"id": ID, "node": COUNT, "author": PERSON, "text": TEXT, "created": TIME})
_NODE = whole(0, 10**9, "the number of the node")


def _list(call: Call) -> dict[str, Any]:
    wanted = select(Comment).where(Comment.room_id == call.found.resource.id, Comment.removed.is_(None))
    if "node" in call.query:
        wanted = wanted.where(Comment.node == call.query["node"])
    newest = call.session.scalars(wanted.order_by(Comment.created.desc(), Comment.id).limit(MOST)).all()
    return {"items": _records(call.session, list(reversed(newest)))}


def _add(call: Call) -> dict[str, Any]:
    comment = Comment(
        id=new_id(),
        room_id=call.found.resource.id,
        node=call.body["node"],
        author_id=call.person.user_id,
        text=call.body["text"],
        created=now(),
        removed=None,
    )
    call.session.add(comment)
    call.session.flush()
    return _records(call.session, [comment])[0]


def _remove(call: Call) -> dict[str, Any]:
    comment: Comment = call.found.resource
    if comment.removed is not None:
        raise MissingError("comment", comment.id)
    if comment.author_id != call.person.user_id and not call.may(ProjectRole.OWNER):
        raise ForbiddenError("This was written by somebody else.", ["ask who wrote it", "ask an owner of the project"])
    comment.removed = now()
    return {}


async def _show_in_room(call: Call, _answer: Any) -> None:
    if call.services.rooms is not None:
        resource = call.found.resource
        await call.services.rooms.comments_changed(resource.room_id if isinstance(resource, Comment) else resource.id)


def _records(session: DatabaseSession, comments: list[Comment]) -> list[dict[str, Any]]:
    people = people_by_id(session, (each.author_id for each in comments))
    return [
        {"id": each.id, "node": each.node, "author": people[each.author_id], "text": each.text, "created": each.created}
        for each in comments
    ]


ACTIONS = (
    Action(
        "comments.list",
        "GET",
        "/rooms/{room}/comments",
        "Read the comments of a room, or of one node",
        member(ProjectRole.VIEWER, "room", guests=True),
        "read",
        record({"items": list_of(_COMMENT)}),
        _list,
        query={"node": _NODE},
    ),
    Action(
        "comments.add",
        "POST",
        "/rooms/{room}/comments",
        "Write a comment on a node",
        member(ProjectRole.EDITOR, "room", guests=True),
        "edit",
        _COMMENT,
        _add,
        body=record({"node": _NODE, "text": text(NOTE, 1, pattern=r"\S")}),
        status=201,
        subject="id",
        afterwards=_show_in_room,
    ),
    Action(
        "comments.remove",
        "DELETE",
        "/comments/{comment}",
        "Take a comment away",
        member(ProjectRole.EDITOR, "comment", guests=True),
        "edit",
        NOTHING,
        _remove,
        afterwards=_show_in_room,
    ),
)
