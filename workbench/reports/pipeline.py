"""The planned pipeline of a plan: its stages with their costs, and the simulated step."""

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
    """A block of the network, for one micro-batch: seconds on one device of its stage, bytes of its parameters as a whole, and bytes that a
    stage boundary behind it would send."""

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
    """Consecutive blocks of the network, on the devices of one stage; `blocks` are their paths."""

    number: int
    device: int
    blocks: tuple[str, ...]
    cost: StageCost

    @property
    def name(self) -> str:
        """`layers/0 .. layers/3`."""
        return self.blocks[0] if len(self.blocks) < 2 else f"{self.blocks[0]} .. {self.blocks[-1]}"


@dataclass(frozen=True)
class PipelineReport(Printed):
    """A pipeline planned for hardware. `capacity` is the memory of one device in bytes; `blocks` are all that a boundary may separate.

    `partition_at(starts)`: the same with virtual stages that begin at these blocks; `costs_at(starts)`: the costs of any virtual stages, as
    many as there are starts.
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
        """The step with the memory of each virtual stage as one program, which is nearer to the compiled one than the sum over its blocks.
        Made when first asked for: a second or more."""
        return self.make_exact_memory() if self.make_exact_memory else self.simulated

    @property
    def nominal(self) -> str:
        """What its seconds stand for where they are not a device's: without hardware. Else empty."""
        return "" if self.capacity else NOMINAL_NOTE

    @property
    def is_in_step(self) -> bool:
        """Whether all devices run one program, in step: its time and memory are in the report of the plan, and not here."""
        return self.spec.engine == "spmd"

    @property
    def remark(self) -> str:
        """What a reader of its figures must know; else empty."""
        return " ".join(filter(None, (IN_STEP_NOTE if self.is_in_step else "", self.nominal)))

    @property
    def seconds(self) -> float:
        """Seconds of the step, with the update."""
        return self.simulated.seconds

    @property
    def balance(self) -> float:
        """Mean over maximum working time of the stages: 1 is perfect balance."""
        busy = self.simulated.busy
        return sum(busy) / len(busy) / max(busy) if max(busy) else 1.0

    @property
    def least_bubble(self) -> float | None:
        """The bubble that the schedule has with equal stages and free transfers, by its closed form; `None` where there is none."""
        shape = PipelineShape(self.spec.stages, self.spec.micro_batches, self.spec.chunks)
        work = self.spec.micro_batches * self.spec.chunks * self._mean.work
        idle = schedule_named(self.spec.schedule).idle(shape, self._mean)
        return None if idle is None or not work else idle / (work + idle)

    @cached_property
    def _mean(self) -> StageCost:
        """A virtual stage of mean cost, recomputation included."""
        costs = [virtual_stage.cost for virtual_stage in self.virtual_stages]
        forward, backward_input, backward_weight = (
            sum(each) / len(costs)
            for each in zip(*((cost.forward, cost.backward_input, cost.backward_weight) for cost in costs), strict=True)
        )
        first = self.spec.recomputing_stages
        again = sum(each.cost.forward for each in self.virtual_stages if each.device < first) / len(costs)
        return StageCost(forward, backward_input + again, backward_weight)

    @cached_property
    def traffic(self) -> Mapping[tuple[int, int], int]:
        """Bytes per step from the devices of one stage to those of another: activations one way and their gradients the other."""
        found: dict[tuple[int, int], int] = {}
        for virtual_stage in self.virtual_stages:
            for later, count in virtual_stage.cost.sends:
                one, other = virtual_stage.device, self.virtual_stages[later].device
                for link in ((one, other), (other, one)) if one != other else ():
                    found[link] = found.get(link, 0) + count * self.spec.micro_batches
        return found

    def payload(self, device: int) -> Payload:
        """Payload bytes per step of the collectives among the devices of one stage; of the update the sums of gradients alone."""
        step = self.simulated
        again = sum(step.recomputed[device])  # micro-batches whose forward pass runs once more
        parts = [(step.costs[stage].sent_both, len(step.recomputed[device])) for stage in step.stages_of(device)]
        parts += [(step.costs[stage].sent_forward, again) for stage in step.stages_of(device)]
        parts += [(step.costs[stage].sent_update, 1) for stage in step.stages_of(device)]
        return sum_payloads(sum_payloads([payload], times) for payload, times in parts if times)

    def sent_inside(self, device: int, mesh: Mesh) -> int:
        """Bytes per step that leave one device of a stage in collectives among its devices."""
        step = self.simulated
        updates = [each for stage in step.stages_of(device) for each in step.costs[stage].sent_update]
        summed = sum(sent_bytes(kind, payload, prod(axis_size(axis, mesh) for axis in axes)) for (axes, kind), payload in updates)
        return summed + self._sum_tasks(device, lambda cost: cost.outgoing_forward, lambda cost: cost.outgoing_both)

    def most_sending(self, mesh: Mesh) -> int:
        """The stage whose devices send the most to each other."""
        counts = [self.sent_inside(device, mesh) for device in range(self.spec.stages)]
        return counts.index(max(counts))

    def flops(self, device: int) -> int:
        """FLOP of dots per step on one device of a stage, recomputation included."""
        return self._sum_tasks(device, lambda cost: cost.flops_forward, lambda cost: cost.flops_both)

    @property
    def busiest(self) -> int:
        """The stage whose devices compute the most."""
        counts = [self.flops(device) for device in range(self.spec.stages)]
        return counts.index(max(counts))

    def _sum_tasks(self, device: int, forward: Callable[[StageCost], int], both: Callable[[StageCost], int]) -> int:
        """Of all tasks of a device in a step: of each micro-batch both passes, and the forward pass once more where it is recomputed."""
        step = self.simulated
        times, again = len(step.recomputed[device]), sum(step.recomputed[device])
        return sum(both(step.costs[stage]) * times + forward(step.costs[stage]) * again for stage in step.stages_of(device))

    @property
    def fullest(self) -> int:
        """The stage whose devices hold the most memory at their worst moment."""
        peaks = self.simulated.peaks
        return max(range(len(peaks)), key=lambda device: peaks[device])

    def resident(self, device: int) -> int:
        """Bytes that a device of a stage holds throughout: parameters, accumulated gradients, optimiser state."""
        return sum(self.simulated.costs[stage].resident for stage in self.simulated.stages_of(device))

    @property
    def fits(self) -> bool:
        """Whether it fits into the memory of the fullest device; always true without hardware."""
        return not self.capacity or max(self.simulated.peaks) <= self.capacity

    def __str__(self) -> str:
        return pipeline_text(self)


