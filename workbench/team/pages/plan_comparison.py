"""Plans beside each other as a page shows them, from what `plans.compare` answers: rows of figures, facts and statements, a column a plan.

**Invariants**

- A figure is the best only among figures of its own tier: a measured time is not held against a predicted one.
- A row differs if not all plans say the same in it; what a plan does not have is not the same as anything.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from string import ascii_uppercase
from typing import Any

from workbench.team.actions.entry_records import TIERS
from workbench.team.pages.page_words import TIER_NAMES
from workbench.team.pages.plan_cards import FIGURE_KINDS, FigureKind
from workbench.team.pages.plan_charts import ChartPoint

_KINDS = {each.key: each for each in FIGURE_KINDS}
_EQUAL = 1e-9
Answer = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class ComparedValue:
    """What one plan has in a row. `beside` says how far it is from the best; an empty `text` says that it has nothing there."""

    text: str
    beside: str = ""
    is_best: bool = False


@dataclass(frozen=True, slots=True)
class ComparedRow:
    """One row: its name, the tier of its figures if it has figures, and a value a plan."""

    name: str
    values: tuple[ComparedValue, ...]
    tier: str = ""
    is_code: bool = False

    @property
    def differs(self) -> bool:
        return len({each.text for each in self.values}) > 1


@dataclass(frozen=True, slots=True)
class ComparedGroup:
    """Rows under a heading."""

    title: str
    rows: tuple[ComparedRow, ...]


@dataclass(frozen=True, slots=True)
class ComparedPlans:
    """The whole comparison, and what its two pictures show."""

    plans: tuple[Answer, ...]  # a column each: what the answer has of it, and its `letter`
    groups: tuple[ComparedGroup, ...]
    memory_by_time: tuple[ChartPoint, ...]
    predicted_by_measured: tuple[ChartPoint, ...]

    def only_differences(self) -> tuple[ComparedGroup, ...]:
        """The groups without the rows in which all plans say the same; figures stay, for they are what plans are compared for."""
        kept = ((each.title, tuple(row for row in each.rows if row.differs or row.tier)) for each in self.groups)
        return tuple(ComparedGroup(title, rows) for title, rows in kept if rows)

    @property
    def same_rows(self) -> int:
        """How many rows `only_differences` leaves out."""
        return sum(len(each.rows) for each in self.groups) - sum(len(each.rows) for each in self.only_differences())


def read_comparison(answer: Answer) -> ComparedPlans:
    """All that there is to say of these plans beside each other."""
    count = len(answer["plans"])
    plans = tuple({"letter": letter, **each} for letter, each in zip(ascii_uppercase, answer["plans"], strict=False))
    groups = (("Figures", _figure_rows(answer)), ("Plan", _fact_rows(answer, count)), ("Layout", _statement_rows(answer)))
    shown = tuple(ComparedGroup(title, tuple(rows)) for title, rows in groups)
    return ComparedPlans(plans, tuple(each for each in shown if each.rows), *_points(answer, plans))


def _points(answer: Answer, plans: Sequence[Answer]) -> tuple[tuple[ChartPoint, ...], tuple[ChartPoint, ...]]:
    named = {each["digest"]: each for each in reversed(plans)}
    unfit = {plan["digest"] for plan, fits in zip(plans, _fits(answer, len(plans)), strict=True) if fits is False}
    front = [(named[each["digest"]], each["step_seconds"], each["peak_bytes"]) for each in answer["front"]]
    measured = [(named[each["digest"]], each["predicted_seconds"], each["measured_seconds"]) for each in answer["measured"]]
    return tuple(_point(*each, unfit) for each in front if min(each[1:]) > 0), tuple(
        _point(*each, set()) for each in measured if min(each[1:]) > 0
    )


def _point(plan: Answer, across: float, up: float, unfit: set[str]) -> ChartPoint:
    return ChartPoint(plan["letter"], plan["name"], across, up, plan["digest"] not in unfit)


def _figure_rows(answer: Answer) -> Iterator[ComparedRow]:
    """A row a figure and tier that any of the plans has; then whether they fit, and how far off the predictions were."""
    rows = sorted((each for each in answer["figures"] if each["name"] in _KINDS), key=_place)
    for each in rows:
        kind = _KINDS[each["name"]]
        yield ComparedRow(f"{kind.name}, {TIER_NAMES[each['tier']]}", _values_of(each["values"], kind), each["tier"])
    fits = _fits(answer, len(answer["plans"]))
    if any(each is not None for each in fits):
        yield ComparedRow("Fits its devices", tuple(ComparedValue({True: "yes", False: "no", None: ""}[each]) for each in fits))
    if answer["measured"]:
        errors = {each["digest"]: _error_text(each["predicted_seconds"], each["measured_seconds"]) for each in answer["measured"]}
        yield ComparedRow("Measured step", tuple(ComparedValue(errors.get(each["digest"], "")) for each in answer["plans"]))


def _place(row: Answer) -> tuple[int, int]:
    """Figures in their order, each by the surest tier first."""
    return list(_KINDS).index(row["name"]), -TIERS.index(row["tier"])


def _fits(answer: Answer, count: int) -> list[bool | None]:
    """Whether each fits, as the surest tier that says so says it."""
    found: list[bool | None] = [None] * count
    rows = sorted((each for each in answer["figures"] if each["name"] == "fits"), key=lambda each: TIERS.index(each["tier"]))
    for row in rows:
        found = [before if value is None else value for before, value in zip(found, row["values"], strict=True)]
    return found


def _values_of(figures: Sequence[float | None], kind: FigureKind) -> tuple[ComparedValue, ...]:
    """The best is marked where there is another figure that is worse."""
    values = [each for each in figures if each is not None]
    best = min(values)
    some_worse = max(values) > best * (1 + _EQUAL)
    return tuple(ComparedValue("") if each is None else _value_of(each, best, some_worse, kind) for each in figures)


def _value_of(value: float, best: float, some_worse: bool, kind: FigureKind) -> ComparedValue:
    is_best = value <= best * (1 + _EQUAL)
    beside = "" if is_best or not best else _more_text(value / best)
    return ComparedValue(kind.write(value), beside, is_best and some_worse)


def _more_text(ratio: float) -> str:
    """
    >>> _more_text(1.124), _more_text(3.2), _more_text(1.0004), _more_text(600.4)
    ('+12 %', '3.2 ×', '+0.04 %', '600 ×')
    """
    if ratio >= 10:
        return f"{ratio:,.0f} ×"
    return f"{ratio:.2g} ×" if ratio >= 2 else f"+{(ratio - 1) * 100:.{0 if ratio >= 1.1 else 1 if ratio >= 1.01 else 2}f} %"


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
    for each in answer["differences"]:
        yield ComparedRow(_fact_name(each["name"]), tuple(ComparedValue(value or "") for value in each["values"]), is_code=True)
    for each in answer["alike"]:
        yield ComparedRow(_fact_name(each["name"]), (ComparedValue(each["value"]),) * count, is_code=True)


def _fact_name(name: str) -> str:
    return (name[0].upper() + name[1:]).replace("`", "")


def _statement_rows(answer: Answer) -> Iterator[ComparedRow]:
    """What each plan says of each subject; a subject that a plan leaves out is empty there."""
    for each in answer["statements"]:
        name = each["subject"] if each["kind"] in ("rules", "overrides") else f"{each['kind'].removesuffix('s')} {each['subject']}"
        yield ComparedRow(name, tuple(ComparedValue(value or "") for value in each["values"]), is_code=True)
