"""The figures of one stage over a step, each a sum over its blocks: what it sends, computes and waits for."""

from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from math import prod

from workbench.core.sharding import axis_size
from workbench.cost.communication import collective_seconds
from workbench.cost.kernel_report import kernel_list
from workbench.cost.step_flops import list_dots
from workbench.pipeline.stage_reports.stage_work import StageWork
from workbench.reports.collective import Collective, sent_bytes
from workbench.reports.kernel import Kernel
from workbench.reports.step_time import DotCost, Flops, StepTime

UPDATE = "update"
"""The path of what runs once a step, behind the last task."""
_GRADIENT_SUM = f"{UPDATE}/reduce_sum"  # as the operation is called in the program that runs


def stage_collectives(work: StageWork) -> tuple[Collective, ...]:
    """The collectives among the devices of the stage, alike ones together: of all tasks, and the sums of gradients of the update."""
    counts = Counter[Collective]()
    for block, estimated, times in work.runs:
        for each in estimated.collectives:
            counts[replace(each, path=block.path_of(each.path), count=1)] += each.count * times
    return (*(replace(each, count=count) for each, count in counts.items()), *update_collectives(work))


def update_collectives(work: StageWork) -> Iterator[Collective]:
    """The sums of gradients over the devices that share the micro-batches, once a step."""
    plan, step = work.staged.plan, work.planned.simulated
    for stage in step.stages_of(work.device):
        for (axes, kind), payload in step.costs[stage].sent_update:
            devices = prod(axis_size(axis, plan.mesh) for axis in axes)
            hardware, routes = plan.hardware, plan.axis_assignment
            seconds = collective_seconds(kind, axes, payload, plan.mesh, hardware, routes) if hardware else 0.0
            yield Collective(kind, axes, payload, sent_bytes(kind, payload, devices), 1, _GRADIENT_SUM, "", seconds)


def stage_kernels(work: StageWork) -> tuple[Kernel, ...]:
    """The kernels of all tasks, the longest first; empty without hardware."""
    counts = Counter[Kernel]()
    for block, estimated, times in work.runs:
        if estimated.times is not None:
            for each in kernel_list(estimated.plan.program, estimated.partitioned, estimated.kernels, estimated.times):
                counts[replace(each, path=block.path_of(each.path), count=1)] += each.count * times
    return tuple(sorted((replace(each, count=n) for each, n in counts.items()), key=lambda each: (-each.total_seconds, each.path)))


def stage_dots(work: StageWork) -> tuple[DotCost, ...]:
    """The dots of all tasks, the largest on one device first."""
    counts = Counter[DotCost]()
    for block, estimated, times in work.runs:
        for each in list_dots(estimated.plan.program, estimated.plan.mesh, estimated.partitioned):
            counts[replace(each, path=block.path_of(each.path), count=1)] += each.count * times
    return tuple(sorted((replace(each, count=n) for each, n in counts.items()), key=lambda each: -each.per_device * each.count))


def stage_flops(work: StageWork) -> Flops:
    """Operations of the stage in a step: `unique` over its devices, what is computed again included; `model` without that."""
    unique = sum(estimated.flops.unique * times for _, estimated, times in work.runs)
    local = sum(estimated.flops.per_device * times for _, estimated, times in work.runs)
    model = sum(estimated.flops.unique * block.backwards for block in work.blocks for estimated, _ in block.runs)
    return Flops(unique, local, work.context.mesh.size, model)


def count_kernels(work: StageWork) -> int:
    """Kernels that one device runs in a step, without the update."""
    return sum(int(estimated.kernels.times.sum()) * times for _, estimated, times in work.runs)


def stage_traffic(work: StageWork) -> int:
    """Bytes that one device reads and writes in its memory in a step: for its tasks, and once for the update."""
    return sum(estimated.traffic * times for _, estimated, times in work.runs) + 2 * work.planned.resident(work.device)


def stage_step_time(work: StageWork, whole: StepTime) -> StepTime:
    """The step of one device of the stage in its parts, which sum to the pipeline's: kernels and communication of its tasks and of its
    update, and `idle`, the rest, in which it waits for other stages. `whole` is that of the program as one, for its names."""
    found = [(estimated.step_time, times) for _, estimated, times in work.runs if estimated.step_time is not None]
    parts = {
        name: sum(getattr(each, name) * times for each, times in found)
        for name in ("arithmetic", "memory", "launch", "exposed", "hidden", "host", "unestimated")
    }
    step = work.planned.simulated
    begins, ends = step.update_span(work.device)
    waited = sum(each.seconds for each in update_collectives(work))
    parts["memory"] += max(ends - begins - waited, 0.0)
    parts["exposed"] += waited
    busy = sum(parts[name] for name in ("arithmetic", "memory", "launch", "exposed", "host"))
    share = whole.total / step.seconds if step.seconds else 0.0
    idle = max(step.seconds - busy, 0.0)
    return replace(whole, **parts, idle=idle, mfu=whole.mfu * share, hfu=whole.hfu * share)
