"""Changes of the key figures after an edit: differences of figures from one source, and whether their sign is certain."""

from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

from workbench.hardware.hardware import Hardware
from workbench.reports.report import Report
from workbench.widgets.board.comparison_state import ComparisonState, comparison_state
from workbench.widgets.board.key_figures import figures
from workbench.widgets.board.tier_marks import Figure, mark_of, settles
from workbench.widgets.run.board_jobs import Jobs

MOST_PLANS = 8
"""Plans of the history whose figures are kept, so that figures of an earlier tier can be compared after an undo."""
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
    """Return the figures as JSON, each with its change.

    `before`: figures of the previous plan, of every tier; `earlier`: lower-tier figures of this plan, the latest last;
    `is_settling`: figures of a higher tier are being computed.
    """
    old = {(figure.key, figure.source): figure for figure in before}
    latest_first = tuple(earlier)[::-1]
    return [_state(figure, *_same_source(figure, latest_first, old), is_settling=is_settling) for figure in now]


def _same_source(figure: Figure, own: Iterable[Figure], old: dict[tuple[str, str], Figure]) -> tuple[Figure | None, Figure | None]:
    """Return figures of this and the previous plan by one source, else only an old figure."""
    for mine in (figure, *(candidate for candidate in own if candidate.key == figure.key)):
        if (previous := old.get((mine.key, mine.source))) is not None:
            return mine, previous
    return None, next((candidate for (key, _), candidate in old.items() if key == figure.key), None)


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
        "counted": figure.key == "sent",  # keeps its line even if nothing changed
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
    for name in dict.fromkeys((*figure.counts, *before.counts)):
        change = figure.counts.get(name, 0) - before.counts.get(name, 0)
        if change:
            text = f"{'−' if change < 0 else '+'}{abs(change):,} {name}{'s' * (abs(change) != 1)}"
            yield {"text": text, "tone": "good" if change < 0 else "bad"}


class _Known(NamedTuple):
    """Figures of one plan of the history on one hardware by key and source, the latest last."""

    number: int
    hardware: Hardware | None
    figures: dict[tuple[str, str], Figure]


class FigureHistory:
    """The figures of the present and the previous plan, of every known tier."""

    def __init__(self) -> None:
        self.now: tuple[Figure, ...] = ()
        self.comparison_state: ComparisonState | None = None
        self._plans: list[_Known] = []  # the present plan last
        self._before: dict[tuple[str, str], Figure] = {}

    def begin(self) -> None:
        """Start another plan: the present figures become those of the previous plan."""
        self._before = dict(self._plans[-1].figures)

    def forget(self) -> None:
        """Start another program, whose figures are not comparable with the last."""
        self._before, self._plans = {}, []

    def learn(self, number: int, report: Report, jobs: Jobs) -> None:
        """Record the figures of plan `number` of the history, compared with compiled and measured results."""
        live = jobs.live
        self.comparison_state = comparison_state(report, jobs.compiling, live, self.comparison_state)
        ran, own_run = live.run_to_show(report.plan), live.of(report.plan)
        self.now = figures(report, self.comparison_state, ran.measurement if ran else None, stale=own_run is None)
        stored = self._known(number, report.hardware)
        for figure in self.now:
            stored.pop((figure.key, figure.source), None)  # keep the latest last
            stored[figure.key, figure.source] = figure

    @property
    def before(self) -> tuple[Figure, ...]:
        return tuple(self._before.values())

    @property
    def earlier(self) -> tuple[Figure, ...]:
        return tuple(self._plans[-1].figures.values()) if self._plans else ()

    def _known(self, number: int, hardware: Hardware | None) -> dict[tuple[str, str], Figure]:
        match = next((entry for entry in self._plans if (entry.number, entry.hardware) == (number, hardware)), None)
        match = match or _Known(number, hardware, {})
        self._plans = [*(entry for entry in self._plans if entry is not match), match][-MOST_PLANS:]
        return match.figures
