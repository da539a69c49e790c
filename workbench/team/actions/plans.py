"""Plans in the galleries of projects. A plan is its canonical document, named by that text's SHA-256; an entry is a plan as somebody put it
into a gallery, with a name and a note.

**Invariants**

- A document is stored once, as a planner wrote it, and never changes. What was sent is not stored.
- Pushing what one already has in the gallery makes no second entry.
- An entry is changed and withdrawn by its author and by owners alone.
"""

import json
from typing import Any

from sqlalchemy import select
from sqlalchemy.orm import Session as DatabaseSession

from workbench import __version__
from workbench.team.access import ForbiddenError, MissingError, ProjectRole, require
from workbench.team.actions.action import PERSON, Action, Call, member
from workbench.team.actions.entry_records import ENTRY, entry_records
from workbench.team.actions.gallery_search import QUERY, search
from workbench.team.actions.held_roles import project_of_slug, role_in_project
from workbench.team.actions.input_errors import ConflictError
from workbench.team.actions.named_programs import program_of_document
from workbench.team.actions.schemas import DIGEST, DOCUMENT, ID, NAME, NOTE, SLUG, TEXT, listing, or_none, record, text
from workbench.team.actions.server_parts import planner_of
from workbench.team.actions.visible_plans import project_ids_of, readable_plan
from workbench.team.store.store import new_id, now
from workbench.team.store.tables import GalleryEntry, Member, StoredFigures, StoredPlan, User
from workbench.team.web.services import DescribedPlan

_DOCUMENT = record({"digest": DIGEST, "document": TEXT, "name": TEXT})
_NAMED = text(NAME, 1, pattern=r"^.*\S.*$")
_NEW = record(
    {"document": text(DOCUMENT, 2, description="the text of a plan document")}, {"name": _NAMED, "note": text(NOTE), "forked_from": ID}
)


async def _describe(call: Call) -> DescribedPlan:
    planner = planner_of(call)
    with call.services.store.read() as session:
        program = program_of_document(session, call.project.id, call.body["document"])
    return await planner.describe_document(call.body["document"], program)


def _push(call: Call) -> dict[str, Any]:
    described: DescribedPlan = call.prepared
    keep_plan(call.session, described)
    origin = call.body.get("forked_from")
    if origin is not None:
        _verify_readable(call, origin)
    name = call.body.get("name") or json.loads(described.document).get("name") or described.target
    entry = _same_entry(call, described.digest) or _add_entry(call, described.digest, name, forked_from=origin)
    entry.name, entry.note = call.body.get("name", entry.name), call.body.get("note", entry.note)
    call.session.flush()
    return _one(call, entry)


def _verify_readable(call: Call, entry_id: str) -> None:
    entry = call.session.get(GalleryEntry, entry_id)
    if entry is None or entry.project_id not in _readable(call):
        raise MissingError("entry", entry_id)


def keep_plan(session: DatabaseSession, described: DescribedPlan) -> None:
    """Store a plan, unless it is there, and what the planner says of it now."""
    if session.get(StoredPlan, described.digest) is None:
        plan = StoredPlan(
            digest=described.digest,
            document=described.document,
            target=described.target,
            mesh=described.mesh,
            devices=described.devices,
            hardware=described.hardware,
            layout=described.layout,
            dims=list(described.dims),
            created=now(),
        )
        session.add(plan)
        session.flush()
    for tier, values in described.figures.items():
        own = {"digest": described.digest, "tier": tier, "version": __version__, "job_id": None, "created": now()}
        session.merge(StoredFigures(**own, values=dict(values), thumbnail=described.thumbnail))
    session.flush()


def _same_entry(call: Call, digest: str) -> GalleryEntry | None:
    """The entry that the person has of this plan already."""
    mine = (GalleryEntry.project_id == call.project.id, GalleryEntry.digest == digest, GalleryEntry.author_id == call.person.user_id)
    return call.session.scalars(select(GalleryEntry).where(*mine, GalleryEntry.withdrawn.is_(None)).limit(1)).first()


def _add_entry(call: Call, digest: str, name: str, *, project_id: str = "", forked_from: str | None = None) -> GalleryEntry:
    entry = GalleryEntry(
        id=new_id(),
        project_id=project_id or call.project.id,
        digest=digest,
        name=name.strip()[:NAME],
        note=call.body.get("note", ""),
        author_id=call.person.user_id,
        room_id=None,
        forked_from=forked_from,
        created=now(),
        withdrawn=None,
    )
    call.session.add(entry)
    call.session.flush()
    return entry


def _one(call: Call, entry: GalleryEntry) -> dict[str, Any]:
    return entry_records(call.services, call.session, [entry], _readable(call))[0]


def _readable(call: Call) -> set[str]:
    return project_ids_of(call.session, call.session.get_one(User, call.person.user_id))


def _list(call: Call) -> dict[str, Any]:
    return search(call, {call.project.id}, _readable(call))


def _list_mine(call: Call) -> dict[str, Any]:
    """Of the projects that the person is in; an administrator sees others by their address."""
    mine = {each for each in _readable(call) if not call.person.admin or _is_member(call, each)}
    return search(call, mine, _readable(call))


