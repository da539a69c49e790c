"""The search: best-first over bounds, a front that fills, a gap that falls until it says proved.

Nodes wait with bounds that nothing below them can beat: a group of cores whose devices do the same work, a core divided into micro-batches,
a candidate. The node with the least bound is opened next, now and then the one that holds least memory, so that the whole front fills; a
candidate is opened by planning it. What a found plan beats in every figure is never opened. When no bound is below the best plan, that is
proved the best; when no node is left, the front is the front of the whole space.
"""

import heapq
import time
from collections import Counter
from collections.abc import Callable, Hashable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import count, islice

from workbench.errors import EngineError, SearchError, WorkbenchError, unknown_name
from workbench.search.candidates import RECOMPUTING, PlanCandidate
from workbench.search.evaluator import Bounded, Evaluator
from workbench.search.figures import Figures
from workbench.search.first_candidates import list_first_candidates
from workbench.search.neighbours import list_neighbours
from workbench.search.pareto_front import ParetoFront
from workbench.search.questions import Answer, Answerer, InProcess, Question
from workbench.search.relaxed_blocks import BlockWork
from workbench.search.requirements import FIGURES, Requirement, allows_candidate, allows_figures
from workbench.search.search_space import SearchSpace
from workbench.search.search_state import SearchState, objective_key

UNTIL = ("complete", "proved")
"""When a search is over: once the whole front is known, or once the best plan is proved."""
SLACK = 0.002
"""Plans within so much of one on the front are not looked for, except below the best."""
ROUND = 8
"""Nodes that are opened at a time."""
CORES = 500
"""After so many cores put into groups a large space shows how far it is: with the plans that are known, and nothing proved."""
MANY_GROUPS = 1000
"""With more groups than these the best plan is also looked for among the neighbours of the best that is known."""
_TURNS = ("objective", "objective", "objective", "memory")
"""By which bound the next node is chosen, in turn; groups, which tell most for little work, are all opened before."""
_INFINITE = float("inf")
_CORE_DECISIONS = ("layout", "remat", "hardware")


@dataclass(frozen=True, slots=True)
class _Node:
    """What waits, with its bounds.

    - a group: `members` are cores, each with its micro-batches, whose devices do the same work for a micro-batch (`Evaluator.work_key`);
    - a core with its micro-batches;
    - a candidate, `is_leaf`; `is_guess` where it is tried ahead of the node that it waits in, which has its bounds.
    """

    candidate: PlanCandidate
    bounds: Figures
    members: "tuple[_Node, ...]" = ()
    is_leaf: bool = False
    is_guess: bool = False

    @property
    def question(self) -> Question:
        return Question("figures" if self.is_leaf else "work" if self.members else "candidates", self.candidate)


def _guess(candidate: PlanCandidate) -> _Node:
    return _Node(candidate, Figures(0.0, 0.0), is_leaf=True, is_guess=True)


