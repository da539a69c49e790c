"""The order in which one process dispatches the tasks of all devices: they take turns, each with its next task if its inputs were sent.

Devices run behind the dispatch, but memory follows it: the memory of a transfer is allocated on the receiving device when the transfer is
dispatched. So a device that is ahead of its neighbour in this order holds its inputs early, however soon it could work on them.
"""

from collections.abc import Sequence

from workbench.core.schedules.tasks import Kind, Orders, Task


def dispatch_order(orders: Orders, receives: Sequence[Sequence[tuple[int, int]]]) -> dict[Task, int]:
    """The index of each task in the order; `receives` says for each stage which earlier ones send to it (`stage_cost.receives`).

    >>> from workbench.core.schedules.tasks import Kind, Task
    >>> orders = [[Task(Kind.FORWARD, stage, i) for i in range(2)] for stage in range(2)]
    >>> [(task.stage, task.micro_batch) for task in dispatch_order(orders, [[], [(0, 8)]])]
    [(0, 0), (1, 0), (0, 1), (1, 1)]
    """
    sends: list[list[int]] = [[] for _ in receives]
    for stage, sources in enumerate(receives):
        for source, _ in sources:
            sends[source].append(stage)
    heads, done = [0] * len(orders), dict[Task, int]()
    count = sum(map(len, orders))
    while len(done) < count:
        before = len(done)
        for device, order in enumerate(orders):
            if heads[device] < len(order) and _is_ready(order[heads[device]], done, receives, sends):
                done[order[heads[device]]] = len(done)
                heads[device] += 1
        if len(done) == before:
            break
    return done


def _is_ready(task: Task, done: dict[Task, int], receives: Sequence[Sequence[tuple[int, int]]], sends: Sequence[Sequence[int]]) -> bool:
    """Whether its inputs were made by earlier tasks. The order of tasks on its own device needs no check."""
    kind, stage, i = task
    if kind is Kind.FORWARD:
        return all(Task(Kind.FORWARD, source, i) in done for source, _ in receives[stage])
    if kind is Kind.BACKWARD_WEIGHT:
        return True
    return all(Task(Kind.BACKWARD, later, i) in done or Task(Kind.BACKWARD_INPUT, later, i) in done for later in sends[stage])