def _is_member(call: Call, project_id: str) -> bool:
    return call.session.get(Member, (project_id, call.person.user_id)) is not None


def _get(call: Call) -> dict[str, Any]:
    return _one(call, call.found.resource)


def _document(call: Call) -> dict[str, Any]:
    entry: GalleryEntry = call.found.resource
    return {"digest": entry.digest, "document": call.session.get_one(StoredPlan, entry.digest).document, "name": entry.name}


def _document_of_digest(call: Call) -> dict[str, Any]:
    user = call.session.get_one(User, call.person.user_id)
    plan = readable_plan(call.session, user, call.inputs.path["digest"])
    return {"digest": plan.digest, "document": plan.document, "name": plan.target}


def _thumbnail(call: Call) -> dict[str, Any]:
    of_plan = select(StoredFigures.thumbnail).where(StoredFigures.digest == call.found.resource.digest, StoredFigures.thumbnail != "")
    return {
        "digest": call.found.resource.digest,
        "svg": call.session.scalars(of_plan.order_by(StoredFigures.created.desc()).limit(1)).first(),
    }


def _update(call: Call) -> dict[str, Any]:
    entry = _own_entry(call)
    entry.name, entry.note = call.body.get("name", entry.name).strip(), call.body.get("note", entry.note)
    call.session.flush()
    return _one(call, entry)


def _withdraw(call: Call) -> dict[str, Any]:
    entry = _own_entry(call)
    entry.withdrawn = entry.withdrawn or now()
    call.session.flush()
    return _one(call, entry)


def _own_entry(call: Call) -> GalleryEntry:
    entry: GalleryEntry = call.found.resource
    if entry.author_id != call.person.user_id and not call.may(ProjectRole.OWNER):
        raise ForbiddenError("This plan was put here by somebody else.", ["ask its author", "ask an owner of the project"])
    return entry


def _fork(call: Call) -> dict[str, Any]:
    origin, user = call.found.resource, call.session.get_one(User, call.person.user_id)
    target = project_of_slug(call.session, call.body["project"])
    role = role_in_project(call.session, user, target.id) if target else None
    if target is None or role is None:
        raise MissingError("project", call.body["project"])
    require(role, ProjectRole.EDITOR, "put a plan into it")
    if target.archived is not None:
        raise ConflictError(f"The project `{target.slug}` is archived: nothing in it changes.", ["ask an owner to open it again"])
    entry = _add_entry(call, origin.digest, call.body.get("name", origin.name), project_id=target.id, forked_from=origin.id)
    call.note(project=target, of=origin.id)
    return _one(call, entry)


_VIEWER, _EDITOR = member(ProjectRole.VIEWER, "entry"), member(ProjectRole.EDITOR, "entry")

ACTIONS = (
    Action(
        "plans.push",
        "POST",
        "/projects/{project}/plans",
        "Put a plan document into the gallery",
        member(ProjectRole.EDITOR),
        "edit",
        ENTRY,
        _push,
        body=_NEW,
        prepare=_describe,
        status=201,
        subject="id",
    ),
    Action(
        "plans.list",
        "GET",
        "/projects/{project}/plans",
        "Search the plans of a project",
        member(ProjectRole.VIEWER),
        "read",
        listing(ENTRY),
        _list,
        query=QUERY,
    ),
    Action("plans.mine", "GET", "/plans", "Search the plans of all my projects", PERSON, "read", listing(ENTRY), _list_mine, query=QUERY),
    Action("plans.get", "GET", "/entries/{entry}", "See a plan of a gallery", _VIEWER, "read", ENTRY, _get),
    Action(
        "plans.document",
        "GET",
        "/entries/{entry}/document",
        "Get the document of a plan",
        _VIEWER,
        "read",
        _DOCUMENT,
        _document,
        etag=lambda answer: answer["digest"],
    ),
    Action(
        "plans.by_digest",
        "GET",
        "/documents/{digest}",
        "Get the document of a digest, in any gallery, room or job that I may read",
        PERSON,
        "read",
        _DOCUMENT,
        _document_of_digest,
        etag=lambda answer: answer["digest"],
    ),
    Action(
        "plans.thumbnail",
        "GET",
        "/entries/{entry}/thumbnail",
        "Get the picture of a plan's layout",
        _VIEWER,
        "read",
        record({"digest": DIGEST, "svg": or_none(TEXT)}),
        _thumbnail,
    ),
    Action(
        "plans.update",
        "PATCH",
        "/entries/{entry}",
        "Change the name or the note of a plan",
        _EDITOR,
        "edit",
        ENTRY,
        _update,
        body=record({}, {"name": _NAMED, "note": text(NOTE)}),
    ),
    Action("plans.withdraw", "DELETE", "/entries/{entry}", "Take a plan out of the gallery", _EDITOR, "edit", ENTRY, _withdraw),
    Action(
        "plans.fork",
        "POST",
        "/entries/{entry}/forks",
        "Put a plan into another gallery, or again into this one",
        _VIEWER,
        "edit",
        ENTRY,
        _fork,
        body=record({"project": SLUG}, {"name": _NAMED, "note": text(NOTE)}),
        status=201,
        subject="id",
    ),
)
