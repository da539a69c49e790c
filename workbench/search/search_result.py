"""What a search found: plans, the proof, and why. `print` it."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property

from workbench.analysis.verify_plan import Compilers, verify_plan
from workbench.core.fact_page import Page, page_text
from workbench.core.text_tables import Printed, pairs_text, wrap_text
from workbench.errors import SearchError
from workbench.plan.plan import Plan
from workbench.reports.verified_plan import TierName, VerifiedPlan, VerifiedPlans
from workbench.search.evaluator import Evaluator, never
from workbench.search.explain import Counterfactual, Ledger, list_counterfactuals, make_ledger
from workbench.search.plan_candidate import PlanCandidate
from workbench.search.present_plan import PresentPlan
from workbench.search.requirement_conflicts import UNKNOWN, Clash, clash_sentence, find_clash, relaxation_text
from workbench.search.requirements import AtMost, Requirement, against_best_text, allows_figures
from workbench.search.search_figures import NOMINAL_SECONDS, Figures, planned_figures
from workbench.search.search_space import SearchSpace
from workbench.search.search_state import SearchState, ending_text, nothing_found_text
from workbench.search.tier_ranks import (
    PRESENT,
    KnownFigures,
    PlanRow,
    best_known,
    plans_table,
    present_row,
    rank_front,
    rank_plan,
    tokens_of,
    with_utilisation,
)
from workbench.units import format_bytes, format_seconds, read_whole_number

MOST_ROWS = 12  # plans of the front
_MARGIN = 1.006


@dataclass(frozen=True, repr=False)
class SearchResult(Printed):
    """The last state of a search, and what can be asked of it. Plans are numbered as on the front, the fastest is 0.

    - `present`: the plan that it started from, `None` where that is refused;
    - `seconds_left`: of the time of the search, for what is asked of it when there is no plan;
    - `compilers`: what `verify` asks;
    - `verified`: what the compilers said of plans, beside the planned figures. The front and the best follow it, by the best tier known of
      each plan; what is proved, of `proof`, is proved of planned figures.
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
        """The state by planned figures alone."""
        return self.planned or self.state

    def with_verified(self, verified: Mapping[PlanCandidate, tuple[Figures, VerifiedPlan]]) -> "SearchResult":
        """The result with the front and the best by the best tier known."""
        if not verified:
            return self
        front = rank_front(self.proof, self.requirements, verified)
        return replace(self, state=replace(self.proof, front=front), verified=verified, planned=self.proof)

    @property
    def rows(self) -> tuple[PlanRow, ...]:
        """The front by its numbers, with the present plan where it stands among its step times."""
        present = self.present.candidate if self.present else None
        best = self.state.best and self.state.best[0]
        tokens = tokens_of(self.space.start.program, has_times=all(hardware for hardware, _ in self.space.hardware))
        front = [(str(number), each, KnownFigures(figures, self.tier(each))) for number, (each, figures) in enumerate(self.front)]
        rows = [replace(rank_plan(*each, present, tokens), is_best=each[1] == best) for each in front]
        if self.present is not None and present_row(rows) is None:
            rows.append(rank_plan(PRESENT, present, self.known(present, self.present.figures), present, tokens))
        return with_utilisation(sorted(rows, key=lambda row: row.known.figures.seconds))

    def page(self) -> Page:
        """Its plans as every view shows them."""
        return Page("", [plans_table(self.rows)])

    def known(self, candidate: PlanCandidate | None, planned: Figures) -> KnownFigures:
        """The figures of a plan by the best tier that has them."""
        return best_known(*self.verified.get(candidate, (planned, None))) if candidate else KnownFigures(planned)

    def tier(self, candidate: PlanCandidate) -> TierName:
        """How well the step time of a plan is known."""
        planned, verified = self.verified.get(candidate, (None, None))
        return best_known(planned, verified).tier if planned is not None else "planned"

    @property
    def front(self) -> tuple[tuple[PlanCandidate, Figures], ...]:
        return self.state.front.entries

    @property
    def title(self) -> str:
        """`gpt tiny on 4, 8 or 16 devices: 15 plans on the front, the best proved`."""
        count, status = len(self.front), self.proof.status
        if self.verified:
            status = f"by its {self.tier(self.front[self._number_of_best][0])} step; as planned {status}"
        found = f"{count} plan{'s' * (count != 1)} on the front, the best {status}" if count else status
        return f"{self.space.start.program.name} on {self.space.devices_text}: {found}"

    @property
    def best(self) -> Plan:
        """The plan with the least objective. Raises `SearchError`, saying what clashes, where none keeps the requirements."""
        if self.state.best is None:
            raise self.no_plan_error()
        return self.evaluator.plan(self.state.best[0])

    def plan(self, number: int) -> Plan:
        """A plan of the front."""
        return self.evaluator.plan(self._candidate(number))

    def why(self, number: int | None = None, than: int | None = None) -> Ledger:
        """The ledger from one plan of the front to another: from the runner-up to the best, if not said otherwise.

        Raises `SearchError` where there are no two.
        """
        best = self._number_of_best if number is None else number
        other = than if than is not None else next((each for each in range(len(self.front)) if each != best), None)
        if other is None:
            raise SearchError("The front has one plan; no rival was found.", ["call `what_if()` for the effect of each decision"])
        return make_ledger(self.evaluator, self._candidate(other), self._candidate(best))

    def what_if(self, number: int | None = None, is_over: Callable[[], bool] = never) -> tuple[Counterfactual, ...]:
        """Every decision of a plan of the front changed alone, and what comes of it; of the best if not said otherwise. What is not planned
        before it `is_over` says so."""
        candidate = self._candidate(self._number_of_best if number is None else number)
        changes = list_counterfactuals(self.evaluator, candidate, self.requirements, is_over)
        return tuple(self._as_verified(candidate, each) for each in changes) if self.verified else changes

    def _as_verified(self, base: PlanCandidate, each: Counterfactual) -> Counterfactual:
        """With what the compilers say of both plans, where they say it of both."""
        tiers = self.tier(base), self.tier(each.candidate)
        if each.figures is None or tiers == ("planned", "planned"):
            return each
        if tiers[0] != tiers[1]:
            return replace(each, change=f"{each.change}, as planned")
        known, of_base = (best_known(*self.verified[candidate]) for candidate in (each.candidate, base))
        return replace(each, base=of_base.figures, figures=known.figures, change=f"{each.change}, as {known.tier}")

    def with_tried(self, changes: Iterable[Counterfactual]) -> "SearchResult":
        """The result with what the changes planned: one that beats a plan of the front takes its place."""
        front = self.proof.front
        for each in changes:
            if each.figures is not None and not each.breaks and each.candidate not in self.verified:
                front = front.with_item(each.candidate, each.figures)
        if front == self.proof.front:
            return self
        return replace(self, state=replace(self.proof, front=front), planned=None).with_verified(self.verified)

    def verify(self, most: int = 3, on_verified: Callable[[VerifiedPlan], None] | None = None) -> VerifiedPlans:
        """Ask XLA's partitioner and then the compiler about the fastest plans of the front, each in a worker process. `print` what comes
        back: planned, partitioned and compiled figures side by side, and in words what a tier cannot say.

        `on_verified` is given each plan as soon as it is known. Raises `SearchError` where no plan keeps the requirements, and where
        the search was given no compilers.
        """
        count = read_whole_number("most", most, SearchError)
        if not self.front:
            raise self.no_plan_error()
        if self.compilers is None:
            raise SearchError("This search has no compilers to verify plans.", ["search with `plan.search(...)`"])
        found = []
        for candidate, figures in self.front[:count]:
            plan = self.evaluator.plan(candidate)
            found.append(verify_plan(plan, str(candidate), planned_figures(plan, figures), self.compilers))
            if on_verified is not None:
                on_verified(found[-1])
        return VerifiedPlans(tuple(found))

    @cached_property
    def clash(self) -> Clash:
        """What clashes, where no plan keeps the requirements, if the time that the search left suffices to prove it. After a search that
        did not finish nothing more is tried."""
        if not self.state.is_complete:
            return UNKNOWN
        return find_clash(self.space, self.requirements, within=self.seconds_left, evaluator=self.evaluator, is_complete=True)

    def no_plan_error(self) -> SearchError:
        """The error in the user's words: what clashes and the least that would have to give way, or that no plan was found in time."""
        clash = self.clash
        if not clash.is_proved:
            return SearchError(nothing_found_text(self.state, self.space.size), ["search longer", *self._present_ways()])
        examined = f"{ending_text(self.state, self.space.size).capitalize()}."
        if not clash.requirements:
            reason = clash.reason or (self.state.refused[0][0] if self.state.refused else "nothing is left to choose from.")
            return SearchError(
                f"The space has no legal plan: {reason} {examined}", ["allow more choices", "take another number of devices"]
            )
        ways = [f"allow {_round_up(each.weakened)} ({relaxation_text(each)})" for each in clash.relaxations]
        return SearchError(f"{clash_sentence(clash)} {examined}", ways)

    def _present_ways(self) -> list[str]:
        """That the present plan keeps the limits, where it does."""
        if self.present is None or not allows_figures(self.requirements, self.present.figures):
            return []
        seconds, memory = format_seconds(self.present.figures.seconds), format_bytes(int(self.present.figures.memory))
        return [f"keep the current plan, which meets the limits: {seconds}, {memory}"]

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
    """The requirement with a limit that is kept as it is printed, with three digits, too."""
    return AtMost(requirement.figure, requirement.limit * _MARGIN) if isinstance(requirement, AtMost) else requirement


