"""A search as text: the front, the proof, where the present plan stands, ledgers and counterfactuals."""

from collections.abc import Sequence

from workbench.search.clashes import Clash
from workbench.search.explain import Counterfactual, Ledger
from workbench.search.figures import NOMINAL_SECONDS, Figures
from workbench.search.requirements import Requirement
from workbench.search.search_result import SearchResult
from workbench.search.search_state import SearchState
from workbench.core.text_tables import pairs_text, table_text, wrap_text
from workbench.units import format_bytes, format_dollars, format_seconds

MOST_ROWS = 12
_TWICE = 2.0  # from so many times the best on, the comparison is in times
_ALIKE = 0.0005  # a share that is none
_ROUND = 0.0995  # a share from which on it has no decimals
_WORDS = {
    "seconds": ("slower", "faster", "as fast as", "the step time"),
    "memory": ("more memory", "less memory", "as little memory as", "the memory"),
    "devices": ("more devices", "fewer devices", "as few devices as", "the devices"),
    "dollars": ("dearer", "cheaper", "as cheap as", "the cost"),
}
"""Of each objective: more of it, less of it, as much of it, and its name."""


def search_text(result: SearchResult) -> str:
    """The front as a table, the state of the proof, and the space in words."""
    state, requirements = result.state, ", ".join(map(str, result.requirements)) or "none"
    facts = pairs_text(
        [
            ("found in", format_seconds(state.elapsed), f"{state.evaluated:,} planned, {state.bounded:,} known by their bounds"),
            ("the best is", *_proof_cells(state)),
            ("to keep", f"{len(result.requirements)}", requirements),
            *_present_facts(result),
        ]
    )
    body = front_text(result) if result.front else wrap_text(str(result.no_plan_error()))
    nominal = [] if all(hardware for hardware, _ in result.space.hardware) else [wrap_text(NOMINAL_SECONDS)]
    return "\n\n".join([body, facts, *nominal, *_unanswered(state), wrap_text(f"Space: {result.space.describe()}.")])


def _proof_cells(state: SearchState) -> tuple[str, str]:
    """Whether it is proved, and what else is to say."""
    if state.best is None:
        return "none", state.status
    if state.is_proved:
        return "proved", "and the front with it" if state.is_complete else "the front may yet gain plans"
    if not state.least:
        return "open", state.status
    return (f"within {state.gap:.1%}", "of what no plan can beat") if state.gap else ("proved", state.status.removeprefix("proved, "))


def _present_facts(result: SearchResult) -> list[tuple[str, str, str]]:
    """Where the plan that the search started from stands."""
    if result.present is None:
        return []
    best = result.state.best and result.state.best[1]
    figures = result.present.figures
    against_best = against_best_text(figures, best, result.state.objective, result.requirements)
    return [
        ("the present plan", format_seconds(figures.seconds), ", ".join(filter(None, (format_bytes(int(figures.memory)), against_best))))
    ]


def present_text(present: Figures, best: Figures | None, objective: str, requirements: Sequence[Requirement]) -> str:
    """`12.3 s, 41.0 GiB: 18% slower than the best found`: a plan's figures, and where they stand."""
    return ": ".join(filter(None, (figures_text(present), against_best_text(present, best, objective, requirements))))


def against_best_text(present: Figures, best: Figures | None, objective: str, requirements: Sequence[Requirement]) -> str:
    """Where figures stand against the best found, and which requirements on figures they do not keep.

    >>> against_best_text(Figures(1.18, 8), Figures(1.0, 9), "seconds", ())
    '18% slower than the best found'
    >>> against_best_text(Figures(3.4, 8), Figures(1.0, 9), "seconds", ())
    '3.4 times the step time of the best found'
    """
    broken = [f"`{each}`" for each in requirements if not each.allows_figures(present)]
    parts = [_compare(present, best, objective)] if best else []
    parts += [f"it does not keep {' and '.join(broken)}"] if broken else []
    return "; ".join(parts)


def _compare(present: Figures, best: Figures, objective: str) -> str:
    """How much more of the objective than the best; of the step time, where no price is known."""
    name = objective if getattr(present, objective) and getattr(best, objective) else "seconds"
    more, less, same, noun = _WORDS[name]
    ratio = getattr(present, name) / getattr(best, name)
    if ratio >= _TWICE:
        return f"{ratio:,.3g} times {noun} of the best found" if ratio < 1000 else f"{ratio:,.0f} times {noun} of the best found"
    share = abs(ratio - 1)
    if share < _ALIKE:
        return "as good as the best found" if present.dominates(best) else f"{same} the best found"
    return f"{share:.{0 if share >= _ROUND else 1}%} {more if ratio > 1 else less} than the best found"


