"""What a search asks the planner, in this process or in a worker: bounds of many candidates at once, and the figures of one.

Everything is remembered by what it depends on, so that candidates that share a stage, a layout or a traced network share the work.
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
from workbench.search.bounds.program_bounds import least_bytes, least_of_partitions, least_totals, least_work, program_seconds
from workbench.search.bounds.relaxed_blocks import (
    DATA,
    BlockWork,
    RelaxedStage,
    count_replicas,
    exact_stage,
    exchanges,
    least_replicas,
    relax_stage,
    replicas_for,
    total_blocks,
)
from workbench.search.bounds.stage_bounds import BlockTotals, least_figures, least_slowdown
from workbench.search.candidate_plans import candidate_plan, core_plan, pipeline_of, with_schedule
from workbench.search.plan_candidate import SHARING, UNSHARED, WHOLE, PlanCandidate
from workbench.search.search_figures import Figures, evaluate_plan, figures_on
from workbench.search.search_space import SearchSpace
from workbench.search.traced_programs import ON_DEVICE
from workbench.search.uneven_boundaries import BY_TIME
from workbench.tracing.stage_partition.network_blocks import Network
from workbench.tracing.stage_partition.trace_network import network_of


@dataclass(frozen=True, slots=True)
class Bounded:
    """A candidate with bounds: no plan of it is better in any of these figures."""

    candidate: PlanCandidate
    bounds: Figures


def slowdown_of(candidate: PlanCandidate) -> float:
    """How many times as long as its devices work on average its step takes at least."""
    if candidate.schedule == WHOLE:
        return 1.0
    return least_slowdown(candidate.schedule, candidate.size("stage"), candidate.micro_batches, candidate.chunks)


def never() -> bool:
    """What is not cancelled."""
    return False


@dataclass
class Evaluator:
    """The planner as a search asks it. Not a value: it remembers what it was asked. `is_cancelled` is asked between the plans that a layout
    of each stage is made of."""

    space: SearchSpace
    _cores: dict[PlanCandidate, Plan | WorkbenchError] = field(default_factory=dict)
    _precise: dict[PlanCandidate, Plan] = field(default_factory=dict)
    _work: dict[Hashable, BlockWork] = field(default_factory=dict)
    _networks: dict[Hashable, Network] = field(default_factory=dict)
    _keys: dict[PlanCandidate, tuple[Any, ...]] = field(default_factory=dict)
    _bytes: dict[Hashable, float] = field(default_factory=dict)
    _seconds: dict[Hashable, float] = field(default_factory=dict)
    _slowdowns: dict[Hashable, float] = field(default_factory=dict)
    _staged: dict[PlanCandidate, Plan] = field(default_factory=dict)
    _figures: dict[PlanCandidate, Figures | WorkbenchError] = field(default_factory=dict)
    is_cancelled: Callable[[], bool] = field(default=never, compare=False, repr=False)

    def core(self, core: PlanCandidate) -> Plan:
        """The plan of a core, its program as the start has it. Raises `WorkbenchError` where it is illegal."""
        space = self.space
        key = replace(core.core(), remat=space.remats[0], precision=space.precisions[0], offload=space.offloads[0])
        if key not in self._cores:
            try:
                self._cores[key] = self._on_links(key) if key.axis_assignment else core_plan(self.space, key)
            except WorkbenchError as error:
                self._cores[key] = error
        found = self._cores[key]
        if isinstance(found, WorkbenchError):
            raise found
        return found

    def _on_links(self, core: PlanCandidate) -> Plan:
        """A core over links of its choice, from the one over the default links: the layout is laid out once."""
        return self.core(replace(core, axis_assignment="")).updated(axis_assignment=core.axis_assignment)

    def _in_precision(self, core: PlanCandidate) -> Plan:
        """The plan of a core with its program in the core's precision; what it recomputes, and what the host keeps, is not decided."""
        plan = self.core(core)
        if str(plan.program.precision) == core.precision:
            return plan
        key = replace(core, remat=self.space.remats[0], offload=self.space.offloads[0])
        if key not in self._precise:
            self._precise[key] = plan.updated(program=self.space.program_of(key.traced_as))
        return self._precise[key]

    def bound_core(self, core: PlanCandidate) -> Bounded:
        """The FLOPs of the program over the peak of all devices, and what the arguments take: no plan of this core needs less.

        Raises `WorkbenchError` where the core is illegal; a layout that is chosen for each operation or stage is not looked at yet.
        """
        layout = self.space.find_layout(core.layout)
        if layout.is_chosen or layout.is_per_stage:
            return self._bound_unlaid(core)
        plan = self._in_precision(core)
        placed = plan.layout, plan.mesh, plan.hardware, core.precision, core.offload
        if placed not in self._bytes:
            self._bytes[placed] = least_bytes(plan, core)
        seconds = self._program_seconds(plan.program, plan.hardware)
        return Bounded(core, figures_on(plan.hardware, seconds / plan.mesh.size, self._bytes[placed], plan.mesh.size))

    def bound_divided(self, core: PlanCandidate, micro_batches: int) -> Figures:
        """Bounds of a core with this number of micro-batches: devices wait for each other at least as long as under its best schedule."""
        key = core.size("stage"), micro_batches, self.space.find_layout(core.layout).is_per_stage
        if key not in self._slowdowns:
            self._slowdowns[key] = min(map(slowdown_of, self.space.schedules_of(core, micro_batches)), default=1.0)
        bounds = self.bound_core(core).bounds
        return bounds.with_seconds(bounds.seconds * self._slowdowns[key])

    def _bound_unlaid(self, core: PlanCandidate) -> Bounded:
        """The same as if all that the program works on were shared by all devices."""
        program, hardware = self.space.program_of(core.traced_as), read_hardware(core.hardware or None)
        count = prod(size for _, size in core.mesh)
        held = sum(each.bytes for each in program.arguments if core.offload == ON_DEVICE or each.role is not Role.OPTIMIZER_STATE)
        return Bounded(core, figures_on(hardware, self._program_seconds(program, hardware) / count, held / count, count))

    def _program_seconds(self, program: Program, hardware: Hardware | None) -> float:
        key = program.identity, hardware
        if key not in self._seconds:
            self._seconds[key] = program_seconds(program, hardware)
        return self._seconds[key]

    def _uniform_cores(self, core: PlanCandidate) -> tuple[PlanCandidate, ...]:
        """The core itself; or, where each stage has a layout of its own, one with each legal layout that it may choose. Raises
        `WorkbenchError` where there is none."""
        of_stages = self.space.find_layout(core.layout).of_stages
        found, refused = [], None
        for each in (replace(core, layout=layout.name) for layout in of_stages):
            try:
                self.core(each)
                found.append(each)
            except WorkbenchError as error:
                refused = error
        if not found and refused is not None:
            raise refused
        return tuple(found) or (core,)

    def work_key(self, core: PlanCandidate, micro_batches: int) -> Hashable:
        """Equal where a device does the same work for one micro-batch, however many stages and replicas there are. Nothing is traced."""
        if self.space.find_layout(core.layout).is_per_stage:
            return tuple(self.work_key(each, micro_batches) for each in self._uniform_cores(core))
        if core not in self._keys:
            self._keys[core] = self._core_key(core)
        least, *others = self._keys[core]
        replicas = replicas_for(self.core(core), micro_batches, least)
        return (*others, replicas, micro_batches * core.size(DATA) // replicas)

    def _core_key(self, core: PlanCandidate) -> tuple[Any, ...]:
        """The least replicas of a core, and what else its work depends on but for micro-batches."""
        plan = self.core(core)
        spans = closest_spans(plan.mesh, plan.hardware, plan.axis_assignment) if plan.hardware else {}
        others = tuple((axis, size, spans.get(axis)) for axis, size in core.mesh if axis not in (DATA, "stage"))
        return least_replicas(plan), core.hardware, core.axis_assignment, core.layout, core.staged_as, others

    def bound_work(self, core: PlanCandidate, micro_batches: int) -> BlockWork:
        """What all stages together need at least for a micro-batch, by `work_key`.

        Raises `WorkbenchError` where the program cannot be taken apart so.
        """
        key = self.work_key(core, micro_batches)
        if key not in self._work and self.space.find_layout(core.layout).is_per_stage:
            is_known = not self.space.start.layout.overrides  # else the blocks that are alike may be others in each layout
            each_work = [self.bound_work(each, micro_batches) for each in self._uniform_cores(core)] if is_known else [BlockWork(0.0, 0.0)]
            self._work[key] = least_work(each_work)
        if key not in self._work:
            plan = with_schedule(self.space, self.core(core), self.space.schedules_of(core, micro_batches)[0])
            self._work[key] = self._relax(plan).largest_block_work()
        return self._work[key]

    def bound_candidates(self, core: PlanCandidate, micro_batches: int) -> tuple[Bounded, ...]:
        """Each candidate of a core and a number of micro-batches, with its bounds.

        Raises `WorkbenchError` where the program cannot be taken apart so.
        """
        least = self.bound_core(core)
        schedules, zeros = self.space.schedules_of(core, micro_batches), self.space.zeros_of(core)
        if not schedules or schedules[0].schedule == WHOLE:
            return tuple(Bounded(replace(each, zero=zero), least.bounds) for each in schedules for zero in zeros)
        cores = self._uniform_cores(core)
        uniform = [with_schedule(self.space, self.core(each), schedules[0]) for each in cores]
        firsts = [replace(schedules[0], layout=each.layout) for each in cores]
        each_totals, laid = [self._relaxed_totals(*each, zeros) for each in zip(uniform, firsts, strict=True)], uniform[0]
        totals = {zero: least_totals([each[zero] for each in each_totals]) for zero in zeros}
        found = []
        for each in schedules:
            for zero in zeros:
                bounds = least_figures(pipeline_of(each), totals[zero], *self._update_rates(uniform))  # whatever its boundaries
                figures = figures_on(laid.hardware, max(bounds.seconds, least.bounds.seconds), bounds.memory, laid.mesh.size)
                found += [Bounded(replace(each, zero=zero, boundaries=rule), figures) for rule in self.space.boundaries_of(each)]
        return tuple(found)

    def _relaxed_totals(self, laid: Plan, first: PlanCandidate, zeros: Sequence[str]) -> dict[str, BlockTotals]:
        """The least that the blocks of the plan of a candidate with one layout need, for each of these stages of ZeRO, which it has not."""
        relaxed = self._relax(laid)
        costs = relaxed.block_costs()
        if not exchanges(costs):
            return total_blocks(relaxed, costs, laid, zeros)
        stage = replace(exact_stage(laid), is_exact=False)  # but for ZeRO
        totals = total_blocks(stage, stage.block_costs(), laid, zeros)
        for zero in set(zeros) - {*UNSHARED, SHARING}:  # sharded gradients change what replicas send each other within a micro-batch
            with suppress(WorkbenchError):  # such a plan is illegal, and is bounded by nothing
                sharded = exact_stage(self.plan(replace(first, zero=zero)))
                totals |= total_blocks(sharded, sharded.block_costs(), laid, [zero])
        return totals

    def bound_partitions(self, candidate: PlanCandidate) -> tuple[Bounded, ...]:
        """The candidates with any schedule that differ from this one in it, and in whether replicas share the optimiser's state, bounded by
        the stages that the planner makes of their blocks, with the planner's own costs of these. Boundaries are those by time.

        Raises `WorkbenchError` where the program cannot be taken apart so.
        """
        core, micro_batches = candidate.core(), candidate.micro_batches
        schedules = self.space.schedules_of(core, micro_batches)
        zeros = [each for each in self.space.zeros_of(core) if each in UNSHARED] if candidate.zero in UNSHARED else [candidate.zero]
        stage = exact_stage(self.plan(replace(schedules[0], zero=candidate.zero)))
        laid, costs = with_schedule(self.space, self.core(core), schedules[0]), stage.block_costs()
        totals = total_blocks(stage, costs, laid, zeros)
        specs = {spec.virtual_stages: spec for spec in map(pipeline_of, schedules)}
        starts = {count: stage.list_starts(costs, spec) for count, spec in specs.items()}
        found = []
        for each in schedules:
            spec = pipeline_of(each)
            for zero in zeros:
                least = least_of_partitions(spec, starts[spec.virtual_stages], totals[zero], *self._update_rates([laid]))
                found.append(Bounded(replace(each, zero=zero), figures_on(laid.hardware, least.seconds, least.memory, laid.mesh.size)))
        return tuple(found)

    def bound_sharing(self, core: PlanCandidate, micro_batches: int) -> BlockWork:
        """What all stages together need at least for a micro-batch where replicas share the parameters, which they gather for each: the
        planner's own cost of most blocks, with as many replicas as there are.

        Raises `WorkbenchError` where the program cannot be taken apart so.
        """
        first = self.space.schedules_of(core, micro_batches)[0]
        return exact_stage(self.plan(replace(first, zero=SHARING))).largest_block_work()

    def evaluate(self, candidate: PlanCandidate) -> Figures:
        """The planner's figures of a candidate. Raises `WorkbenchError` where it is illegal or refused."""
        if candidate not in self._figures:
            try:
                self._figures[candidate] = self._evaluate_plan(candidate)
            except EngineError:  # cancelled: nothing is known of it
                raise
            except WorkbenchError as error:
                self._figures[candidate] = error
        found = self._figures[candidate]
        if isinstance(found, WorkbenchError):
            raise found
        return found

    def _evaluate_plan(self, candidate: PlanCandidate) -> Figures:
        """The plan's figures; where a rule names no boundary, those by time are known or will be asked for."""
        plan = self.plan(candidate)
        if candidate.boundaries != BY_TIME and plan.pipeline is not None and not plan.pipeline.boundaries:
            return self.evaluate(replace(candidate, boundaries=BY_TIME))
        return evaluate_plan(plan)

    def remember(self, candidate: PlanCandidate, figures: Figures) -> None:
        """Figures that another process found."""
        self._figures[candidate] = figures

    def plan(self, candidate: PlanCandidate) -> Plan:
        """The plan of a candidate. Raises `WorkbenchError` where it is illegal."""
        if not self.space.find_layout(candidate.layout).is_per_stage:
            return candidate_plan(self.space, candidate)
        if candidate not in self._staged:
            self._staged[candidate] = candidate_plan(self.space, candidate, self.is_cancelled)
        return self._staged[candidate]

    def _relax(self, plan: Plan) -> RelaxedStage:
        """A stage with the least replicas. Networks are kept as long as the search: the same few are asked for again and again."""
        spec = plan.pipeline
        if spec is None:
            raise ValueError("a plan with a pipeline is needed")
        replicas = replicas_for(plan, spec.micro_batches, least_replicas(plan))
        parts = spec.micro_batches * count_replicas(plan) // replicas
        key = plan.program.identity, parts
        if key not in self._networks:
            self._networks[key] = network_of(plan.program, parts)
        return relax_stage(plan, spec, self._networks[key], replicas)

    def _update_rates(self, plans: Sequence[Plan]) -> tuple[float, Callable[[int], float]]:
        """Bytes a second of a device's memory, and the seconds of summing so many bytes of gradients over the replicas: over the axes, and
        so the links, that the planner sums them over. A micro-batch is shared along more axes than `data` in some layouts, and a sum over
        two axes of a torus takes less than one over either. Where the layouts that stages choose among differ in it, nothing is counted."""
        (plan, *_), groups = plans, {find_whole_axes(each) for each in plans}
        hardware, axes = plan.hardware, groups.pop() if len(groups) == 1 else ()
        if hardware is None:
            return float("inf"), lambda _: 0.0

        def sum_seconds(count: int) -> float:
            return collective_seconds("all-reduce", axes, count, plan.mesh, hardware, plan.axis_assignment) if count and axes else 0.0

        return hardware.chip.memory_bandwidth, sum_seconds
