"""What the last edit did to the key figures: differences of figures that one source computed, and whether their order is certain."""

from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

from workbench.hardware.hardware import Hardware
from workbench.reports.report import Report
from workbench.widgets.board.comparison_state import ComparisonState, comparison_state
from workbench.widgets.board.key_figures import figures
from workbench.widgets.board.tier_marks import Figure, mark_of, settles
from workbench.widgets.run.board_jobs import Jobs

MOST_PLANS = 8
"""Plans of the history whose figures are kept: after an undo the figures of an earlier tier are compared with those of the next edit."""
RECOMPUTING = {
    "text": "recomputing",
    "tone": "unsure",
    "note": "",
    "title": "The figure before is of another tier. The change is shown once this one is known to the same tier.",
}
INCOMPARABLE = {
    "text": "not comparable",
    "tone": "unsure",
    "note": "",
    "title": "The figure before is of another tier, and figures of two tiers are not subtracted.",
}


def figure_states(
    now: tuple[Figure, ...], before: Iterable[Figure] = (), earlier: Iterable[Figure] = (), *, is_settling: bool = False
) -> list[dict[str, Any]]:
    """The figures as JSON, each with its change. `before` are those of the plan before, of every tier that was known, and `earlier` those
    of this plan of lower tiers, the latest last; `is_settling` while figures of a higher tier are on their way."""
    old = {(figure.key, figure.source): figure for figure in before}
    own = tuple(earlier)[::-1]
    return [_state(figure, *_same_source(figure, own, old), is_settling=is_settling) for figure in now]


def _same_source(figure: Figure, own: Iterable[Figure], old: dict[tuple[str, str], Figure]) -> tuple[Figure | None, Figure | None]:
    """The figure of this plan and that of the plan before by one source, the present one if it has both; else an old one, or none."""
    for mine in (figure, *(each for each in own if each.key == figure.key)):
        if (found := old.get((mine.key, mine.source))) is not None:
            return mine, found
    return None, next((each for (key, _), each in old.items() if key == figure.key), None)


def _state(figure: Figure, mine: Figure | None, before: Figure | None, *, is_settling: bool) -> dict[str, Any]:
    if before is None:
        delta = None
    elif mine is None:
        delta = RECOMPUTING if is_settling and settles(figure.key) else INCOMPARABLE
    else:
        delta = _delta(figure, mine, before)
    return {
        "key": figure.key,
        "label": figure.label,
        "text": figure.show(figure.value),
        "title": figure.title,
        "note": figure.note,
        "tone": figure.tone,
        "parts": list(figure.parts),
        "apart": figure.apart,
        "limit": figure.limit,
        "tier": {**mark_of(figure.tier), "settles": settles(figure.key)},
        "range": figure.range,
        "tiers": list(figure.tiers),
        "delta": delta,
        "counted": figure.key == "sent",  # it keeps its line also while nothing changed
        "changes": list(_changes(mine, before)) if mine is not None and before is not None else [],
    }


def _delta(figure: Figure, mine: Figure, before: Figure) -> dict[str, str] | None:
    change = mine.value - before.value
    text = figure.show(abs(change))
    if not change or text == figure.show(0):
        return None
    is_sure = abs(change) > max(_width(mine), _width(before))
    of_tier = "" if mine.tier == figure.tier else f"as {mine.tier}"
    return {
        "text": f"{'−' if change < 0 else '+'}{text}",
        "tone": "unsure" if not is_sure else "good" if (change < 0) != figure.more_is_better else "bad",
        "note": ", ".join(filter(None, (of_tier, "" if is_sure else "not sure"))),
        "title": f"From {figure.show(before.value)} to {figure.show(mine.value)}, both {mine.tier}."
        + ("" if is_sure else " The range of a figure is wider than the change: which plan is better is not certain."),
    }


def _width(figure: Figure) -> float:
    return figure.bounds[1] - figure.bounds[0] if figure.bounds else 0.0


def _changes(figure: Figure, before: Figure) -> Iterator[dict[str, str]]:
    """`+2 all-gathers`: what the last edit added and removed."""
    for name in dict.fromkeys((*figure.counts, *before.counts)):
        change = figure.counts.get(name, 0) - before.counts.get(name, 0)
        if change:
            text = f"{'−' if change < 0 else '+'}{abs(change):,} {name}{'s' * (abs(change) != 1)}"
            yield {"text": text, "tone": "good" if change < 0 else "bad"}


class _Known(NamedTuple):
    """What is known of one plan of the history on one hardware: its figures by key and source, the latest last."""

    number: int
    hardware: Hardware | None
    figures: dict[tuple[str, str], Figure]


class FigureHistory:
    """The figures of the present plan and of the plan before, of every tier that was known of either. `comparison_state` compares the
    present ones with what was compiled and measured."""

    def __init__(self) -> None:
        self.now: tuple[Figure, ...] = ()
        self.comparison_state: ComparisonState | None = None
        self._plans: list[_Known] = []  # the present plan last
        self._before: dict[tuple[str, str], Figure] = {}

    def begin(self) -> None:
        """Another plan: the present figures become those of the plan before."""
        self._before = dict(self._plans[-1].figures)

    def forget(self) -> None:
        """Another program, whose figures are not compared with those of the last."""
        self._before, self._plans = {}, []

    def learn(self, number: int, report: Report, jobs: Jobs) -> None:
        """The figures of plan `number` of the history, compared with what was compiled and measured."""
        live = jobs.live
        self.comparison_state = comparison_state(report, jobs.compiling, live, self.comparison_state)
        ran, own = live.run_to_show(report.plan), live.of(report.plan)
        self.now = figures(report, self.comparison_state, ran.measurement if ran else None, stale=own is None)
        known = self._known(number, report.hardware)
        for figure in self.now:
            known.pop((figure.key, figure.source), None)  # the latest stands last
            known[figure.key, figure.source] = figure

    @property
    def before(self) -> tuple[Figure, ...]:
        """The figures of the plan before, of every tier."""
        return tuple(self._before.values())

    @property
    def earlier(self) -> tuple[Figure, ...]:
        """The figures of the present plan, of every tier."""
        return tuple(self._plans[-1].figures.values()) if self._plans else ()

    def _known(self, number: int, hardware: Hardware | None) -> dict[tuple[str, str], Figure]:
        found = next((each for each in self._plans if (each.number, each.hardware) == (number, hardware)), None)
        found = found or _Known(number, hardware, {})
        self._plans = [*(each for each in self._plans if each is not found), found][-MOST_PLANS:]
        return found.figures
