"""The search: best-first over bounds, a front that fills, a gap that falls until it says proved.

Nodes wait with bounds that nothing below them can beat: a core (mesh, layout, remat), a core divided into micro-batches, a candidate. The
node with the least bound is opened next, now and then the one that holds least memory, so that the whole front fills; a candidate is opened
by planning it. What a found plan beats in every figure is never opened. When no bound is below the best plan, that is proved the fastest;
when no node is left, the front is the front of the whole space.
"""

import heapq
import time
from collections import Counter
from collections.abc import Callable, Hashable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import count

from workbench.errors import WorkbenchError
from workbench.search.candidates import PlanCandidate
from workbench.search.evaluator import Bounded, Evaluator
from workbench.search.figures import Figures
from workbench.search.first_candidates import list_first_candidates
from workbench.search.pareto_front import ParetoFront
from workbench.search.questions import Answer, Answerer, InProcess, Question
from workbench.search.relaxed_blocks import BlockWork
from workbench.search.requirements import Requirement, allows_candidate, allows_figures
from workbench.search.search_space import SearchSpace

SLACK = 0.002
"""Plans within so much of one on the front are not looked for, except below the fastest."""
ROUND = 8
"""Nodes that are opened at a time."""
_TURNS = ("seconds", "seconds", "seconds", "memory")
"""By which bound the next node is chosen, in turn."""


@dataclass(frozen=True)
class SearchState:
    """How far a search is; a value that a view shows.

    - `front`: the plans that nothing found beats; `best` the fastest of them, `None` as long as none fits;
    - `least_seconds`: no plan of the space that keeps the requirements is faster;
    - `evaluated` candidates were planned, `bounded` are known by bounds, `refused` are illegal, by reason; `open` nodes wait;
    - `is_proved`: the best is the fastest; `is_complete`: nothing is left to look at.
    """

    elapsed: float
    front: ParetoFront[PlanCandidate]
    least_seconds: float
    evaluated: int
    bounded: int
    open: int
    refused: tuple[tuple[str, int], ...] = ()
    is_proved: bool = False
    is_complete: bool = False

    @property
    def best(self) -> tuple[PlanCandidate, Figures] | None:
        return self.front.entries[0] if self.front.entries else None

    @property
    def gap(self) -> float:
        """By how much of its time the best could be beaten at most; 1 as long as there is none."""
        if self.best is None:
            return 1.0
        seconds = self.best[1].seconds
        return max(0.0, 1 - self.least_seconds / seconds) if seconds else 0.0


@dataclass(frozen=True, slots=True)
class _Node:
    """What waits, with its bounds.

    - a group: `members` are cores, each with its micro-batches, whose devices do the same work for a micro-batch (`Evaluator.work_key`);
    - a core with its micro-batches;
    - a candidate, `is_leaf`.
    """

    candidate: PlanCandidate
    seconds: float
    memory: float
    members: "tuple[_Node, ...]" = ()
    is_leaf: bool = False


