"""Entries of a gallery as answers have them: the plan, who put it there, and what each tier says of it."""

from collections.abc import Iterable, Sequence
from itertools import groupby
from typing import Any

from sqlalchemy import func, select
from sqlalchemy.orm import Session as DatabaseSession

from workbench.team.actions.people_records import people_by_id, project_slugs
from workbench.team.actions.prices import dollars_of_steps, team_prices
from workbench.team.actions.schemas import (
    ANYTHING,
    COUNT,
    DIGEST,
    FLAG,
    ID,
    NUMBER,
    PERSON,
    SLUG,
    TEXT,
    TIME,
    list_of,
    one_of,
    or_none,
    record,
)
from workbench.team.store.tables import GalleryEntry, Project, StoredFigures, StoredJob, StoredPlan

TIERS = ("planned", "partitioned", "compiled", "measured")
"""How well figures are known, from the quickest to the surest."""
SHARED_FIGURES = {"peak_bytes": or_none(NUMBER), "sent_bytes": or_none(NUMBER), "step_seconds": or_none(NUMBER), "fits": or_none(FLAG)}

_FIGURES = {
    "type": "object",
    "properties": {**SHARED_FIGURES, "dollars": or_none(NUMBER), "version": TEXT},
    "required": ["version"],
    "additionalProperties": ANYTHING,
    "description": "what a tier says: bytes per device, seconds of a step, US dollars of 1,000 steps, and the workbench's version",
}
_TIERS = {"type": "object", "properties": dict.fromkeys(TIERS, _FIGURES), "additionalProperties": False}
_TRIED = record({"person": PERSON, "kind": one_of("run", "compile", "search"), "state": TEXT, "job": ID})
ENTRY = record(
    {
        "id": ID,
        "project": SLUG,
        "digest": DIGEST,
        "name": TEXT,
        "note": TEXT,
        "target": TEXT,
        "mesh": TEXT,
        "devices": COUNT,
        "hardware": TEXT,
        "layout": TEXT,
        "dims": list_of(TEXT),
        "author": PERSON,
        "room": or_none(ID),
        "forked_from": or_none(record({"id": ID, "name": TEXT, "project": SLUG})),
        "forks": COUNT,
        "tried": list_of(_TRIED),
        "figures": _TIERS,
        "has_thumbnail": FLAG,
        "created": TIME,
        "withdrawn": or_none(TIME),
        "page": TEXT,
    }
)
_MOST_TRIED = 5


def entry_records(services: Any, session: DatabaseSession, entries: Sequence[GalleryEntry], readable: set[str]) -> list[dict[str, Any]]:
    """The records of entries; that one began as another is said where the other's project is one of the `readable` ones."""
    digests = {each.digest for each in entries}
    plans = {each.digest: each for each in session.scalars(select(StoredPlan).where(StoredPlan.digest.in_(digests)))}
    projects = project_slugs(session, (each.project_id for each in entries))
    origins = _origins(session, entries, readable)
    forks = _fork_counts(session, entries)
    people = people_by_id(session, (each.author_id for each in entries))
    figures = _figures(session, digests)
    tried = _tried(session, entries)
    prices = {each: team_prices(session, each) for each in {entry.project_id for entry in entries}}
    return [
        {
            "id": each.id,
            "project": projects[each.project_id],
            "digest": each.digest,
            "name": each.name,
            "note": each.note,
            **_plan_fields(plans[each.digest]),
            "author": people[each.author_id],
            "room": each.room_id,
            "forked_from": origins.get(each.forked_from or ""),
            "forks": forks.get(each.id, 0),
            "tried": tried.get((each.project_id, each.digest), []),
            "figures": _priced(figures.get(each.digest, {}), plans[each.digest].hardware, prices[each.project_id]),
            "has_thumbnail": any(row.thumbnail for row in figures.get(each.digest, {}).values()),
            "created": each.created,
            "withdrawn": each.withdrawn,
            "page": services.url(f"/p/{projects[each.project_id]}/?plan={each.id}"),
        }
        for each in entries
    ]


def _plan_fields(plan: StoredPlan) -> dict[str, Any]:
    facts = {"target": plan.target, "mesh": plan.mesh, "devices": plan.devices, "hardware": plan.hardware}
    return {**facts, "layout": plan.layout, "dims": plan.dims}


def _origins(session: DatabaseSession, entries: Iterable[GalleryEntry], readable: set[str]) -> dict[str, dict[str, Any]]:
    wanted = {each.forked_from for each in entries if each.forked_from}
    columns = select(GalleryEntry.id, GalleryEntry.name, Project.slug).join(Project, Project.id == GalleryEntry.project_id)
    found = session.execute(columns.where(GalleryEntry.id.in_(wanted), Project.id.in_(readable))) if wanted else ()
    return {entry_id: {"id": entry_id, "name": name, "project": slug} for entry_id, name, slug in found}


def _fork_counts(session: DatabaseSession, entries: Iterable[GalleryEntry]) -> dict[str | None, int]:
    ids = [each.id for each in entries]
    counted = select(GalleryEntry.forked_from, func.count()).where(GalleryEntry.forked_from.in_(ids), GalleryEntry.withdrawn.is_(None))
    return {origin: count for origin, count in session.execute(counted.group_by(GalleryEntry.forked_from))}  # noqa: C416 - rows are no pairs


def _figures(session: DatabaseSession, digests: set[str]) -> dict[str, dict[str, StoredFigures]]:
    rows = session.scalars(select(StoredFigures).where(StoredFigures.digest.in_(digests)).order_by(StoredFigures.digest))
    return {digest: {row.tier: row for row in of_plan} for digest, of_plan in groupby(rows, lambda row: row.digest)}


def _priced(rows: dict[str, StoredFigures], hardware: str, prices: dict[str, float]) -> dict[str, Any]:
    """What each tier says, with the price of its steps where both are known."""
    return {
        tier: {**rows[tier].values, **_dollars(rows[tier].values, hardware, prices), "version": rows[tier].version}
        for tier in TIERS
        if tier in rows
    }


def _dollars(values: dict[str, Any], hardware: str, prices: dict[str, float]) -> dict[str, Any]:
    """Not of a step that was measured on a processor in place of the devices that the plan is for."""
    seconds = values.get("step_seconds")
    if values.get("device_kind") == "cpu" or not isinstance(seconds, int | float):
        return {}
    return {"dollars": dollars_of_steps(hardware, seconds, prices)}


def _tried(session: DatabaseSession, entries: Iterable[GalleryEntry]) -> dict[tuple[str, str], list[dict[str, Any]]]:
    """The last jobs of each plan in each of the projects."""
    keys = {(each.project_id, each.digest) for each in entries}
    jobs = session.scalars(
        select(StoredJob)
        .where(StoredJob.project_id.in_({key[0] for key in keys}), StoredJob.digest.in_({key[1] for key in keys}))
        .order_by(StoredJob.created.desc())
        .limit(20 * _MOST_TRIED)
    ).all()
    people = people_by_id(session, (each.author_id for each in jobs))
    found: dict[tuple[str, str], list[dict[str, Any]]] = {}
    for each in jobs:
        of_plan = found.setdefault((each.project_id, each.digest), [])
        if len(of_plan) < _MOST_TRIED:
            of_plan.append({"person": people[each.author_id], "kind": each.kind, "state": each.state, "job": each.id})
    return found
