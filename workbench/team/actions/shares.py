"""Secret links: to a room, where signed-in users get the link's role, or to a plan, which anybody can read.

**Invariants**

- A link gives no role above editor, and expires.
- The store has the SHA-256 of the secret; the link is shown once.
- A revoked or expired link gives no access, including to users who opened it before.
"""

from typing import Annotated, Any

from msgspec import Meta
from msgspec.structs import replace
from sqlalchemy import select

from workbench.team.access import ConflictError, ForbiddenError, InputError, MissingError, ProjectRole
from workbench.team.actions.action import ANYONE, Call, action, member
from workbench.team.actions.entry_records import EntryRecord, entry_records
from workbench.team.actions.rooms import show_in_rooms
from workbench.team.actions.schemas import SECRET, Days, Id, PersonRecord, Record, RoleName, Time, one_of, people_by_id
from workbench.team.actions.server_settings import read_setting
from workbench.team.store.store import digest_of, new_secret, now
from workbench.team.store.tables import GalleryEntry, Guest, Project, Share, StoredPlan, StoredRoom

_DAY = 86_400.0
_LASTS = 14


class ShareRecord(Record, frozen=True):
    id: Id
    room: Id | None
    entry: Id | None
    role: RoleName
    by: PersonRecord
    created: Time
    expires: Time
    revoked: Time | None


class NewShareRecord(Record, frozen=True):
    id: Id
    address: str
    expires: Time
    role: RoleName


class SharedRoom(Record, frozen=True):
    id: Id
    name: str
    role: RoleName
    page: str


class OpenedShare(Record, frozen=True):
    kind: Annotated[str, one_of("room", "plan")]
    room: SharedRoom | None
    plan: EntryRecord | None
    document: str | None


class RevokedShare(Record, frozen=True):
    id: Id
    room: Id | None


@action("shares.list", "GET /projects/{project}/shares", member(ProjectRole.EDITOR), "read")
def _list(call: Call, *, ended: bool = False) -> list[ShareRecord]:
    """List the links of a project, without their secrets."""
    statement = select(Share).where(Share.project_id == call.project.id)
    if not ended:
        statement = statement.where(Share.revoked.is_(None), Share.expires > now())
    shares = call.session.scalars(statement.order_by(Share.created.desc(), Share.id).limit(1000)).all()
    people = people_by_id(call.session, (share.by for share in shares))
    return [ShareRecord.of(share, room=share.room_id, entry=share.entry_id, by=people[share.by]) for share in shares]


@action("shares.of_room", "POST /rooms/{room}/shares", member(ProjectRole.EDITOR, "room"), "edit", status=201, subject="id")
def _share_room(call: Call, role: Annotated[str, one_of("viewer", "editor")] = "viewer", days: Days | None = None) -> NewShareRecord:
    """Create a link to a room, which gives a role there; it is shown once."""
    if call.found.resource.closed is not None:
        raise ConflictError("This room is closed.", ["open it again first"])
    return _make(call, role, days, room_id=call.found.resource.id)


@action("shares.of_entry", "POST /entries/{entry}/shares", member(ProjectRole.EDITOR, "entry"), "edit", status=201, subject="id")
def _share_entry(call: Call, days: Days | None = None) -> NewShareRecord:
    """Create a link by which anybody can read a plan; it is shown once."""
    if call.found.resource.withdrawn is not None:
        raise ConflictError("This plan was withdrawn from the gallery.", ["add it again"])
    return _make(call, "viewer", days, entry_id=call.found.resource.id)


def _make(call: Call, role: str, days: int | None, *, room_id: str | None = None, entry_id: str | None = None) -> NewShareRecord:
    limit = read_setting(call.session, "links")["days"]
    if days is not None and days > limit:
        raise InputError(f"A link may last at most {limit:,} days; you asked for {days:,}.", [f"ask for at most {limit:,}"])
    secret = new_secret()
    target = {"project_id": call.project.id, "room_id": room_id, "entry_id": entry_id}
    expires = now() + min(days or _LASTS, limit) * _DAY
    share = Share(digest=digest_of(secret), role=role, by=call.person.user_id, expires=expires, **target)
    call.session.add(share)
    call.session.flush()
    call.note(role=role, of=room_id or entry_id)
    return NewShareRecord.of(share, address=call.services.url(f"/share/{secret}"))


@action("shares.open", "POST /shares/open", ANYONE, "read")
def _open(call: Call, secret: Annotated[str, Meta(min_length=8, max_length=SECRET)]) -> OpenedShare:
    """Open a link: to a plan without signing in, to a room when signed in."""
    conditions = (Share.digest == digest_of(secret), Share.revoked.is_(None), Share.expires > now())
    share = call.session.scalars(select(Share).where(*conditions)).first()
    if share is None:
        raise MissingError("link", "of this secret")
    call.note(project=call.session.get(Project, share.project_id), share=share.id)
    return _open_room(call, share) if share.room_id is not None else _open_plan(call, share)


def _open_room(call: Call, share: Share) -> OpenedShare:
    room = call.session.get_one(StoredRoom, share.room_id)
    if call.session.get(Guest, (share.id, call.person.user_id)) is None:  # `person` raises if nobody is signed in
        call.session.add(Guest(share_id=share.id, user_id=call.person.user_id))
    record = SharedRoom.of(room, role=share.role, page=call.services.url(f"/room/{room.id}"))
    return OpenedShare(kind="room", room=record, plan=None, document=None)


def _open_plan(call: Call, share: Share) -> OpenedShare:
    entry = call.session.get_one(GalleryEntry, share.entry_id)
    if entry.withdrawn is not None:
        raise MissingError("link", "of this secret")
    document = call.session.get_one(StoredPlan, entry.digest).document
    record = entry_records(call.services, call.session, [entry], set())[0]
    return OpenedShare(kind="plan", room=None, plan=replace(record, tried=[]), document=document)


async def _announce(call: Call, answer: Any) -> None:
    await show_in_rooms(call, StoredRoom.id == answer["room"])


@action("shares.revoke", "DELETE /shares/{share}", member(ProjectRole.EDITOR, "share"), "edit", afterwards=_announce)
def _revoke(call: Call) -> RevokedShare:
    """Revoke a link, also for users who opened it."""
    share: Share = call.found.resource
    if share.by != call.person.user_id and not call.may(ProjectRole.OWNER):
        raise ForbiddenError("This link was created by another person.", ["ask the person who created it", "ask an owner of the project"])
    share.revoked = share.revoked or now()
    return RevokedShare(id=share.id, room=share.room_id)
