"""What the plans of a gallery can be searched by."""

import json
from typing import Any

from sqlalchemy import Select, String, case, cast, func, or_, select

from workbench.team.actions.action import Call
from workbench.team.actions.entry_records import TIERS, entry_records
from workbench.team.actions.pages_of_lists import list_page
from workbench.team.actions.persons.people import escape_like
from workbench.team.actions.schemas import FLAG, NAME, PAGE, Schema, one_of, text
from workbench.team.store.tables import GalleryEntry, StoredFigures, StoredPlan, User

QUERY: dict[str, Schema] = {
    **PAGE,
    "q": text(NAME, 1, description="words in the name, note, program, mesh or layout"),
    "model": text(400, 1, description="the program: a model of the zoo, or module:function"),
    "mesh": text(200, 1, description="a part of the mesh, `data:4`"),
    "hardware": text(200, 1, description="a part of the hardware's name"),
    "dimension": text(200, 1, description="a dimension of the program"),
    "author": text(NAME, 1, description="the name of a person"),
    "tier": one_of(*TIERS, description="has figures of this tier"),
    "fits": {**FLAG, "description": "whether the surest tier that says so says that it fits"},
    "digest": text(64, 64, pattern="^[0-9a-f]{64}$"),
    "withdrawn": {**FLAG, "description": "also those that were withdrawn"},
}


def search(call: Call, projects: set[str], readable: set[str]) -> dict[str, Any]:
    """One part of the entries of these projects that the query asks for."""
    found = select(GalleryEntry).join(StoredPlan, StoredPlan.digest == GalleryEntry.digest).where(GalleryEntry.project_id.in_(projects))
    if not call.query.get("withdrawn", False):
        found = found.where(GalleryEntry.withdrawn.is_(None))
    for key, condition in _CONDITIONS.items():
        if key in call.query:
            found = condition(found, call.query[key])
    page = list_page(call.session, found, GalleryEntry.created, GalleryEntry.id, call.query, lambda entry: entry)
    return {**page, "items": entry_records(call.services, call.session, page["items"], readable)}


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
