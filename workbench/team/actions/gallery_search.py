"""What the plans of a gallery can be searched by."""

import json
from collections.abc import Sequence
from typing import Annotated, Any

from msgspec import Meta
from sqlalchemy import Select, String, case, cast, func, or_, select

from workbench.team.actions.action import Call
from workbench.team.actions.entry_records import TIERS, EntryRecord, entry_records
from workbench.team.actions.pages_of_lists import list_page
from workbench.team.actions.persons.people import escape_like
from workbench.team.actions.schemas import ListPage, PageQuery, Sha256, Word, described, one_of
from workbench.team.store.tables import GalleryEntry, StoredFigures, StoredPlan, User

Part = Annotated[str, Meta(min_length=1, max_length=200)]


class GalleryQuery(PageQuery, frozen=True):
    """What plans can be searched by."""

    q: Annotated[Word, described("words in the name, note, program, mesh or layout")] | None = None
    model: Annotated[str, Meta(min_length=1, max_length=400, description="the program: a model of the zoo, or module:function")] | None = (
        None
    )
    mesh: Annotated[Part, described("a part of the mesh, `data:4`")] | None = None
    hardware: Annotated[Part, described("a part of the hardware's name")] | None = None
    dimension: Annotated[Part, described("a dimension of the program")] | None = None
    author: Annotated[Word, described("the name of a person")] | None = None
    tier: Annotated[str, one_of(*TIERS), described("has figures of this tier")] | None = None
    fits: Annotated[bool, described("whether the surest tier that says so says that it fits")] | None = None
    digest: Sha256 | None = None
    withdrawn: Annotated[bool, described("also those that were withdrawn")] = False


def search(call: Call, query: GalleryQuery, projects: set[str], readable: set[str]) -> ListPage[EntryRecord]:
    """One part of the entries of these projects that the query asks for."""
    found = select(GalleryEntry).join(StoredPlan, StoredPlan.digest == GalleryEntry.digest).where(GalleryEntry.project_id.in_(projects))
    if not query.withdrawn:
        found = found.where(GalleryEntry.withdrawn.is_(None))
    for key, condition in _CONDITIONS.items():
        if (value := getattr(query, key)) is not None:
            found = condition(found, value)

    def records(entries: Sequence[GalleryEntry]) -> list[EntryRecord]:
        return entry_records(call.services, call.session, entries, readable)

    return list_page(call.session, found, GalleryEntry.created, GalleryEntry.id, query, records)


def _contains(column: Any, words: str) -> Any:
    return func.lower(column).like(f"%{escape_like(words.lower())}%", escape="\\")


def _words(found: Select[Any], words: str) -> Select[Any]:
    columns = (GalleryEntry.name, GalleryEntry.note, StoredPlan.target, StoredPlan.mesh, StoredPlan.layout, StoredPlan.hardware)
    for word in words.split():
        found = found.where(or_(*(_contains(each, word) for each in columns)))
    return found


def _dimension(found: Select[Any], name: str) -> Select[Any]:
    """Names are kept as a JSON list: what is looked for is the name in its quotes."""
    return found.where(cast(StoredPlan.dims, String).like(f"%{escape_like(json.dumps(name))}%", escape="\\"))


def _author(found: Select[Any], name: str) -> Select[Any]:
    return found.where(GalleryEntry.author_id.in_(select(User.id).where(User.name == name)))


def _tier(found: Select[Any], tier: str) -> Select[Any]:
    return found.where(GalleryEntry.digest.in_(select(StoredFigures.digest).where(StoredFigures.tier == tier)))


def _fits(found: Select[Any], fits: bool) -> Select[Any]:
    says = StoredFigures.values["fits"].as_boolean()
    surest = case({tier: place for place, tier in enumerate(TIERS)}, value=StoredFigures.tier)
    of_plan = select(says).where(StoredFigures.digest == GalleryEntry.digest, says.is_not(None)).order_by(surest.desc()).limit(1)
    return found.where(of_plan.scalar_subquery().is_(fits))


_CONDITIONS: dict[str, Any] = {
    "q": _words,
    "model": lambda found, name: found.where(StoredPlan.target == name),
    "mesh": lambda found, words: found.where(_contains(StoredPlan.mesh, words)),
    "hardware": lambda found, words: found.where(_contains(StoredPlan.hardware, words)),
    "dimension": _dimension,
    "author": _author,
    "tier": _tier,
    "fits": _fits,
    "digest": lambda found, digest: found.where(GalleryEntry.digest == digest),
}
