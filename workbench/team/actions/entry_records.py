"""Gallery entries as API records, with the cost of steps at the project's price, else the catalogue's."""

from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from itertools import groupby
from typing import Annotated, Any

from msgspec import Meta
from sqlalchemy import func, select
from sqlalchemy.orm import Session as DatabaseSession

from workbench.errors import HardwareError
from workbench.hardware.catalogue import parse_hardware
from workbench.hardware.hardware import Hardware
from workbench.team.actions import schemas
from workbench.team.store.tables import GalleryEntry, Project, StoredFigures, StoredJob, StoredPlan, TeamHardware

STEPS = 1_000
"""Number of steps that a cost is for."""
_HOUR = 3_600.0


def team_prices(session: DatabaseSession, project_id: str) -> dict[str, float]:
    """Return a project's prices in US dollars per device-hour, by chip name."""
    columns = (TeamHardware.hardware, TeamHardware.dollars_per_device_hour)
    statement = select(*columns).where(TeamHardware.project_id == project_id, TeamHardware.dollars_per_device_hour.is_not(None))
    rows = ((known_hardware(text), price) for text, price in session.execute(statement))
    return {hardware.chip.name: price for hardware, price in rows if hardware is not None and price is not None}


def step_cost_dollars(hardware_text: str, step_seconds: float, prices: Mapping[str, float]) -> float | None:
    """Return the cost of `STEPS` steps on all devices in US dollars, or `None` without a price."""
    hardware = known_hardware(hardware_text)
    if hardware is None:
        return None
    price = prices.get(hardware.chip.name)
    hourly = hardware.hourly_price if price is None else price * hardware.size
    return None if hourly is None else hourly / _HOUR * step_seconds * STEPS


@lru_cache(maxsize=512)
def known_hardware(text: str) -> Hardware | None:
    """Parse a hardware name; `None` if this catalogue does not know it."""
    try:
        return parse_hardware(text) if text else None
    except HardwareError:
        return None


TIERS = ("planned", "partitioned", "compiled", "measured")
"""Tiers of figures, from fastest to most reliable."""
_SHARED = {
    name: {"anyOf": [{"type": kind}, {"type": "null"}]}
    for name, kind in (
        ("peak_bytes", "number"),
        ("sent_bytes", "number"),
        ("step_seconds", "number"),
        ("dollars", "number"),
        ("fits", "boolean"),
    )
}
_TIER = {
    "type": "object",
    "properties": {**_SHARED, "version": {"type": "string"}},
    "required": ["version"],
    "additionalProperties": {},
    "description": "figures of a tier: bytes per device, step time in seconds, US dollars per 1,000 steps, and the "
    "version of the workbench",
}
_TIERS = Meta(extra_json_schema={"properties": dict.fromkeys(TIERS, _TIER), "additionalProperties": False})


class TriedRecord(schemas.Record, frozen=True):
    person: schemas.PersonRecord
    kind: schemas.JobKind
    state: str
    job: schemas.Id


class OriginRecord(schemas.Record, frozen=True):
    id: schemas.Id
    name: str
    project: schemas.Slug


class EntryRecord(schemas.Record, frozen=True):
    id: schemas.Id
    project: schemas.Slug
    digest: schemas.Digest
    name: str
    note: str
    target: str
    mesh: str
    devices: schemas.Count
    hardware: str
    layout: str
    dims: list[str]
    author: schemas.PersonRecord
    room: schemas.Id | None
    forked_from: OriginRecord | None
    forks: schemas.Count
    tried: list[TriedRecord]
    figures: Annotated[dict[str, schemas.Figures], _TIERS]
    has_thumbnail: bool
    created: schemas.Time
    withdrawn: schemas.Time | None
    page: str


_MOST_TRIED = 5


