"""The planned pipeline of a plan: stages with costs, and the simulated step."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from math import prod
from typing import NamedTuple

from workbench.core.mesh import Mesh
from workbench.core.pipeline_spec import PipelineSpec
from workbench.core.schedules import PipelineShape, schedule_named
from workbench.core.schedules.stage_cost import Payload, StageCost, sum_payloads
from workbench.core.sharding import axis_size
from workbench.core.text_tables import Printed, pairs_text, table_text, tail_text
from workbench.reports.collective import sent_bytes
from workbench.reports.simulated_pipeline import SimulatedPipeline, gantt_text
from workbench.reports.step_time import StepTime
from workbench.units import format_bytes, format_seconds

NOMINAL_NOTE = "Without hardware one second stands for 10¹² operations: compare stages only."
IN_STEP_NOTE = (
    "All devices run one program; the other views show its time and memory. This view shows its schedule, with each stage "
    "planned as a separate program."
)


class PlannedBlock(NamedTuple):
    """A block of the network, for one micro-batch.

    `forward`, `backward`: seconds on one device of its stage; `parameters`: bytes of the whole; `crossing`: bytes that
    a stage boundary after it would send.
    """

    path: str
    forward: float
    backward: float
    parameters: int
    crossing: int

    @property
    def work(self) -> float:
        return self.forward + self.backward


@dataclass(frozen=True, slots=True)
class VirtualStage:
    """Consecutive blocks of the network on the devices of one stage; `blocks` are their paths."""

    number: int
    device: int
    blocks: tuple[str, ...]
    cost: StageCost

    @property
    def name(self) -> str:
        return self.blocks[0] if len(self.blocks) < 2 else f"{self.blocks[0]} .. {self.blocks[-1]}"


@dataclass(frozen=True)
class PipelineReport(Printed):
    """A pipeline planned for hardware; `capacity` is bytes per device, `blocks` are separable by boundaries.

    `partition_at(starts)` returns the pipeline with virtual stages that begin at these blocks; `costs_at(starts)` the
    costs of any number of virtual stages.
    """

    spec: PipelineSpec
    virtual_stages: tuple[VirtualStage, ...]
    simulated: SimulatedPipeline
    capacity: int = 0
    blocks: tuple[PlannedBlock, ...] = ()
    partition_at: "Callable[[Sequence[int]], PipelineReport] | None" = field(default=None, compare=False, repr=False)
    costs_at: Callable[[Sequence[int]], Sequence[StageCost]] | None = field(default=None, compare=False, repr=False)
    make_exact_memory: Callable[[], SimulatedPipeline] | None = field(default=None, compare=False, repr=False)

    @cached_property
    def exact_memory(self) -> SimulatedPipeline:
        """The step with each stage's memory planned as one program, closer to the compiled one; takes a second or more."""
        return self.make_exact_memory() if self.make_exact_memory else self.simulated

    @property
    def nominal(self) -> str:
        return "" if self.capacity else NOMINAL_NOTE

    @property
    def is_in_step(self) -> bool:
        """Return whether all devices run one program in lockstep, whose time and memory are in the plan's report."""
        return self.spec.engine == "spmd"

    @property
    def remark(self) -> str:
        return " ".join(filter(None, (IN_STEP_NOTE if self.is_in_step else "", self.nominal)))

    @property
    def seconds(self) -> float:
        """Seconds of the step, including the update."""
        return self.simulated.seconds

    @property
    def balance(self) -> float:
        """Mean over maximum busy time of the stages; 1 is perfect balance."""
        busy = self.simulated.busy
        return sum(busy) / len(busy) / max(busy) if max(busy) else 1.0

    @property
    def least_bubble(self) -> float | None:
        """The schedule's closed-form bubble with equal stages and free transfers; `None` if there is none."""
        shape = PipelineShape(self.spec.stages, self.spec.micro_batches, self.spec.chunks)
        work = self.spec.micro_batches * self.spec.chunks * self._mean.work
        idle = schedule_named(self.spec.schedule).idle(shape, self._mean)
        return None if idle is None or not work else idle / (work + idle)

    @cached_property
    def _mean(self) -> StageCost:
        costs = [virtual_stage.cost for virtual_stage in self.virtual_stages]
        forward, backward_input, backward_weight = (
            sum(seconds) / len(costs)
            for seconds in zip(*((cost.forward, cost.backward_input, cost.backward_weight) for cost in costs), strict=True)
        )
        first = self.spec.recomputing_stages
        recomputed = sum(stage.cost.forward for stage in self.virtual_stages if stage.device < first) / len(costs)
        return StageCost(forward, backward_input + recomputed, backward_weight)

    @cached_property
    def traffic(self) -> Mapping[tuple[int, int], int]:
        """Bytes per step from one stage's devices to another's: activations in one direction, gradients in the other."""
        sums: dict[tuple[int, int], int] = {}
        for virtual_stage in self.virtual_stages:
            for later, count in virtual_stage.cost.sends:
                source, target = virtual_stage.device, self.virtual_stages[later].device
                for link in ((source, target), (target, source)) if source != target else ():
                    sums[link] = sums.get(link, 0) + count * self.spec.micro_batches
        return sums

    def payload(self, device: int) -> Payload:
        """Return payload bytes per step of the collectives within one stage, including the gradient sums of the update."""
        step = self.simulated
        recomputed = sum(step.recomputed[device])  # micro-batches whose forward pass runs twice
        parts = [(step.costs[stage].sent_both, len(step.recomputed[device])) for stage in step.stages_of(device)]
        parts += [(step.costs[stage].sent_forward, recomputed) for stage in step.stages_of(device)]
        parts += [(step.costs[stage].sent_update, 1) for stage in step.stages_of(device)]
        return sum_payloads(sum_payloads([payload], times) for payload, times in parts if times)

    def sent_inside(self, device: int, mesh: Mesh) -> int:
        """Return the bytes per step that leave one device of a stage in collectives within the stage."""
        step = self.simulated
        updates = [entry for stage in step.stages_of(device) for entry in step.costs[stage].sent_update]
        summed = sum(sent_bytes(kind, payload, prod(axis_size(axis, mesh) for axis in axes)) for (axes, kind), payload in updates)
        return summed + self._sum_tasks(device, lambda cost: cost.outgoing_forward, lambda cost: cost.outgoing_both)

    def most_sending(self, mesh: Mesh) -> int:
        counts = [self.sent_inside(device, mesh) for device in range(self.spec.stages)]
        return counts.index(max(counts))

    def flops(self, device: int) -> int:
        """Return the FLOP of dots per step on one device of a stage, including recomputation."""
        return self._sum_tasks(device, lambda cost: cost.flops_forward, lambda cost: cost.flops_both)

    @property
    def busiest(self) -> int:
        counts = [self.flops(device) for device in range(self.spec.stages)]
        return counts.index(max(counts))

    def _sum_tasks(self, device: int, forward: Callable[[StageCost], int], both: Callable[[StageCost], int]) -> int:
        step = self.simulated
        times, recomputed = len(step.recomputed[device]), sum(step.recomputed[device])
        return sum(both(step.costs[stage]) * times + forward(step.costs[stage]) * recomputed for stage in step.stages_of(device))

    @property
    def fullest(self) -> int:
        peaks = self.simulated.peaks
        return max(range(len(peaks)), key=lambda device: peaks[device])

    def resident(self, device: int) -> int:
        """Return the bytes a stage's device holds throughout: parameters, accumulated gradients, optimizer state."""
        return sum(self.simulated.costs[stage].resident for stage in self.simulated.stages_of(device))

    @property
    def fits(self) -> bool:
        """Return whether the fullest stage fits into device memory; true without hardware."""
        return not self.capacity or max(self.simulated.peaks) <= self.capacity

    def __str__(self) -> str:
        sections = (f"Pipeline {self.spec}", self.remark, pairs_text(_figures(self)), _stages(self), gantt_text(self.simulated))
        return "\n\n".join(section for section in sections if section)


