"""Compare plans: differences, statements, figures and Pareto front. Lists have one value per plan, or `null`."""

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Annotated, Any

from msgspec import Meta

from workbench.team.access import ProjectRole
from workbench.team.actions.action import Call, action, member
from workbench.team.actions.entry_records import TIERS, EntryRecord, entry_records
from workbench.team.actions.schemas import Digest, Id, PersonRecord, PlanName, Record, one_of
from workbench.team.actions.visible_plans import plan_of_project
from workbench.team.store.tables import GalleryEntry, StoredPlan

LEAST, MOST = 2, 10
_FIGURES = ("peak_bytes", "sent_bytes", "step_seconds", "dollars", "fits")
_STATEMENTS = ("rules", "overrides", "constraints", "barriers", "groups")
Texts = Annotated[list[str | None], Meta(max_length=MOST)]
FigureName = Annotated[str, one_of(*_FIGURES)]
Tier = Annotated[str, one_of(*TIERS)]


class ComparedRecord(Record, frozen=True):
    """A compared plan; `entry` and `author` are `None` if it is in no gallery."""

    digest: Digest
    entry: Id | None
    name: str
    author: PersonRecord | None


class FactRow(Record, frozen=True):
    name: str
    values: Texts


class SharedFact(Record, frozen=True):
    name: str
    value: str


class StatementRow(Record, frozen=True):
    kind: str
    subject: str
    values: Texts
    differs: bool


class FigureRow(Record, frozen=True):
    name: FigureName
    tier: Tier
    values: Annotated[list[float | bool | None], Meta(max_length=MOST)]


class FrontPoint(Record, frozen=True):
    """Memory and time of a plan, in the tiers `tiers`, which all plans share; `is_best` marks the Pareto front."""

    digest: Digest
    peak_bytes: float
    step_seconds: float
    tiers: list[Tier]
    is_best: bool


class MeasuredPoint(Record, frozen=True):
    digest: Digest
    predicted_seconds: float
    measured_seconds: float


class ComparisonRecord(Record, frozen=True):
    plans: Annotated[list[ComparedRecord], Meta(max_length=MOST)]
    differences: list[FactRow]
    alike: list[SharedFact]
    statements: Annotated[list[StatementRow], Meta(max_length=100_000)]
    figures: list[FigureRow]
    front: Annotated[list[FrontPoint], Meta(max_length=MOST)]
    measured: Annotated[list[MeasuredPoint], Meta(max_length=MOST)]


TierFigures = Mapping[str, Mapping[str, Any]]


ComparedNames = Annotated[list[PlanName], Meta(min_length=LEAST, max_length=MOST, description="digests or ids of entries, with commas")]


@action("plans.compare", "GET /projects/{project}/comparison", member(ProjectRole.VIEWER), "read")
def _compare(call: Call, plans: ComparedNames) -> ComparisonRecord:
    """Compare plans."""
    pairs = [plan_of_project(call.session, call.project.id, name) for name in plans]
    records = [_shown(call, plan, entry) for plan, entry in pairs]
    documents = [json.loads(plan.document) for plan, _ in pairs]
    digests, figures = [plan.digest for plan, _ in pairs], [record.figures for _, record in records]
    facts = list(_rows([dict(_facts(document)) for document in documents]))
    return ComparisonRecord(
        plans=[compared for compared, _ in records],
        differences=[FactRow(name=name, values=values) for name, values in facts if len(set(values)) > 1],
        alike=[SharedFact(name=name, value=str(values[0])) for name, values in facts if len(set(values)) == 1],
        statements=list(_statements(documents)),
        figures=list(_figure_rows(figures)),
        front=_front(digests, figures),
        measured=list(_measured(digests, figures)),
    )


def _shown(call: Call, plan: StoredPlan, entry: GalleryEntry | None) -> tuple[ComparedRecord, EntryRecord]:
    row = entry or GalleryEntry(
        id="none",
        project_id=call.project.id,
        digest=plan.digest,
        name=plan.digest[:12],
        note="",
        author_id=call.person.user_id,
        created=0.0,
    )
    record = entry_records(call.services, call.session, [row], set())[0]
    return ComparedRecord.of(record, entry=entry and entry.id, author=record.author if entry else None), record