def _unanswered(state: SearchState) -> list[str]:
    """What a worker died of, so that what lies behind it is not known."""
    if not state.unanswered:
        return []
    count = len(state.unanswered)
    what = "1 question was" if count == 1 else f"{count:,} questions were"
    return [wrap_text(f"{what} not answered, and better plans may lie behind. {state.unanswered[0]}")]


def front_text(result: SearchResult) -> str:
    """The plans that none beats, the fastest first; with their devices where there are several numbers to choose from."""
    shown = result.front[:MOST_ROWS]
    has_price, has_devices = any(figures.dollars is not None for _, figures in shown), len(result.space.hardware) > 1
    columns = ["step>", "memory>", *(["devices>"] if has_devices else []), *(["1,000 steps>"] if has_price else [])]
    rows = [
        (str(number), *_figure_cells(figures, has_devices=has_devices, has_price=has_price), str(candidate))
        for number, (candidate, figures) in enumerate(shown)
    ]
    more = f"\n … and {len(result.front) - len(shown)} more" if len(result.front) > len(shown) else ""
    return table_text(["", *columns, "plan~"], rows) + more


def progress_text(state: SearchState) -> str:
    """One line: `12.4 s · 6.02 s, 34.8 GiB · 3 on the front · within 4.0% of what no plan can beat`; with devices where they count."""
    devices = f"{state.best[1].devices:,} devices, " if state.best and state.objective == "devices" else ""
    best = f"{devices}{figures_text(state.best[1])} · {len(state.front)} on the front · " if state.best else ""
    return f"{format_seconds(state.elapsed)} · {best}{state.status}"


def figures_text(figures: Figures) -> str:
    """`6.02 s, 34.8 GiB`, with the dollars of 1,000 steps where a price is known."""
    dollars = "" if figures.dollars is None else f", {format_dollars(figures.dollars)} for 1,000 steps"
    return f"{format_seconds(figures.seconds)}, {format_bytes(int(figures.memory))}{dollars}"


def ledger_text(ledger: Ledger) -> str:
    """The way from one plan to another, line by line, with both ends."""
    rows = [(_line_text(each.before, each.after), _signed(each.seconds, "s"), _signed(each.memory, "B")) for each in ledger.lines]
    ends = [
        ("from " + str(ledger.start), format_seconds(ledger.start_figures.seconds), format_bytes(int(ledger.start_figures.memory))),
        *rows,
        ("to " + str(ledger.end), format_seconds(ledger.end_figures.seconds), format_bytes(int(ledger.end_figures.memory))),
    ]
    return table_text(["decision~", "step>", "memory>"], ends)


def counterfactual_text(each: Counterfactual, base: Figures) -> str:
    """`with ZeRO 1 instead of ZeRO 3: +12 ms, +9.1 GiB`; or why it is no plan, or what it breaks."""
    if each.figures is None:
        return f"with {each.change}: no plan. {each.reason}"
    change = f"{_signed(each.figures.seconds - base.seconds, 's')}, {_signed(each.figures.memory - base.memory, 'B')}"
    broken = f"; it does not keep {' and '.join(each.breaks)}" if each.breaks else ""
    return f"with {each.change}: {change}{broken}"


def clash_text(clash: Clash) -> str:
    """What clashes, and what would help."""
    if not clash.requirements:
        return "Nothing clashes."
    lines = [f"No plan keeps {' and '.join(f'`{each}`' for each in clash.requirements)}."]
    lines += [f"With `{each.weakened}` there is {each.candidate}: {figures_text(each.figures)}." for each in clash.relaxations]
    return "\n".join(wrap_text(line) for line in lines)


def _figure_cells(figures: Figures, *, has_devices: bool, has_price: bool) -> list[str]:
    dollars = "-" if figures.dollars is None else format_dollars(figures.dollars)
    more = [*([f"{figures.devices:,}"] if has_devices else []), *([dollars] if has_price else [])]
    return [format_seconds(figures.seconds), format_bytes(int(figures.memory)), *more]


def _line_text(before: str, after: str) -> str:
    return f"{before} → {after}"


def _signed(value: float, unit: str) -> str:
    shown = format_seconds(abs(value)) if unit == "s" else format_bytes(int(abs(value)))
    return "same" if not value else f"{'+' if value > 0 else '−'}{shown}"