def headline_figures(report: PipelineReport, time: StepTime | None) -> Iterator[tuple[str, str, str]]:
    """Yield step time and utilisation; `time` is the prediction for the unpipelined program on the same devices."""
    step, stages = report.simulated, report.spec.stages
    if time is None:
        return
    recomputed = sum(span.recompute for span in step.spans) / stages
    work = sum(step.busy) / stages
    spent = {
        "work": work - recomputed,
        "computed again": recomputed,
        "waiting": step.makespan - work,
        "update": step.seconds - step.makespan,
    }
    parts = " · ".join(f"{name} {format_seconds(seconds)}" for name, seconds in spent.items() if seconds > 0)
    yield "step time, predicted", format_seconds(report.seconds), f"the mean stage: {parts}, {time.place}"
    if time.mfu and report.seconds:
        ratio = time.total / report.seconds
        yield "model FLOPs utilisation", f"{time.mfu * ratio:.1%}", "of all stages' devices, bubble included"


def _figures(report: PipelineReport) -> Iterator[tuple[str, str, str]]:
    spec, step = report.spec, report.simulated
    update = step.seconds - step.makespan
    parts = f"tasks {format_seconds(step.makespan)}" + (f" · update {format_seconds(update)}" if update > 0 else "")
    if not report.is_in_step:
        yield "step", format_seconds(step.seconds), parts
    least = "" if report.least_bubble is None else f"{report.least_bubble:.1%} with equal stages and free transfers"
    yield "bubble", f"{step.bubble:.1%}", least
    yield "balance of the stages", f"{report.balance:.1%}", "mean over maximum busy time"
    if not report.is_in_step:
        yield "fullest device", format_bytes(max(step.peaks)), _capacity_text(report)
    sent = sum(report.traffic.values())
    pairs = len(report.traffic)
    yield "sent between stages", format_bytes(sent), f"a step, over {pairs} link{'s' * (pairs != 1)}" if pairs else "a step"
    path = step.critical_path
    stages = {span.device for span in path}
    yield "critical path", f"{len(path)} tasks", f"of {len(step.spans)}, on {len(stages)} of {spec.stages} stages"


def _capacity_text(report: PipelineReport) -> str:
    if not report.capacity:
        return ""
    share = max(report.simulated.peaks) / report.capacity
    return f"{share:.0%} of {format_bytes(report.capacity)}: " + ("fits" if report.fits else "too much")


def _stages(report: PipelineReport) -> str:
    step, rows = report.simulated, []
    for virtual_stage in report.virtual_stages:
        cost, first = virtual_stage.cost, virtual_stage.number == virtual_stage.device
        rows.append(
            (
                f"{virtual_stage.device}{chr(39) * (virtual_stage.number // report.spec.stages)}",
                tail_text(virtual_stage.name),
                format_seconds(cost.forward),
                format_seconds(cost.backward),
                format_bytes(sum(count for _, count in cost.sends)),
                format_bytes(cost.resident),
                f"{step.idle(virtual_stage.device):.1%}" if first else "",
                str(step.in_flight(virtual_stage.device)) if first else "",
                format_bytes(step.peaks[virtual_stage.device]) if first else "",
            )
        )
    heads = ["stage", "blocks", "forward>", "backward>", "sends>", "holds>", "idle>", "in flight>", "peak>"]
    return f"Stages, of one micro-batch\n\n{table_text(heads, rows)}"
