"""What a search asks the planner, in this process or in a worker: bounds of many candidates at once, and the figures of one.

Everything is remembered by what it depends on, so that candidates that share a stage, a layout or a traced network share the work.
"""

from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass, field, replace

from workbench.core.mesh import Mesh
from workbench.core.pipeline_spec import PipelineSpec
from workbench.cost.communication import closest_spans, collective_seconds
from workbench.cost.tiled_bytes import tiled_bytes
from workbench.errors import WorkbenchError
from workbench.hardware.catalogue import read_hardware
from workbench.pipeline.balance import balance
from workbench.pipeline.estimate_block_cost import BlockCost, make_stage_context
from workbench.pipeline.estimate_stage_costs import stage_block_costs
from workbench.pipeline.staged_program import StagedProgram
from workbench.plan.plan import Plan
from workbench.propagation import structure_of
from workbench.search.candidate_plans import candidate_plan, core_plan, pipeline_of, with_schedule
from workbench.search.candidates import NO_ZERO, WHOLE, PlanCandidate
from workbench.search.figures import NOMINAL, Figures, evaluate_plan, figures_on
from workbench.search.layout_choices import RecipeMove
from workbench.search.priced_stage import PricedStage, price_stage
from workbench.search.relaxed_blocks import DATA, BlockWork, RelaxedStage, count_replicas, relax_stage
from workbench.search.search_space import SearchSpace
from workbench.search.stage_bounds import LeastFigures, least_figures
from workbench.tracing.stage_partition.network_blocks import Network
from workbench.tracing.stage_partition.trace_network import network_of


@dataclass(frozen=True, slots=True)
class Bounded:
    """A candidate with bounds: no plan of it is better in any of these figures."""

    candidate: PlanCandidate
    bounds: Figures


