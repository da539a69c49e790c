"""Links with a secret in them: to a room, where whoever is signed in has the link's role then, or to a plan, which anybody may read.

**Invariants**

- A link gives no role above editor, and ends on a day.
- The store has the SHA-256 of the secret; the link is shown once.
- A link that is revoked or past its day gives nothing any more, neither to those who opened it before.
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
    """A link, without its secret."""

    id: Id
    room: Id | None
    entry: Id | None
    role: RoleName
    by: PersonRecord
    created: Time
    expires: Time
    revoked: Time | None


class NewShareRecord(Record, frozen=True):
    """A link, with its secret in the address."""

    id: Id
    address: str
    expires: Time
    role: RoleName


class SharedRoom(Record, frozen=True):
    """The room that a link is to."""

    id: Id
    name: str
    role: RoleName
    page: str


class OpenedShare(Record, frozen=True):
    """What a link is to."""

    kind: Annotated[str, one_of("room", "plan")]
    room: SharedRoom | None
    plan: EntryRecord | None
    document: str | None


class RevokedShare(Record, frozen=True):
    """A link that is ended."""

    id: Id
    room: Id | None


@action("shares.list", "GET /projects/{project}/shares", member(ProjectRole.EDITOR), "read")
def _list(call: Call, *, ended: bool = False) -> list[ShareRecord]:
    """List the links of a project, without their secrets."""
    wanted = select(Share).where(Share.project_id == call.project.id)
    if not ended:
        wanted = wanted.where(Share.revoked.is_(None), Share.expires > now())
    shares = call.session.scalars(wanted.order_by(Share.created.desc(), Share.id).limit(1000)).all()
    people = people_by_id(call.session, (each.by for each in shares))
    return [ShareRecord.of(each, room=each.room_id, entry=each.entry_id, by=people[each.by]) for each in shares]


@action("shares.of_room", "POST /rooms/{room}/shares", member(ProjectRole.EDITOR, "room"), "edit", status=201, subject="id")
def _share_room(call: Call, role: Annotated[str, one_of("viewer", "editor")] = "viewer", days: Days | None = None) -> NewShareRecord:
    """Make a link to a room, which gives a role there; it is shown this once."""
    if call.found.resource.closed is not None:
        raise ConflictError("This room is closed.", ["open it again first"])
    return _make(call, role, days, room_id=call.found.resource.id)


@action("shares.of_entry", "POST /entries/{entry}/shares", member(ProjectRole.EDITOR, "entry"), "edit", status=201, subject="id")
def _share_entry(call: Call, days: Days | None = None) -> NewShareRecord:
    """Make a link by which anybody may read a plan; it is shown this once."""
    if call.found.resource.withdrawn is not None:
        raise ConflictError("This plan was withdrawn from the gallery.", ["add it again"])
    return _make(call, "viewer", days, entry_id=call.found.resource.id)


def _make(call: Call, role: str, days: int | None, *, room_id: str | None = None, entry_id: str | None = None) -> NewShareRecord:
    most = read_setting(call.session, "links")["days"]
    if days is not None and days > most:
        raise InputError(f"A link may last {most:,} days, and you ask for {days:,}.", [f"ask for at most {most:,}"])
    secret = new_secret()
    of = {"project_id": call.project.id, "room_id": room_id, "entry_id": entry_id}
    expires = now() + min(days or _LASTS, most) * _DAY
    share = Share(digest=digest_of(secret), role=role, by=call.person.user_id, expires=expires, **of)
    call.session.add(share)
    call.session.flush()
    call.note(role=role, of=room_id or entry_id)
    return NewShareRecord.of(share, address=call.services.url(f"/share/{secret}"))


@action("shares.open", "POST /shares/open", ANYONE, "read")
def _open(call: Call, secret: Annotated[str, Meta(min_length=8, max_length=SECRET)]) -> OpenedShare:
    """Open a link: to a plan without signing in, to a room when signed in."""
    good = (Share.digest == digest_of(secret), Share.revoked.is_(None), Share.expires > now())
    share = call.session.scalars(select(Share).where(*good)).first()
    if share is None:
        raise MissingError("link", "of this secret")
    call.note(project=call.session.get(Project, share.project_id), share=share.id)
    return _open_room(call, share) if share.room_id is not None else _open_plan(call, share)


def _open_room(call: Call, share: Share) -> OpenedShare:
    room = call.session.get_one(StoredRoom, share.room_id)
    if call.session.get(Guest, (share.id, call.person.user_id)) is None:  # `person` refuses whoever is not signed in
        call.session.add(Guest(share_id=share.id, user_id=call.person.user_id))
    shown = SharedRoom.of(room, role=share.role, page=call.services.url(f"/room/{room.id}"))
    return OpenedShare(kind="room", room=shown, plan=None, document=None)


def _open_plan(call: Call, share: Share) -> OpenedShare:
    entry = call.session.get_one(GalleryEntry, share.entry_id)
    if entry.withdrawn is not None:
        raise MissingError("link", "of this secret")
    document = call.session.get_one(StoredPlan, entry.digest).document
    shown = entry_records(call.services, call.session, [entry], set())[0]
    return OpenedShare(kind="plan", room=None, plan=replace(shown, tried=[]), document=document)


async def _announce(call: Call, answer: Any) -> None:
    await show_in_rooms(call, StoredRoom.id == answer["room"])


@action("shares.revoke", "DELETE /shares/{share}", member(ProjectRole.EDITOR, "share"), "edit", afterwards=_announce)
def _revoke(call: Call) -> RevokedShare:
    """End a link, also for those who opened it."""
    share: Share = call.found.resource
    if share.by != call.person.user_id and not call.may(ProjectRole.OWNER):
        raise ForbiddenError("This link was created by another person.", ["ask the person who created it", "ask an owner of the project"])
    share.revoked = share.revoked or now()
    return RevokedShare(id=share.id, room=share.room_id)
