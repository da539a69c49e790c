"""Plans beside each other: rows of figures, facts and statements, one column a plan.

**Invariants**

- A figure is the best only among figures of its own tier: a measured time is not held against a predicted one.
- A row differs if not all plans say the same in it; what a plan does not have is not the same as anything.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from workbench.team.pages.page_words import TIER_NAMES, TIERS
from workbench.team.pages.plan_cards import FIGURE_KINDS, FigureKind, KnownFigure, PlanCard, letters_of, measured_step, predicted_step
from workbench.team.pages.plan_charts import ChartPoint

LEAST, MOST = 2, 10
_SUBJECT = re.compile(r"(?P<subject>(?:group|barrier)\s*\[[^\]]*\]|[^\s:=@\[\]]+)\s*(?P<says>.*)", re.DOTALL)
_EQUAL = 1e-9


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
    """The whole comparison; plan number `i` is named by letter `letters[i]` in its pictures."""

    cards: tuple[PlanCard, ...]
    groups: tuple[ComparedGroup, ...]

    @property
    def letters(self) -> Sequence[str]:
        return letters_of(len(self.cards))

    def only_differences(self) -> tuple[ComparedGroup, ...]:
        """The groups without the rows in which all plans say the same; figures stay, for they are what plans are compared for."""
        kept = ((each.title, tuple(row for row in each.rows if row.differs or row.tier)) for each in self.groups)
        return tuple(ComparedGroup(title, rows) for title, rows in kept if rows)

    @property
    def same_rows(self) -> int:
        """How many rows `only_differences` leaves out."""
        return sum(len(each.rows) for each in self.groups) - sum(len(each.rows) for each in self.only_differences())

    def memory_by_time(self) -> list[ChartPoint]:
        """The plans whose memory and time are both known, each by its best tier."""
        return list(self._points(0, 1))

    def predicted_by_measured(self) -> list[ChartPoint]:
        """The plans that were predicted and measured."""
        pairs = ((letter, card, predicted_step(card), measured_step(card)) for letter, card in zip(self.letters, self.cards, strict=True))
        return [ChartPoint(letter, card.name, a.value, b.value) for letter, card, a, b in pairs if a and b and a.value > 0 and b.value > 0]

    def _points(self, across: int, up: int) -> Iterator[ChartPoint]:
        for letter, card in zip(self.letters, self.cards, strict=True):
            x, y = card.known(FIGURE_KINDS[across]), card.known(FIGURE_KINDS[up])
            if x and y and x.value > 0 and y.value > 0:
                yield ChartPoint(letter, card.name, x.value, y.value, card.fits is None or card.fits[0])


def compare_cards(cards: Sequence[PlanCard]) -> ComparedPlans:
    """All that there is to say of these plans beside each other."""
    groups = (("Figures", _figure_rows(cards)), ("Plan", _fact_rows(cards)), ("Layout", _statement_rows(cards)))
    return ComparedPlans(tuple(cards), tuple(ComparedGroup(title, tuple(rows)) for title, rows in groups))


def split_statement(statement: str) -> tuple[str, str]:
    """What a statement is about, and what it says of that.

    >>> split_statement("d_ff:model"), split_statement("params/w1=[data, None]"), split_statement("group [a, b]")
    (('d_ff', ':model'), ('params/w1', '=[data, None]'), ('group [a, b]', ''))
    """
    found = _SUBJECT.fullmatch(statement)
    return (found["subject"], found["says"]) if found else (statement, "")


def _figure_rows(cards: Sequence[PlanCard]) -> Iterator[ComparedRow]:
    """A row a figure and tier that any of the plans has; then whether they fit, and how far off the predictions were."""
    for kind in FIGURE_KINDS:
        for tier in reversed(TIERS):
            figures = [card.of_tier(kind, tier) for card in cards]
            if any(figures):
                yield ComparedRow(f"{kind.name}, {TIER_NAMES[tier]}", _values_of(figures, kind), tier)
    yield ComparedRow("Fits", tuple(ComparedValue(_fits_text(card)) for card in cards))
    errors = [_error_text(card) for card in cards]
    if any(errors):
        yield ComparedRow("Measured against predicted", tuple(map(ComparedValue, errors)))


def _values_of(figures: Sequence[KnownFigure | None], kind: FigureKind) -> tuple[ComparedValue, ...]:
    """The best is marked where there is another figure that is worse."""
    values = [each.value for each in figures if each]
    best = min(values)
    some_worse = max(values) > best * (1 + _EQUAL)
    return tuple(_value_of(each.value, best, some_worse, kind) if each else ComparedValue("") for each in figures)


def _value_of(value: float, best: float, some_worse: bool, kind: FigureKind) -> ComparedValue:
    is_best = value <= best * (1 + _EQUAL)
    beside = "" if is_best or not best else _more_text(value / best)
    return ComparedValue(kind.write(value), "best" if is_best and some_worse else beside, is_best and some_worse)


def _more_text(ratio: float) -> str:
    """
    >>> _more_text(1.124), _more_text(3.2), _more_text(1.0004)
    ('+12 %', '3.2 ×', '+0.04 %')
    """
    return f"{ratio:.2g} ×" if ratio >= 2 else f"+{(ratio - 1) * 100:.{0 if ratio >= 1.1 else 1 if ratio >= 1.01 else 2}f} %"


def _error_text(card: PlanCard) -> str:
    predicted, measured = predicted_step(card), measured_step(card)
    if not (predicted and measured and predicted.value > 0):
        return ""
    off = measured.value / predicted.value - 1
    return "as predicted" if abs(off) < 0.005 else f"{abs(off) * 100:.0f} % {'slower' if off > 0 else 'faster'}"


def _fits_text(card: PlanCard) -> str:
    return "" if card.fits is None else "yes" if card.fits[0] else "no"


def _fact_rows(cards: Sequence[PlanCard]) -> Iterator[ComparedRow]:
    facts = (
        ("Model", [card.target for card in cards], True),
        ("Mesh", [card.mesh for card in cards], True),
        ("Devices", [f"{card.devices:,}" for card in cards], False),
        ("Hardware", [card.hardware for card in cards], False),
        ("Author", [card.author for card in cards], False),
        ("Note", [card.note for card in cards], False),
    )
    for name, texts, is_code in facts:
        if any(texts):
            yield ComparedRow(name, tuple(map(ComparedValue, texts)), is_code=is_code)


def _statement_rows(cards: Sequence[PlanCard]) -> Iterator[ComparedRow]:
    """What each plan says of each subject, in the order in which the plans name them; a subject that a plan leaves out is empty there."""
    says = [dict(map(split_statement, card.statements)) for card in cards]
    for subject in dict.fromkeys(subject for each in says for subject in each):
        values = (ComparedValue(f"{subject}{each[subject]}" if subject in each else "") for each in says)
        yield ComparedRow(subject, tuple(values), is_code=True)
