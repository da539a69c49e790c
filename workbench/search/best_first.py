"""The nodes of a search, best-first over bounds: what waits, what was found, what is asked next, and what an answer leads to.

A descent from the first plans comes before (`descent`), and again from every better plan that is found: a good plan first, then its proof.

Nodes wait with bounds that nothing below them can beat: a group of cores whose devices do the same work, a core divided into micro-batches,
its candidates that differ in the schedule, a candidate. The node with the least bound is opened next, now and then the one that holds least
memory, so that the whole front fills; a candidate is opened by planning it. What a found plan beats in every figure is never opened. When
no bound is below the best plan, that is proved the best; when no node is left, the front is the front of the whole space.

`IN_FLIGHT` questions are asked ahead, so that workers never wait. Answers are taken in the order of the questions, and the next question is
chosen by the answers taken so far: which nodes are opened does not depend on how many workers there are, nor on how fast each is.
"""

import heapq
from collections import Counter, deque
from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain, count

from workbench.errors import EngineError, WorkbenchError
from workbench.hardware.catalogue import read_hardware
from workbench.search.bounds.program_bounds import program_seconds
from workbench.search.bounds.relaxed_blocks import BlockWork
from workbench.search.descent import Descent
from workbench.search.evaluator import Bounded, Evaluator, slowdown_of
from workbench.search.neighbours import list_neighbours, list_pairs
from workbench.search.plan_candidate import NO_ZERO, RECOMPUTING, SHARING, UNSHARED, WHOLE, PlanCandidate
from workbench.search.requirements import Requirement, allows_candidate, allows_figures
from workbench.search.search_figures import Figures, ParetoFront, figures_on
from workbench.search.search_nodes import SearchNode, alternate, count_unusual, guess
from workbench.search.search_space import SearchSpace
from workbench.search.search_state import SearchState, objective_key
from workbench.search.worker_questions import Answer, Answerer, Wait

SLACK = 0.002
"""Plans within so much of one on the front are not looked for, except below the best."""
IN_FLIGHT = 16
"""Questions that are asked before the first of them need be answered."""
FEW_IN_FLIGHT = 4
"""So many in a descent, where an answer changes what is asked next."""
CORES = 500
"""After so many cores put into groups a large space shows how far it is: with the plans that are known, and nothing proved."""
MANY_GROUPS = 1000
"""With more groups than these it would take minutes until the first candidate is looked at."""
_MANY_TURNS = ("near", "usual", "objective", "usual")
"""By what the next node is chosen then: near the best plan, least unusual (`count_unusual`), or with the least bound."""
_TURNS = ("objective", "objective", "objective", "memory")
"""By which bound the next node is chosen, in turn; groups, which tell most for little work, are all opened before."""
_DESCENT_TURNS = 4
"""Of so many turns one is a descent's, as long as one is under way."""
_INFINITE = float("inf")
CORE_DECISIONS = ("layout", "remat", "precision", "offload", "hardware")
"""What a core decides beside its mesh: a pin on one leaves cores out."""


