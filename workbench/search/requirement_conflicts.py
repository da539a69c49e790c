"""Why no plan keeps all requirements: a smallest set of them that no plan keeps together, and how little would have to give way."""

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import combinations

from workbench.core.text_tables import wrap_text
from workbench.search.evaluator import Evaluator
from workbench.search.plan_candidate import PlanCandidate
from workbench.search.requirements import AtMost, Pin, Requirement
from workbench.search.run_search import run_search
from workbench.search.search_figures import Figures, figures_text
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
    """`requirements` that no plan of the space keeps together, though fewer of them can be kept as far as is known; `relaxations` of single
    ones. With no requirements the space has no legal plan; or, where it is not `is_proved`, time did not suffice to know what clashes.
    """

    requirements: tuple[Requirement, ...]
    relaxations: tuple[Relaxation, ...]
    is_proved: bool = True

    def __str__(self) -> str:
        return clash_text(self)


UNKNOWN = Clash((), (), is_proved=False)


def find_clash(
    space: SearchSpace,
    requirements: Sequence[Requirement],
    *,
    within: float = 20.0,
    evaluator: Evaluator | None = None,
    on_clash: Callable[[Clash], None] = lambda _: None,
    is_cancelled: Callable[[], bool] = lambda: False,
    is_complete: bool = False,
) -> Clash:
    """The smallest set of requirements that clash: the first, by size, that a search proves to have no plan, all searches together taking
    `within` seconds.

    `on_clash` hears of it before its relaxations are looked for, which takes a search each, and again whenever one is known or gives way by
    less. Returns one that is not proved where time did not suffice, or where `is_cancelled` before one is known; after a search that
    `is_complete`, and found nothing, at least all requirements together.
    """
    unknown = Clash(tuple(requirements), ()) if is_complete else UNKNOWN
    here, begin = evaluator or Evaluator(space), time.perf_counter()
    for size in range(len(requirements) + 1):
        for some in combinations(requirements, size):
            left = within - (time.perf_counter() - begin)
            if left <= 0 or is_cancelled():
                return unknown
            state = _find_any(space, some, left, here, is_cancelled)
            if state.best is None and state.is_complete:
                clash = Clash(some, ())
                on_clash(clash)
                for relaxations in _relax(space, requirements, some, within, here, is_cancelled):
                    clash = replace(clash, relaxations=relaxations)
                    on_clash(clash)
                return clash
    return unknown


def _find_any(
    space: SearchSpace, requirements: Sequence[Requirement], within: float, evaluator: Evaluator, is_cancelled: Callable[[], bool]
) -> SearchState:
    """The search up to its first plan."""
    objective = _objective_of(requirements)
    for state in run_search(space, requirements, objective=objective, within=within, evaluator=evaluator, is_cancelled=is_cancelled):
        if state.best is not None:
            break
    return state


def _objective_of(requirements: Sequence[Requirement]) -> str:
    """What to make least so that a plan is found soon: a limited figure, memory before others."""
    limited = [each.figure for each in requirements if isinstance(each, AtMost)]
    return "memory" if "memory" in limited else limited[0] if limited else "seconds"


def _relax(
    space: SearchSpace,
    requirements: Sequence[Requirement],
    clash: Sequence[Requirement],
    within: float,
    evaluator: Evaluator,
    is_cancelled: Callable[[], bool],
) -> Iterator[tuple[Relaxation, ...]]:
    """What is known of how far each requirement of the clash has to give way while all others stay, whenever more is known."""
    known: dict[Requirement, Relaxation] = {}
    for requirement in clash:
        others = [other for other in requirements if other != requirement]
        for candidate, figures in _improve(space, others, requirement, within, evaluator, is_cancelled):
            weakened = _weaken(requirement, candidate, figures)
            if weakened.allows(candidate) and weakened.allows_figures(figures):
                known[requirement] = Relaxation(weakened, requirement, candidate, figures)
                yield tuple(known.values())


def _improve(
    space: SearchSpace,
    others: Sequence[Requirement],
    given_up: Requirement,
    within: float,
    evaluator: Evaluator,
    is_cancelled: Callable[[], bool],
) -> Iterator[tuple[PlanCandidate, Figures]]:
    """The first plan that keeps the others, and then the one that needs least of what is given up."""
    objective = given_up.figure if isinstance(given_up, AtMost) else "seconds"
    first = best = None
    for state in run_search(
        space, others, objective=objective, within=within, evaluator=evaluator, is_cancelled=is_cancelled, until="proved"
    ):
        best = state.best
        if best is not None and first is None:
            first = best
            yield best
    if best is not None and best != first:
        yield best


def _weaken(requirement: Requirement, candidate: PlanCandidate, figures: Figures) -> Requirement:
    if isinstance(requirement, AtMost):
        return replace(requirement, limit=float(getattr(figures, requirement.figure)))
    return Pin(requirement.decision, (*requirement.values, requirement.value_of(candidate)))


def clash_text(clash: Clash) -> str:
    """What clashes, and what would help."""
    if not clash.requirements:
        if not clash.is_proved:
            return "What clashes is not known: the time of the search did not suffice."
        return "The space has no legal plan."
    lines = [f"No plan keeps {' and '.join(f'`{each}`' for each in clash.requirements)}."]
    lines += [f"With `{each.weakened}` there is {each.candidate}: {figures_text(each.figures)}." for each in clash.relaxations]
    return "\n".join(wrap_text(line) for line in lines)
