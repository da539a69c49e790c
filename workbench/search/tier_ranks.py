"""Plans of a search by the best tier known: which of them the compilers are asked about, and their figures once they have answered.

Planned times order plans of one kind well, and compilers order them better: of a GPT on eight TPU v5e the planner's fastest, data parallel
with ZeRO 1, takes 630 µs as compiled, and plain data parallel 567. So the compilers are asked about the fastest plans and those near them,
and about the best of every layout with every stage of ZeRO, which a person would compare with.
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
"""Plans that are always asked about."""
_NEAR = 0.02
"""And those that are worse by so little than the last of these."""
_MOST_NEAR = 20
_TIERS: tuple[TierName, ...] = ("compiled", "partitioned")

Entries = tuple[tuple[PlanCandidate, Figures], ...]


@dataclass(frozen=True, slots=True)
class KnownFigures:
    """The figures of a plan, each from the best tier that has it; `tier` is that of its step time, or of its memory where no hardware
    says what a step takes."""

    figures: Figures
    tier: TierName = "planned"


def best_known(planned: Figures, verified: VerifiedPlan | None) -> KnownFigures:
    """What the compilers said in place of what was planned, as far as they said it."""
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
    """The plans to ask the compilers about, best first: the first `most`; where that is `None`, `FASTEST` and what is near them, the
    present plan, and the best of each layout and stage of ZeRO."""
    kept = [entry for entry in found.items() if allows_candidate(requirements, entry[0]) and allows_figures(requirements, entry[1])]
    kept.sort(key=lambda entry: objective_key(objective, entry[1]))
    if most is not None:
        return tuple(kept[:most])
    chosen = dict(kept[:FASTEST])
    limit = objective_key(objective, kept[:FASTEST][-1][1])[0] * (1 + _NEAR) if kept else 0.0
    chosen |= {each: figures for each, figures in kept[FASTEST:_MOST_NEAR] if objective_key(objective, figures)[0] <= limit}
    chosen |= {each: found[each] for each in (present,) if each is not None and each in found}
    kinds: set[tuple[str, str]] = set()
    for each, figures in kept:
        if (each.layout, each.zero) not in kinds:
            kinds.add((each.layout, each.zero))
            chosen.setdefault(each, figures)
    return tuple(chosen.items())


def rank_front(
    state: SearchState, requirements: Sequence[Requirement], verified: Mapping[PlanCandidate, tuple[Figures, VerifiedPlan]]
) -> ParetoFront[PlanCandidate]:
    """The front by the best tier known. What does not keep a limit as compiled is left out, and so is a plan that nobody was asked about
    and that only a planned figure puts before the best of those that somebody was: the compilers may say otherwise."""
    front: ParetoFront[PlanCandidate] = ParetoFront()
    for each, (planned, answers) in verified.items():
        known = best_known(planned, answers).figures
        if allows_candidate(requirements, each) and allows_figures(requirements, known):
            front = front.with_item(each, known)
    best = min((objective_key(state.objective, figures) for _, figures in front), default=())
    for each, planned in state.front:
        if each not in verified and objective_key(state.objective, planned) >= best:
            front = front.with_item(each, planned)
    return front if front.entries else state.front


# The plans as rows, the same in every view: figures by the best tier known, and what differs from the present plan.

PRESENT = "present plan"
"""What the row of the plan that a search starts from is called; it is also its key where the view has no other."""


@dataclass(frozen=True, slots=True)
class PlanRow:
    """A row: `key` is the view's name for the plan, `text` its decisions, `changes` those that differ from the present plan's; `tokens` of
    a step, 0 where its seconds are nominal or it reads none."""

    key: str
    known: KnownFigures
    text: str
    changes: str = ""
    tokens: int = 0
    candidate: PlanCandidate | None = None
    is_present: bool = False
    is_best: bool = False

    def numbered(self, key: str, *, is_best: bool) -> "PlanRow":
        """The row by another name; whether it is the best."""
        return replace(self, key=key, is_best=is_best)

    @property
    def tokens_per_second(self) -> float | None:
        seconds = self.known.figures.seconds
        return self.tokens / seconds if self.tokens and seconds else None


def tokens_of(program: Program, *, has_times: bool) -> int:
    """Tokens of a step; 0 where seconds are nominal."""
    return count_tokens(program) if has_times else 0


def rank_plan(
    key: str,
    candidate: PlanCandidate | None,
    known: KnownFigures,
    present: PlanCandidate | None,
    tokens: int = 0,
    outside: str = "outside the search space",
) -> PlanRow:
    """The row of a candidate; without one, of a present plan that lies `outside` the space, in these words."""
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
    """The row of the present plan, if there is one."""
    return next((row for row in rows if row.is_present), None)


def with_utilisation(rows: Iterable[PlanRow]) -> tuple[PlanRow, ...]:
    """The rows with the model FLOPs utilisation of pipelines, too: what a program of one precision needs at the peak of all devices does
    not depend on its plan. A present plan outside the space may be for another chip: it neither gives the figure nor takes it."""
    rows = tuple(rows)
    found = ((row.candidate, row.known.figures.mfu, _device_seconds(row)) for row in rows)
    needed = {candidate.precision: mfu * seconds for candidate, mfu, seconds in found if candidate and mfu}
    return tuple(_with_mfu(row, needed) for row in rows)


def _with_mfu(row: PlanRow, needed: Mapping[str, float]) -> PlanRow:
    seconds, at_peak = _device_seconds(row), needed.get(row.candidate.precision) if row.candidate else None
    if row.known.figures.mfu or not at_peak or not seconds:
        return row
    return replace(row, known=replace(row.known, figures=replace(row.known.figures, mfu=at_peak / seconds)))


def _device_seconds(row: PlanRow) -> float:
    return row.known.figures.seconds * row.known.figures.devices


def plans_table(rows: Iterable[PlanRow], heading: str = "") -> Table:
    """The rows as a table; a column stands where a row has something for it, and devices where they differ."""
    rows = tuple(rows)
    cells = [_cells(row) for row in rows]
    several = len({row.known.figures.devices for row in rows}) > 1
    shown = [name for name in _COLUMNS if name not in _OPTIONAL or any(each[name].value for each in cells)]
    shown = [name for name in shown if name != _DEVICES or several]
    return Table(shown, [Row([each[name] for name in shown], row.key) for each, row in zip(cells, rows, strict=True)], heading=heading)


_DEVICES, _PLAN = "devices>", "plan~"
_COLUMNS = ("", "step>", "tokens/s>", "MFU>", "memory>", _DEVICES, "1,000 steps>", "tier", _PLAN, "changes~")
_OPTIONAL = ("tokens/s>", "MFU>", "1,000 steps>", "changes~")


def _cells(row: PlanRow) -> dict[str, PageCell]:
    found, tone = row.known.figures, "strong" if row.is_best else ""
    speed = row.tokens_per_second
    values = (
        PageCell("" if row.key == PRESENT else row.key),
        figure(found.seconds, "seconds", tone),
        PageCell(speed and format_count(speed)),
        PageCell(found.mfu and format_share(found.mfu)),
        figure(int(found.memory), "bytes", tone),
        PageCell(f"{found.devices:,}"),
        PageCell(None if found.dollars is None else format_dollars(found.dollars)),
        PageCell(row.known.tier),
        PageCell(row.text),
        PageCell(row.changes, tone="strong" if row.is_present else ""),
    )
    return dict(zip(_COLUMNS, values, strict=True))


def row_record(row: PlanRow) -> dict[str, object]:
    """A row as plain values."""
    found = row.known.figures
    figures = {name: getattr(found, name) for name in ("seconds", "memory", "devices", "dollars", "mfu")}
    return {"plan": row.text, **figures, "tokens_per_second": row.tokens_per_second, "tier": row.known.tier, "changes": row.changes or None}
