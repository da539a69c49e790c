"""The comments on a room's history, as its pages show them. They are written and taken away through the actions of the server."""

from dataclasses import dataclass
from typing import Any

from sqlalchemy import select

from workbench.team.store.store import Store
from workbench.team.store.tables import Comment, User

MOST_SHOWN = 100


@dataclass(frozen=True, slots=True)
class ShownComment:
    """A comment of `display` on the plan with the number `node`; `at` is seconds since 1970."""

    id: str
    node: int
    user_id: str
    display: str
    text: str
    at: float

    def as_state(self, reader: str) -> dict[str, Any]:
        """As the page of a reader shows it, who may take away their own."""
        shown = {"id": self.id, "node": self.node, "who": self.display, "text": self.text, "at": self.at}
        return {**shown, "mine": self.user_id == reader}


def read_comments(store: Store, room_id: str) -> tuple[ShownComment, ...]:
    """The newest comments of a room, newest first."""
    wanted = select(Comment, User.display).join(User, User.id == Comment.author_id)
    wanted = wanted.where(Comment.room_id == room_id, Comment.removed.is_(None)).order_by(Comment.created.desc(), Comment.id)
    with store.read() as session:
        rows = session.execute(wanted.limit(MOST_SHOWN)).all()
    return tuple(ShownComment(each.id, each.node, each.author_id, display, each.text, each.created) for each, display in rows)