@dataclass
class _Search:
    """The nodes that wait, and what was found. Mutable: a search is a process."""

    space: SearchSpace
    requirements: Sequence[Requirement]
    evaluator: Evaluator
    front: ParetoFront[PlanCandidate] = field(default_factory=ParetoFront)
    found: dict[PlanCandidate, Figures] = field(default_factory=dict)
    refused: Counter[str] = field(default_factory=Counter)
    open: dict[int, _Node] = field(default_factory=dict)
    bounded: int = 0
    has_started: bool = False

    def __post_init__(self) -> None:
        self._heaps: dict[str, list[tuple[float, int]]] = {name: [] for name in dict.fromkeys(_TURNS)}
        self._numbers, self._turns = count(), count()

    def start(self) -> None:
        """Everything waits in groups, with what its FLOPs and arguments need; what is no pipeline, alone."""
        self.has_started = True
        groups: dict[Hashable, list[_Node]] = {}
        for core in self.space.cores():
            if self._may_keep(core):
                for node in self._divide(core):
                    candidate = node.candidate
                    if self._is_whole(candidate):
                        self._add(node)
                    else:
                        groups.setdefault(self.evaluator.work_key(core, candidate.micro_batches), []).append(node)
        for _, members in sorted(groups.items(), key=lambda group: Question("work", group[1][0].candidate).trace_key):
            least = min(each.seconds for each in members), min(each.memory for each in members)
            self._add(_Node(members[0].candidate, *least, members=tuple(members)))

    def _divide(self, core: PlanCandidate) -> Iterator[_Node]:
        """A core with each number of micro-batches."""
        try:
            bounds = self.evaluator.bound_core(core)
        except WorkbenchError as error:
            self.refused[error.message] += 1
            return
        for micro_batches in self.space.micro_batch_counts(core):
            if self.space.schedules_of(core, micro_batches):
                yield _Node(replace(core, micro_batches=micro_batches), bounds.seconds, bounds.memory)

    def _is_whole(self, candidate: PlanCandidate) -> bool:
        return candidate.size("stage") == 1 and candidate.micro_batches == 1

    def _may_keep(self, core: PlanCandidate) -> bool:
        """Whether the pins on what a core decides allow it."""
        decided = {axis for axis, _ in core.mesh} | {"layout", "remat", "hardware"}
        return all(each.allows(core) for each in self.requirements if getattr(each, "decision", "") in decided)

    def _add(self, node: _Node) -> None:
        if self._is_worthless(node):
            return
        number = next(self._numbers)
        self.open[number] = node
        for name, heap in self._heaps.items():
            heapq.heappush(heap, (getattr(node, name), number))

    def _is_worthless(self, node: _Node) -> bool:
        """Whether nothing below the node keeps to the requirements, or beats what was found."""
        if not allows_figures(self.requirements, node):
            return True
        bound = Figures(node.seconds, int(node.memory), 0)
        best = self.front.entries[0][1].seconds if self.front.entries else float("inf")
        return self._beats(bound, 0.0) or (node.seconds >= best and self._beats(bound, SLACK))

    def _beats(self, bound: Figures, slack: float) -> bool:
        return any(
            each.seconds <= bound.seconds * (1 + slack) and each.memory <= bound.memory * (1 + slack) for _, each in self.front.entries
        )

    def next_round(self) -> list[_Node]:
        """The nodes to open next, in the order in which their answers count; empty when none is left."""
        found: list[_Node] = []
        while len(found) < ROUND and (node := self._next_node()) is not None:
            found.append(node)
        return found

    def _next_node(self) -> _Node | None:
        while self.open:
            heap = self._heaps[_TURNS[next(self._turns) % len(_TURNS)]]
            while heap:
                _, number = heapq.heappop(heap)
                node = self.open.pop(number, None)
                if node is not None and not self._is_worthless(node):
                    return node
        return None

    def take_answer(self, node: _Node, answer: Answer) -> None:
        """Put what is below a node in its place, or keep a plan that was found."""
        if isinstance(answer, WorkbenchError):
            self.refused[answer.message] += 1
        elif isinstance(answer, Figures):
            self.record(node.candidate, answer)
        elif isinstance(answer, BlockWork):
            self._open_group(node, answer)
        else:
            for each in answer:
                self._add_candidate(each)

    def _open_group(self, group: _Node, work: BlockWork) -> None:
        """Each member waits for itself, with the seconds that a micro-batch needs in all stages."""
        for node in group.members:
            candidate = node.candidate
            seconds = candidate.micro_batches * work.seconds(recomputed=candidate.remat == "full") / candidate.size("stage")
            self._add(replace(node, seconds=max(node.seconds, seconds)))

    def _add_candidate(self, each: Bounded) -> None:
        self.bounded += 1
        if each.candidate not in self.found and allows_candidate(self.requirements, each.candidate):
            self._add(_Node(each.candidate, each.seconds, each.memory, is_leaf=True))

    def record(self, candidate: PlanCandidate, figures: Figures) -> None:
        """Keep a planned candidate, on the front if it keeps to the requirements."""
        self.found[candidate] = figures
        if allows_candidate(self.requirements, candidate) and allows_figures(self.requirements, figures):
            self.front = self.front.with_item(candidate, figures)

    def least_seconds(self) -> float:
        """The least bound of all that waits, or the best if that is less."""
        heap = self._heaps["seconds"]
        while heap and (heap[0][1] not in self.open or self._is_worthless(self.open[heap[0][1]])):
            self.open.pop(heapq.heappop(heap)[1], None)
        waiting = (heap[0][0] if heap else float("inf")) if self.has_started else 0.0
        best = self.front.entries[0][1].seconds if self.front.entries else float("inf")
        return min(waiting, best)

    def state(self, elapsed: float) -> SearchState:
        least = self.least_seconds()
        best = self.front.entries[0][1].seconds if self.front.entries else None
        return SearchState(
            elapsed,
            self.front,
            least,
            len(self.found),
            self.bounded,
            len(self.open),
            tuple(self.refused.most_common()),
            is_proved=best is not None and least >= best,
            is_complete=self.has_started and not self.open,
        )


def run_search(
    space: SearchSpace,
    requirements: Sequence[Requirement] = (),
    *,
    within: float = 60.0,
    most_evaluations: int | None = None,
    is_cancelled: Callable[[], bool] = lambda: False,
    answerer: Answerer | None = None,
) -> Iterator[SearchState]:
    """Search, and yield the state after every round of nodes.

    It ends when the whole front is proved, after `within` seconds, after so many evaluations, or when it is cancelled; what was found until
    then stands in the last state. Rounds are as large whoever answers, so that the same nodes are opened however many workers there are.
    """
    begin = time.perf_counter()
    evaluator = Evaluator(space)
    ask = (answerer or InProcess(evaluator)).ask
    search = _Search(space, requirements, evaluator)
    for each in list_first_candidates(space, requirements):
        search.take_answer(_Node(each, 0.0, 0.0, is_leaf=True), *ask([Question("figures", each)]))
        yield search.state(time.perf_counter() - begin)
        if search.front.entries or is_cancelled():
            break
    search.start()
    while True:
        state = search.state(time.perf_counter() - begin)
        yield state
        is_over = most_evaluations is not None and state.evaluated >= most_evaluations
        if state.is_complete or is_over or state.elapsed >= within or is_cancelled():
            return
        nodes = search.next_round()
        for node, answer in zip(nodes, ask([_question_of(each) for each in nodes]), strict=True):
            search.take_answer(node, answer)


def _question_of(node: _Node) -> Question:
    return Question("figures" if node.is_leaf else "work" if node.members else "candidates", node.candidate)
