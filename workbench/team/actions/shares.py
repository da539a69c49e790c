"""Links with a secret in them: to a room, where whoever is signed in has the link's role then, or to a plan, which anybody may read.

**Invariants**

- A link gives no role above editor, and ends on a day.
- The store has the SHA-256 of the secret; the link is shown once.
- A link that is revoked or past its day gives nothing any more, neither to those who opened it before.
"""

from typing import Any

from sqlalchemy import select

from workbench.team.access import ForbiddenError, MissingError, ProjectRole
from workbench.team.actions.action import ANYONE, Action, Call, member
from workbench.team.actions.entry_records import ENTRY, entry_records
from workbench.team.actions.input_errors import ConflictError, InputError
from workbench.team.actions.people_records import people_by_id
from workbench.team.actions.schemas import DAYS, FLAG, ID, PERSON, ROLE, SECRET, TEXT, TIME, list_of, one_of, or_none, record, text
from workbench.team.actions.server_settings import read_setting
from workbench.team.store.store import digest_of, new_id, new_secret, now
from workbench.team.store.tables import GalleryEntry, Guest, Project, Share, StoredPlan, StoredRoom

_SHARE = record(
    {
        "id": ID,
        "room": or_none(ID),
        "entry": or_none(ID),
        "role": ROLE,
        "by": PERSON,
        "created": TIME,
        "expires": TIME,
        "revoked": or_none(TIME),
    }
)
_NEW = record({"id": ID, "address": TEXT, "expires": TIME, "role": ROLE})
_OPENED = record(
    {
        "kind": one_of("room", "plan"),
        "room": or_none(record({"id": ID, "name": TEXT, "role": ROLE, "page": TEXT})),
        "plan": or_none(ENTRY),
        "document": or_none(TEXT),
    }
)
_DAY = 86_400.0
_LASTS = 14


def _list(call: Call) -> dict[str, Any]:
    wanted = select(Share).where(Share.project_id == call.project.id)
    if not call.query.get("ended", False):
        wanted = wanted.where(Share.revoked.is_(None), Share.expires > now())
    shares = call.session.scalars(wanted.order_by(Share.created.desc(), Share.id).limit(1000)).all()
    people = people_by_id(call.session, (each.by for each in shares))
    return {
        "items": [
            {
                "id": each.id,
                "room": each.room_id,
                "entry": each.entry_id,
                "role": each.role,
                "by": people[each.by],
                "created": each.created,
                "expires": each.expires,
                "revoked": each.revoked,
            }
            for each in shares
        ]
    }


def _share_room(call: Call) -> dict[str, Any]:
    if call.found.resource.closed is not None:
        raise ConflictError("This room is closed.", ["open it again first"])
    return _make(call, call.body.get("role", "viewer"), room_id=call.found.resource.id)


def _share_entry(call: Call) -> dict[str, Any]:
    if call.found.resource.withdrawn is not None:
        raise ConflictError("This plan was withdrawn from the gallery.", ["put it there again"])
    return _make(call, "viewer", entry_id=call.found.resource.id)


def _make(call: Call, role: str, *, room_id: str | None = None, entry_id: str | None = None) -> dict[str, Any]:
    days, most = call.body.get("days", _LASTS), read_setting(call.session, "links")["days"]
    if days > most and "days" in call.body:
        raise InputError(f"A link may last {most:,} days, and you ask for {days:,}.", [f"ask for at most {most:,}"])
    secret = new_secret()
    share = Share(
        id=new_id(),
        digest=digest_of(secret),
        project_id=call.project.id,
        room_id=room_id,
        entry_id=entry_id,
        role=role,
        by=call.person.user_id,
        created=now(),
        expires=now() + min(days, most) * _DAY,
        revoked=None,
    )
    call.session.add(share)
    call.note(role=role, of=room_id or entry_id)
    return {"id": share.id, "address": call.services.url(f"/share/{secret}"), "expires": share.expires, "role": role}


def _open(call: Call) -> dict[str, Any]:
    """Open a link; what it is of may be gone since."""
    good = (Share.digest == digest_of(call.body["secret"]), Share.revoked.is_(None), Share.expires > now())
    share = call.session.scalars(select(Share).where(*good)).first()
    if share is None:
        raise MissingError("link", "of this secret")
    call.note(project=call.session.get(Project, share.project_id), share=share.id)
    return _open_room(call, share) if share.room_id is not None else _open_plan(call, share)


def _open_room(call: Call, share: Share) -> dict[str, Any]:
    room = call.session.get_one(StoredRoom, share.room_id)
    if call.session.get(Guest, (share.id, call.person.user_id)) is None:  # `person` refuses whoever is not signed in
        call.session.add(Guest(share_id=share.id, user_id=call.person.user_id, since=now()))
    shown = {"id": room.id, "name": room.name, "role": share.role, "page": call.services.url(f"/room/{room.id}")}
    return {"kind": "room", "room": shown, "plan": None, "document": None}


def _open_plan(call: Call, share: Share) -> dict[str, Any]:
    entry = call.session.get_one(GalleryEntry, share.entry_id)
    if entry.withdrawn is not None:
        raise MissingError("link", "of this secret")
    document = call.session.get_one(StoredPlan, entry.digest).document
    shown = entry_records(call.services, call.session, [entry], set())[0]
    return {"kind": "plan", "room": None, "plan": {**shown, "tried": []}, "document": document}


def _revoke(call: Call) -> dict[str, Any]:
    share: Share = call.found.resource
    if share.by != call.person.user_id and not call.may(ProjectRole.OWNER):
        raise ForbiddenError("This link was made by somebody else.", ["ask who made it", "ask an owner of the project"])
    share.revoked = share.revoked or now()
    return {"id": share.id, "room": share.room_id}


async def _announce(call: Call, answer: Any) -> None:
    if answer["room"] is not None and call.services.rooms is not None:
        await call.services.rooms.access_changed(answer["room"])


ACTIONS = (
    Action(
        "shares.list",
        "GET",
        "/projects/{project}/shares",
        "List the links of a project, without their secrets",
        member(ProjectRole.EDITOR),
        "read",
        record({"items": list_of(_SHARE)}),
        _list,
        query={"ended": FLAG},
    ),
    Action(
        "shares.of_room",
        "POST",
        "/rooms/{room}/shares",
        "Make a link to a room, which gives a role there; it is shown this once",
        member(ProjectRole.EDITOR, "room"),
        "edit",
        _NEW,
        _share_room,
        body=record({}, {"role": one_of("viewer", "editor"), "days": DAYS}),
        status=201,
        subject="id",
    ),
    Action(
        "shares.of_entry",
        "POST",
        "/entries/{entry}/shares",
        "Make a link by which anybody may read a plan; it is shown this once",
        member(ProjectRole.EDITOR, "entry"),
        "edit",
        _NEW,
        _share_entry,
        body=record({}, {"days": DAYS}),
        status=201,
        subject="id",
    ),
    Action(
        "shares.open",
        "POST",
        "/shares/open",
        "Open a link: to a plan without signing in, to a room when signed in",
        ANYONE,
        "read",
        _OPENED,
        _open,
        body=record({"secret": text(SECRET, 8)}),
    ),
    Action(
        "shares.revoke",
        "DELETE",
        "/shares/{share}",
        "End a link, also for those who opened it",
        member(ProjectRole.EDITOR, "share"),
        "edit",
        record({"id": ID, "room": or_none(ID)}),
        _revoke,
        afterwards=_announce,
    ),
)
