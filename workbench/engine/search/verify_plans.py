"""The best plans of a search, compiled for the hardware they are planned for: whether they fit, and what their compiler says of memory."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from workbench.engine.worker.launch import compile_plan
from workbench.errors import WorkbenchError
from workbench.search.candidates import PlanCandidate
from workbench.search.figures import Figures
from workbench.search.search_result import SearchResult


@dataclass(frozen=True, slots=True)
class VerifiedPlan:
    """A plan of the front beside its compiler's answer: peak bytes of the fullest device, or why it could not be compiled."""

    candidate: PlanCandidate
    planned: Figures
    peak: int | None = None
    refusal: str = ""

    @property
    def memory_error(self) -> float | None:
        """How far the planned peak is from the compiled one, as a share of that; `None` where it was not compiled."""
        return None if not self.peak else self.planned.memory / self.peak - 1


def verify_plans(
    result: SearchResult, most: int = 3, on_verified: Callable[[VerifiedPlan], None] | None = None
) -> tuple[VerifiedPlan, ...]:
    """Compile the fastest plans of a front, each in a worker process; a refusal is an answer, with the compiler's words."""
    found = []
    for each in _verify(result, most):
        found.append(each)
        if on_verified is not None:
            on_verified(each)
    return tuple(found)


def _verify(result: SearchResult, most: int) -> Iterator[VerifiedPlan]:
    for candidate, figures in result.front[:most]:
        try:
            compiled = compile_plan(result.evaluator.plan(candidate))
        except WorkbenchError as error:
            yield VerifiedPlan(candidate, figures, refusal=error.message)
        else:
            yield VerifiedPlan(candidate, figures, peak=compiled.memory.peak)