@dataclass
class Evaluator:
    """The planner as a search asks it. Not a value: it remembers what it was asked."""

    space: SearchSpace
    _cores: dict[PlanCandidate, Plan | WorkbenchError] = field(default_factory=dict)
    _blocks: dict[Hashable, tuple[BlockCost, ...]] = field(default_factory=dict)
    _work: dict[Hashable, BlockWork] = field(default_factory=dict)
    _networks: dict[Hashable, Network] = field(default_factory=dict)
    _starts: dict[Hashable, tuple[int, ...]] = field(default_factory=dict)
    _seconds: dict[Hashable, float] = field(default_factory=dict)
    _figures: dict[PlanCandidate, Figures | WorkbenchError] = field(default_factory=dict)

    def core(self, core: PlanCandidate) -> Plan:
        """The plan of a core, its program as the start has it. Raises `WorkbenchError` where it is illegal."""
        key = replace(core.core(), remat=self.space.remats[0])
        if key not in self._cores:
            try:
                self._cores[key] = core_plan(self.space, key)
            except WorkbenchError as error:
                self._cores[key] = error
        found = self._cores[key]
        if isinstance(found, WorkbenchError):
            raise found
        return found

    def bound_core(self, core: PlanCandidate) -> Bounded:
        """The FLOPs of the program over the peak of all devices, and what the arguments take: no plan of this core needs less.

        Raises `WorkbenchError` where the core is illegal.
        """
        plan = self.core(core)
        key = plan.program.identity, plan.hardware
        if key not in self._seconds:
            self._seconds[key] = _program_seconds(plan)
        return Bounded(core, figures_on(plan.hardware, self._seconds[key] / plan.mesh.size, _least_bytes(plan, core), plan.mesh.size))

    def work_key(self, core: PlanCandidate, micro_batches: int) -> Hashable:
        """Equal where a device does the same work for one micro-batch, however many stages and replicas there are. Nothing is traced."""
        hardware = read_hardware(core.hardware or None)
        spans = closest_spans(Mesh(core.mesh), hardware, None) if hardware else {}
        others = tuple((axis, size, spans.get(axis)) for axis, size in core.mesh if axis not in (DATA, "stage"))
        traced = "none" if core.remat == "full" else core.remat
        return core.hardware, core.layout, traced, others, micro_batches * core.size(DATA)

    def bound_work(self, core: PlanCandidate, micro_batches: int) -> BlockWork:
        """What all stages together need at least for a micro-batch, by `work_key`.

        Raises `WorkbenchError` where the program cannot be taken apart so.
        """
        key = self.work_key(core, micro_batches)
        if key not in self._work:
            plan = with_schedule(self.space, self.core(core), self.space.schedules_of(core, micro_batches)[0])
            self._work[key] = self._relax(plan).largest_block_work()
        return self._work[key]

    def bound_candidates(self, core: PlanCandidate, micro_batches: int) -> tuple[Bounded, ...]:
        """Each candidate of a core and a number of micro-batches, with its bounds.

        Raises `WorkbenchError` where the program cannot be taken apart so.
        """
        plan, least = self.core(core), self.bound_core(core)
        schedules, zeros = self.space.schedules_of(core, micro_batches), self.space.zeros_of(core)
        if not schedules or schedules[0].schedule == WHOLE:
            return tuple(Bounded(replace(each, zero=zero), least.bounds) for each in schedules for zero in zeros)
        laid = with_schedule(self.space, plan, schedules[0])
        return tuple(each for zero in zeros for each in self._bound_schedules(laid, zero, schedules, least.bounds))

    def _bound_schedules(self, laid: Plan, zero: str, schedules: Sequence[PlanCandidate], least: Figures) -> Iterator[Bounded]:
        """The candidates of one layout and one stage of ZeRO, bounded by the costs of its blocks as the planner has them. One that cannot
        be laid out so has the core's bounds: planning it tells why."""
        candidates = [replace(each, zero=zero) for each in schedules]
        try:
            plan = laid if zero == NO_ZERO else RecipeMove(zero, (DATA,)).apply(laid)
        except WorkbenchError:
            yield from (Bounded(each, least) for each in candidates)
            return
        stage = self._stage_of(plan)
        for each in candidates:
            bounds = self._least_figures(stage, pipeline_of(each))
            seconds = max(bounds.seconds, least.seconds)
            yield Bounded(each, figures_on(plan.hardware, seconds, bounds.memory, plan.mesh.size))

    def evaluate(self, candidate: PlanCandidate) -> Figures:
        """The planner's figures of a candidate. Raises `WorkbenchError` where it is illegal or refused."""
        if candidate not in self._figures:
            try:
                self._figures[candidate] = evaluate_plan(self.plan(candidate))
            except WorkbenchError as error:
                self._figures[candidate] = error
        found = self._figures[candidate]
        if isinstance(found, WorkbenchError):
            raise found
        return found

    def remember(self, candidate: PlanCandidate, figures: Figures) -> None:
        """Figures that another process found."""
        self._figures[candidate] = figures

    def plan(self, candidate: PlanCandidate) -> Plan:
        """The plan of a candidate. Raises `WorkbenchError` where it is illegal."""
        return candidate_plan(self.space, candidate)

    def _relax(self, plan: Plan) -> RelaxedStage:
        """A stage without its replicas. Networks are kept as long as the search: the same few are asked for again and again."""
        spec = plan.pipeline
        if spec is None:
            raise ValueError("a plan with a pipeline is needed")
        return relax_stage(plan, spec, self._network(plan, spec.micro_batches * count_replicas(plan)))

    def _stage_of(self, plan: Plan) -> PricedStage:
        """A plan's blocks with their costs; costs are kept for plans whose stages are alike."""
        if plan.pipeline is None:
            raise ValueError("a plan with a pipeline is needed")
        staged = StagedProgram(plan, plan.pipeline, self._network(plan, plan.pipeline.micro_batches))
        context = make_stage_context(staged)
        key = context, plan.pipeline.micro_batches
        if key not in self._blocks:
            self._blocks[key] = stage_block_costs(context, staged.network)
        return price_stage(staged, context, self._blocks[key])

    def _network(self, plan: Plan, parts: int) -> Network:
        key = plan.program.identity, parts
        if key not in self._networks:
            self._networks[key] = network_of(plan.program, parts)
        return self._networks[key]

    def _least_figures(self, stage: PricedStage, spec: PipelineSpec) -> LeastFigures:
        plan, hardware = stage.plan, stage.plan.hardware
        key = stage.works, spec.virtual_stages
        if key not in self._starts:
            self._starts[key] = balance(stage.works, spec.virtual_stages).starts
        if hardware is None:
            return least_figures(spec, stage.totals, self._starts[key], float("inf"), lambda _: 0.0)

        def sum_seconds(count: int) -> float:
            axes = stage.summed_over
            return collective_seconds("all-reduce", axes, count, plan.mesh, hardware, plan.axis_assignment) if count and axes else 0.0

        return least_figures(spec, stage.totals, self._starts[key], hardware.chip.memory_bandwidth, sum_seconds)


def _program_seconds(plan: Plan) -> float:
    """Seconds of the program's dots on one device at its peak, without what is computed again; those of hand-written kernels count half,
    for they may skip what a mask hides."""
    structure, hardware = structure_of(plan.program), plan.hardware
    seconds = 0.0
    for op in structure.ops:
        if op.work.flops and not op.is_recomputed:
            dtype = structure.values[op.operands[0]].dtype
            rate = hardware.chip.peak(dtype) if hardware else NOMINAL
            seconds += op.work.flops * structure.regions[op.region].runs_per_step / rate * (0.5 if op.custom_kernel else 1.0)
    return seconds


def _least_bytes(plan: Plan, core: PlanCandidate) -> float:
    """Bytes of the arguments on one device, were they shared evenly among replicas and stages."""
    tile = plan.hardware.chip.array_tile if plan.hardware else ()
    placed = zip(plan.program.arguments, plan.argument_shardings, strict=True)
    total = sum(tiled_bytes(tuple(sharding.local_shape(tensor.shape, plan.mesh)), tensor.dtype, tile) for tensor, sharding in placed)
    return total / (core.size(DATA) * core.size("stage"))
