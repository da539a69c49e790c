"""Best-first search over bounds: the open nodes, the plans found, the next question and the effect of an answer.

A coordinate descent (`descent`) comes before it and again after every improvement: a good plan first, then its proof.

Every open node has a lower bound on the figures of all plans below it. A node is a group of cores whose devices do the
same work, a core with a number of micro-batches, its candidates that differ in the schedule, or one candidate. The node
with the least bound is opened next, and now and then the node with the least memory, so that the whole front fills.
Opening a candidate plans it. A node that a found plan beats in every figure is never opened. When no bound is below the
best plan, that plan is proved optimal; when no node is left, the front is complete.

`IN_FLIGHT` questions are asked ahead so that workers never wait. Answers are taken in the order of the questions, and
the next question depends only on the answers taken so far: the search is deterministic, whatever the number and the
speed of the workers.
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
from workbench.search.evaluator import Bounded, Evaluator, slowdown_of
from workbench.search.neighbours import list_neighbours, list_pairs
from workbench.search.plan_candidate import NO_ZERO, RECOMPUTING, SHARING, UNSHARED, WHOLE, PlanCandidate
from workbench.search.requirements import Pin, Requirement, allows_candidate, allows_figures
from workbench.search.search_figures import Figures, ParetoFront, figures_on
from workbench.search.search_nodes import Descent, SearchNode, alternate, count_unusual, guess
from workbench.search.search_space import SearchSpace
from workbench.search.search_state import SearchState, objective_key
from workbench.search.worker_questions import Answer, Answerer, Wait

SLACK = 0.002
"""Plans within this share of a plan on the front are skipped, except below the best."""
IN_FLIGHT = 16
"""Questions in flight before the first answer is needed."""
FEW_IN_FLIGHT = 4
"""The same during a descent, where each answer changes the next question."""
CORES = 500
"""`BestFirst.start` pauses after this many cores, so that a large space can report its state."""
MANY_GROUPS = 1000
"""With more groups than this, opening all of them first would take minutes."""
_MANY_TURNS = ("near", "usual", "objective", "usual")
"""Criteria for the next node when there are many groups, in turn: near the best plan, least unusual (`count_unusual`),
least bound.
"""
_TURNS = ("objective", "objective", "objective", "memory")
"""Criteria for the next node otherwise, in turn. Groups come first: they raise many bounds for little work."""
_DESCENT_TURNS = 4
"""One question in this many belongs to a descent, while one is under way."""
_INFINITE = float("inf")
CORE_DECISIONS = ("layout", "remat", "precision", "offload", "hardware")
"""Decisions of a core besides its mesh; a pin on one of them excludes cores."""


@dataclass
class BestFirst:
    """Open nodes and plans found so far. Mutable: a search is a process."""

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
        """Lower bounds from the FLOPs of the program, one per hardware; valid for every mesh and layout."""
        programs = {program.identity: program for _, program in self.space.programs}.values()
        for text, devices in self.space.hardware:
            hardware = read_hardware(text or None)
            least = min((program_seconds(traced, hardware) for traced in programs), default=0.0)
            yield figures_on(hardware, least / devices, 0.0, devices)

    def start(self) -> Iterator[None]:
        """Add all cores as nodes: pipelines in groups, the others alone. Pauses after every `CORES` cores."""
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
        """Whether the bounds of its core meet the requirements. Illegal cores pass: planning them yields the reason."""
        try:
            return allows_figures(self.requirements, self.evaluator.bound_core(candidate.core()).bounds)
        except WorkbenchError:
            return True

    def may_win(self, candidate: PlanCandidate) -> bool:
        """Whether a legal candidate can meet the requirements and beat the best plan, by the bounds of its core."""
        try:
            bounds = self.evaluator.bound_core(candidate.core()).bounds
        except WorkbenchError:
            return False
        bounds = bounds.with_seconds(bounds.seconds * slowdown_of(candidate))
        return allows_figures(self.requirements, bounds) and self._key(bounds) < self._best_key()

    def _add_group(self, kind: str, members: Sequence[SearchNode]) -> None:
        """Add nodes whose bounds one question raises, without the worthless ones."""
        members = [node for node in members if not self._is_worthless(node)]
        if not members:
            return
        least = min((node.bounds for node in members), key=self._key)
        memory, devices = min(node.bounds.memory for node in members), min(node.bounds.devices for node in members)
        self._add(SearchNode(members[0].candidate, replace(least, memory=memory, devices=devices), kind, tuple(members)))

    def _may_keep(self, core: PlanCandidate) -> bool:
        """Whether the pins on core decisions allow the core."""
        decided = {axis for axis, _ in core.mesh} | {*CORE_DECISIONS}
        return all(
            requirement.allows(core)
            for requirement in self.requirements
            if isinstance(requirement, Pin) and requirement.decision in decided
        )

    def _divide(self, core: PlanCandidate) -> Iterator[SearchNode]:
        """Nodes of a core, one per number of micro-batches."""
        counts = [number for number in self.space.micro_batch_counts(core) if self._may_schedule(core, number)]
        try:
            for micro_batches in counts:
                yield SearchNode(replace(core, micro_batches=micro_batches), self.evaluator.bound_divided(core, micro_batches))
        except WorkbenchError as error:
            self.refused[error.message] += 1

    def _may_schedule(self, core: PlanCandidate, micro_batches: int) -> bool:
        """Whether the pins allow one of the schedules. ZeRO and boundaries are chosen below."""
        core_pins = [
            requirement for requirement in self.requirements if getattr(requirement, "decision", "zero") not in ("zero", "boundaries")
        ]
        if not core_pins:
            return self.space.has_schedule(core, micro_batches)
        return any(allows_candidate(core_pins, requirement) for requirement in self.space.schedules_of(core, micro_batches))

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
        if node.kind != "work" and (not self.has_started or self.groups > MANY_GROUPS):  # before the start, groups are not counted yet
            heapq.heappush(self._heaps["usual"], ((count_unusual(node.candidate), *self._key(node.bounds)), number))

    def _is_worthless(self, node: SearchNode) -> bool:
        """Whether no plan below the node can meet the requirements or improve on the plans found."""
        if not allows_figures(self.requirements, node.bounds) or self.front.beats(node.bounds):
            return True
        return self._key(node.bounds) >= self._best_key() and self.front.beats(node.bounds, SLACK)

    def _best_key(self) -> tuple[float, ...]:
        return min((self._key(figures) for _, figures in self.front), default=(_INFINITE,))

    def submit_questions(self, answerer: Answerer) -> None:
        """Ask for the next nodes until enough questions are in flight; before the start, for the next neighbors of a
        descent.
        """
        if not self.has_started:
            while len(self.asked) < FEW_IN_FLIGHT and (candidate := self.descent.next_candidate()) is not None:
                self.asked.append((guess(candidate), answerer.submit(guess(candidate).question)))
            return
        while len(self.asked) < IN_FLIGHT and (node := self._choose()) is not None:
            self.asked.append((node, answerer.submit(node.question)))

    def evaluate_now(self, candidate: PlanCandidate, answerer: Answerer) -> None:
        """Plan a candidate now, unless it has been planned."""
        if candidate not in self.found:
            self.asked.appendleft((guess(candidate), answerer.submit(guess(candidate).question)))
            self.take_next()

    def take_next(self) -> None:
        """Take the oldest answer. Skips waiting if the node has become worthless or its candidate has been planned
        meanwhile.
        """
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
        """The node to open next, or the next neighbor of a descent that an improvement started."""
        if next(self._descended) % _DESCENT_TURNS == 0 and (candidate := self.descent.next_candidate()) is not None:
            return guess(candidate)
        if self.groups <= MANY_GROUPS:
            return self._next_node("objective" if self.groups else _TURNS[next(self._turns) % len(_TURNS)])
        turn = _MANY_TURNS[next(self._chosen) % len(_MANY_TURNS)]
        if turn == "near":
            return self._next_near_best() or self._next_node("usual") or self._next_node("objective")
        return self._next_node(turn) or self._next_node("objective")

    def _next_near_best(self) -> SearchNode | None:
        """A new candidate that differs from the best in one or two decisions: improvements are often close to each
        other.
        """
        best = min(self.front, key=lambda entry: self._key(entry[1]), default=None)
        if best is None:
            return None
        if self._near[0] != best[0]:
            neighbours = (candidate for _, candidate in list_neighbours(self.space, best[0]))
            self._near = best[0], chain(neighbours, list_pairs(self.space, best[0]))
        for candidate in self._near[1]:
            if candidate not in self.tried and candidate not in self.found and allows_candidate(self.requirements, candidate):
                self.tried.add(candidate)
                return guess(candidate)
        return None

    def _next_node(self, by: str) -> SearchNode | None:
        heap = self._heaps[by]
        while heap:
            node = self._take(heapq.heappop(heap)[1])
            if node is not None and not self._is_worthless(node):
                return node
        return None

    def _take(self, number: int) -> SearchNode | None:
        """Remove an open node; `None` if it was removed before."""
        node = self.open.pop(number, None)
        self.groups -= node is not None and node.kind == "work"
        return node

    def take_answer(self, node: SearchNode, answer: Answer) -> None:
        """Replace a node by the nodes below it, or record its plan."""
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
        """Add the members of a group as single nodes, with their new bounds."""
        bounds_of = {bounded.candidate: bounded.bounds for bounded in found}
        for node in group.members:
            figures = bounds_of.get(node.candidate, node.bounds)
            higher = node.bounds.with_seconds(max(node.bounds.seconds, figures.seconds))
            self._add(replace(node, bounds=replace(higher, memory=max(node.bounds.memory, figures.memory))))

    def _open_group(self, group: SearchNode, work: BlockWork) -> None:
        """Add the members of a group with the seconds that a micro-batch needs in all stages, and the bubble."""
        members = []
        for node in group.members:
            candidate = node.candidate
            shares = candidate.size("data") > 1 and SHARING in self.space.zeros
            work_seconds = work.seconds(recomputed=RECOMPUTING.get(candidate.remat) == 1, shares_params=shares)
            seconds = candidate.micro_batches * work_seconds / candidate.size("stage") * self.evaluator.least_slowdown(candidate)
            members.append(replace(node, bounds=node.bounds.with_seconds(max(node.bounds.seconds, seconds))))
        if group.kind == "sharing":
            self._add_group("partition", members)
        else:
            for node in members:
                self._add(node)

    def _add_candidates(self, found: Sequence[Bounded]) -> None:
        """Add the candidates of one core; those whose bounds one question can raise form a group."""
        self.bounded += len(found)
        allowed = [
            bounded for bounded in found if bounded.candidate not in self.found and allows_candidate(self.requirements, bounded.candidate)
        ]
        groups: dict[str, list[SearchNode]] = {}
        for bounded in allowed:
            node = SearchNode(bounded.candidate, bounded.bounds, "figures")
            layout = self.space.find_layout(bounded.candidate.layout)
            if bounded.candidate.schedule == WHOLE or layout.is_per_stage:
                self._add(node)
            else:
                groups.setdefault(NO_ZERO if bounded.candidate.zero in UNSHARED else bounded.candidate.zero, []).append(node)
        for zero, members in groups.items():
            self._add_group("sharing" if zero == SHARING else "partition", members)

    def record(self, candidate: PlanCandidate, figures: Figures) -> None:
        """Record a planned candidate, and put it on the front if it meets the requirements."""
        self.found[candidate] = figures
        self.evaluator.remember(candidate, figures)
        self.descent.take(candidate, figures)
        if allows_candidate(self.requirements, candidate) and allows_figures(self.requirements, figures):
            self.front = self.front.with_item(candidate, figures)

    def least_key(self) -> tuple[float, ...]:
        """The least bound of all open and unanswered nodes, or the best plan's objective if that is less."""
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
