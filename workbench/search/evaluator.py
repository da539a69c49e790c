"""The planner as a search uses it, in this process or a worker: bounds of many candidates, figures of one.

Results are cached by their inputs, so candidates that share a stage, a layout or a traced network share the work.
"""

from collections.abc import Callable, Hashable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from math import prod
from typing import Any

from workbench.core.program import Program
from workbench.core.tensor import Role
from workbench.cost.collective_times import closest_spans, collective_seconds
from workbench.errors import EngineError, WorkbenchError
from workbench.hardware.catalogue import read_hardware
from workbench.hardware.hardware import Hardware
from workbench.pipeline.staged_program import find_whole_axes
from workbench.plan.plan import Plan
from workbench.search.bounds import relaxed_blocks
from workbench.search.bounds.program_bounds import (
    bound_known_partitions,
    held_bytes,
    minimum_block_totals,
    minimum_block_work,
    program_seconds,
)
from workbench.search.bounds.stage_bounds import BlockTotals, least_figures, least_slowdown
from workbench.search.candidate_plans import candidate_plan, complete_plan, core_plan, pipeline_of, with_schedule
from workbench.search.plan_candidate import SHARING, UNSHARED, WHOLE, PlanCandidate
from workbench.search.search_figures import Figures, evaluate_plan, figures_on
from workbench.search.search_space import SearchSpace
from workbench.search.traced_programs import ON_DEVICE
from workbench.search.uneven_boundaries import BY_TIME
from workbench.tracing.stage_partition.trace_network import Network, network_of


@dataclass(frozen=True, slots=True)
class Bounded:
    """A candidate with lower bounds on each of its figures."""

    candidate: PlanCandidate
    bounds: Figures


def slowdown_of(candidate: PlanCandidate) -> float:
    """Lower bound on the step time of a candidate as a multiple of the mean busy time per device."""
    if candidate.schedule == WHOLE:
        return 1.0
    return least_slowdown(candidate.schedule, candidate.size("stage"), candidate.micro_batches, candidate.chunks)


def never() -> bool:
    """The `is_cancelled` of work that cannot be cancelled."""
    return False


