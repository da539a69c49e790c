"""Explanations of infeasible requirements: a smallest conflicting set, and its least relaxations."""

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import combinations

from workbench.core.text_tables import wrap_text
from workbench.search.best_first import CORE_DECISIONS
from workbench.search.evaluator import Evaluator
from workbench.search.plan_candidate import PlanCandidate
from workbench.search.requirements import AtMost, Pin, Requirement, allows_candidate, allows_figures
from workbench.search.run_search import run_search
from workbench.search.search_figures import Figures, figures_text
from workbench.search.search_space import SearchSpace
from workbench.search.search_state import SearchState


@dataclass(frozen=True, slots=True)
class Relaxation:
    """A weaker requirement with a plan; `is_least`: proven least limit, or fastest plan for a pin."""

    weakened: Requirement
    requirement: Requirement
    candidate: PlanCandidate
    figures: Figures
    is_least: bool = False


@dataclass(frozen=True)
class RequirementConflict:
    """A set of requirements that no plan of the space meets together, and relaxations of single ones.

    An empty set means that the space has no legal plan, or, if not `is_proved`, that the search ended before it found
    the conflict.

    - `is_smallest`: every smaller set can be met, by trial; `reason`: why most plans that meet the pins are illegal, if
      some are.
    """

    requirements: tuple[Requirement, ...]
    relaxations: tuple[Relaxation, ...]
    is_proved: bool = True
    is_smallest: bool = True
    reason: str = ""

    def __str__(self) -> str:
        return requirement_conflict_text(self)


UNKNOWN = RequirementConflict((), (), is_proved=False)


@dataclass(frozen=True)
class _Tries:
    space: SearchSpace
    evaluator: Evaluator
    end: float
    is_cancelled: Callable[[], bool]

    @property
    def left(self) -> float:
        return 0.0 if self.is_cancelled() else max(0.0, self.end - time.perf_counter())

    def search(
        self, requirements: Sequence[Requirement], objective: str, share: float = 1.0, until: str = "proved"
    ) -> Iterator[SearchState]:
        return run_search(
            self.space,
            requirements,
            objective=objective,
            within=share * self.left,
            evaluator=self.evaluator,
            is_cancelled=self.is_cancelled,
            until=until,
        )


def find_requirement_conflict(
    space: SearchSpace,
    requirements: Sequence[Requirement],
    *,
    within: float = 20.0,
    evaluator: Evaluator | None = None,
    on_clash: Callable[[RequirementConflict], None] = lambda _: None,
    is_cancelled: Callable[[], bool] = lambda: False,
    is_complete: bool = False,
) -> RequirementConflict:
    """Find a smallest set of conflicting requirements, by a search for each subset in order of size.

    All searches together, including those for relaxations, take at most `within` seconds. `on_clash` receives the
    conflict before its relaxations are searched, and again for each new or smaller relaxation. If time runs out or
    `is_cancelled` first, the result is unproved; if an earlier search `is_complete` and found nothing, it is all
    requirements together.
    """
    unknown = RequirementConflict(tuple(requirements), (), is_smallest=False) if is_complete else UNKNOWN
    tries = _Tries(space, evaluator or Evaluator(space), time.perf_counter() + within, is_cancelled)
    for size in range(len(requirements) + 1):
        for subset in combinations(requirements, size):
            if not tries.left:
                return unknown
            state = _find_any(tries, subset)
            if state.best is None and state.is_complete:
                clash = RequirementConflict(subset, (), reason=_why_refused(tries, subset, state))
                on_clash(clash)
                for relaxations in _relax(tries, requirements, subset):
                    clash = replace(clash, relaxations=relaxations)
                    on_clash(clash)
                return clash
    return unknown


def _find_any(tries: _Tries, requirements: Sequence[Requirement]) -> SearchState:
    for state in tries.search(requirements, _objective_of(requirements), until="complete"):
        if state.best is not None:
            break
    return state


def _why_refused(tries: _Tries, requirements: Sequence[Requirement], state: SearchState) -> str:
    """The reason why most plans were refused; empty if plans outside the pins may be among them."""
    decided = {*tries.space.axes, *CORE_DECISIONS}
    is_decided = all(not isinstance(requirement, Pin) or requirement.decision in decided for requirement in requirements)
    return state.refused[0][0] if state.refused and is_decided else ""


def _objective_of(requirements: Sequence[Requirement]) -> str:
    """The objective that finds a plan soonest: a limited figure, preferably memory."""
    limited = [limit.figure for limit in requirements if isinstance(limit, AtMost)]
    return "memory" if "memory" in limited else limited[0] if limited else "seconds"


def _relax(tries: _Tries, requirements: Sequence[Requirement], clash: Sequence[Requirement]) -> Iterator[tuple[Relaxation, ...]]:
    """Relaxations after each improvement, all other requirements kept, with an equal share of the time."""
    relaxations: dict[Requirement, Relaxation] = {}
    for place, requirement in enumerate(clash):
        others = [other for other in requirements if other != requirement]
        for state in _improve(tries, others, requirement, 1 / (len(clash) - place)):
            assert state.best is not None, "those without are left out"
            weakened = _weaken(requirement, *state.best)
            if allows_candidate([weakened], state.best[0]) and allows_figures([weakened], state.best[1]):
                relaxations[requirement] = Relaxation(weakened, requirement, *state.best, is_least=state.is_proved)
                yield tuple(relaxations.values())


def _improve(tries: _Tries, others: Sequence[Requirement], given_up: Requirement, share: float) -> Iterator[SearchState]:
    """The state with the first plan that meets the others, then with the plan that needs the least relaxation."""
    objective = given_up.figure if isinstance(given_up, AtMost) else "seconds"
    first = last = None
    for state in tries.search(others, objective, share):
        last = state
        if state.best is not None and first is None:
            first = state
            yield state
    if last is not None and last.best is not None and last is not first:
        yield last


def _weaken(requirement: Requirement, candidate: PlanCandidate, figures: Figures) -> Requirement:
    if isinstance(requirement, AtMost):
        return replace(requirement, limit=float(getattr(figures, requirement.figure)))
    return Pin(requirement.decision, (*requirement.values, requirement.value_of(candidate)))


def conflict_sentence(clash: RequirementConflict) -> str:
    if not clash.requirements:
        if not clash.is_proved:
            return "The conflicting requirements are unknown: the search ended first."
        return f"The space has no legal plan{f': {clash.reason}' if clash.reason else '.'}"
    together = " together" if len(clash.requirements) > 1 else ""
    sentence = f"No plan meets {' and '.join(f'`{requirement}`' for requirement in clash.requirements)}{together}."
    if not clash.is_smallest:
        return f"{sentence} A smaller subset may also conflict: there was no time to check."
    return f"{sentence} {clash.reason}" if clash.reason and all(isinstance(pin, Pin) for pin in clash.requirements) else sentence


def relaxation_text(relaxation: Relaxation) -> str:
    if isinstance(relaxation.weakened, AtMost):
        return "the least possible, proved" if relaxation.is_least else "the smallest found so far"
    return "the fastest such plan, proved" if relaxation.is_least else "the fastest such plan found so far"


def requirement_conflict_text(clash: RequirementConflict) -> str:
    lines = [conflict_sentence(clash)]
    lines += [
        f"With `{relaxation.weakened}` ({relaxation_text(relaxation)}) there is {relaxation.candidate}: {figures_text(relaxation.figures)}."
        for relaxation in clash.relaxations
    ]
    return "\n".join(wrap_text(line) for line in lines)
