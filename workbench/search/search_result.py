"""The result of a search: plans, proof, and explanations. `print` it."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property

from workbench.analysis.verify_plan import Compilers, verify_plan
from workbench.core.fact_page import Page, page_text
from workbench.core.text_tables import Printed, pairs_text, wrap_text
from workbench.errors import SearchError
from workbench.plan.plan import Plan
from workbench.reports.verified_plan import TierName, VerifiedPlan, VerifiedPlans
from workbench.search import tier_ranks
from workbench.search.evaluator import Evaluator, never
from workbench.search.explain import Counterfactual, Ledger, list_counterfactuals, make_ledger
from workbench.search.plan_candidate import PlanCandidate
from workbench.search.present_plan import PresentPlan
from workbench.search.requirement_conflicts import (
    UNKNOWN,
    RequirementConflict,
    conflict_sentence,
    find_requirement_conflict,
    relaxation_text,
)
from workbench.search.requirements import AtMost, Requirement, against_best_text, present_ways
from workbench.search.search_figures import NOMINAL_SECONDS, Figures, planned_figures
from workbench.search.search_space import SearchSpace
from workbench.search.search_state import SearchState, ending_text, nothing_found_text
from workbench.units import format_bytes, format_seconds, read_whole_number

MOST_ROWS = 12  # plans of the front
_MARGIN = 1.006


@dataclass(frozen=True, repr=False)
class SearchResult(Printed):
    """The final state of a search, with queries. Plan numbers follow the front; the fastest plan is 0.

    - `present`: the plan that the search started from, `None` if that is refused;
    - `seconds_left`: remaining search time, for explanations if there is no plan;
    - `compilers`: used by `verify`;
    - `verified`: verified figures with the planned ones. The front and the best plan use each plan's best known tier;
      `proof` refers to planned figures only.
    """

    space: SearchSpace
    requirements: tuple[Requirement, ...]
    state: SearchState
    evaluator: Evaluator = field(compare=False)
    present: PresentPlan | None = None
    seconds_left: float = field(default=20.0, compare=False)
    compilers: Compilers | None = field(default=None, compare=False)
    verified: Mapping[PlanCandidate, tuple[Figures, VerifiedPlan]] = field(default_factory=dict, compare=False)
    planned: SearchState | None = None

    @property
    def proof(self) -> SearchState:
        """The state by planned figures only."""
        return self.planned or self.state

    def with_verified(self, verified: Mapping[PlanCandidate, tuple[Figures, VerifiedPlan]]) -> "SearchResult":
        """Return the result with the front and the best plan by the best known tiers."""
        if not verified:
            return self
        front = tier_ranks.rank_front(self.proof, self.requirements, verified)
        return replace(self, state=replace(self.proof, front=front), verified=verified, planned=self.proof)

    @property
    def rows(self) -> tuple[tier_ranks.PlanRow, ...]:
        """The front by number, with the present plan sorted in by step time."""
        present = self.present.candidate if self.present else None
        best = self.state.best and self.state.best[0]
        tokens = tier_ranks.tokens_of(self.space.start.program, has_times=all(hardware for hardware, _ in self.space.hardware))
        front = [
            (str(number), plan, tier_ranks.KnownFigures(figures, self.tier(plan))) for number, (plan, figures) in enumerate(self.front)
        ]
        rows = [replace(tier_ranks.rank_plan(*entry, present, tokens), is_best=entry[1] == best) for entry in front]
        if self.present is not None and tier_ranks.present_row(rows) is None:
            rows.append(tier_ranks.rank_plan(tier_ranks.PRESENT, present, self.known(present, self.present.figures), present, tokens))
        return tier_ranks.with_utilisation(sorted(rows, key=lambda row: row.known.figures.seconds))

    def page(self) -> Page:
        return Page("", [tier_ranks.plans_table(self.rows)])

    def known(self, candidate: PlanCandidate | None, planned: Figures) -> tier_ranks.KnownFigures:
        return tier_ranks.best_known(*self.verified.get(candidate, (planned, None))) if candidate else tier_ranks.KnownFigures(planned)

    def tier(self, candidate: PlanCandidate) -> TierName:
        planned, verified = self.verified.get(candidate, (None, None))
        return tier_ranks.best_known(planned, verified).tier if planned is not None else "planned"

    @property
    def front(self) -> tuple[tuple[PlanCandidate, Figures], ...]:
        return self.state.front.entries

    @property
    def title(self) -> str:
        """`gpt tiny on 4, 8 or 16 devices: 15 plans on the front, the best proved`."""
        count, status = len(self.front), self.proof.status
        if self.verified:
            status = f"by its {self.tier(self.front[self._number_of_best][0])} step; as planned {status}"
        summary = f"{count} plan{'s' * (count != 1)} on the front, the best {status}" if count else status
        return f"{self.space.start.program.name} on {self.space.devices_text}: {summary}"

    @property
    def best(self) -> Plan:
        """The plan with the least objective. Raises `SearchError` with the conflict if there is none."""
        if self.state.best is None:
            raise self.no_plan_error()
        return self.evaluator.plan(self.state.best[0])

    def plan(self, number: int) -> Plan:
        return self.evaluator.plan(self._candidate(number))

    def why(self, number: int | None = None, than: int | None = None) -> Ledger:
        """Ledger between plans of the front, by default from the runner-up to the best. Raises `SearchError`."""
        best = self._number_of_best if number is None else number
        other = than if than is not None else next((rival for rival in range(len(self.front)) if rival != best), None)
        if other is None:
            raise SearchError("The front has one plan; no rival was found.", ["call `what_if()` for the effect of each decision"])
        return make_ledger(self.evaluator, self._candidate(other), self._candidate(best))

    def what_if(self, number: int | None = None, is_over: Callable[[], bool] = never) -> tuple[Counterfactual, ...]:
        """Change each decision of a plan alone, and plan the results until `is_over`."""
        candidate = self._candidate(self._number_of_best if number is None else number)
        changes = list_counterfactuals(self.evaluator, candidate, self.requirements, is_over)
        return tuple(self._as_verified(candidate, change) for change in changes) if self.verified else changes

    def _as_verified(self, base: PlanCandidate, change: Counterfactual) -> Counterfactual:
        """The change with verified figures, if both plans have them."""
        tiers = self.tier(base), self.tier(change.candidate)
        if change.figures is None or tiers == ("planned", "planned"):
            return change
        if tiers[0] != tiers[1]:
            return replace(change, change=f"{change.change}, as planned")
        verified, of_base = (tier_ranks.best_known(*self.verified[candidate]) for candidate in (change.candidate, base))
        return replace(change, base=of_base.figures, figures=verified.figures, change=f"{change.change}, as {verified.tier}")

    def with_tried(self, changes: Iterable[Counterfactual]) -> "SearchResult":
        """Return the result with the front improved by the plans of these changes."""
        front = self.proof.front
        for change in changes:
            if change.figures is not None and not change.breaks and change.candidate not in self.verified:
                front = front.with_item(change.candidate, change.figures)
        if front == self.proof.front:
            return self
        return replace(self, state=replace(self.proof, front=front), planned=None).with_verified(self.verified)

    def verify(self, most: int = 3, on_verified: Callable[[VerifiedPlan], None] | None = None) -> VerifiedPlans:
        """Check the fastest plans of the front with XLA's partitioner and then the compiler, each in a worker process.

        The result prints planned, partitioned and compiled figures side by side, and what each tier cannot tell.
        `on_verified` receives each plan as soon as it is verified. Raises `SearchError` if no plan meets the
        requirements or the search has no compilers.
        """
        count = read_whole_number("most", most, SearchError)
        if not self.front:
            raise self.no_plan_error()
        if self.compilers is None:
            raise SearchError("This search has no compilers to verify plans.", ["search with `plan.search(...)`"])
        verified_plans = []
        for candidate, figures in self.front[:count]:
            plan = self.evaluator.plan(candidate)
            verified_plans.append(verify_plan(plan, str(candidate), planned_figures(plan, figures), self.compilers))
            if on_verified is not None:
                on_verified(verified_plans[-1])
        return VerifiedPlans(tuple(verified_plans))

    @cached_property
    def clash(self) -> RequirementConflict:
        """The conflict if no plan meets the requirements, if provable in time; `UNKNOWN` after an incomplete search."""
        if not self.state.is_complete:
            return UNKNOWN
        return find_requirement_conflict(
            self.space, self.requirements, within=self.seconds_left, evaluator=self.evaluator, is_complete=True
        )

    def no_plan_error(self) -> SearchError:
        """Make the error for the user: the conflict and its least relaxations, or that no plan was found in time."""
        clash = self.clash
        if not clash.is_proved:
            ways = present_ways(self.requirements, self.present.figures) if self.present else []
            return SearchError(nothing_found_text(self.state, self.space.size), ["search longer", *ways])
        examined = f"{ending_text(self.state, self.space.size).capitalize()}."
        if not clash.requirements:
            reason = clash.reason or (self.state.refused[0][0] if self.state.refused else "nothing is left to choose from.")
            return SearchError(f"The space has no legal plan: {reason} {examined}", ["allow more choices", "use another number of devices"])
        fixes = [f"allow {_round_up(relaxation.weakened)} ({relaxation_text(relaxation)})" for relaxation in clash.relaxations]
        return SearchError(f"{conflict_sentence(clash)} {examined}", fixes)

    @property
    def _number_of_best(self) -> int:
        if self.state.best is None:
            raise self.no_plan_error()
        return self.front.index(self.state.best)

    def _candidate(self, number: int) -> PlanCandidate:
        if not -len(self.front) <= number < len(self.front):
            raise SearchError(f"The front has {len(self.front)} plans; there is no number {number}.", ["count from 0, the fastest"])
        return self.front[number][0]

    def __repr__(self) -> str:
        return f"SearchResult({self.title})"

    def __str__(self) -> str:
        return search_text(self)


def _round_up(requirement: Requirement) -> Requirement:
    """The requirement with a limit that still holds when printed with three digits."""
    return AtMost(requirement.figure, requirement.limit * _MARGIN) if isinstance(requirement, AtMost) else requirement


def search_text(result: SearchResult) -> str:
    state, requirements = result.proof, ", ".join(map(str, result.requirements)) or "none"
    facts = pairs_text(
        [
            ("searched for", format_seconds(state.elapsed), ending_text(state, result.space.size)),
            ("the best is", *_proof_cells(result.proof)),
            *_verified_facts(result),
            ("to keep", f"{len(result.requirements)}", requirements),
            *_present_facts(result),
        ]
    )
    body = front_text(result) if result.front else wrap_text(str(result.no_plan_error()))
    nominal = [] if all(hardware for hardware, _ in result.space.hardware) else [wrap_text(NOMINAL_SECONDS)]
    return "\n\n".join([body, facts, *nominal, *_unanswered(state), wrap_text(f"Space: {result.space.describe()}.")])


def _proof_cells(state: SearchState) -> tuple[str, str]:
    if state.best is None:
        return "none", state.status
    if state.is_proved:
        return "proved", "and the front is complete" if state.is_complete else "the front is incomplete"
    return ("open", state.status) if state.gap else ("proved", state.status.removeprefix("proved, "))


def _verified_facts(result: SearchResult) -> list[tuple[str, str, str]]:
    """Numbers of verified plans by tier; the proof covers planned figures only."""
    if not result.verified:
        return []
    tiers = [result.tier(candidate) for candidate in result.verified]
    counts = [f"{tiers.count(tier)} {tier}" for tier in ("compiled", "partitioned", "planned") if tier in tiers]
    return [("asked about", f"{len(tiers)}", f"{', '.join(counts)}; the proof is of planned step times")]


def _present_facts(result: SearchResult) -> list[tuple[str, str, str]]:
    if result.present is None:
        return []
    best = result.state.best and result.state.best[1]
    figures = result.known(result.present.candidate, result.present.figures).figures
    against_best = against_best_text(figures, best, result.state.objective, result.requirements)
    return [
        ("the present plan", format_seconds(figures.seconds), ", ".join(filter(None, (format_bytes(int(figures.memory)), against_best))))
    ]


def _unanswered(state: SearchState) -> list[str]:
    """The number of questions lost with dead workers, and the first message."""
    if not state.unanswered:
        return []
    count = len(state.unanswered)
    what = "1 question was" if count == 1 else f"{count:,} questions were"
    return [wrap_text(f"{what} not answered, so better plans may exist. {state.unanswered[0]}")]


def front_text(result: SearchResult) -> str:
    return page_text(result.page(), MOST_ROWS + 1)
