"""A schedule drawn with tasks that all take one unit of time: the picture in each schedule's file."""

from workbench.core.schedules import Schedule
from workbench.core.schedules.stage_cost import StageCost
from workbench.pipeline.simulate_pipeline import simulate_orders


def diagram(schedule: Schedule, devices: int, micro_batches: int, chunks: int = 1) -> str:
    """One row a device, one column a unit of time; `F1'` is the forward pass of micro-batch 1 on the device's second chunk.

    >>> from workbench.core.schedules import schedule_named
    >>> print(diagram(schedule_named("gpipe"), devices=2, micro_batches=2))
    device 0   F0 F1 .  .  B1 B0
    device 1   .  F0 F1 B1 B0 .
    """
    half = 1.0 if schedule.splits_backward else 0.5
    costs = (StageCost(1.0, half, half),) * (devices * chunks)
    simulated = simulate_orders(schedule.tasks(devices, micro_batches, chunks), costs)
    cells = [{int(span.start): span.task.label(devices) for span in spans} for spans in simulated.devices]
    width = max(len(label) for row in cells for label in row.values())
    columns = range(int(simulated.makespan))
    rows = (" ".join(row.get(column, ".").ljust(width) for column in columns).rstrip() for row in cells)
    return "\n".join(f"device {number}   {row}" for number, row in enumerate(rows))
