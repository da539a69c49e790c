"""Two to ten plans of a project beside each other: what differs, their statements aligned, their figures, and which are on the front of
memory and time. A list of values has one value a plan, in the order that was asked for; `null` is what a plan does not say."""

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from workbench.team.access import ProjectRole
from workbench.team.actions.action import Action, Call, member
from workbench.team.actions.entry_records import TIERS, entry_records
from workbench.team.actions.schemas import DIGEST, FLAG, ID, NUMBER, PERSON, PLAN, TEXT, Schema, list_of, one_of, or_none, record
from workbench.team.actions.visible_plans import plan_of_project
from workbench.team.store.tables import GalleryEntry, StoredPlan

LEAST, MOST = 2, 10
_FIGURES = ("peak_bytes", "sent_bytes", "step_seconds", "dollars", "fits")
_STATEMENTS = ("rules", "overrides", "constraints", "barriers")
_TEXTS = list_of(or_none(TEXT), MOST)
_FIGURE: Schema = {"anyOf": [NUMBER, FLAG, {"type": "null"}]}
_COMPARISON = record(
    {
        "plans": list_of(record({"digest": DIGEST, "entry": or_none(ID), "name": TEXT, "author": or_none(PERSON)}), MOST),
        "differences": list_of(record({"name": TEXT, "values": _TEXTS})),
        "alike": list_of(record({"name": TEXT, "value": TEXT})),
        "statements": list_of(record({"kind": TEXT, "subject": TEXT, "values": _TEXTS, "differs": FLAG}), 100_000),
        "figures": list_of(record({"name": one_of(*_FIGURES), "tier": one_of(*TIERS), "values": list_of(_FIGURE, MOST)})),
        "front": list_of(
            record({"digest": DIGEST, "peak_bytes": NUMBER, "step_seconds": NUMBER, "tiers": list_of(one_of(*TIERS)), "is_best": FLAG}),
            MOST,
        ),
        "measured": list_of(record({"digest": DIGEST, "predicted_seconds": NUMBER, "measured_seconds": NUMBER}), MOST),
    }
)

TierFigures = Mapping[str, Mapping[str, Any]]


def _compare(call: Call) -> dict[str, Any]:
    found = [plan_of_project(call.session, call.project.id, each) for each in call.query["plans"]]
    shown = [_shown(call, plan, entry) for plan, entry in found]
    documents = [json.loads(plan.document) for plan, _ in found]
    digests, figures = [plan.digest for plan, _ in found], [each["figures"] for each in shown]
    facts = list(_rows([dict(_facts(each)) for each in documents]))
    return {
        "plans": [{key: each[key] for key in ("digest", "entry", "name", "author")} for each in shown],
        "differences": [{"name": name, "values": values} for name, values in facts if len(set(values)) > 1],
        "alike": [{"name": name, "value": values[0]} for name, values in facts if len(set(values)) == 1],
        "statements": list(_statements(documents)),
        "figures": list(_figure_rows(figures)),
        "front": _front(digests, figures),
        "measured": list(_measured(digests, figures)),
    }


def _shown(call: Call, plan: StoredPlan, entry: GalleryEntry | None) -> dict[str, Any]:
    """A plan by the entry that it is in; one of a room or a job alone has its digest for a name."""
    stands_for = entry or GalleryEntry(
        id="none",
        project_id=call.project.id,
        digest=plan.digest,
        name=plan.digest[:12],
        note="",
        author_id=call.person.user_id,
        created=0.0,
    )
    found = entry_records(call.services, call.session, [stands_for], set())[0]
    return {**found, "entry": entry and entry.id, "author": found["author"] if entry else None}


def _facts(document: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """What a document says apart from its layout, a line a fact."""
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


def _statements(documents: Sequence[Mapping[str, Any]]) -> Iterator[dict[str, Any]]:
    for kind in _STATEMENTS:
        tables = [{subject: str(says) for subject, says in each["layout"].get(kind, {}).items()} for each in documents]
        for subject, values in _rows(tables):
            yield {"kind": kind, "subject": subject, "values": values, "differs": len(set(values)) > 1}
    groups = [{", ".join(places): "together" for places in each["layout"].get("groups", ())} for each in documents]
    for subject, values in _rows(groups):
        yield {"kind": "groups", "subject": subject, "values": values, "differs": len(set(values)) > 1}


def _figure_rows(figures: Sequence[TierFigures]) -> Iterator[dict[str, Any]]:
    for name in _FIGURES:
        for tier in TIERS:
            values = [each.get(tier, {}).get(name) for each in figures]
            if any(value is not None for value in values):
                yield {"name": name, "tier": tier, "values": values}


def _surest(figures: TierFigures, name: str, tiers: Sequence[str] = TIERS) -> tuple[float, str] | None:
    """A figure as the surest of these tiers has it."""
    found = ((figures.get(tier, {}).get(name), tier) for tier in reversed(tiers))
    return next(((value, tier) for value, tier in found if value is not None), None)


def _front(digests: Sequence[str], figures: Sequence[TierFigures]) -> list[dict[str, Any]]:
    """The plans whose memory and time are known; the best are those that no other beats in one without losing in the other."""
    known = [(digest, _surest(each, "peak_bytes"), _surest(each, "step_seconds")) for digest, each in zip(digests, figures, strict=True)]
    points = [(digest, peak, step) for digest, peak, step in known if peak is not None and step is not None]
    return [
        {
            "digest": digest,
            "peak_bytes": peak[0],
            "step_seconds": step[0],
            "tiers": [peak[1], step[1]],
            "is_best": not any(_beats((one[0], two[0]), (peak[0], step[0])) for _, one, two in points),
        }
        for digest, peak, step in points
    ]


def _beats(one: tuple[float, float], other: tuple[float, float]) -> bool:
    return one[0] <= other[0] and one[1] <= other[1] and one != other


def _measured(digests: Sequence[str], figures: Sequence[TierFigures]) -> Iterator[dict[str, Any]]:
    for digest, each in zip(digests, figures, strict=True):
        predicted, measured = _surest(each, "step_seconds", TIERS[:-1]), _surest(each, "step_seconds", TIERS[-1:])
        if isinstance(own := each.get(TIERS[-1], {}).get("predicted_seconds"), int | float):
            predicted = own, TIERS[-1]  # of the devices that it ran on, whatever the plan is for
        if predicted is not None and measured is not None:
            yield {"digest": digest, "predicted_seconds": predicted[0], "measured_seconds": measured[0]}


ACTIONS = (
    Action(
        "plans.compare",
        "GET",
        "/projects/{project}/comparison",
        "Set plans side by side",
        member(ProjectRole.VIEWER),
        "read",
        _COMPARISON,
        _compare,
        query={"plans": {**list_of(PLAN, MOST, LEAST), "description": "digests or ids of entries, with commas"}},
        required=("plans",),
    ),
)
