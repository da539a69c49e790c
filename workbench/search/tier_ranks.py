"""Plans of a search by the best tier known: which of them the compilers are asked about, and their figures once they have answered.

Planned times order plans of one kind well, and compilers order them better: of a GPT on eight TPU v5e the planner's fastest, data parallel
with ZeRO 1, takes 630 µs as compiled, and plain data parallel 567. So the compilers are asked about the fastest plans and those near them,
and about the best of every layout with every stage of ZeRO, which a person would compare with.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from workbench.reports.verified_plan import TierName, VerifiedPlan
from workbench.search.plan_candidate import PlanCandidate
from workbench.search.requirements import Requirement, allows_candidate, allows_figures
from workbench.search.search_figures import Figures, ParetoFront
from workbench.search.search_state import SearchState, objective_key

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
