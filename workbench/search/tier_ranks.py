"""Ranking of plans by their best known tier: the plans to verify, and their figures afterwards.

Planned times order plans of one kind well, and compilers order them better: for a GPT on eight TPU v5e the planner's
fastest plan, data parallel with ZeRO 1, takes 630 µs as compiled, and plain data parallel 567 µs. So the compilers
verify the fastest plans and those close to them, and the best plan for each layout and ZeRO stage, which a person would
compare with.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from workbench.core.fact_page import PageCell, Row, Table, figure
from workbench.core.program import Program
from workbench.cost.step_flops import count_tokens
from workbench.reports.verified_plan import TierName, VerifiedPlan
from workbench.search.plan_candidate import DECISIONS, PlanCandidate
from workbench.search.requirements import Requirement, allows_candidate, allows_figures
from workbench.search.search_figures import Figures, ParetoFront
from workbench.search.search_state import SearchState, objective_key
from workbench.units import format_count, format_dollars, format_share

FASTEST = 10
"""Number of plans that are always verified."""
_NEAR = 0.02
"""Relative distance from the last of these within which further plans are verified."""
_MOST_NEAR = 20
_TIERS: tuple[TierName, ...] = ("compiled", "partitioned")

Entries = tuple[tuple[PlanCandidate, Figures], ...]


@dataclass(frozen=True, slots=True)
class KnownFigures:
    """Best known figures; `tier` is that of the step time, or of the memory without hardware."""

    figures: Figures
    tier: TierName = "planned"


def best_known(planned: Figures, verified: VerifiedPlan | None) -> KnownFigures:
    """Replace planned figures by verified ones where they exist."""
    if verified is None:
        return KnownFigures(planned)
    seconds = next((tier for tier in _TIERS if verified.tier(tier).seconds is not None), None)
    memory = next((tier for tier in _TIERS if verified.tier(tier).memory is not None), None)
    figures = planned if seconds is None else planned.with_seconds(float(verified.tier(seconds).seconds or 0.0))
    if memory is not None:
        figures = replace(figures, memory=float(verified.tier(memory).memory or 0.0))
    has_times = verified.planned.seconds is not None
    return KnownFigures(figures, (seconds if has_times else memory) or "planned")


def list_contenders(
    found: Mapping[PlanCandidate, Figures],
    requirements: Sequence[Requirement],
    objective: str,
    present: PlanCandidate | None = None,
    most: int | None = None,
) -> Entries:
    """The plans to verify, best first: the first `most`, or `FASTEST` and plans near them, the present plan, and the
    best plan per layout and ZeRO stage.
    """
    allowed = [entry for entry in found.items() if allows_candidate(requirements, entry[0]) and allows_figures(requirements, entry[1])]
    allowed.sort(key=lambda entry: objective_key(objective, entry[1]))
    if most is not None:
        return tuple(allowed[:most])
    chosen = dict(allowed[:FASTEST])
    limit = objective_key(objective, allowed[:FASTEST][-1][1])[0] * (1 + _NEAR) if allowed else 0.0
    chosen |= {plan: figures for plan, figures in allowed[FASTEST:_MOST_NEAR] if objective_key(objective, figures)[0] <= limit}
    chosen |= {plan: found[plan] for plan in (present,) if plan is not None and plan in found}
    kinds: set[tuple[str, str]] = set()
    for candidate, figures in allowed:
        if (candidate.layout, candidate.zero) not in kinds:
            kinds.add((candidate.layout, candidate.zero))
            chosen.setdefault(candidate, figures)
    return tuple(chosen.items())


def rank_front(
    state: SearchState, requirements: Sequence[Requirement], verified: Mapping[PlanCandidate, tuple[Figures, VerifiedPlan]]
) -> ParetoFront[PlanCandidate]:
    """Rank the front by best known tiers, without plans that violate a limit as compiled, and without unverified plans
    whose planned figures beat the best verified plan.
    """
    front: ParetoFront[PlanCandidate] = ParetoFront()
    for candidate, (planned, answers) in verified.items():
        known = best_known(planned, answers).figures
        if allows_candidate(requirements, candidate) and allows_figures(requirements, known):
            front = front.with_item(candidate, known)
    best = min((objective_key(state.objective, figures) for _, figures in front), default=())
    for candidate, planned in state.front:
        if candidate not in verified and objective_key(state.objective, planned) >= best:
            front = front.with_item(candidate, planned)
    return front if front.entries else state.front


# Plan rows, the same in every view: figures by the best known tier, and differences from the present plan.

PRESENT = "present plan"
"""Label of the row of the plan that a search starts from, and its key if the view has no other."""


@dataclass(frozen=True, slots=True)
class PlanRow:
    """A row: `key` in its view, `text` of its decisions, `changes` from the present plan; `tokens` per step is 0 if the
    seconds are nominal or the step reads none.
    """

    key: str
    known: KnownFigures
    text: str
    changes: str = ""
    tokens: int = 0
    candidate: PlanCandidate | None = None
    is_present: bool = False
    is_best: bool = False

    def numbered(self, key: str, *, is_best: bool) -> "PlanRow":
        return replace(self, key=key, is_best=is_best)

    @property
    def tokens_per_second(self) -> float | None:
        seconds = self.known.figures.seconds
        return self.tokens / seconds if self.tokens and seconds else None


def tokens_of(program: Program, *, has_times: bool) -> int:
    return count_tokens(program) if has_times else 0


def rank_plan(
    key: str,
    candidate: PlanCandidate | None,
    known: KnownFigures,
    present: PlanCandidate | None,
    tokens: int = 0,
    outside: str = "outside the search space",
) -> PlanRow:
    """Make the row of a candidate; without one, of a present plan with the text `outside`."""
    is_present = candidate is None or candidate == present
    changes = PRESENT if is_present else changes_text(candidate, present) if candidate and present else ""
    return PlanRow(key, known, str(candidate or outside), changes, tokens, candidate, is_present)


def changes_text(candidate: PlanCandidate, present: PlanCandidate) -> str:
    """The decisions of a candidate that differ from those of the present plan.

    >>> one = PlanCandidate("", (("data", 8), ("model", 1)), "replicated")
    >>> changes_text(replace(one, mesh=(("data", 4), ("model", 2)), layout="megatron"), one)
    'data:4 model:2, megatron'
    """
    names = [name for name in DECISIONS if candidate.decision(name) != present.decision(name)]
    shown = [name for name in names if name != "micro_batches" or candidate.schedule]
    return ", ".join(candidate.describe(name) for name in shown)


def present_row(rows: Iterable[PlanRow]) -> PlanRow | None:
    return next((row for row in rows if row.is_present), None)


def with_utilisation(rows: Iterable[PlanRow]) -> tuple[PlanRow, ...]:
    """Fill in the MFU of pipelines: FLOPs at peak are equal for all plans of a program in one precision. Present plans
    outside the space are skipped, as they may be for another chip.
    """
    rows = tuple(rows)
    utilisations = ((row.candidate, row.known.figures.mfu, _device_seconds(row)) for row in rows)
    needed = {candidate.precision: mfu * seconds for candidate, mfu, seconds in utilisations if candidate and mfu}
    return tuple(_with_mfu(row, needed) for row in rows)


def _with_mfu(row: PlanRow, needed: Mapping[str, float]) -> PlanRow:
    seconds, at_peak = _device_seconds(row), needed.get(row.candidate.precision) if row.candidate else None
    if row.known.figures.mfu or not at_peak or not seconds:
        return row
    return replace(row, known=replace(row.known, figures=replace(row.known.figures, mfu=at_peak / seconds)))


def _device_seconds(row: PlanRow) -> float:
    return row.known.figures.seconds * row.known.figures.devices


def plans_table(rows: Iterable[PlanRow], heading: str = "") -> Table:
    """Make a table of the rows; empty columns are left out, and devices if they are all equal."""
    rows = tuple(rows)
    cells = [_cells(row) for row in rows]
    several = len({row.known.figures.devices for row in rows}) > 1
    shown = [name for name in _COLUMNS if name not in _OPTIONAL or any(row[name].value for row in cells)]
    shown = [name for name in shown if name != _DEVICES or several]
    return Table(shown, [Row([cell[name] for name in shown], row.key) for cell, row in zip(cells, rows, strict=True)], heading=heading)


_DEVICES, _PLAN = "devices>", "plan~"
_COLUMNS = ("", "step>", "tokens/s>", "MFU>", "memory>", _DEVICES, "1,000 steps>", "tier", _PLAN, "changes~")
_OPTIONAL = ("tokens/s>", "MFU>", "1,000 steps>", "changes~")


def _cells(row: PlanRow) -> dict[str, PageCell]:
    figures, tone = row.known.figures, "strong" if row.is_best else ""
    speed = row.tokens_per_second
    values = (
        PageCell("" if row.key == PRESENT else row.key),
        figure(figures.seconds, "seconds", tone),
        PageCell(speed and format_count(speed)),
        PageCell(figures.mfu and format_share(figures.mfu)),
        figure(int(figures.memory), "bytes", tone),
        PageCell(f"{row.known.figures.devices:,}"),
        PageCell(None if figures.dollars is None else format_dollars(figures.dollars)),
        PageCell(row.known.tier),
        PageCell(row.text),
        PageCell(row.changes, tone="strong" if row.is_present else ""),
    )
    return dict(zip(_COLUMNS, values, strict=True))


def row_record(row: PlanRow) -> dict[str, object]:
    known = row.known.figures
    figures = {name: getattr(known, name) for name in ("seconds", "memory", "devices", "dollars", "mfu")}
    return {"plan": row.text, **figures, "tokens_per_second": row.tokens_per_second, "tier": row.known.tier, "changes": row.changes or None}