def search_text(result: SearchResult) -> str:
    """The front as a table, the state of the proof, and the space in words."""
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
    """Whether it is proved, and what else is to say."""
    if state.best is None:
        return "none", state.status
    if state.is_proved:
        return "proved", "and the front is complete" if state.is_complete else "the front is incomplete"
    return ("open", state.status) if state.gap else ("proved", state.status.removeprefix("proved, "))


def _verified_facts(result: SearchResult) -> list[tuple[str, str, str]]:
    """By how many plans' compiled and partitioned figures the front is in order; what is proved, is proved of planned ones."""
    if not result.verified:
        return []
    tiers = [result.tier(each) for each in result.verified]
    counts = [f"{tiers.count(tier)} {tier}" for tier in ("compiled", "partitioned", "planned") if tier in tiers]
    return [("asked about", f"{len(tiers)}", f"{', '.join(counts)}; the proof is of planned step times")]


def _present_facts(result: SearchResult) -> list[tuple[str, str, str]]:
    """Where the plan that the search started from stands."""
    if result.present is None:
        return []
    best = result.state.best and result.state.best[1]
    figures = result.known(result.present.candidate, result.present.figures).figures
    against_best = against_best_text(figures, best, result.state.objective, result.requirements)
    return [
        ("the present plan", format_seconds(figures.seconds), ", ".join(filter(None, (format_bytes(int(figures.memory)), against_best))))
    ]


def _unanswered(state: SearchState) -> list[str]:
    """What a worker died of, so that what lies behind it is not known."""
    if not state.unanswered:
        return []
    count = len(state.unanswered)
    what = "1 question was" if count == 1 else f"{count:,} questions were"
    return [wrap_text(f"{what} not answered, so better plans may exist. {state.unanswered[0]}")]


def front_text(result: SearchResult) -> str:
    """The rows of the front, the fastest first, and of the present plan."""
    return page_text(result.page(), MOST_ROWS + 1)
