"""What people write on the nodes of a room's history. A comment is taken away by who wrote it, and by owners."""

from typing import Annotated, Any

from msgspec import Meta
from sqlalchemy import select

from workbench.team.access import ForbiddenError, ProjectRole
from workbench.team.actions.action import Call, action, member
from workbench.team.actions.rooms import show_in_rooms
from workbench.team.actions.schemas import NOTE, Count, Id, PersonRecord, Record, Time, people_by_id
from workbench.team.store.store import now
from workbench.team.store.tables import Comment, StoredRoom

MOST = 1000
Node = Annotated[int, Meta(ge=0, le=10**9, description="the number of the node")]


class CommentRecord(Record, frozen=True):
    """A comment on a node."""

    id: Id
    node: Count
    author: PersonRecord
    text: str
    created: Time


async def _show_in_room(call: Call, _answer: Any) -> None:
    resource = call.found.resource
    await show_in_rooms(call, StoredRoom.id == (resource.room_id if isinstance(resource, Comment) else resource.id))


@action("comments.list", "GET /rooms/{room}/comments", member(ProjectRole.VIEWER, "room", guests=True), "read")
def _list(call: Call, node: Node | None = None) -> list[CommentRecord]:
    """Read the comments of a room, or of one node."""
    wanted = select(Comment).where(Comment.room_id == call.found.resource.id, Comment.removed.is_(None))
    if node is not None:
        wanted = wanted.where(Comment.node == node)
    newest = call.session.scalars(wanted.order_by(Comment.created.desc(), Comment.id).limit(MOST)).all()
    people = people_by_id(call.session, (each.author_id for each in newest))
    return [CommentRecord.of(each, author=people[each.author_id]) for each in reversed(newest)]


@action(
    "comments.add",
    "POST /rooms/{room}/comments",
    member(ProjectRole.EDITOR, "room", guests=True),
    "edit",
    status=201,
    subject="id",
    afterwards=_show_in_room,
)
def _add(call: Call, node: Node, text: Annotated[str, Meta(min_length=1, max_length=NOTE, pattern=r"\S")]) -> CommentRecord:
    """Write a comment on a node."""
    comment = Comment(room_id=call.found.resource.id, author_id=call.person.user_id, node=node, text=text)
    call.session.add(comment)
    call.session.flush()
    return CommentRecord.of(comment, author=people_by_id(call.session, [comment.author_id])[comment.author_id])


@action(
    "comments.remove", "DELETE /comments/{comment}", member(ProjectRole.EDITOR, "comment", guests=True), "edit", afterwards=_show_in_room
)
def _remove(call: Call) -> None:
    """Take a comment away."""
    comment: Comment = call.found.resource
    if comment.author_id != call.person.user_id and not call.may(ProjectRole.OWNER):
        raise ForbiddenError("This comment was written by another person.", ["ask its author", "ask an owner of the project"])
    comment.removed = now()
