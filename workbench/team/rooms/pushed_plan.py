"""A plan that is sent into rooms from outside, as an edit of each: what was there before stays in the history."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from sqlalchemy import select

from workbench.team.access import Principal
from workbench.team.rooms.room_records import EVERYBODY, MOST_CARD, RoomSource, append_entry, read_room
from workbench.team.store.store import Store, now
from workbench.team.store.tables import StudentWork, User


@dataclass(frozen=True, slots=True)
class PushedPlan:
    """`sender` sends it, `source` says what it is, for people; `card` and `thumbnail` are what the wall shows of it."""

    sender: Principal
    document: str
    digest: str
    source: str
    card: Mapping[str, Any] = field(default_factory=dict)
    thumbnail: str = ""

    def message(self) -> dict[str, Any]:
        """As a room's process takes it."""
        return {"push": {"document": self.document, "source": self.source, "user_id": self.sender.user_id, "display": self.sender.display}}


def append_push(store: Store, room_id: str, pushed: PushedPlan) -> None:
    """Write it into the log of a room that is not open. Raises `WorkbenchError` for a room that is not there any more."""
    source = read_room(store, room_id)
    number = 1 + sum(len(each["body"].get("added", ())) for each in source.log)
    edit = {"edit": "open_plan", "plan": json.loads(pushed.document), "source": pushed.source}
    body = {"added": [{"parent": source.head, "edit": edit, "author": EVERYBODY}], "head": number}
    entry = {"seq": len(source.log) + 1, "author": pushed.sender.user_id, "kind": "push", "body": body}
    append_entry(store, room_id, entry, pushed.digest)
    if len(json.dumps(pushed.card)) + len(pushed.thumbnail) > MOST_CARD:
        return
    with store.write() as session:
        if (work := session.get(StudentWork, room_id)) is not None:
            work.card, work.thumbnail, work.shown = dict(pushed.card), pushed.thumbnail, now()


def last_push(store: Store, source: RoomSource) -> tuple[str, str]:
    """Who sent the plan that came last into a room, and what it is; two empty texts where something else was done since."""
    if not source.log or source.log[-1]["kind"] != "push":
        return "", ""
    with store.read() as session:
        sender = session.scalar(select(User.display).where(User.id == source.log[-1]["author"]))
    return sender or "Somebody", str(source.log[-1]["body"]["added"][0]["edit"]["source"])