def entry_records(services: Any, session: DatabaseSession, entries: Sequence[GalleryEntry], readable: set[str]) -> list[EntryRecord]:
    """Return the records of entries; an origin is shown only if its project is in `readable`."""
    digests = {row.digest for row in entries}
    plans = {plan.digest: plan for plan in session.scalars(select(StoredPlan).where(StoredPlan.digest.in_(digests)))}
    projects = schemas.project_slugs(session, (entry.project_id for entry in entries))
    origins = _origins(session, entries, readable)
    forks = _fork_counts(session, entries)
    people = schemas.people_by_id(session, (entry.author_id for entry in entries))
    figures = _figures(session, digests)
    tried = _tried(session, entries)
    prices = {project_id: team_prices(session, project_id) for project_id in {row.project_id for row in entries}}
    return [
        EntryRecord.of(
            entry,
            project=projects[entry.project_id],
            **{name: getattr(plans[entry.digest], name) for name in ("target", "mesh", "devices", "hardware", "layout", "dims")},
            author=people[entry.author_id],
            room=entry.room_id,
            forked_from=origins.get(entry.forked_from or ""),
            forks=forks.get(entry.id, 0),
            tried=tried.get((entry.project_id, entry.digest), []),
            figures=_priced(figures.get(entry.digest, {}), plans[entry.digest].hardware, prices[entry.project_id]),
            has_thumbnail=any(row.thumbnail for row in figures.get(entry.digest, {}).values()),
            page=services.url(f"/p/{projects[entry.project_id]}/?plan={entry.id}"),
        )
        for entry in entries
    ]


def _origins(session: DatabaseSession, entries: Iterable[GalleryEntry], readable: set[str]) -> dict[str, OriginRecord]:
    origin_ids = {entry.forked_from for entry in entries if entry.forked_from}
    statement = select(GalleryEntry.id, GalleryEntry.name, Project.slug).join(Project, Project.id == GalleryEntry.project_id)
    rows = session.execute(statement.where(GalleryEntry.id.in_(origin_ids), Project.id.in_(readable))) if origin_ids else ()
    return {entry_id: OriginRecord(id=entry_id, name=name, project=slug) for entry_id, name, slug in rows}


def _fork_counts(session: DatabaseSession, entries: Iterable[GalleryEntry]) -> dict[str | None, int]:
    ids = [entry.id for entry in entries]
    statement = select(GalleryEntry.forked_from, func.count()).where(GalleryEntry.forked_from.in_(ids), GalleryEntry.withdrawn.is_(None))
    return {origin: count for origin, count in session.execute(statement.group_by(GalleryEntry.forked_from))}  # noqa: C416 - rows are no pairs


def _figures(session: DatabaseSession, digests: set[str]) -> dict[str, dict[str, StoredFigures]]:
    rows = session.scalars(select(StoredFigures).where(StoredFigures.digest.in_(digests)).order_by(StoredFigures.digest))
    return {digest: {row.tier: row for row in of_plan} for digest, of_plan in groupby(rows, lambda row: row.digest)}


def _priced(rows: dict[str, StoredFigures], hardware: str, prices: dict[str, float]) -> dict[str, Any]:
    return {
        tier: {**rows[tier].values, **_dollars(rows[tier].values, hardware, prices), "version": rows[tier].version}
        for tier in TIERS
        if tier in rows
    }


def _dollars(values: dict[str, Any], hardware: str, prices: dict[str, float]) -> dict[str, Any]:
    seconds = values.get("step_seconds")
    if values.get("device_kind") == "cpu" or not isinstance(seconds, int | float):
        return {}
    return {"dollars": step_cost_dollars(hardware, seconds, prices)}


def _tried(session: DatabaseSession, entries: Iterable[GalleryEntry]) -> dict[tuple[str, str], list[TriedRecord]]:
    keys = {(item.project_id, item.digest) for item in entries}
    jobs = session.scalars(
        select(StoredJob)
        .where(StoredJob.project_id.in_({key[0] for key in keys}), StoredJob.digest.in_({key[1] for key in keys}))
        .order_by(StoredJob.created.desc())
        .limit(20 * _MOST_TRIED)
    ).all()
    people = schemas.people_by_id(session, (item.author_id for item in jobs))
    by_plan: dict[tuple[str, str], list[TriedRecord]] = {}
    for item in jobs:
        plan_jobs = by_plan.setdefault((item.project_id, item.digest), [])
        if len(plan_jobs) < _MOST_TRIED:
            plan_jobs.append(TriedRecord.of(item, person=people[item.author_id], job=item.id))
    return by_plan