@dataclass
class BestFirst:
    """The nodes that wait, and what was found. Mutable: a search is a process."""

    space: SearchSpace
    requirements: Sequence[Requirement]
    objective: str
    evaluator: Evaluator
    front: ParetoFront[PlanCandidate] = field(default_factory=ParetoFront)
    found: dict[PlanCandidate, Figures] = field(default_factory=dict)
    refused: Counter[str] = field(default_factory=Counter)
    open: dict[int, SearchNode] = field(default_factory=dict)
    unanswered: list[tuple[SearchNode, str]] = field(default_factory=list)
    bounded: int = 0
    groups: int = 0
    tried: set[PlanCandidate] = field(default_factory=set)
    asked: deque[tuple[SearchNode, Wait]] = field(default_factory=deque)
    has_started: bool = False

    def __post_init__(self) -> None:
        self._heaps: dict[str, list[tuple[tuple[float, ...], int]]] = {name: [] for name in ("objective", "memory", "usual")}
        self._numbers, self._turns, self._chosen, self._descended = count(), count(), count(), count()
        self._near: tuple[PlanCandidate | None, Iterator[PlanCandidate]] = None, iter(())
        self.descent = Descent(self.space, self.requirements, self.objective, self.found, self.may_win, self.tried)
        self._least_of_all = min(map(self._key, self._bound_programs()), default=(0.0,))

    def _bound_programs(self) -> Iterator[Figures]:
        """What the FLOPs of the program need on each hardware: no plan of the space is better, whatever its mesh and layout."""
        programs = {program.identity: program for _, program in self.space.programs}.values()
        for text, devices in self.space.hardware:
            hardware = read_hardware(text or None)
            least = min((program_seconds(each, hardware) for each in programs), default=0.0)
            yield figures_on(hardware, least / devices, 0.0, devices)

    def start(self) -> Iterator[None]:
        """Everything waits in groups, with what its FLOPs and arguments need; what is no pipeline, alone. It pauses after every `CORES`."""
        groups: dict[Hashable, list[SearchNode]] = {}
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
        for members in alternate(groups.values()):
            self._add_group("work", members)
        self.has_started = True

    def may_fit(self, candidate: PlanCandidate) -> bool:
        """Whether what all plans of its core need keeps to the requirements. An illegal one is tried: the answer says why."""
        try:
            return allows_figures(self.requirements, self.evaluator.bound_core(candidate.core()).bounds)
        except WorkbenchError:
            return True

    def may_win(self, candidate: PlanCandidate) -> bool:
        """Whether a legal candidate may keep to the requirements and be better than the best, by what all plans of its core need."""
        try:
            bounds = self.evaluator.bound_core(candidate.core()).bounds
        except WorkbenchError:
            return False
        bounds = bounds.with_seconds(bounds.seconds * slowdown_of(candidate))
        return allows_figures(self.requirements, bounds) and self._key(bounds) < self._best_key()

    def _add_group(self, kind: str, members: Sequence[SearchNode]) -> None:
        """Nodes that one question raises the bounds of, those of no worth left out."""
        members = [each for each in members if not self._is_worthless(each)]
        if not members:
            return
        least = min((each.bounds for each in members), key=self._key)
        memory, devices = min(each.bounds.memory for each in members), min(each.bounds.devices for each in members)
        self._add(SearchNode(members[0].candidate, replace(least, memory=memory, devices=devices), kind, tuple(members)))

    def _may_keep(self, core: PlanCandidate) -> bool:
        """Whether the pins on what a core decides allow it."""
        decided = {axis for axis, _ in core.mesh} | {*CORE_DECISIONS}
        return all(each.allows(core) for each in self.requirements if getattr(each, "decision", "") in decided)

    def _divide(self, core: PlanCandidate) -> Iterator[SearchNode]:
        """A core with each number of micro-batches."""
        counts = [each for each in self.space.micro_batch_counts(core) if self._may_schedule(core, each)]
        try:
            for micro_batches in counts:
                yield SearchNode(replace(core, micro_batches=micro_batches), self.evaluator.bound_divided(core, micro_batches))
        except WorkbenchError as error:
            self.refused[error.message] += 1

    def _may_schedule(self, core: PlanCandidate, micro_batches: int) -> bool:
        """Whether the pins allow one of its schedules; ZeRO and boundaries are chosen below."""
        pins = [each for each in self.requirements if getattr(each, "decision", "zero") not in ("zero", "boundaries")]
        if not pins:
            return self.space.has_schedule(core, micro_batches)
        return any(allows_candidate(pins, each) for each in self.space.schedules_of(core, micro_batches))

    def _key(self, figures: Figures) -> tuple[float, ...]:
        return objective_key(self.objective, figures)

    def _add(self, node: SearchNode) -> None:
        if self._is_worthless(node):
            return
        number = next(self._numbers)
        self.open[number] = node
        self.groups += node.kind == "work"
        heapq.heappush(self._heaps["objective"], (self._key(node.bounds), number))
        heapq.heappush(self._heaps["memory"], ((node.bounds.memory,), number))
        if node.kind != "work" and self._is_large:
            heapq.heappush(self._heaps["usual"], ((count_unusual(node.candidate), *self._key(node.bounds)), number))

    @property
    def _is_large(self) -> bool:
        """Whether groups are many, or not counted yet."""
        return not self.has_started or self.groups > MANY_GROUPS

    def _is_worthless(self, node: SearchNode) -> bool:
        """Whether nothing below the node keeps to the requirements, or beats what was found."""
        if not allows_figures(self.requirements, node.bounds) or self.front.beats(node.bounds):
            return True
        return self._key(node.bounds) >= self._best_key() and self.front.beats(node.bounds, SLACK)

    def _best_key(self) -> tuple[float, ...]:
        return min((self._key(figures) for _, figures in self.front), default=(_INFINITE,))

    def ask_ahead(self, answerer: Answerer) -> None:
        """Ask for the nodes to open next, until enough questions are in flight or no node is left; before the start for the next
        neighbours of a descent."""
        if not self.has_started:
            while len(self.asked) < FEW_IN_FLIGHT and (each := self.descent.next_candidate()) is not None:
                self.asked.append((guess(each), answerer.submit(guess(each).question)))
            return
        while len(self.asked) < IN_FLIGHT and (node := self._choose()) is not None:
            self.asked.append((node, answerer.submit(node.question)))

    def take_now(self, candidate: PlanCandidate, answerer: Answerer) -> None:
        """Plan a candidate, unless that was done."""
        if candidate not in self.found:
            self.asked.appendleft((guess(candidate), answerer.submit(guess(candidate).question)))
            self.take_next()

    def take_next(self) -> None:
        """Take the oldest answer. It is not waited for where what was taken meanwhile beats the node, or has it as a neighbour; a question
        that nobody waits for any longer is still asked."""
        node, wait = self.asked.popleft()
        is_found = node.kind == "figures" and node.candidate in self.found
        if is_found or self._is_worthless(node):
            return
        answer = wait()
        if answer is None or (isinstance(answer, EngineError) and self.evaluator.is_cancelled()):
            self.asked.appendleft((node, wait))
        else:
            self.take_answer(node, answer)

    def _choose(self) -> SearchNode | None:
        """The node to open next; now and then the next neighbour of a descent, which better plans have begun meanwhile."""
        if next(self._descended) % _DESCENT_TURNS == 0 and (each := self.descent.next_candidate()) is not None:
            return guess(each)
        if self.groups <= MANY_GROUPS:
            return self._next_node("objective" if self.groups else _TURNS[next(self._turns) % len(_TURNS)])
        turn = _MANY_TURNS[next(self._chosen) % len(_MANY_TURNS)]
        if turn == "near":
            return self._next_near_best() or self._next_node("usual") or self._next_node("objective")
        return self._next_node(turn) or self._next_node("objective")

    def _next_near_best(self) -> SearchNode | None:
        """A candidate that differs from the best in one decision or two: from plan to better plan a good one is found soon."""
        best = min(self.front, key=lambda entry: self._key(entry[1]), default=None)
        if best is None:
            return None
        if self._near[0] != best[0]:
            self._near = best[0], chain((each for _, each in list_neighbours(self.space, best[0])), list_pairs(self.space, best[0]))
        for each in self._near[1]:
            if each not in self.tried and each not in self.found and allows_candidate(self.requirements, each):
                self.tried.add(each)
                return guess(each)
        return None

    def _next_node(self, by: str) -> SearchNode | None:
        heap = self._heaps[by]
        while heap:
            node = self._take(heapq.heappop(heap)[1])
            if node is not None and not self._is_worthless(node):
                return node
        return None

    def _take(self, number: int) -> SearchNode | None:
        """A node that waits no longer; `None` where it was taken before."""
        node = self.open.pop(number, None)
        self.groups -= node is not None and node.kind == "work"
        return node

    def take_answer(self, node: SearchNode, answer: Answer) -> None:
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
        elif node.kind == "partition":
            self._raise_bounds(node, answer)
        else:
            self._add_candidates(answer)

    def _raise_bounds(self, group: SearchNode, found: Sequence[Bounded]) -> None:
        """Each member waits for itself, with the bounds that were found besides."""
        known = {each.candidate: each.bounds for each in found}
        for node in group.members:
            figures = known.get(node.candidate, node.bounds)
            higher = node.bounds.with_seconds(max(node.bounds.seconds, figures.seconds))
            self._add(replace(node, bounds=replace(higher, memory=max(node.bounds.memory, figures.memory))))

    def _open_group(self, group: SearchNode, work: BlockWork) -> None:
        """Each member waits for itself, with the seconds that a micro-batch needs in all stages; candidates, with what is known of their
        partition."""
        members = []
        for node in group.members:
            candidate = node.candidate
            shares = candidate.size("data") > 1 and SHARING in self.space.zeros
            work_seconds = work.seconds(recomputed=RECOMPUTING.get(candidate.remat) == 1, shares_params=shares)
            seconds = candidate.micro_batches * work_seconds / candidate.size("stage")
            members.append(replace(node, bounds=node.bounds.with_seconds(max(node.bounds.seconds, seconds))))
        if group.kind == "sharing":
            self._add_group("partition", members)
        else:
            for node in members:
                self._add(node)

    def _add_candidates(self, found: Sequence[Bounded]) -> None:
        """Candidates of one core; those that one question tells more of wait in a group."""
        self.bounded += len(found)
        allowed = [each for each in found if each.candidate not in self.found and allows_candidate(self.requirements, each.candidate)]
        groups: dict[str, list[SearchNode]] = {}
        for each in allowed:
            node = SearchNode(each.candidate, each.bounds, "figures")
            layout = self.space.find_layout(each.candidate.layout)
            if each.candidate.schedule == WHOLE or layout.is_per_stage:
                self._add(node)
            else:
                groups.setdefault(NO_ZERO if each.candidate.zero in UNSHARED else each.candidate.zero, []).append(node)
        for zero, members in groups.items():
            self._add_group("sharing" if zero == SHARING else "partition", members)

    def record(self, candidate: PlanCandidate, figures: Figures) -> None:
        """Keep a planned candidate, on the front if it keeps to the requirements."""
        self.found[candidate] = figures
        self.evaluator.remember(candidate, figures)
        self.descent.take(candidate, figures)
        if allows_candidate(self.requirements, candidate) and allows_figures(self.requirements, figures):
            self.front = self.front.with_item(candidate, figures)

    def least_key(self) -> tuple[float, ...]:
        """The least bound of all that waits or was not answered, or the best if that is less."""
        if not self.has_started:
            return min(self._least_of_all, self._best_key())
        heap = self._heaps["objective"]
        while heap and (heap[0][1] not in self.open or self._is_worthless(self.open[heap[0][1]])):
            self._take(heapq.heappop(heap)[1])
        others = (node for node, _ in (*self.unanswered, *self.asked) if not node.is_guess)
        left = (self._key(node.bounds) for node in others if not self._is_worthless(node))
        return min(heap[0][0] if heap else (_INFINITE,), self._best_key(), *left)

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
            len(self.open) + len(self.asked),
            tuple(self.refused.most_common()),
            is_proved=bool(self.front.entries) and least >= best,
            is_complete=self.has_started and not self.open and not self.asked and not unanswered,
            unanswered=unanswered,
        )
