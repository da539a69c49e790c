"""Plans in the galleries of projects. A plan is its canonical document, named by that text's SHA-256; an entry is a plan as somebody put it
into a gallery, with a name and a note.

**Invariants**

- A document is stored once, as a planner wrote it, and never changes. What was sent is not stored.
- Pushing what one already has in the gallery makes no second entry.
- An entry is changed and withdrawn by its author and by owners alone.
"""

import json
from typing import Annotated

from msgspec import Meta
from sqlalchemy import select
from sqlalchemy.orm import Session as DatabaseSession

from workbench import __version__
from workbench.team.access import ConflictError, ForbiddenError, MissingError, ProjectRole, require
from workbench.team.actions.action import PERSON, Call, action, member, planner_of
from workbench.team.actions.entry_records import EntryRecord, entry_records
from workbench.team.actions.gallery_search import GalleryQuery, search
from workbench.team.actions.held_roles import project_of_slug, role_in_project
from workbench.team.actions.schemas import DOCUMENT, NAME, Digest, Id, ListPage, Named, Note, Record, Slug
from workbench.team.actions.visible_plans import program_of_document, project_ids_of, readable_plan
from workbench.team.store.store import new_id, now
from workbench.team.store.tables import GalleryEntry, Member, StoredFigures, StoredPlan, User
from workbench.team.web.services import DescribedPlan


class DocumentRecord(Record, frozen=True):
    """The canonical document of a plan."""

    digest: Digest
    document: str
    name: str


class ThumbnailRecord(Record, frozen=True):
    """The picture of a plan's layout."""

    digest: Digest
    svg: str | None


class NewPlan(Record, frozen=True):
    """What is put into a gallery."""

    document: Annotated[str, Meta(min_length=2, max_length=DOCUMENT, description="the text of a plan document")]
    name: Named | None = None
    note: Note | None = None
    forked_from: Id | None = None


_VIEWER, _EDITOR = member(ProjectRole.VIEWER, "entry"), member(ProjectRole.EDITOR, "entry")


async def _describe(call: Call, new: NewPlan) -> DescribedPlan:
    planner = planner_of(call)
    with call.services.store.read() as session:
        program = program_of_document(session, call.project.id, new.document)
    return await planner.describe_document(new.document, program)


@action("plans.push", "POST /projects/{project}/plans", member(ProjectRole.EDITOR), "edit", prepare=_describe, status=201, subject="id")
def _push(call: Call, new: NewPlan) -> EntryRecord:
    """Put a plan document into the gallery."""
    described: DescribedPlan = call.prepared
    keep_plan(call.session, described)
    if new.forked_from is not None:
        _verify_readable(call, new.forked_from)
    name = new.name or json.loads(described.document).get("name") or described.target
    entry = _same_entry(call, described.digest) or _add_entry(call, described.digest, name, forked_from=new.forked_from)
    entry.name, entry.note = new.name or entry.name, entry.note if new.note is None else new.note
    call.session.flush()
    return _one(call, entry)


def _verify_readable(call: Call, entry_id: str) -> None:
    entry = call.session.get(GalleryEntry, entry_id)
    if entry is None or entry.project_id not in _readable(call):
        raise MissingError("entry", entry_id)


def keep_plan(session: DatabaseSession, described: DescribedPlan) -> None:
    """Store a plan, unless it is there, and what the planner says of it now."""
    if session.get(StoredPlan, described.digest) is None:
        names = ("digest", "document", "target", "mesh", "devices", "hardware", "layout")
        plan = StoredPlan(**{name: getattr(described, name) for name in names}, dims=list(described.dims), created=now())
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


def _add_entry(call: Call, digest: str, name: str, note: str = "", *, project_id: str = "", forked_from: str | None = None) -> GalleryEntry:
    entry = GalleryEntry(
        id=new_id(),
        project_id=project_id or call.project.id,
        digest=digest,
        name=name.strip()[:NAME],
        note=note,
        author_id=call.person.user_id,
        room_id=None,
        forked_from=forked_from,
        created=now(),
        withdrawn=None,
    )
    call.session.add(entry)
    call.session.flush()
    return entry


def _one(call: Call, entry: GalleryEntry) -> EntryRecord:
    return entry_records(call.services, call.session, [entry], _readable(call))[0]


