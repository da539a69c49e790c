"""Prepare the answer of `plans.compare` for the page: rows of figures, facts and statements, with a column per plan.

**Invariants**

- The best figure is chosen within one tier only: measured times are not compared with predicted ones.
- A row differs unless all plans have the same value; a missing value differs from any value.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from string import ascii_uppercase
from typing import Any

from workbench.team.actions.entry_records import TIERS
from workbench.team.pages.page_words import TIER_NAMES, write_ratio
from workbench.team.pages.plan_cards import FIGURE_KINDS, FigureKind
from workbench.team.pages.plan_charts import ChartPoint

_KINDS = {kind.key: kind for kind in FIGURE_KINDS}
_EQUAL = 1e-9
Answer = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class ComparedValue:
    """A plan's value in a row. `beside` is the distance from the best; an empty `text` is a missing value."""

    text: str
    beside: str = ""
    is_best: bool = False


@dataclass(frozen=True, slots=True)
class ComparedRow:
    name: str
    values: tuple[ComparedValue, ...]
    tier: str = ""
    is_code: bool = False

    @property
    def differs(self) -> bool:
        return len({value.text for value in self.values}) > 1


@dataclass(frozen=True, slots=True)
class ComparedGroup:
    title: str
    rows: tuple[ComparedRow, ...]


@dataclass(frozen=True, slots=True)
class ComparedPlans:
    plans: tuple[Answer, ...]  # columns: the plan's record and its `letter`
    groups: tuple[ComparedGroup, ...]
    memory_by_time: tuple[ChartPoint, ...]
    predicted_by_measured: tuple[ChartPoint, ...]
    front_tiers: tuple[str, ...] = ()  # names of the tiers of memory and step time in `memory_by_time`

    def only_differences(self) -> tuple[ComparedGroup, ...]:
        """Return the groups without rows that are equal in all plans; figures are kept."""
        filtered = ((group.title, tuple(row for row in group.rows if row.differs or row.tier)) for group in self.groups)
        return tuple(ComparedGroup(title, rows) for title, rows in filtered if rows)

    @property
    def same_rows(self) -> int:
        return sum(len(group.rows) for group in self.groups) - sum(len(group.rows) for group in self.only_differences())


def read_comparison(answer: Answer) -> ComparedPlans:
    count = len(answer["plans"])
    plans = tuple({"letter": letter, **plan} for letter, plan in zip(ascii_uppercase, answer["plans"], strict=False))
    groups = (("Figures", _figure_rows(answer)), ("Plan", _fact_rows(answer, count)), ("Layout", _statement_rows(answer)))
    all_groups = tuple(ComparedGroup(title, tuple(rows)) for title, rows in groups)
    tiers = tuple(TIER_NAMES[tier] for point in answer["front"][:1] for tier in point["tiers"])
    return ComparedPlans(plans, tuple(group for group in all_groups if group.rows), *_points(answer, plans), tiers)


def _points(answer: Answer, plans: Sequence[Answer]) -> tuple[tuple[ChartPoint, ...], tuple[ChartPoint, ...]]:
    by_digest = {plan["digest"]: plan for plan in reversed(plans)}
    unfit = {plan["digest"] for plan, fits in zip(plans, _fits(answer, len(plans)), strict=True) if fits is False}
    front = [(by_digest[row["digest"]], row["step_seconds"], row["peak_bytes"]) for row in answer["front"]]
    measured = [(by_digest[row["digest"]], row["predicted_seconds"], row["measured_seconds"]) for row in answer["measured"]]
    return tuple(_point(*row, unfit) for row in front if min(row[1:]) > 0), tuple(
        _point(*row, set()) for row in measured if min(row[1:]) > 0
    )


def _point(plan: Answer, across: float, up: float, unfit: set[str]) -> ChartPoint:
    return ChartPoint(plan["letter"], plan["name"], across, up, plan["digest"] not in unfit)


def _figure_rows(answer: Answer) -> Iterator[ComparedRow]:
    rows = sorted((row for row in answer["figures"] if row["name"] in _KINDS), key=_place)
    for row in rows:
        kind = _KINDS[row["name"]]
        yield ComparedRow(f"{kind.name}, {TIER_NAMES[row['tier']]}", _values_of(row["values"], kind), row["tier"])
    fits = _fits(answer, len(answer["plans"]))
    if any(value is not None for value in fits):
        yield ComparedRow("Fits its devices", tuple(ComparedValue({True: "yes", False: "no", None: ""}[value]) for value in fits))
    if answer["measured"]:
        errors = {row["digest"]: _error_text(row["predicted_seconds"], row["measured_seconds"]) for row in answer["measured"]}
        yield ComparedRow("Measured step", tuple(ComparedValue(errors.get(plan["digest"], "")) for plan in answer["plans"]))


def _place(row: Answer) -> tuple[int, int]:
    return list(_KINDS).index(row["name"]), -TIERS.index(row["tier"])


def _fits(answer: Answer, count: int) -> list[bool | None]:
    fits: list[bool | None] = [None] * count
    rows = sorted((figure for figure in answer["figures"] if figure["name"] == "fits"), key=lambda figure: TIERS.index(figure["tier"]))
    for row in rows:
        fits = [previous if value is None else value for previous, value in zip(fits, row["values"], strict=True)]
    return fits


def _values_of(figures: Sequence[float | None], kind: FigureKind) -> tuple[ComparedValue, ...]:
    values = [figure for figure in figures if figure is not None]
    best = min(values)
    some_worse = max(values) > best * (1 + _EQUAL)
    return tuple(ComparedValue("") if figure is None else _value_of(figure, best, some_worse, kind) for figure in figures)


def _value_of(value: float, best: float, some_worse: bool, kind: FigureKind) -> ComparedValue:
    is_best = value <= best * (1 + _EQUAL)
    beside = "" if is_best or not best else write_ratio(value / best)
    return ComparedValue(kind.write(value), beside, is_best and some_worse)


def _error_text(predicted: float, measured: float) -> str:
    """
    >>> _error_text(1.0, 1.25), _error_text(1.0, 0.9), _error_text(0.0, 1.0)
    ('25 % slower than predicted', '10 % faster than predicted', '')
    """
    if predicted <= 0:
        return ""
    off = measured / predicted - 1
    return "as predicted" if abs(off) < 0.005 else f"{abs(off) * 100:.0f} % {'slower' if off > 0 else 'faster'} than predicted"


def _fact_rows(answer: Answer, count: int) -> Iterator[ComparedRow]:
    for fact in answer["differences"]:
        yield ComparedRow(_fact_name(fact["name"]), tuple(ComparedValue(value or "") for value in fact["values"]), is_code=True)
    for fact in answer["alike"]:
        yield ComparedRow(_fact_name(fact["name"]), (ComparedValue(fact["value"]),) * count, is_code=True)


def _fact_name(name: str) -> str:
    return (name[0].upper() + name[1:]).replace("`", "")


def _statement_rows(answer: Answer) -> Iterator[ComparedRow]:
    for statement in answer["statements"]:
        name = (
            statement["subject"]
            if statement["kind"] in ("rules", "overrides")
            else f"{statement['kind'].removesuffix('s')} {statement['subject']}"
        )
        yield ComparedRow(name, tuple(ComparedValue(value or "") for value in statement["values"]), is_code=True)