def pipeline_text(report: PipelineReport) -> str:
    """The whole: figures, stages, chart."""
    sections = (f"Pipeline {report.spec}", report.remark, pairs_text(_figures(report)), _stages(report), gantt_text(report.simulated))
    return "\n\n".join(section for section in sections if section)


def headline_figures(report: PipelineReport, time: StepTime | None) -> Iterator[tuple[str, str, str]]:
    """Step time and utilisation of a pipelined plan; `time` is the prediction for the whole program on the same devices."""
    step, stages = report.simulated, report.spec.stages
    if time is None:
        return
    again = sum(span.recompute for span in step.spans) / stages
    work = sum(step.busy) / stages
    spent = {"work": work - again, "computed again": again, "waiting": step.makespan - work, "update": step.seconds - step.makespan}
    shown = " · ".join(f"{name} {format_seconds(seconds)}" for name, seconds in spent.items() if seconds > 0)
    yield "step time, predicted", format_seconds(report.seconds), f"the mean stage: {shown}, {time.place}"
    if time.mfu and report.seconds:
        whole = time.total / report.seconds
        yield "model FLOPs utilisation", f"{time.mfu * whole:.1%}", "of all stages' devices, bubble included"


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
    """A row per virtual stage; what a device has for all of them is in the row of the first."""
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
