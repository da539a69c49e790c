"""Plans in project galleries.

A plan is its canonical document, identified by the text's SHA-256. An entry is a plan in a gallery, with a name and a
note.

**Invariants**

- A document is stored once, as the planner wrote it, and never changes. The submitted text is not stored.
- Pushing a plan again updates the author's entry instead of adding one.
- Only authors and owners can change or withdraw an entry.
"""

import json
from collections.abc import Sequence
from typing import Annotated, Any

from msgspec import Meta
from sqlalchemy import Select, String, case, cast, func, or_, select
from sqlalchemy.orm import Session as DatabaseSession

from workbench import __version__
from workbench.team.access import ConflictError, ForbiddenError, MissingError, ProjectRole, require
from workbench.team.actions.action import PERSON, Call, action, member, planner_of
from workbench.team.actions.entry_records import TIERS, EntryRecord, entry_records
from workbench.team.actions.held_roles import project_of_slug, role_in_project
from workbench.team.actions.people import escape_like
from workbench.team.actions.schemas import (
    DOCUMENT,
    NAME,
    Digest,
    Id,
    ListPage,
    Named,
    Note,
    PageQuery,
    Record,
    Sha256,
    Slug,
    Word,
    described,
    list_page,
    one_of,
)
from workbench.team.actions.visible_plans import program_of_document, project_ids_of, readable_plan
from workbench.team.store.store import now
from workbench.team.store.tables import GalleryEntry, Member, StoredFigures, StoredPlan, User
from workbench.team.web.team_services import DescribedPlan

# Gallery search.

Part = Annotated[str, Meta(min_length=1, max_length=200)]


class GalleryQuery(PageQuery, frozen=True):
    q: Annotated[Word, described("words in the name, note, program, mesh or layout")] | None = None
    model: Annotated[str, Meta(min_length=1, max_length=400, description="the program: a model of the zoo, or module:function")] | None = (
        None
    )
    mesh: Annotated[Part, described("a part of the mesh, `data:4`")] | None = None
    hardware: Annotated[Part, described("a part of the hardware's name")] | None = None
    dimension: Annotated[Part, described("a dimension of the program")] | None = None
    author: Annotated[Word, described("the name of a person")] | None = None
    tier: Annotated[str, one_of(*TIERS), described("plans with figures of this tier")] | None = None
    fits: Annotated[bool, described("whether the plan fits, by the most accurate tier available")] | None = None
    digest: Sha256 | None = None
    withdrawn: Annotated[bool, described("include withdrawn plans")] = False


def search(call: Call, query: GalleryQuery, projects: set[str], readable: set[str]) -> ListPage[EntryRecord]:
    statement = select(GalleryEntry).join(StoredPlan, StoredPlan.digest == GalleryEntry.digest).where(GalleryEntry.project_id.in_(projects))
    if not query.withdrawn:
        statement = statement.where(GalleryEntry.withdrawn.is_(None))
    for key, condition in _CONDITIONS.items():
        if (value := getattr(query, key)) is not None:
            statement = condition(statement, value)

    def records(entries: Sequence[GalleryEntry]) -> list[EntryRecord]:
        return entry_records(call.services, call.session, entries, readable)

    return list_page(call.session, statement, GalleryEntry.created, GalleryEntry.id, query, records)


def _contains(column: Any, words: str) -> Any:
    return func.lower(column).like(f"%{escape_like(words.lower())}%", escape="\\")


def _words(found: Select[Any], words: str) -> Select[Any]:
    columns = (GalleryEntry.name, GalleryEntry.note, StoredPlan.target, StoredPlan.mesh, StoredPlan.layout, StoredPlan.hardware)
    for word in words.split():
        found = found.where(or_(*(_contains(column, word) for column in columns)))
    return found


def _dimension(found: Select[Any], name: str) -> Select[Any]:
    """Match a quoted name in the JSON list of dimensions."""
    return found.where(cast(StoredPlan.dims, String).like(f"%{escape_like(json.dumps(name))}%", escape="\\"))


def _tier(found: Select[Any], tier: str) -> Select[Any]:
    return found.where(GalleryEntry.digest.in_(select(StoredFigures.digest).where(StoredFigures.tier == tier)))


def _fits(found: Select[Any], fits: bool) -> Select[Any]:
    fits_column = StoredFigures.values["fits"].as_boolean()
    reliability = case({tier: place for place, tier in enumerate(TIERS)}, value=StoredFigures.tier)
    of_plan = (
        select(fits_column)
        .where(StoredFigures.digest == GalleryEntry.digest, fits_column.is_not(None))
        .order_by(reliability.desc())
        .limit(1)
    )
    return found.where(of_plan.scalar_subquery().is_(fits))