@dataclass
class Evaluator:
    """Cache of planner queries. `is_cancelled` is called between the plans that a per-stage layout is composed of."""

    space: SearchSpace
    _cores: dict[PlanCandidate, Plan | WorkbenchError] = field(default_factory=dict)
    _precise: dict[PlanCandidate, Plan] = field(default_factory=dict)
    _work: dict[Hashable, relaxed_blocks.BlockWork] = field(default_factory=dict)
    _networks: dict[Hashable, Network] = field(default_factory=dict)
    _keys: dict[PlanCandidate, tuple[Any, ...]] = field(default_factory=dict)
    _bytes: dict[Hashable, float] = field(default_factory=dict)
    _seconds: dict[Hashable, float] = field(default_factory=dict)
    _slowdowns: dict[Hashable, float] = field(default_factory=dict)
    _staged: dict[PlanCandidate, Plan] = field(default_factory=dict)
    _figures: dict[PlanCandidate, Figures | WorkbenchError] = field(default_factory=dict)
    is_cancelled: Callable[[], bool] = field(default=never, compare=False, repr=False)

    def core(self, core: PlanCandidate) -> Plan:
        """Return the plan of a core with the program of the start plan. Raises `WorkbenchError` if it is illegal."""
        space = self.space
        key = replace(core.core(), remat=space.remats[0], precision=space.precisions[0], offload=space.offloads[0])
        if key not in self._cores:
            try:
                plain = replace(key, axis_assignment="")
                self._cores[key] = core_plan(space, key) if key == plain else self.core(plain).updated(axis_assignment=key.axis_assignment)
            except WorkbenchError as error:
                self._cores[key] = error
        result = self._cores[key]
        if isinstance(result, WorkbenchError):
            raise result
        return result

    def _in_precision(self, core: PlanCandidate) -> Plan:
        plan = self.core(core)
        if str(plan.program.precision) == core.precision:
            return plan
        key = replace(core, remat=self.space.remats[0], offload=self.space.offloads[0])
        if key not in self._precise:
            self._precise[key] = plan.updated(program=self.space.program_of(key.traced_as))
        return self._precise[key]

    def bound_core(self, core: PlanCandidate) -> Bounded:
        """Bounds from FLOPs at peak and argument bytes; searched layouts stay open. Raises `WorkbenchError`."""
        layout = self.space.find_layout(core.layout)
        if layout.is_chosen or layout.is_per_stage:
            return self._bound_unlaid(core)
        plan = self._in_precision(core)
        placed = plan.layout, plan.mesh, plan.hardware, core.precision, core.offload
        if placed not in self._bytes:
            self._bytes[placed] = held_bytes(plan, core.offload) / (core.size(relaxed_blocks.DATA) * core.size("stage"))  # shared evenly
        seconds = self._program_seconds(plan.program, plan.hardware)
        return Bounded(core, figures_on(plan.hardware, seconds / plan.mesh.size, self._bytes[placed], plan.mesh.size))

    def bound_divided(self, core: PlanCandidate, micro_batches: int) -> Figures:
        """Bound a core with this number of micro-batches by the bubble of its best schedule."""
        bounds = self.bound_core(core).bounds
        return bounds.with_seconds(bounds.seconds * self.least_slowdown(replace(core, micro_batches=micro_batches)))

    def least_slowdown(self, candidate: PlanCandidate) -> float:
        """`slowdown_of` a candidate or, where its schedule is open, of the best one for its micro-batches."""
        if candidate.schedule != WHOLE:
            return slowdown_of(candidate)
        key = candidate.size("stage"), candidate.micro_batches, self.space.find_layout(candidate.layout).is_per_stage
        if key not in self._slowdowns:
            self._slowdowns[key] = min(map(slowdown_of, self.space.schedules_of(candidate, candidate.micro_batches)), default=1.0)
        return self._slowdowns[key]

    def _bound_unlaid(self, core: PlanCandidate) -> Bounded:
        """Bounds that assume that all devices share all work and all arguments evenly."""
        program, hardware = self.space.program_of(core.traced_as), read_hardware(core.hardware or None)
        count = prod(size for _, size in core.mesh)
        held = sum(tensor.bytes for tensor in program.arguments if core.offload == ON_DEVICE or tensor.role is not Role.OPTIMIZER_STATE)
        return Bounded(core, figures_on(hardware, self._program_seconds(program, hardware) / count, held / count, count))

    def _program_seconds(self, program: Program, hardware: Hardware | None) -> float:
        key = program.identity, hardware
        if key not in self._seconds:
            self._seconds[key] = program_seconds(program, hardware)
        return self._seconds[key]

    def _uniform_cores(self, core: PlanCandidate) -> tuple[PlanCandidate, ...]:
        """The core, or one core per legal layout of a stage. Raises `WorkbenchError` if there is none."""
        of_stages = self.space.find_layout(core.layout).of_stages
        legal, refused = [], None
        for uniform in (replace(core, layout=layout.name) for layout in of_stages):
            try:
                self.core(uniform)
                legal.append(uniform)
            except WorkbenchError as error:
                refused = error
        if not legal and refused is not None:
            raise refused
        return tuple(legal) or (core,)

    def work_key(self, core: PlanCandidate, micro_batches: int) -> Hashable:
        """Key of equal device work per micro-batch, for any stages and replicas. Traces nothing."""
        if self.space.find_layout(core.layout).is_per_stage:
            return tuple(self.work_key(uniform, micro_batches) for uniform in self._uniform_cores(core))
        if core not in self._keys:
            self._keys[core] = self._core_key(core)
        least, *others = self._keys[core]
        replicas = relaxed_blocks.replicas_for(self.core(core), micro_batches, least)
        return (*others, replicas, micro_batches * core.size(relaxed_blocks.DATA) // replicas)

    def _core_key(self, core: PlanCandidate) -> tuple[Any, ...]:
        """The least replicas of a core, then every other input of its work except micro-batches."""
        plan = self.core(core)
        spans = closest_spans(plan.mesh, plan.hardware, plan.axis_assignment) if plan.hardware else {}
        others = tuple((axis, size, spans.get(axis)) for axis, size in core.mesh if axis not in (relaxed_blocks.DATA, "stage"))
        return relaxed_blocks.least_replicas(plan), core.hardware, core.axis_assignment, core.layout, core.staged_as, others

    def bound_work(self, core: PlanCandidate, micro_batches: int) -> relaxed_blocks.BlockWork:
        """Lower bound of one micro-batch's work in all stages. Raises `WorkbenchError` without a partition."""
        key = self.work_key(core, micro_batches)
        if key not in self._work and self.space.find_layout(core.layout).is_per_stage:
            is_known = not self.space.start.layout.overrides  # overrides may make other blocks identical in each layout
            works = (
                [self.bound_work(uniform, micro_batches) for uniform in self._uniform_cores(core)]
                if is_known
                else [relaxed_blocks.BlockWork(0.0, 0.0)]
            )
            self._work[key] = minimum_block_work(works)
        if key not in self._work:
            plan = with_schedule(self.space, self.core(core), self.space.schedules_of(core, micro_batches)[0])
            self._work[key] = self._relax(plan).largest_block_work()
        return self._work[key]

    def bound_candidates(self, core: PlanCandidate, micro_batches: int) -> tuple[Bounded, ...]:
        """Bound all candidates of a core and micro-batch count. Raises `WorkbenchError` without a partition."""
        least = self.bound_core(core)
        schedules, zeros = self.space.schedules_of(core, micro_batches), self.space.zeros_of(core)
        if not schedules or schedules[0].schedule == WHOLE:
            return tuple(self._bound_whole(replace(entry, zero=zero), least.bounds) for entry in schedules for zero in zeros)
        cores = self._uniform_cores(core)
        uniform = [with_schedule(self.space, self.core(entry), schedules[0]) for entry in cores]
        firsts = [replace(schedules[0], layout=entry.layout) for entry in cores]
        layout_totals, laid = [self._relaxed_totals(*entry, zeros) for entry in zip(uniform, firsts, strict=True)], uniform[0]
        totals = {zero: minimum_block_totals([entry[zero] for entry in layout_totals]) for zero in zeros}
        bounded = []
        for entry in schedules:
            for zero in zeros:
                bounds = least_figures(pipeline_of(entry), totals[zero], *self._update_rates(uniform))  # holds for all boundaries
                figures = figures_on(laid.hardware, max(bounds.seconds, least.bounds.seconds), bounds.memory, laid.mesh.size)
                bounded += [Bounded(replace(entry, zero=zero, boundaries=rule), figures) for rule in self.space.boundaries_of(entry)]
        return tuple(bounded)

    def _bound_whole(self, candidate: PlanCandidate, least: Figures) -> Bounded:
        """Bound a step without a pipeline by the arguments that a device holds with this ZeRO stage."""
        if self.space.find_layout(candidate.layout).is_chosen:  # finding the layout takes as long as planning it
            return Bounded(candidate, least)
        with suppress(WorkbenchError):  # planning an illegal candidate yields the reason
            least = replace(least, memory=max(least.memory, held_bytes(self.plan(candidate), candidate.offload)))
        return Bounded(candidate, least)

    def _relaxed_totals(self, laid: Plan, first: PlanCandidate, zeros: Sequence[str]) -> dict[str, BlockTotals]:
        """Least block costs of a plan with one layout and no ZeRO, for each of these ZeRO stages."""
        relaxed = self._relax(laid)
        costs = relaxed.block_costs()
        if not relaxed_blocks.exchanges(costs):
            return relaxed_blocks.total_blocks(relaxed, costs, laid, zeros)
        stage = replace(relaxed_blocks.exact_stage(laid), is_exact=False)  # exact except for ZeRO
        totals = relaxed_blocks.total_blocks(stage, stage.block_costs(), laid, zeros)
        for zero in set(zeros) - {*UNSHARED, SHARING}:  # sharded gradients change what replicas send each other within a micro-batch
            with suppress(WorkbenchError):  # such a plan is illegal and needs no bound
                sharded = relaxed_blocks.exact_stage(self.plan(replace(first, zero=zero)))
                totals |= relaxed_blocks.total_blocks(sharded, sharded.block_costs(), laid, [zero])
        return totals

    def bound_partitions(self, candidate: PlanCandidate) -> tuple[Bounded, ...]:
        """Bound the candidates that differ from this one in their schedule and optimizer sharding.

        Uses the planner's partitions and block costs; boundaries are those by time. Raises `WorkbenchError` if the
        program cannot be partitioned.
        """
        core, micro_batches = candidate.core(), candidate.micro_batches
        schedules = self.space.schedules_of(core, micro_batches)
        zeros = [option for option in self.space.zeros_of(core) if option in UNSHARED] if candidate.zero in UNSHARED else [candidate.zero]
        stage = relaxed_blocks.exact_stage(self.plan(replace(schedules[0], zero=candidate.zero)))
        laid, costs = with_schedule(self.space, self.core(core), schedules[0]), stage.block_costs()
        totals = relaxed_blocks.total_blocks(stage, costs, laid, zeros)
        specs = {spec.virtual_stages: spec for spec in map(pipeline_of, schedules)}
        starts = {count: stage.list_starts(costs, spec) for count, spec in specs.items()}
        bounded = []
        for option in schedules:
            spec = pipeline_of(option)
            for zero in zeros:
                least = bound_known_partitions(spec, starts[spec.virtual_stages], totals[zero], *self._update_rates([laid]))
                bounded.append(Bounded(replace(option, zero=zero), figures_on(laid.hardware, least.seconds, least.memory, laid.mesh.size)))
        return tuple(bounded)

    def bound_sharing(self, core: PlanCandidate, micro_batches: int) -> relaxed_blocks.BlockWork:
        """Bound of one micro-batch with gathered parameters. Raises `WorkbenchError` without a partition."""
        first = self.space.schedules_of(core, micro_batches)[0]
        return relaxed_blocks.exact_stage(self.plan(replace(first, zero=SHARING))).largest_block_work()

    def evaluate(self, candidate: PlanCandidate) -> Figures:
        """Return the planner's figures of a candidate. Raises `WorkbenchError` if it is illegal or refused."""
        if candidate not in self._figures:
            try:
                self._figures[candidate] = self._evaluate_plan(candidate)
            except EngineError:  # cancelled, so there is no result to cache
                raise
            except WorkbenchError as error:
                self._figures[candidate] = error
        figures = self._figures[candidate]
        if isinstance(figures, WorkbenchError):
            raise figures
        return figures

    def _evaluate_plan(self, candidate: PlanCandidate) -> Figures:
        """The figures of the plan; candidates whose rule names no boundary share the evaluation of `BY_TIME`."""
        plan = self.plan(candidate)
        if candidate.boundaries != BY_TIME and plan.pipeline is not None and not plan.pipeline.boundaries:
            return self.evaluate(replace(candidate, boundaries=BY_TIME))
        return evaluate_plan(plan)

    def remember(self, candidate: PlanCandidate, figures: Figures) -> None:
        self._figures[candidate] = figures

    def plan(self, candidate: PlanCandidate) -> Plan:
        if not self.space.find_layout(candidate.layout).takes_search:
            return complete_plan(self.space, self.core(candidate), candidate)
        if candidate not in self._staged:
            self._staged[candidate] = candidate_plan(self.space, candidate, self.is_cancelled)
        return self._staged[candidate]

    def _relax(self, plan: Plan) -> relaxed_blocks.RelaxedStage:
        """A stage with the least replicas. Networks are cached for the whole search."""
        spec = plan.pipeline
        if spec is None:
            raise ValueError("a plan with a pipeline is needed")
        replicas = relaxed_blocks.replicas_for(plan, spec.micro_batches, relaxed_blocks.least_replicas(plan))
        parts = spec.micro_batches * relaxed_blocks.count_replicas(plan) // replicas
        key = plan.program.identity, parts
        if key not in self._networks:
            self._networks[key] = network_of(plan.program, parts)
        return relaxed_blocks.relax_stage(plan, spec, self._networks[key], replicas)

    def _update_rates(self, plans: Sequence[Plan]) -> tuple[float, Callable[[int], float]]:
        """Memory bandwidth of a device in bytes per second, and the time to sum gradient bytes over the replicas. The
        sum runs over the planner's axes and their links: some layouts split a micro-batch along more axes than
        `data`, and a sum over two axes of a torus takes less time than over either. The sum counts as free if the
        layouts of the stages differ in these axes.
        """
        (plan, *_), groups = plans, {find_whole_axes(laid) for laid in plans}
        hardware, axes = plan.hardware, groups.pop() if len(groups) == 1 else ()
        if hardware is None:
            return float("inf"), lambda _: 0.0

        def sum_seconds(count: int) -> float:
            return collective_seconds("all-reduce", axes, count, plan.mesh, hardware, plan.axis_assignment) if count and axes else 0.0

        return hardware.chip.memory_bandwidth, sum_seconds
