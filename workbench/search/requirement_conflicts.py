"""Why no plan keeps all requirements: a smallest set of them that no plan keeps together, and how little would have to give way."""

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import combinations

from workbench.core.text_tables import wrap_text
from workbench.search.best_first import CORE_DECISIONS
from workbench.search.evaluator import Evaluator
from workbench.search.plan_candidate import PlanCandidate
from workbench.search.requirements import AtMost, Pin, Requirement
from workbench.search.run_search import run_search
from workbench.search.search_figures import Figures, figures_text
from workbench.search.search_space import SearchSpace
from workbench.search.search_state import SearchState


@dataclass(frozen=True, slots=True)
class Relaxation:
    """One requirement of a clash in a weaker form, with a plan that keeps it and all others; `is_least` where it is proved that it cannot
    give way by less (a limit), or that no such plan is faster (a pin)."""

    weakened: Requirement
    requirement: Requirement
    candidate: PlanCandidate
    figures: Figures
    is_least: bool = False


@dataclass(frozen=True)
class Clash:
    """`requirements` that no plan of the space keeps together; `relaxations` of single ones. With no requirements the space has no legal
    plan; or, where it is not `is_proved`, the search ended before it was known what clashes.

    - `is_smallest`: fewer of them can be kept, which was tried; `reason`: why most plans that keep them are illegal, if some are.
    """

    requirements: tuple[Requirement, ...]
    relaxations: tuple[Relaxation, ...]
    is_proved: bool = True
    is_smallest: bool = True
    reason: str = ""

    def __str__(self) -> str:
        return clash_text(self)


UNKNOWN = Clash((), (), is_proved=False)


@dataclass(frozen=True)
class _Tries:
    """The searches that a clash needs, all together within their seconds."""

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
    `within` seconds, those for relaxations with them.

    `on_clash` hears of it before its relaxations are looked for, which takes a search each, and again whenever one is known or gives way by
    less. Returns one that is not proved where time did not suffice, or where `is_cancelled` before one is known; after a search that
    `is_complete`, and found nothing, at least all requirements together.
    """
    unknown = Clash(tuple(requirements), (), is_smallest=False) if is_complete else UNKNOWN
    tries = _Tries(space, evaluator or Evaluator(space), time.perf_counter() + within, is_cancelled)
    for size in range(len(requirements) + 1):
        for some in combinations(requirements, size):
            if not tries.left:
                return unknown
            state = _find_any(tries, some)
            if state.best is None and state.is_complete:
                clash = Clash(some, (), reason=_why_refused(tries, some, state))
                on_clash(clash)
                for relaxations in _relax(tries, requirements, some):
                    clash = replace(clash, relaxations=relaxations)
                    on_clash(clash)
                return clash
    return unknown


def _find_any(tries: _Tries, requirements: Sequence[Requirement]) -> SearchState:
    """The search up to its first plan."""
    for state in tries.search(requirements, _objective_of(requirements), until="complete"):
        if state.best is not None:
            break
    return state


def _why_refused(tries: _Tries, requirements: Sequence[Requirement], state: SearchState) -> str:
    """Why most plans were refused; empty where other plans than those that keep the pins may have been."""
    decided = {*tries.space.axes, *CORE_DECISIONS}
    is_of_these = all(not isinstance(each, Pin) or each.decision in decided for each in requirements)
    return state.refused[0][0] if state.refused and is_of_these else ""


def _objective_of(requirements: Sequence[Requirement]) -> str:
    """What to make least so that a plan is found soon: a limited figure, memory before others."""
    limited = [each.figure for each in requirements if isinstance(each, AtMost)]
    return "memory" if "memory" in limited else limited[0] if limited else "seconds"


def _relax(tries: _Tries, requirements: Sequence[Requirement], clash: Sequence[Requirement]) -> Iterator[tuple[Relaxation, ...]]:
    """What is known of how far each requirement of the clash has to give way while all others stay, whenever more is known. Each has its
    share of the time that is left."""
    known: dict[Requirement, Relaxation] = {}
    for place, requirement in enumerate(clash):
        others = [other for other in requirements if other != requirement]
        for state in _improve(tries, others, requirement, 1 / (len(clash) - place)):
            assert state.best is not None, "those without are left out"
            weakened = _weaken(requirement, *state.best)
            if weakened.allows(state.best[0]) and weakened.allows_figures(state.best[1]):
                known[requirement] = Relaxation(weakened, requirement, *state.best, is_least=state.is_proved)
                yield tuple(known.values())


def _improve(tries: _Tries, others: Sequence[Requirement], given_up: Requirement, share: float) -> Iterator[SearchState]:
    """The state with the first plan that keeps the others, and then the one with the plan that needs least of what is given up."""
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


def clash_sentence(clash: Clash) -> str:
    """Which requirements clash, and why if that is known."""
    if not clash.requirements:
        if not clash.is_proved:
            return "It is not known which requirements clash: the search ended before."
        return f"The space has no legal plan{f': {clash.reason}' if clash.reason else '.'}"
    together = " together" if len(clash.requirements) > 1 else ""
    sentence = f"No plan meets {' and '.join(f'`{each}`' for each in clash.requirements)}{together}."
    if not clash.is_smallest:
        return f"{sentence} Fewer of them may clash, too: there was no time to try."
    return f"{sentence} {clash.reason}" if clash.reason and all(isinstance(each, Pin) for each in clash.requirements) else sentence


def relaxation_text(each: Relaxation) -> str:
    """What would help, and whether it is proved that no less would."""
    if isinstance(each.weakened, AtMost):
        return "the least possible, proved" if each.is_least else "the smallest found so far"
    return "the fastest such plan, proved" if each.is_least else "the fastest such plan found so far"


def clash_text(clash: Clash) -> str:
    """What clashes, and what would help."""
    lines = [clash_sentence(clash)]
    lines += [
        f"With `{each.weakened}` ({relaxation_text(each)}) there is {each.candidate}: {figures_text(each.figures)}."
        for each in clash.relaxations
    ]
    return "\n".join(wrap_text(line) for line in lines)
