"""Why no plan keeps all requirements: a smallest set of them that no plan keeps together, and how little would have to give way."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import combinations

from workbench.search.candidates import PlanCandidate
from workbench.search.evaluator import Evaluator
from workbench.search.figures import Figures
from workbench.search.requirements import AtMost, Pin, Requirement
from workbench.search.run_search import run_search
from workbench.search.search_space import SearchSpace
from workbench.search.search_state import SearchState


@dataclass(frozen=True, slots=True)
class Relaxation:
    """One requirement of a clash in a weaker form, with a plan that keeps it and all others."""

    weakened: Requirement
    requirement: Requirement
    candidate: PlanCandidate
    figures: Figures


@dataclass(frozen=True)
class Clash:
    """`requirements` that no plan of the space keeps together, though any fewer of them can be kept; `relaxations` of single ones.

    `is_proved`: the whole space was looked at; else only what time allowed.
    """

    requirements: tuple[Requirement, ...]
    relaxations: tuple[Relaxation, ...]
    is_proved: bool = True

    def __str__(self) -> str:
        from workbench.text.search import clash_text

        return clash_text(self)


def find_clash(
    space: SearchSpace,
    requirements: Sequence[Requirement],
    *,
    within: float = 20.0,
    evaluator: Evaluator | None = None,
    on_clash: Callable[[Clash], None] = lambda _: None,
) -> Clash:
    """The smallest set of requirements that clash: the first, by size, that a search finds no plan for.

    `on_clash` hears of it before its relaxations are looked for, which takes a search each. Returns one with no requirements where not even
    the space without any has a plan.
    """
    here = evaluator or Evaluator(space)
    is_proved = True
    for size in range(len(requirements) + 1):
        for some in combinations(requirements, size):
            state = _find_any(space, some, within, here)
            if state.best is None:
                is_proved = is_proved and state.is_complete
                on_clash(Clash(some, (), is_proved))
                return Clash(some, tuple(_relax(space, requirements, some, within, here)), is_proved)
    return Clash((), (), is_proved=False)


def _find_any(space: SearchSpace, requirements: Sequence[Requirement], within: float, evaluator: Evaluator) -> SearchState:
    """The search up to its first plan."""
    for state in run_search(space, requirements, objective=_objective_of(requirements), within=within, evaluator=evaluator):
        if state.best is not None:
            break
    return state


def _objective_of(requirements: Sequence[Requirement]) -> str:
    """What to make least so that a plan is found soon: a limited figure, memory before others."""
    limited = [each.figure for each in requirements if isinstance(each, AtMost)]
    return "memory" if "memory" in limited else limited[0] if limited else "seconds"


def _relax(
    space: SearchSpace, requirements: Sequence[Requirement], clash: Sequence[Requirement], within: float, evaluator: Evaluator
) -> Iterator[Relaxation]:
    """For each requirement of the clash, the least that it has to give way while all others stay; none where nothing helps."""
    for each in clash:
        others = [other for other in requirements if other != each]
        found = _least(space, others, each, within, evaluator)
        if found is None:
            continue
        candidate, figures = found
        weakened = _weaken(each, candidate, figures)
        if weakened.allows(candidate) and weakened.allows_figures(figures):
            yield Relaxation(weakened, each, candidate, figures)


def _least(
    space: SearchSpace, others: Sequence[Requirement], given_up: Requirement, within: float, evaluator: Evaluator
) -> tuple[PlanCandidate, Figures] | None:
    """The plan that keeps the others and needs least of what is given up."""
    objective = given_up.figure if isinstance(given_up, AtMost) else "seconds"
    state = None
    for state in run_search(space, others, objective=objective, within=within, evaluator=evaluator):
        if state.is_proved:
            break
    return state.best if state else None


def _weaken(requirement: Requirement, candidate: PlanCandidate, figures: Figures) -> Requirement:
    if isinstance(requirement, AtMost):
        return replace(requirement, limit=float(getattr(figures, requirement.figure)))
    return Pin(requirement.decision, (*requirement.values, requirement.value_of(candidate)))
