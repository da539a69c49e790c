"""A step as a list of instructions over buffer slots, made once, so that at run time Python only runs a loop.

A slot holds one array. An instruction calls a compiled function (or a transfer) with the arrays of some slots and stores its results in
others; slots that are not read again are emptied, which frees their memory. Nothing blocks: devices run behind the loop as far as their
queues reach.
"""

from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

Name = Hashable


class Instruction(NamedTuple):
    """`buffer_slots[writes] = call(*buffer_slots[reads])`, then `buffer_slots[drops]` are emptied. `label` names the task it belongs to."""

    call: Callable[..., Sequence[Any]]
    reads: tuple[int, ...]
    writes: tuple[int, ...]
    drops: tuple[int, ...]
    label: Any = None


@dataclass(slots=True)
class BufferSlots:
    """Numbers the slots by name."""

    numbers: dict[Name, int] = field(default_factory=dict)

    def number(self, name: Name) -> int:
        return self.numbers.setdefault(name, len(self.numbers))

    def of(self, names: Iterable[Name]) -> tuple[int, ...]:
        return tuple(map(self.number, names))

    def __len__(self) -> int:
        return len(self.numbers)


def run_instructions(instructions: Sequence[Instruction], buffer_slots: list[Any]) -> None:
    """Dispatch all instructions in order."""
    for call, reads, writes, drops, _ in instructions:
        results = call(*[buffer_slots[i] for i in reads])
        for i, value in zip(writes, results):  # noqa: B905 - equal by construction; this loop is the engine's own cost
            buffer_slots[i] = value
        for i in drops:
            buffer_slots[i] = None


def with_drops(instructions: Sequence[Instruction], lasting: Iterable[int]) -> list[Instruction]:
    """The instructions with each slot emptied after its last read (or write), except the lasting ones."""
    keep = set(lasting)
    last: dict[int, int] = {}
    for index, each in enumerate(instructions):
        for i in (*each.reads, *each.writes):
            last[i] = index
    drops: list[list[int]] = [[] for _ in instructions]
    for i, index in last.items():
        if i not in keep:
            drops[index].append(i)
    return [each._replace(drops=tuple(dropped)) for each, dropped in zip(instructions, drops, strict=True)]


def order_instructions(queues: Sequence[Sequence[Sequence[Instruction]]], ready: Iterable[int]) -> list[Instruction]:
    """One order of the instructions of several devices: each device's in its own order, each after those that write its slots.

    `queues`: per device a list of tasks, a task being a list of instructions; devices take turns. Raises `ValueError` for a deadlock.
    """
    written = set(ready)
    heads = [0] * len(queues)
    found: list[Instruction] = []
    while any(head < len(queue) for head, queue in zip(heads, queues, strict=True)):
        before = len(found)
        for device, queue in enumerate(queues):
            if heads[device] < len(queue) and written.issuperset(queue[heads[device]][0].reads):
                for each in queue[heads[device]]:
                    found.append(each)
                    written.update(each.writes)
                heads[device] += 1
        if len(found) == before:
            raise ValueError("the tasks of the schedule wait for each other")
    return found