def _readable(call: Call) -> set[str]:
    return project_ids_of(call.session, call.session.get_one(User, call.person.user_id))


@action("plans.list", "GET /projects/{project}/plans", member(ProjectRole.VIEWER), "read")
def _list(call: Call, query: GalleryQuery) -> ListPage[EntryRecord]:
    """Search the plans of a project."""
    return search(call, query, {call.project.id}, _readable(call))


@action("plans.mine", "GET /plans", PERSON, "read")
def _list_mine(call: Call, query: GalleryQuery) -> ListPage[EntryRecord]:
    """Search the plans of all my projects."""
    # an administrator sees the plans of others by the address of their project
    mine = {each for each in _readable(call) if not call.person.admin or _is_member(call, each)}
    return search(call, query, mine, _readable(call))


def _is_member(call: Call, project_id: str) -> bool:
    return call.session.get(Member, (project_id, call.person.user_id)) is not None


@action("plans.get", "GET /entries/{entry}", _VIEWER, "read")
def _get(call: Call) -> EntryRecord:
    """See a plan of a gallery."""
    return _one(call, call.found.resource)


@action("plans.document", "GET /entries/{entry}/document", _VIEWER, "read", etag="digest")
def _document(call: Call) -> DocumentRecord:
    """Get the document of a plan."""
    entry: GalleryEntry = call.found.resource
    return DocumentRecord.of(call.session.get_one(StoredPlan, entry.digest), name=entry.name)


@action("plans.by_digest", "GET /documents/{digest}", PERSON, "read", etag="digest")
def _document_of_digest(call: Call, digest: str) -> DocumentRecord:
    """Get the document of a digest, in any gallery, room or job that I may read."""
    plan = readable_plan(call.session, call.session.get_one(User, call.person.user_id), digest)
    return DocumentRecord.of(plan, name=plan.target)


@action("plans.thumbnail", "GET /entries/{entry}/thumbnail", _VIEWER, "read")
def _thumbnail(call: Call) -> ThumbnailRecord:
    """Get the picture of a plan's layout."""
    digest = call.found.resource.digest
    of_plan = select(StoredFigures.thumbnail).where(StoredFigures.digest == digest, StoredFigures.thumbnail != "")
    svg = call.session.scalars(of_plan.order_by(StoredFigures.created.desc()).limit(1)).first()
    return ThumbnailRecord(digest=digest, svg=svg)


@action("plans.update", "PATCH /entries/{entry}", _EDITOR, "edit")
def _update(call: Call, name: Named | None = None, note: Note | None = None) -> EntryRecord:
    """Change the name or the note of a plan."""
    entry = _own_entry(call)
    entry.name, entry.note = (name or entry.name).strip(), entry.note if note is None else note
    call.session.flush()
    return _one(call, entry)


@action("plans.withdraw", "DELETE /entries/{entry}", _EDITOR, "edit")
def _withdraw(call: Call) -> EntryRecord:
    """Take a plan out of the gallery."""
    entry = _own_entry(call)
    entry.withdrawn = entry.withdrawn or now()
    call.session.flush()
    return _one(call, entry)


def _own_entry(call: Call) -> GalleryEntry:
    entry: GalleryEntry = call.found.resource
    if entry.author_id != call.person.user_id and not call.may(ProjectRole.OWNER):
        raise ForbiddenError("This plan was put here by somebody else.", ["ask its author", "ask an owner of the project"])
    return entry


@action("plans.fork", "POST /entries/{entry}/forks", _VIEWER, "edit", status=201, subject="id")
def _fork(call: Call, project: Slug, name: Named | None = None, note: Note = "") -> EntryRecord:
    """Put a plan into another gallery, or again into this one."""
    origin, user = call.found.resource, call.session.get_one(User, call.person.user_id)
    target = project_of_slug(call.session, project)
    role = role_in_project(call.session, user, target.id) if target else None
    if target is None or role is None:
        raise MissingError("project", project)
    require(role, ProjectRole.EDITOR, "put a plan into it")
    if target.archived is not None:
        raise ConflictError(f"The project `{target.slug}` is archived: nothing in it changes.", ["ask an owner to open it again"])
    entry = _add_entry(call, origin.digest, name or origin.name, note, project_id=target.id, forked_from=origin.id)
    call.note(project=target, of=origin.id)
    return _one(call, entry)