def _facts(document: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    yield "program", document["program"]["target"]
    for name, value in document["program"].get("arguments", {}).items():
        yield f"argument `{name}`", json.dumps(value, ensure_ascii=False)
    yield "mesh", " ".join(f"{axis}:{size}" for axis, size in document["mesh"])
    for name, value in document.get("dims", {}).items():
        yield f"dimension `{name}`", str(value)
    for key in ("remat", "precision", "offload", "hardware", "axis_assignment", "pipeline"):
        if key in document:
            yield key.replace("_", " "), str(document[key])


def _rows(tables: Sequence[Mapping[str, str]]) -> Iterator[tuple[str, list[str | None]]]:
    for name in dict.fromkeys(name for table in tables for name in table):
        yield name, [table.get(name) for table in tables]


def _statements(documents: Sequence[Mapping[str, Any]]) -> Iterator[StatementRow]:
    for kind in _STATEMENTS:
        for subject, values in _rows([_stated(document["layout"].get(kind, {})) for document in documents]):
            yield StatementRow(kind=kind, subject=subject, values=values, differs=len(set(values)) > 1)


def _stated(part: Any) -> dict[str, str]:
    """Return the values of a layout section by subject; a group is keyed by its members."""
    if isinstance(part, Mapping):
        return {subject: str(value) for subject, value in part.items()}
    return {", ".join(places): "together" for places in part}


def _figure_rows(figures: Sequence[TierFigures]) -> Iterator[FigureRow]:
    for name in _FIGURES:
        for tier in TIERS:
            values = [by_tier.get(tier, {}).get(name) for by_tier in figures]
            if any(value is not None for value in values):
                yield FigureRow(name=name, tier=tier, values=values)


def _surest(figures: TierFigures, name: str, tiers: Sequence[str] = TIERS) -> tuple[float, str] | None:
    """Return a figure and its tier, from the most reliable of the given tiers that has it."""
    values = ((figures.get(tier, {}).get(name), tier) for tier in reversed(tiers))
    return next(((value, tier) for value, tier in values if value is not None), None)


def _front(digests: Sequence[str], figures: Sequence[TierFigures]) -> list[FrontPoint]:
    """Each figure has one tier for all plans: a predicted time must not beat a measured one."""
    tiers = [_shared_tier(figures, name) for name in ("peak_bytes", "step_seconds")]
    rows = [
        tuple(by_tier.get(tier, {}).get(name) for tier, name in zip(tiers, ("peak_bytes", "step_seconds"), strict=True))
        for by_tier in figures
    ]
    points = [(digest, (peak, step)) for digest, (peak, step) in zip(digests, rows, strict=True) if peak is not None and step is not None]
    return [
        FrontPoint(
            digest=digest,
            peak_bytes=point[0],
            step_seconds=point[1],
            tiers=tiers,
            is_best=not any(_beats(other, point) for _, other in points),
        )
        for digest, point in points
    ]


def _shared_tier(figures: Sequence[TierFigures], name: str) -> str:
    """Return the most reliable of the tiers in which the most plans have this figure."""
    return max(TIERS, key=lambda tier: (sum(by_tier.get(tier, {}).get(name) is not None for by_tier in figures), TIERS.index(tier)))


def _beats(one: tuple[float, float], other: tuple[float, float]) -> bool:
    return one[0] <= other[0] and one[1] <= other[1] and one != other


def _measured(digests: Sequence[str], figures: Sequence[TierFigures]) -> Iterator[MeasuredPoint]:
    for digest, by_tier in zip(digests, figures, strict=True):
        predicted, measured = _surest(by_tier, "step_seconds", TIERS[:-1]), _surest(by_tier, "step_seconds", TIERS[-1:])
        if isinstance(value := by_tier.get(TIERS[-1], {}).get("predicted_seconds"), int | float):
            predicted = value, TIERS[-1]  # predicted for the devices it ran on, which may differ from the plan's
        if predicted is not None and measured is not None:
            yield MeasuredPoint(digest=digest, predicted_seconds=predicted[0], measured_seconds=measured[0])