_CONDITIONS: dict[str, Any] = {
    "q": _words,
    "model": lambda found, name: found.where(StoredPlan.target == name),
    "mesh": lambda found, words: found.where(_contains(StoredPlan.mesh, words)),
    "hardware": lambda found, words: found.where(_contains(StoredPlan.hardware, words)),
    "dimension": _dimension,
    "author": lambda found, name: found.where(GalleryEntry.author_id.in_(select(User.id).where(User.name == name))),
    "tier": _tier,
    "fits": _fits,
    "digest": lambda found, digest: found.where(GalleryEntry.digest == digest),
}


class DocumentRecord(Record, frozen=True):
    digest: Digest
    document: str
    name: str


class ThumbnailRecord(Record, frozen=True):
    digest: Digest
    svg: str | None


class NewPlan(Record, frozen=True):
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
    """Add a plan document to the gallery."""
    described: DescribedPlan = call.prepared
    store_plan(call.session, described)
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


def store_plan(session: DatabaseSession, described: DescribedPlan) -> None:
    """Store a plan if it is new, and update its planned figures."""
    if session.get(StoredPlan, described.digest) is None:
        names = ("digest", "document", "target", "mesh", "devices", "hardware", "layout")
        plan = StoredPlan(**{name: getattr(described, name) for name in names}, dims=list(described.dims))
        session.add(plan)
        session.flush()
    for tier, values in described.figures.items():
        key = {"digest": described.digest, "tier": tier, "version": __version__, "job_id": None, "created": now()}
        session.merge(StoredFigures(**key, values=dict(values), thumbnail=described.thumbnail))
    session.flush()


def _same_entry(call: Call, digest: str) -> GalleryEntry | None:
    conditions = (GalleryEntry.project_id == call.project.id, GalleryEntry.digest == digest, GalleryEntry.author_id == call.person.user_id)
    return call.session.scalars(select(GalleryEntry).where(*conditions, GalleryEntry.withdrawn.is_(None)).limit(1)).first()


def _add_entry(call: Call, digest: str, name: str, note: str = "", *, project_id: str = "", forked_from: str | None = None) -> GalleryEntry:
    references = {"project_id": project_id or call.project.id, "author_id": call.person.user_id, "forked_from": forked_from}
    entry = GalleryEntry(digest=digest, name=name.strip()[:NAME], note=note, **references)
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
    # administrators see plans of other projects only on those projects' pages
    readable, own = _readable(call), select(Member.project_id).where(Member.user_id == call.person.user_id)
    return search(call, query, readable & set(call.session.scalars(own)) if call.person.admin else readable, readable)


@action("plans.get", "GET /entries/{entry}", _VIEWER, "read")
def _get(call: Call) -> EntryRecord:
    """Show a gallery entry."""
    return _one(call, call.found.resource)


@action("plans.document", "GET /entries/{entry}/document", _VIEWER, "read", etag="digest")
def _document(call: Call) -> DocumentRecord:
    """Get the document of a plan."""
    entry: GalleryEntry = call.found.resource
    return DocumentRecord.of(call.session.get_one(StoredPlan, entry.digest), name=entry.name)


@action("plans.by_digest", "GET /documents/{digest}", PERSON, "read", etag="digest")
def _document_of_digest(call: Call, digest: str) -> DocumentRecord:
    """Get the document of a digest in any gallery, room or job that I may read."""
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
    """Remove a plan from the gallery."""
    entry = _own_entry(call)
    entry.withdrawn = entry.withdrawn or now()
    call.session.flush()
    return _one(call, entry)


def _own_entry(call: Call) -> GalleryEntry:
    entry: GalleryEntry = call.found.resource
    if entry.author_id != call.person.user_id and not call.may(ProjectRole.OWNER):
        raise ForbiddenError("This plan was added by another person.", ["ask its author", "ask an owner of the project"])
    return entry


@action("plans.fork", "POST /entries/{entry}/forks", _VIEWER, "edit", status=201, subject="id")
def _fork(call: Call, project: Slug, name: Named | None = None, note: Note = "") -> EntryRecord:
    """Copy a plan to another gallery, or to this one."""
    origin, user = call.found.resource, call.session.get_one(User, call.person.user_id)
    target = project_of_slug(call.session, project)
    role = role_in_project(call.session, user, target.id) if target else None
    if target is None or role is None:
        raise MissingError("project", project)
    require(role, ProjectRole.EDITOR, "add a plan to it")
    if target.archived is not None:
        raise ConflictError(f"The project `{target.slug}` is archived and cannot be changed.", ["ask an owner to open it again"])
    entry = _add_entry(call, origin.digest, name or origin.name, note, project_id=target.id, forked_from=origin.id)
    call.note(project=target, of=origin.id)
    return _one(call, entry)
