"""What a search asks, as records: they can be answered in this process, in workers, or on a cluster, and the answers are the same."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Protocol

from workbench.errors import WorkbenchError
from workbench.search.bounds.relaxed_blocks import BlockWork
from workbench.search.evaluator import Bounded, Evaluator
from workbench.search.plan_candidate import PlanCandidate
from workbench.search.search_figures import Figures

KINDS = ("work", "candidates", "sharing", "partition", "figures")

_AS_PLANNED = ("sharing", "partition", "figures")
"""What is answered with as many replicas as the candidate has."""


@dataclass(frozen=True, slots=True)
class Question:
    """Bounds of the `work` of a group, of the `candidates` of a core with its micro-batches; of the work of those whose replicas share
    parameters (`sharing`), of those that differ in the schedule alone (`partition`); or the `figures` of one candidate."""

    kind: str
    candidate: PlanCandidate

    @property
    def trace_key(self) -> tuple[str, int]:
        """Equal for questions that read the same traced network."""
        candidate = self.candidate
        parts = candidate.micro_batches * (1 if self.kind in _AS_PLANNED else candidate.size("data"))  # up to the least replicas
        return str(candidate.staged_as), parts


Answer = BlockWork | tuple[Bounded, ...] | Figures | WorkbenchError
Wait = Callable[[], Answer | None]
"""Gives the answer once it is there; `None` where the evaluator is cancelled first."""


class Answerer(Protocol):
    """Whoever answers questions, several at a time if it can."""

    def submit(self, question: Question) -> Wait:
        """Take a question. What is returned gives the answer; if nobody calls it, nobody need answer."""

    def close(self) -> None: ...


def answer(evaluator: Evaluator, question: Question) -> Answer:
    """The answer to one question; what the planner refuses is an answer too."""
    core, micro_batches = question.candidate.core(), question.candidate.micro_batches
    try:
        if question.kind == "work":
            return evaluator.bound_work(core, micro_batches)
        if question.kind == "candidates":
            return evaluator.bound_candidates(core, micro_batches)
        if question.kind == "partition":
            return evaluator.bound_partitions(question.candidate)
        if question.kind == "sharing":
            return evaluator.bound_sharing(core, micro_batches)
        return evaluator.evaluate(question.candidate)
    except WorkbenchError as error:
        return error


@dataclass(frozen=True)
class InProcess:
    """Answers in this process, each question when its answer is asked for."""

    evaluator: Evaluator

    def submit(self, question: Question) -> Wait:
        return partial(answer, self.evaluator, question)

    def close(self) -> None:
        """Nothing is open."""
