"""Entries of a gallery as answers have them: the plan, who put it there, what each tier says of it, and what its steps cost where the team
runs them: at the project's own price of a device, else at the catalogue's."""

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
from workbench.team.actions.schemas import (
    Count,
    Digest,
    Figures,
    Id,
    JobKind,
    PersonRecord,
    Record,
    Slug,
    Time,
    people_by_id,
    project_slugs,
)
from workbench.team.store.tables import GalleryEntry, Project, StoredFigures, StoredJob, StoredPlan, TeamHardware

STEPS = 1_000
"""Steps that a price is of."""
_HOUR = 3_600.0


def team_prices(session: DatabaseSession, project_id: str) -> dict[str, float]:
    """US dollars per device and hour in a project, by the name of the chip."""
    columns = (TeamHardware.hardware, TeamHardware.dollars_per_device_hour)
    priced = select(*columns).where(TeamHardware.project_id == project_id, TeamHardware.dollars_per_device_hour.is_not(None))
    found = ((known_hardware(text), price) for text, price in session.execute(priced))
    return {hardware.chip.name: price for hardware, price in found if hardware is not None and price is not None}


def dollars_of_steps(hardware_text: str, step_seconds: float, prices: Mapping[str, float]) -> float | None:
    """US dollars of `STEPS` steps on all devices of a plan's hardware; `None` where no price is known."""
    hardware = known_hardware(hardware_text)
    if hardware is None:
        return None
    own = prices.get(hardware.chip.name)
    hourly = hardware.hourly_price if own is None else own * hardware.size
    return None if hourly is None else hourly / _HOUR * step_seconds * STEPS


@lru_cache(maxsize=512)
def known_hardware(text: str) -> Hardware | None:
    """The hardware of a text, `None` for one that the catalogue here does not know."""
    try:
        return parse_hardware(text) if text else None
    except HardwareError:
        return None


TIERS = ("planned", "partitioned", "compiled", "measured")
"""How well figures are known, from the quickest to the surest."""
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


class TriedRecord(Record, frozen=True):
    """A job that ran a plan."""

    person: PersonRecord
    kind: JobKind
    state: str
    job: Id


class OriginRecord(Record, frozen=True):
    """The entry that another one began as."""

    id: Id
    name: str
    project: Slug


class EntryRecord(Record, frozen=True):
    """A plan in a gallery."""

    id: Id
    project: Slug
    digest: Digest
    name: str
    note: str
    target: str
    mesh: str
    devices: Count
    hardware: str
    layout: str
    dims: list[str]
    author: PersonRecord
    room: Id | None
    forked_from: OriginRecord | None
    forks: Count
    tried: list[TriedRecord]
    figures: Annotated[dict[str, Figures], _TIERS]
    has_thumbnail: bool
    created: Time
    withdrawn: Time | None
    page: str


_MOST_TRIED = 5


def entry_records(services: Any, session: DatabaseSession, entries: Sequence[GalleryEntry], readable: set[str]) -> list[EntryRecord]:
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
        EntryRecord.of(
            each,
            project=projects[each.project_id],
            **{name: getattr(plans[each.digest], name) for name in ("target", "mesh", "devices", "hardware", "layout", "dims")},
            author=people[each.author_id],
            room=each.room_id,
            forked_from=origins.get(each.forked_from or ""),
            forks=forks.get(each.id, 0),
            tried=tried.get((each.project_id, each.digest), []),
            figures=_priced(figures.get(each.digest, {}), plans[each.digest].hardware, prices[each.project_id]),
            has_thumbnail=any(row.thumbnail for row in figures.get(each.digest, {}).values()),
            page=services.url(f"/p/{projects[each.project_id]}/?plan={each.id}"),
        )
        for each in entries
    ]


def _origins(session: DatabaseSession, entries: Iterable[GalleryEntry], readable: set[str]) -> dict[str, OriginRecord]:
    wanted = {each.forked_from for each in entries if each.forked_from}
    columns = select(GalleryEntry.id, GalleryEntry.name, Project.slug).join(Project, Project.id == GalleryEntry.project_id)
    found = session.execute(columns.where(GalleryEntry.id.in_(wanted), Project.id.in_(readable))) if wanted else ()
    return {entry_id: OriginRecord(id=entry_id, name=name, project=slug) for entry_id, name, slug in found}


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


def _tried(session: DatabaseSession, entries: Iterable[GalleryEntry]) -> dict[tuple[str, str], list[TriedRecord]]:
    """The last jobs of each plan in each of the projects."""
    keys = {(each.project_id, each.digest) for each in entries}
    jobs = session.scalars(
        select(StoredJob)
        .where(StoredJob.project_id.in_({key[0] for key in keys}), StoredJob.digest.in_({key[1] for key in keys}))
        .order_by(StoredJob.created.desc())
        .limit(20 * _MOST_TRIED)
    ).all()
    people = people_by_id(session, (each.author_id for each in jobs))
    found: dict[tuple[str, str], list[TriedRecord]] = {}
    for each in jobs:
        of_plan = found.setdefault((each.project_id, each.digest), [])
        if len(of_plan) < _MOST_TRIED:
            of_plan.append(TriedRecord.of(each, person=people[each.author_id], job=each.id))
    return found
