"""The planner's report on a plan: placements, collectives, memory, FLOP, time and diagnostics."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property, partial

from workbench.core.fact_page import rows_text
from workbench.core.mesh import Mesh
from workbench.core.source_annotations import SourceAnnotations
from workbench.core.text_tables import Printed, pairs_text
from workbench.errors import PipelineError, WorkbenchError
from workbench.hardware.hardware import Hardware
from workbench.plan.edits import Edit
from workbench.plan.plan import Plan
from workbench.reports.collective import Collective, payload_by_axis_and_kind
from workbench.reports.compiled import Compiled, Scheduled
from workbench.reports.device_memory import Alive, Memory, MemoryCurve
from workbench.reports.diagnostic import ONCE, Diagnostic, Duplication, explain_duplication
from workbench.reports.figure_ranges import MEMORY, SENT, STEP, Range
from workbench.reports.kernel import Graph, Kernel, Timeline
from workbench.reports.padding import LARGEST, Padding, padding_table
from workbench.reports.partitioned import Partitioned
from workbench.reports.pipeline import PipelineReport, headline_figures
from workbench.reports.placement import Placement, Value
from workbench.reports.propagation import EMPTY, Propagation
from workbench.reports.propagation_records import Conflict
from workbench.reports.propagation_text import conflicts_text, explanation_text
from workbench.reports.report_text import (
    arguments_text,
    carried_text,
    collectives_text,
    diagnostics_text,
    duplication_text,
    hardware_figures,
    head_text,
    memory_figures,
    sent_figure,
    tier_source_text,
    time_figures,
)
from workbench.reports.reshard import Reshard, reshards_text
from workbench.reports.step_time import DotCost, Flops, StepTime, float8_figures
from workbench.units import format_bytes, format_count


@dataclass(frozen=True, kw_only=True)
class Details:
    """The functions that compute the parts of a report on first use; by default the parts are empty.

    See the properties of `Report`. Functions of the report try edits against the whole plan.
    """

    values: Callable[[], tuple[Value, ...]] = tuple
    memory_curve: Callable[[], MemoryCurve] = lambda: MemoryCurve((), {})
    alive: Callable[[], tuple[Alive, ...]] = tuple
    alive_at: Callable[[int], tuple[Alive, ...]] = lambda _place: ()
    products: Callable[[], tuple[DotCost, ...]] = tuple
    timeline: Callable[[], Timeline | None] = lambda: None
    kernels: Callable[[], tuple[Kernel, ...]] = tuple
    graph: Callable[[], Graph] = Graph
    pipeline: Callable[[], PipelineReport | None] = lambda: None
    stages: "Callable[[Report], tuple[Report, ...]]" = lambda report: (report,)  # raises `PipelineError` as `pipeline` does
    source_annotations: Callable[[], SourceAnnotations] = SourceAnnotations
    padding: Callable[[], tuple[Padding, ...]] = tuple
    propagation: Callable[[], Propagation] = lambda: EMPTY
    reshards: "Callable[[Report], tuple[Reshard, ...]]" = lambda _report: ()
    notes: "Callable[[Report], tuple[Diagnostic, ...]]" = lambda report: report.diagnostics
    ranges: "Callable[[Report], Mapping[str, Range]]" = lambda _report: {}
    resolving_edits: "Callable[[Report, Conflict], tuple[Edit, ...]]" = lambda _report, _conflict: ()  # after which the loser wins


@dataclass(frozen=True)
class Report(Printed):
    """All planned figures of a plan; deterministic.

    Per-device figures are in `stages`: without a pipeline this report alone, with a pipeline one report per stage over
    the whole step (`stage` is its number). The figures of the report of a pipelined plan are those of a device of the
    fullest stage, but `flops` counts all stages. If the program cannot be partitioned into stages, the figures describe
    the program without a pipeline, which no device runs. A pipeline with `engine:spmd` is one program for all devices
    (a shifting buffer); the report describes this program (`is_one_program`) if the layers can run in lockstep.
    """

    plan: Plan
    arguments: tuple[Placement, ...]
    results: tuple[Placement, ...]
    collectives: tuple[Collective, ...]
    memory: Memory
    flops: Flops
    traffic: int  # bytes per device and step, read and written in device memory
    kernels: int = 0  # fused operations per device and step
    host_traffic: int = 0  # bytes per device and step, to and from host memory
    diagnostics: tuple[Diagnostic, ...] = ()
    hardware: Hardware | None = None  # for time and capacity
    step_time: StepTime | None = None
    partitioned: Partitioned | None = None  # source of the collectives, if set
    compiled: Compiled | Scheduled | None = None  # source of memory and step time, if set
    predicted: "Report | None" = field(default=None, compare=False, repr=False)  # before compilation, see `prediction`
    stage: int | None = None  # pipeline stage of this report
    is_one_program: bool = False  # all devices run the pipeline as one program
    details: Details = field(default=Details(), compare=False, repr=False)

    @property
    def tier(self) -> str:
        """The source of the figures.

        `planned`: Shardy in this process; `partitioned`: XLA's partitioner, for the collectives and derived figures;
        `compiled`: the hardware's compiler, also for memory and kernel times.
        """
        return "compiled" if self.compiled is not None else "planned" if self.partitioned is None else "partitioned"

    @property
    def is_compiled(self) -> bool:
        """Return whether the compiler has finished, including code generation."""
        return isinstance(self.compiled, Compiled)

    @property
    def is_scheduled(self) -> bool:
        """Return whether the collectives are from the compiler's scheduled program."""
        return self.partitioned is not None and self.partitioned.scheduled is not None

    @property
    def has_compiled_times(self) -> bool:
        """Return whether kernel times are compiler estimates, which only XLA:TPU gives."""
        return self.compiled is not None and self.compiled.compute_seconds is not None

    @property
    def prediction(self) -> "Report":
        """The report before the plan was compiled; this report if it was not."""
        return self.predicted or self

    @property
    def mesh(self) -> Mesh:
        return self.plan.mesh

    @cached_property
    def values(self) -> tuple[Value, ...]:
        """The intermediate values, grouped; computed on first use."""
        return self.details.values()

    @cached_property
    def reshards(self) -> tuple[Reshard, ...]:
        """Places where values are resharded, full rematerializations first, then by bytes sent; computed on first use."""
        return self.details.reshards(self)

    @cached_property
    def padding(self) -> tuple[Padding, ...]:
        """Values whose dimensions do not divide evenly, most wasteful first; computed on first use."""
        return self.details.padding()

    @cached_property
    def propagation(self) -> Propagation:
        """The propagation of the shardings, step by step, with rejected axes; computed on first use."""
        return self.details.propagation()

    def explain(self, value: str = "", dim: "int | str | None" = None) -> str:
        """Explain the sharding of an argument, result or intermediate value, given by path, pattern or source line.

        `dim` is a dimension by index or name; default: all. Without a value: every conflict, and edits that reverse it.
        Raises `PropagationError` if the value or dimension does not exist.
        """
        if not value:
            return conflicts_text(self.propagation, partial(self.details.resolving_edits, self))
        return explanation_text(self.propagation, value, dim)

    @cached_property
    def memory_curve(self) -> MemoryCurve:
        """Memory over the step; computed on first use."""
        return self.details.memory_curve()

    @cached_property
    def alive(self) -> tuple[Alive, ...]:
        """Values in memory at the peak by named scope, largest first; computed on first use."""
        return self.details.alive()

    @cached_property
    def products(self) -> tuple[DotCost, ...]:
        """The dots of a step, largest on one device first; computed on first use."""
        return self.details.products()

    def alive_at(self, place: int) -> tuple[Alive, ...]:
        """Return the values in memory at a position of `memory_curve`, largest first. Raises `IndexError`."""
        if not 0 <= place < len(self.memory_curve.paths):
            raise IndexError(f"The step has {len(self.memory_curve.paths)} places; {place} is out of range.")
        return self.details.alive_at(place)

    @cached_property
    def kernel_costs(self) -> tuple[Kernel, ...]:
        """The cost of each kernel, longest first; computed on first use, empty without hardware."""
        return self.details.kernels()

    @cached_property
    def graph(self) -> Graph:
        """The graph of kernels and their data flow; computed on first use."""
        return self.details.graph()

    @cached_property
    def source_annotations(self) -> SourceAnnotations:
        """Sharding annotations in the traced function; computed on first use."""
        return self.details.source_annotations()

    @cached_property
    def timeline(self) -> Timeline | None:
        """The simulated step as events; `None` without hardware."""
        return self.details.timeline()

    @cached_property
    def pipeline(self) -> PipelineReport | None:
        """The simulated pipeline, computed on first use, or `None`. Raises `PipelineError` if it cannot be partitioned."""
        return self.details.pipeline()

    @property
    def stages(self) -> "tuple[Report, ...]":
        """The report of each stage, or this one; computed on first use. Raises `PipelineError` as `pipeline` does."""
        return (
            (self,) if self.is_of_devices else self._stages
        )  # not cached: a reference to itself would delay its deletion until a garbage collection

    @cached_property
    def _stages(self) -> "tuple[Report, ...]":
        return self.details.stages(self)

    @property
    def title(self) -> str:
        """The plan, mesh and stage, such as `gpt on stage:2 data:4, stage 1`."""
        of_stage = "" if self.stage is None else f", stage {self.stage}"
        return f"{self.plan.name} on {self.mesh.description}{of_stage}"

    @property
    def shown(self) -> "Report":
        """The report for a view of one device: this one, or that of the fullest stage. Raises as `stages`."""
        return self if self.is_of_devices else self.fullest

    @property
    def fullest(self) -> "Report":
        """The report of the stage with the highest peak memory."""
        return max(self.stages, key=lambda each: each.memory.peak)

    def most(self, measure: "Callable[[Report], float]") -> "Report":
        """Return the stage's report with the largest `measure`, or this report if the program cannot be partitioned."""
        try:
            return max(self.stages, key=measure)
        except WorkbenchError:
            return self

    @property
    def is_of_devices(self) -> bool:
        """Return whether a device runs the reported program: false for a whole pipeline of several programs."""
        return self.plan.pipeline is None or self.stage is not None or self.is_one_program

    @cached_property
    def staged_pipeline(self) -> PipelineReport | None:
        """The pipeline of a plan with a program per stage, for its whole report; `None` if it cannot be partitioned."""
        if self.is_of_devices:
            return None
        try:
            planned = self.pipeline
        except WorkbenchError:
            return None
        return None if planned is not None and planned.is_in_step else planned

    @property
    def peak(self) -> int:
        """Peak bytes of the fullest device: of the fullest stage for a pipeline, else `memory.peak`."""
        return max(self.staged_pipeline.simulated.peaks) if self.staged_pipeline else self.memory.peak

    @property
    def seconds(self) -> float | None:
        """Seconds of a step, pipelined if there is a pipeline; `None` without hardware."""
        if self.step_time is None:
            return None
        return self.staged_pipeline.seconds if self.staged_pipeline else self.step_time.total

    @property
    def duplication(self) -> float:
        """Number of times each dot is computed; for a pipelined plan, the maximum over its stages."""
        if self.is_of_devices or self.plan.pipeline is None:
            return self.flops.duplication
        if self.staged_pipeline is None:  # of the whole program, of which each stage has a part
            return self.flops.duplication / self.plan.pipeline.stages
        return max(stage.flops.duplication for stage in self.stages)

    @property
    def duplication_causes(self) -> Duplication:
        """The causes of duplicated dots; for a pipelined plan, in the stage with the most."""
        worst = self.most(lambda each: each.flops.duplication)
        return explain_duplication(worst.flops.duplication, worst.products, worst.padding)

    @cached_property
    def ranges(self) -> Mapping[str, Range]:
        """The 90 % prediction intervals of `SENT`, `MEMORY`, `KERNELS` and `STEP`, if known."""
        return self.details.ranges(self)

    @cached_property
    def notes(self) -> tuple[Diagnostic, ...]:
        """The diagnostics, pipeline first because its stages must fit; computed on first use."""
        return self.details.notes(self)

    @cached_property
    def sent(self) -> int:
        """Bytes that leave each device per step."""
        return sum(collective.total_sent for collective in self.collectives)

    @cached_property
    def by_axis_and_kind(self) -> Mapping[tuple[tuple[str, ...], str], int]:
        """Payload bytes per device and step by (mesh axes, kind)."""
        return payload_by_axis_and_kind(self.collectives)

    def __str__(self) -> str:
        is_whole, shown = self.stage is None, self.most(lambda each: each.memory.peak)
        of_stage = "" if shown is self else f" of stage {shown.stage}, the fullest,"
        sections = [
            head_text(self.plan, self.stage),
            pairs_text(self._figures()),
            self._pipeline_text(),
            f"Arguments, and their shards on one device{of_stage.removesuffix(',')}\n\n{arguments_text(shown.arguments)}",
            carried_text(self.plan.program),
            str(self.source_annotations) if is_whole else "",
            collectives_text(shown.collectives, shown.partitioned),
            reshards_text(shown.reshards),
            rows_text(padding_table(shown.padding), LARGEST),
            diagnostics_text(self.notes) if is_whole else "",
        ]
        return "\n\n".join(section for section in sections if section)

    def _pipeline_text(self) -> str:
        if self.is_of_devices and not self.is_one_program:
            return ""
        try:
            return str(self.pipeline) if self.stages else ""
        except PipelineError as error:
            remark = "(The figures above are for the unpipelined program on the devices of one stage.)"
            return f"{remark}\n\nPipeline {self.plan.pipeline}\n\n  {error}"

    def _figures(self) -> Iterable[tuple[str, str, str]]:
        flops, time, planned, ranges = self.flops, self.step_time, self.staged_pipeline, self.ranges
        if planned:
            fullest = self.fullest
            yield from memory_figures(fullest.memory, None, f"stage {fullest.stage}, the fullest: ")
            yield from headline_figures(planned, time)
        else:
            yield from memory_figures(self.memory, ranges.get(MEMORY))
        if self.memory.host:
            moved = f"offloaded; {format_bytes(self.host_traffic)} transferred per step"
            yield "host memory per device", format_bytes(self.memory.host), moved
        most = self.most(lambda each: each.sent)
        yield sent_figure(most.collectives, ranges.get(SENT), "" if planned is None else f"within stage {most.stage}, the most")
        if planned is None:
            yield "tier of communication", "compiled" if self.is_scheduled else self.prediction.tier, tier_source_text(self.partitioned)
        if self.compiled is not None:
            contents, verb = ("memory and kernels", "compiles") if self.is_compiled else ("memory", "schedules")
            yield f"tier of {contents}", "compiled", f"as {self.compiled.compiler} {verb} it for {self.compiled.target}"
        where = f"of stage {planned.busiest}, the most; " if planned else "" if self.stage is None else "on all devices of the stage: "
        local = planned.flops(planned.busiest) if planned else flops.per_device
        yield "arithmetic per device", format_count(local, "FLOP"), f"{where}{format_count(flops.unique, 'FLOP')} in total"
        is_once = self.duplication < ONCE
        yield "duplication", f"{self.duplication:.2f} ×", duplication_text(self.duplication, None if is_once else self.duplication_causes)
        if 0 < flops.model < flops.unique:
            yield "computed again", format_count(flops.unique - flops.model, "FLOP"), "by rematerialisation, of that"
        if flops.six_nd:
            yield "by parameters × tokens", format_count(flops.six_nd, "FLOP"), "6 N D for a training step, 2 N D forward"
        yield from float8_figures(self.plan)
        if time is not None and planned is None:
            yield from time_figures(time, ranges.get(STEP))
        if self.plan.hardware is not None:
            yield from hardware_figures(self.plan, self.plan.hardware, self.seconds)

    def __repr__(self) -> str:
        return f"Report({self.plan!r})"
