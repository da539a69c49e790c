"""Questions of a search as records: answered in this process, by workers or on a cluster, with the same answers."""

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
"""Kinds of questions that are answered with the candidate's own number of replicas."""


@dataclass(frozen=True, slots=True)
class Question:
    """A question about a candidate: bounds on the `work` of a group, on the `candidates` of a core, on those whose
    replicas share parameters (`sharing`) or that differ in the schedule alone (`partition`); or the `figures` of the
    candidate.
    """

    kind: str
    candidate: PlanCandidate

    @property
    def trace_key(self) -> tuple[str, int]:
        """Equal for questions about the same traced network."""
        candidate = self.candidate
        parts = candidate.micro_batches * (1 if self.kind in _AS_PLANNED else candidate.size("data"))  # up to the least replicas
        return str(candidate.staged_as), parts


Answer = BlockWork | tuple[Bounded, ...] | Figures | WorkbenchError
Wait = Callable[[], Answer | None]
"""Returns the answer once it is there; `None` if the evaluator is cancelled first."""


class Answerer(Protocol):
    """Answers questions, several at a time if it can."""

    def submit(self, question: Question) -> Wait:
        """Take a question and return a function that waits for its answer. If that is never called, no answer is
        needed.
        """

    def close(self) -> None: ...


def answer(evaluator: Evaluator, question: Question) -> Answer:
    """Answer one question. An error of the planner is an answer, too."""
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
    """Answers in this process, when the answer is waited for."""

    evaluator: Evaluator

    def submit(self, question: Question) -> Wait:
        return partial(answer, self.evaluator, question)

    def close(self) -> None:
        """Close nothing: no resource is open."""