@dataclass
class _Search:
    """The nodes that wait, and what was found. Mutable: a search is a process."""

    space: SearchSpace
    requirements: Sequence[Requirement]
    objective: str
    evaluator: Evaluator
    front: ParetoFront[PlanCandidate] = field(default_factory=ParetoFront)
    found: dict[PlanCandidate, Figures] = field(default_factory=dict)
    refused: Counter[str] = field(default_factory=Counter)
    open: dict[int, _Node] = field(default_factory=dict)
    unanswered: list[tuple[_Node, str]] = field(default_factory=list)
    bounded: int = 0
    groups: int = 0
    tried: set[PlanCandidate] = field(default_factory=set)
    has_started: bool = False

    def __post_init__(self) -> None:
        self._heaps: dict[str, list[tuple[tuple[float, ...], int]]] = {name: [] for name in dict.fromkeys(_TURNS)}
        self._numbers, self._turns = count(), count()

    def start(self) -> Iterator[None]:
        """Everything waits in groups, with what its FLOPs and arguments need; what is no pipeline, alone. It pauses after every `CORES`."""
        groups: dict[Hashable, list[_Node]] = {}
        for number, core in enumerate(self.space.cores(), 1):
            if number % CORES == 0:
                yield
            if self._may_keep(core):
                for node in self._divide(core):
                    candidate = node.candidate
                    if candidate.size("stage") == 1 and candidate.micro_batches == 1:
                        self._add(node)
                    else:
                        groups.setdefault(self.evaluator.work_key(core, candidate.micro_batches), []).append(node)
        for _, members in sorted(groups.items(), key=lambda group: Question("work", group[1][0].candidate).trace_key):
            least = min((each.bounds for each in members), key=self._key)
            memory, devices = min(each.bounds.memory for each in members), min(each.bounds.devices for each in members)
            self._add(_Node(members[0].candidate, replace(least, memory=memory, devices=devices), members=tuple(members)))
        self.has_started = True

    def _may_keep(self, core: PlanCandidate) -> bool:
        """Whether the pins on what a core decides allow it."""
        decided = {axis for axis, _ in core.mesh} | {*_CORE_DECISIONS}
        return all(each.allows(core) for each in self.requirements if getattr(each, "decision", "") in decided)

    def _divide(self, core: PlanCandidate) -> Iterator[_Node]:
        """A core with each number of micro-batches."""
        try:
            bounds = self.evaluator.bound_core(core).bounds
        except WorkbenchError as error:
            self.refused[error.message] += 1
            return
        for micro_batches in self.space.micro_batch_counts(core):
            if self._may_schedule(core, micro_batches):
                yield _Node(replace(core, micro_batches=micro_batches), bounds)

    def _may_schedule(self, core: PlanCandidate, micro_batches: int) -> bool:
        """Whether the pins allow one of its schedules; ZeRO is chosen below."""
        pins = [each for each in self.requirements if getattr(each, "decision", "zero") != "zero"]
        if not pins:
            return self.space.has_schedule(core, micro_batches)
        return any(allows_candidate(pins, each) for each in self.space.schedules_of(core, micro_batches))

    def _key(self, figures: Figures) -> tuple[float, ...]:
        return objective_key(self.objective, figures)

    def _add(self, node: _Node) -> None:
        if self._is_worthless(node):
            return
        number = next(self._numbers)
        self.open[number] = node
        self.groups += bool(node.members)
        heapq.heappush(self._heaps["objective"], (self._key(node.bounds), number))
        heapq.heappush(self._heaps["memory"], ((node.bounds.memory,), number))

    def _is_worthless(self, node: _Node) -> bool:
        """Whether nothing below the node keeps to the requirements, or beats what was found."""
        if not allows_figures(self.requirements, node.bounds) or self.front.beats(node.bounds):
            return True
        return self._key(node.bounds) >= self._best_key() and self.front.beats(node.bounds, SLACK)

    def _best_key(self) -> tuple[float, ...]:
        return min((self._key(figures) for _, figures in self.front), default=(_INFINITE,))

    def next_round(self) -> list[_Node]:
        """The nodes to open next, in the order in which their answers count; empty when none is left."""
        found = self._near_best() if self.groups > MANY_GROUPS else []
        while len(found) < ROUND and (node := self._next_node()) is not None:
            found.append(node)
        return found

    def _near_best(self) -> list[_Node]:
        """Candidates that differ from the best in one decision, half a round of them: a space that is too large to be opened within minutes
        is searched from plan to better plan meanwhile."""
        best = min(self.front, key=lambda entry: self._key(entry[1]), default=None)
        if best is None:
            return []
        near = (each for _, each in list_neighbours(self.space, best[0]) if each not in self.tried and each not in self.found)
        allowed = (each for each in near if allows_candidate(self.requirements, each))
        taken = list(islice(allowed, ROUND // 2))
        self.tried |= {*taken}
        return [_guess(each) for each in taken]

    def _next_node(self) -> _Node | None:
        while self.open:
            heap = self._heaps["objective" if self.groups else _TURNS[next(self._turns) % len(_TURNS)]]
            while heap:
                node = self._take(heapq.heappop(heap)[1])
                if node is not None and not self._is_worthless(node):
                    return node
        return None

    def _take(self, number: int) -> _Node | None:
        """A node that waits no longer; `None` where it was taken before."""
        node = self.open.pop(number, None)
        self.groups -= bool(node and node.members)
        return node

    def take_answer(self, node: _Node, answer: Answer) -> None:
        """Put what is below a node in its place, or keep a plan that was found."""
        if isinstance(answer, EngineError):  # a worker died: the plans below the node are neither known nor beaten
            if not node.is_guess:
                self.unanswered.append((node, answer.message))
        elif isinstance(answer, WorkbenchError):
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
            shares = candidate.size("data") > 1 and "zero_3" in self.space.zeros
            work_seconds = work.seconds(recomputed=RECOMPUTING.get(candidate.remat) == 1, shares_sums=shares)
            seconds = candidate.micro_batches * work_seconds / candidate.size("stage")
            self._add(replace(node, bounds=node.bounds.with_seconds(max(node.bounds.seconds, seconds))))

    def _add_candidate(self, each: Bounded) -> None:
        self.bounded += 1
        if each.candidate not in self.found and allows_candidate(self.requirements, each.candidate):
            self._add(_Node(each.candidate, each.bounds, is_leaf=True))

    def record(self, candidate: PlanCandidate, figures: Figures) -> None:
        """Keep a planned candidate, on the front if it keeps to the requirements."""
        self.found[candidate] = figures
        self.evaluator.remember(candidate, figures)
        if allows_candidate(self.requirements, candidate) and allows_figures(self.requirements, figures):
            self.front = self.front.with_item(candidate, figures)

    def least_key(self) -> tuple[float, ...]:
        """The least bound of all that waits or was not answered, or the best if that is less."""
        if not self.has_started:
            return (0.0,)
        heap = self._heaps["objective"]
        while heap and (heap[0][1] not in self.open or self._is_worthless(self.open[heap[0][1]])):
            self._take(heapq.heappop(heap)[1])
        lost = (self._key(node.bounds) for node, _ in self.unanswered if not self._is_worthless(node))
        return min(heap[0][0] if heap else (_INFINITE,), self._best_key(), *lost)

    def state(self, elapsed: float) -> SearchState:
        least, best = self.least_key(), self._best_key()
        unanswered = tuple(message for node, message in self.unanswered if not self._is_worthless(node))
        return SearchState(
            elapsed,
            self.objective,
            self.front,
            least[0],
            len(self.found),
            self.bounded,
            len(self.open),
            tuple(self.refused.most_common()),
            is_proved=bool(self.front.entries) and least >= best,
            is_complete=self.has_started and not self.open and not unanswered,
            unanswered=unanswered,
        )


def run_search(
    space: SearchSpace,
    requirements: Sequence[Requirement] = (),
    *,
    objective: str = "seconds",
    within: float = 60.0,
    most_evaluations: int | None = None,
    is_cancelled: Callable[[], bool] = lambda: False,
    answerer: Answerer | None = None,
    evaluator: Evaluator | None = None,
    present: PlanCandidate | None = None,
    until: str = "complete",
) -> Iterator[SearchState]:
    """Search for the plans with the least `objective` (of `FIGURES`), and yield the state after every round of nodes.

    It ends when the whole front is proved, or with `until="proved"` the best plan, after `within` seconds, after so many evaluations, or
    when it is cancelled; what was found until then stands in the last state. Rounds are as large whoever answers, so that the same nodes
    are opened however many workers there are. `evaluator` remembers an earlier search of the same space; the `present` plan is planned
    first.
    """
    if objective not in FIGURES:
        raise SearchError(*unknown_name("objective", objective, FIGURES))
    if until not in UNTIL:
        raise SearchError(*unknown_name("end of a search", until, UNTIL))
    begin = time.perf_counter()
    here = evaluator or Evaluator(space)
    ask = (answerer or InProcess(here)).ask
    search = _Search(space, requirements, objective, here)
    for each in list_first_candidates(space, requirements, present):
        first = _guess(each)
        search.take_answer(first, *ask([first.question]))
        yield search.state(time.perf_counter() - begin)
        if search.front.entries or is_cancelled():
            break
    for _ in search.start():
        state = search.state(time.perf_counter() - begin)
        yield state
        if state.elapsed >= within or is_cancelled():
            return
    while True:
        state = search.state(time.perf_counter() - begin)
        yield state
        is_over = most_evaluations is not None and state.evaluated >= most_evaluations
        is_over = is_over or (until == "proved" and state.is_proved)
        if not search.open or is_over or state.elapsed >= within or is_cancelled():
            return
        nodes = search.next_round()
        for node, found in zip(nodes, ask([each.question for each in nodes]), strict=True):
            search.take_answer(node, found)
