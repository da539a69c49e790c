"""A plan of a room goes into its project's gallery.

**Invariants**

- A room's process may run somebody's code, so what it says of a plan is not believed beyond its own room: the digest is computed here, and
  a room about one program saves no plan of another.
"""

from collections.abc import Mapping
from typing import Any

from sqlalchemy import select
from sqlalchemy.orm import Session as DatabaseSession

from workbench.errors import WorkbenchError
from workbench.team.access import ProjectRole, require
from workbench.team.actions.plans import keep_plan
from workbench.team.rooms.planners import described_plan
from workbench.team.rooms.room_guest import RoomGuest
from workbench.team.rooms.room_records import RoomSource
from workbench.team.store.store import Store, digest_of, new_id, now
from workbench.team.store.tables import AuditEntry, GalleryEntry
from workbench.team.web.services import DescribedPlan

MOST_NAME = 80  # characters of a plan's name


def save_to_gallery(store: Store, source: RoomSource, guest: RoomGuest, message: Mapping[str, Any]) -> str:
    """Store a plan that a room's process describes; the path of its gallery. Raises `WorkbenchError` for a person who may not."""
    require(guest.role, ProjectRole.EDITOR, "put a plan into the gallery")
    described = described_plan(message["save"])
    _verify(described, source)
    with store.write() as session:
        keep_plan(session, described)
        _add_entry(session, source, guest, described.digest, str(message["name"])[:MOST_NAME])
    return f"/p/{source.project}/"


def _verify(described: DescribedPlan, source: RoomSource) -> None:
    if described.digest != digest_of(described.document):
        raise WorkbenchError("The plan's digest is not that of its document.", ["reload the page, and save once more"])
    if source.program is not None and described.target != source.program.target:
        raise WorkbenchError(
            f"This room is about `{source.program.target}`, and the plan is of `{described.target[:200]}`.", ["open it anew"]
        )


def _add_entry(session: DatabaseSession, source: RoomSource, guest: RoomGuest, digest: str, name: str) -> None:
    """One entry for each plan that a person saved from the room."""
    author = guest.principal.user_id
    same = (GalleryEntry.room_id == source.room_id, GalleryEntry.digest == digest, GalleryEntry.author_id == author)
    if session.scalars(select(GalleryEntry).where(*same, GalleryEntry.withdrawn.is_(None)).limit(1)).first() is not None:
        return
    entry = GalleryEntry(
        id=new_id(),
        project_id=source.project_id,
        digest=digest,
        name=name or source.name,
        note="",
        author_id=author,
        room_id=source.room_id,
        created=now(),
    )
    session.add(entry)
    details = {"project": source.project, "room": source.room_id, "digest": digest}
    session.add(AuditEntry(created=now(), user_id=author, action="plans.save", subject=entry.id, details=details))
