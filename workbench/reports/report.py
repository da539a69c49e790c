"""The planner's report on a plan: placements, collectives, memory, FLOP, time and diagnostics. A value; `print` it."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property, partial

from workbench.core.fact_page import rows_text
from workbench.core.mesh import Mesh
from workbench.core.source_annotations import SourceAnnotations
from workbench.core.text_tables import Printed, pairs_text
from workbench.errors import PipelineError, WorkbenchError
from workbench.hardware.hardware import Hardware
from workbench.plan.plan import Plan
from workbench.reports.collective import Collective, payload_by_axis_and_kind
from workbench.reports.compiled import Compiled, Scheduled
from workbench.reports.device_memory import Alive, Memory, MemoryCurve
from workbench.reports.diagnostic import ONCE, Diagnostic, Duplication, explain_duplication
from workbench.reports.kernel import Graph, Kernel, Timeline
from workbench.reports.padding import LARGEST, Padding, padding_table
from workbench.reports.partitioned import Partitioned
from workbench.reports.pipeline import PipelineReport, headline_figures
from workbench.reports.placement import Placement, Value
from workbench.reports.propagation import Propagation
from workbench.reports.propagation_text import conflicts_text, explanation_text
from workbench.reports.report_details import MEMORY, SENT, STEP, Details, Range
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
from workbench.reports.step_time import DotCost, Flops, StepTime
from workbench.units import format_bytes, format_count


@dataclass(frozen=True)
class Report(Printed):
    """All the planner's facts about a plan. The same plan gives the same report.

    What one device holds, sends and computes is in its `stages`: for a plan without a pipeline this report alone, for one with a pipeline a
    report for each stage, over the whole pipelined step (`stage` is its number). A pipelined plan's own figures are of a device of its
    fullest stage, and its `flops` of all stages; where its program cannot be partitioned so, they are of that as one, which no device
    runs. A pipeline of `engine:spmd` is one program for all devices, the
    shifting buffer: its report is of that program (`is_one_program`), where its layers can be pipelined so.
    """

    plan: Plan
    arguments: tuple[Placement, ...]
    results: tuple[Placement, ...]
    collectives: tuple[Collective, ...]
    memory: Memory
    flops: Flops
    traffic: int  # bytes one device reads and writes in its memory in a step
    kernels: int = 0  # fused operations one device runs in a step
    host_traffic: int = 0  # bytes one device sends to the host's memory and fetches back in a step
    diagnostics: tuple[Diagnostic, ...] = ()
    hardware: Hardware | None = None  # the hardware that time and capacity refer to
    step_time: StepTime | None = None
    partitioned: Partitioned | None = None  # XLA's answer, where the collectives are taken from it
    compiled: Compiled | Scheduled | None = None  # for the hardware, where memory and step time are taken from it
    predicted: "Report | None" = field(default=None, compare=False, repr=False)  # the report before it was compiled, see `prediction`
    stage: int | None = None  # the stage of a pipeline that this is the report of
    is_one_program: bool = False  # all devices run the pipeline as one program, which this is the report of
    details: "Details[Report]" = field(default=Details(), compare=False, repr=False)

    @property
    def tier(self) -> str:
        """Who says it: `planned`, Shardy in this process; `partitioned`, XLA's own partitioner, for the collectives and what follows from
        them; `compiled`, the hardware's compiler, for memory and kernel times, too."""
        return "compiled" if self.compiled is not None else "planned" if self.partitioned is None else "partitioned"

    @property
    def is_compiled(self) -> bool:
        """Whether its compiler has run to the end, code generation included, and not only scheduled it."""
        return isinstance(self.compiled, Compiled)

    @property
    def is_scheduled(self) -> bool:
        """Whether the collectives, too, are its compiler's own: it was asked for its scheduled program."""
        return self.partitioned is not None and self.partitioned.scheduled is not None

    @property
    def has_compiled_times(self) -> bool:
        """Whether kernel times are the compiler's estimates: XLA:TPU gives them, others say nothing of time."""
        return self.compiled is not None and self.compiled.compute_seconds is not None

    @property
    def prediction(self) -> "Report":
        """The report as it was before the plan was compiled; this report if it was not."""
        return self.predicted or self

    @property
    def mesh(self) -> Mesh:
        return self.plan.mesh

    @cached_property
    def values(self) -> tuple[Value, ...]:
        """The intermediate values, alike ones together; made when first asked for."""
        return self.details.values()

    @cached_property
    def reshards(self) -> tuple[Reshard, ...]:
        """Where values are resharded: what XLA gathers whole first, then by bytes sent; made when first asked for."""
        return self.details.reshards(self)

    @cached_property
    def padding(self) -> tuple[Padding, ...]:
        """Values whose dimensions do not divide evenly, the most wasteful first; made when first asked for."""
        return self.details.padding()

    @cached_property
    def propagation(self) -> Propagation:
        """How the shardings propagate, step by step, and the rejected axes; made when first asked for."""
        return self.details.propagation()

    def explain(self, value: str = "", dim: "int | str | None" = None) -> str:
        """Why a value has its sharding, in words: an argument, a result or an intermediate value by its path or a pattern, a source line.

        `dim` is a dimension by its index or name, all if left out. Without a value: every conflict, and what would resolve it the other
        way.
        Raises `PropagationError` for what does not exist.
        """
        if not value:
            return conflicts_text(self.propagation, partial(self.details.resolving_edits, self))
        return explanation_text(self.propagation, value, dim)

    @cached_property
    def memory_curve(self) -> MemoryCurve:
        """Memory over the step; made when first asked for."""
        return self.details.memory_curve()

    @cached_property
    def alive(self) -> tuple[Alive, ...]:
        """The values in memory at the peak, by named scope, the largest first; made when first asked for."""
        return self.details.alive()

    @cached_property
    def products(self) -> tuple[DotCost, ...]:
        """The dots of a step, the largest on one device first; made when first asked for."""
        return self.details.products()

    def alive_at(self, place: int) -> tuple[Alive, ...]:
        """The values in memory at a place of `memory_curve`, the largest first; `IndexError` for a place that it does not have."""
        if not 0 <= place < len(self.memory_curve.paths):
            raise IndexError(f"The step has {len(self.memory_curve.paths)} places; {place} is out of range.")
        return self.details.alive_at(place)

    @cached_property
    def kernel_costs(self) -> tuple[Kernel, ...]:
        """The cost of each kernel, the longest first; made when first asked for, empty without hardware."""
        return self.details.kernels()

    @cached_property
    def graph(self) -> Graph:
        """The graph of the kernels and what they pass to each other; made when first asked for."""
        return self.details.graph()

    @cached_property
    def source_annotations(self) -> SourceAnnotations:
        """What the traced function says of shardings by itself: constraints, explicit types, manual regions; read when first asked for."""
        return self.details.source_annotations()

    @cached_property
    def timeline(self) -> Timeline | None:
        """The simulated step as events; `None` without hardware."""
        return self.details.timeline()

    @cached_property
    def pipeline(self) -> PipelineReport | None:
        """The stages, and the step simulated over them; `None` for a plan without a pipeline. Made when first asked for.

        Raises `PipelineError` where the program cannot be partitioned as the pipeline says.
        """
        return self.details.pipeline()

    @property
    def stages(self) -> "tuple[Report, ...]":
        """What the devices of each stage do in a step: this report alone, or for a plan with a pipeline one for each stage. Made when first
        asked for.

        Raises `PipelineError` where the program cannot be partitioned as the pipeline says.
        """
        return (self,) if self.is_of_devices else self._stages  # itself is not kept: it would wait for a collection to be freed

    @cached_property
    def _stages(self) -> "tuple[Report, ...]":
        return self.details.stages(self)

    @property
    def title(self) -> str:
        """The plan, the mesh, and the stage: `gpt on stage:2 data:4, stage 1`."""
        of_stage = "" if self.stage is None else f", stage {self.stage}"
        return f"{self.plan.name} on {self.mesh.description}{of_stage}"

    @property
    def shown(self) -> "Report":
        """This report, or of a pipelined plan that of its fullest stage: what a view of one device shows. Raises as `stages`."""
        return self if self.is_of_devices else self.fullest

    @property
    def fullest(self) -> "Report":
        """Of `stages` the one whose devices hold the most at their worst moment."""
        return max(self.stages, key=lambda each: each.memory.peak)

    def most(self, measure: "Callable[[Report], float]") -> "Report":
        """Of `stages` the one with the most by a measure; this report where the program cannot be partitioned as the pipeline says."""
        try:
            return max(self.stages, key=measure)
        except WorkbenchError:
            return self

    @property
    def is_of_devices(self) -> bool:
        """Whether devices run what it tells of: all but the report of a pipelined plan as a whole, unless it is one program."""
        return self.plan.pipeline is None or self.stage is not None or self.is_one_program

    @cached_property
    def staged_pipeline(self) -> PipelineReport | None:
        """The pipeline of a plan as a whole whose stages are programs of their own; `None` for what devices run as it is, and where the
        program cannot be partitioned so, or not be run in step."""
        if self.is_of_devices:
            return None
        try:
            planned = self.pipeline
        except WorkbenchError:
            return None
        return None if planned is not None and planned.is_in_step else planned

    @property
    def peak(self) -> int:
        """Bytes of the fullest device at its worst moment: for a pipeline one of its fullest stage, else `memory.peak`, that of every
        device."""
        return max(self.staged_pipeline.simulated.peaks) if self.staged_pipeline else self.memory.peak

    @property
    def seconds(self) -> float | None:
        """Seconds of a step, of the pipelined one if there is a pipeline; `None` without hardware."""
        if self.step_time is None:
            return None
        return self.staged_pipeline.seconds if self.staged_pipeline else self.step_time.total

    @property
    def duplication(self) -> float:
        """How often the same product is computed, 1 for once; of a pipelined plan on the devices of the stage where that is most often."""
        if self.is_of_devices or self.plan.pipeline is None:
            return self.flops.duplication
        if self.staged_pipeline is None:  # of the program whole, of which each stage has a part
            return self.flops.duplication / self.plan.pipeline.stages
        return max(each.flops.duplication for each in self.stages)

    @property
    def duplication_causes(self) -> Duplication:
        """Why a product is computed more than once; of a pipelined plan for the stage that computes most of its work more than once."""
        worst = self.most(lambda each: each.flops.duplication)
        return explain_duplication(worst.flops.duplication, worst.products, worst.padding)

    @cached_property
    def ranges(self) -> Mapping[str, Range]:
        """The intervals that hold nine of ten true figures, by `SENT`, `MEMORY`, `KERNELS` and `STEP`, where they are known."""
        return self.details.ranges(self)

    @cached_property
    def notes(self) -> tuple[Diagnostic, ...]:
        """The diagnostics, those of the pipeline first: its stages are what must fit. Made when first asked for."""
        return self.details.notes(self)

    @cached_property
    def sent(self) -> int:
        """Bytes that leave each device per step."""
        return sum(each.total_sent for each in self.collectives)

    @cached_property
    def by_axis_and_kind(self) -> Mapping[tuple[tuple[str, ...], str], int]:
        """Payload bytes per device and step, for each set of mesh axes and each kind of collective."""
        return payload_by_axis_and_kind(self.collectives)

    def __str__(self) -> str:
        """Head, key figures, arguments, collectives, diagnostics; of a pipeline, the devices of its fullest stage."""
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
        """The pipeline's own report, or why there is none."""
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
            what, does = ("memory and kernels", "compiles") if self.is_compiled else ("memory", "schedules")
            yield f"tier of {what}", "compiled", f"as {self.compiled.compiler} {does} it for {self.compiled.target}"
        where = f"of stage {planned.busiest}, the most; " if planned else "" if self.stage is None else "on all devices of the stage: "
        local = planned.flops(planned.busiest) if planned else flops.per_device
        yield "arithmetic per device", format_count(local, "FLOP"), f"{where}{format_count(flops.unique, 'FLOP')} in total"
        is_once = self.duplication < ONCE
        yield "duplication", f"{self.duplication:.2f} ×", duplication_text(self.duplication, None if is_once else self.duplication_causes)
        if 0 < flops.model < flops.unique:
            yield "computed again", format_count(flops.unique - flops.model, "FLOP"), "by rematerialisation, of that"
        if flops.six_nd:
            yield "by parameters × tokens", format_count(flops.six_nd, "FLOP"), "6 N D for a training step, 2 N D forward"
        if time is not None and planned is None:
            yield from time_figures(time, ranges.get(STEP))
        if self.plan.hardware is not None:
            yield from hardware_figures(self.plan, self.plan.hardware, self.seconds)

    def __repr__(self) -> str:
        return f"Report({self.plan!r})"
