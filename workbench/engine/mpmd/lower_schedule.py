"""Turn a schedule's tasks into instructions over buffer slots: what each task reads and writes, and what is sent to which stage.

Buffer slots of a step, by name; a `piece` is a parameter slice: `("piece", stage, piece)`, `("state", stage, place)`, `("total", stage,
piece)` last from step to step;
`("batch", stage, leaf, i)`, `("value", value, stage, i)` (a value as one stage has it), `("back", value, from stage, to stage, i)` (its
gradient), `("kept", stage, place, i)`, `("pending", stage, place, i)`, `("loss", i)`, `("weight", i)` live as long as micro-batch i
needs them; `("whole", stage, piece)`, a total whose partial sums were added up, until the update.
"""

from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, NamedTuple

import jax

from workbench.core.schedules.schedule import Kind, Task
from workbench.engine.mpmd.compiled_stages import Stages, param_slice_sharding

# A step as a list of instructions over buffer slots, made once, so that at run time Python only runs a loop.
#
# A slot holds one array. An instruction calls a compiled function (or a transfer) with the arrays of some slots and stores its results in
# others; slots that are not read again are emptied, which frees their memory. Nothing blocks: devices run behind the loop as far as their
# queues reach.

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
            raise ValueError("the schedule deadlocks")
    return found


@dataclass(frozen=True)
class Compilation:
    """The instructions of a step. `last`: slots that are written at the very end of a step, to wait for; `micro_batches` of it."""

    last: tuple[int, ...]
    micro_batches: int


def instructions_of(stages: Stages, buffer_slots: BufferSlots) -> tuple[list[Instruction], Compilation]:
    """One step, in an order in which nothing is read before it is written."""
    building = _InstructionBuilder(stages, buffer_slots)
    queues = [[building.task(task) for task in order] for order in stages.orders]
    queues = [[task for task in queue if task] for queue in queues]
    before = [number for name, number in buffer_slots.numbers.items() if isinstance(name, tuple) and name[0] in _PREFILLED]
    ordered = [*order_instructions(queues, before), *building.end()]
    lasting = [
        number for name, number in buffer_slots.numbers.items() if name == "loss" or (isinstance(name, tuple) and name[0] in _LASTING)
    ]
    last = buffer_slots.of(("piece", stage, param_slice) for stage in range(stages.count) for param_slice in stages.updates[stage].owned)
    ends = buffer_slots.of(["loss"])
    return with_drops(ordered, lasting), Compilation((*last, *ends), stages.spec.micro_batches)


_LASTING = ("piece", "state", "total")
_PREFILLED = (*_LASTING, "batch")


@dataclass(frozen=True)
class _InstructionBuilder:
    stages: Stages
    buffer_slots: BufferSlots

    def task(self, task: Task) -> list[Instruction]:
        """The instructions of one task: its computation, then its sends."""
        spec = self.stages.spec
        recompute = spec.recomputes(task.micro_batch, spec.device_of(task.stage))
        found = self.stages.tasks.get((task.kind, task.stage, recompute))
        if found is None:
            return []
        virtual_stage, i = self.stages.partition.virtual_stages[task.stage], task.micro_batch
        totals: list[Name] = [("total", task.stage, virtual_stage.param_slices[place]) for place in found.totals]
        reads = [*totals, *(name for group, place in found.task.reads for name in self._list_reads(group, place, task))]
        results = [self._result_slot(group, place, task) for group, place in found.task.gives if group != "gradient"]
        token = ("token", *task)
        compute = Instruction(found.compiled, self.buffer_slots.of(reads), self.buffer_slots.of([token, *totals, *results]), (), task)
        sends = self._value_sends(task.stage, i) if task.kind is Kind.FORWARD else self._gradient_sends(task.stage, i)
        gives = {group for group, _ in found.task.gives}
        return [compute, *(self._transfer(sends) if gives & {"output_activations", "departing"} else [])]

    def _list_reads(self, group: str, place: int, task: Task) -> list[Name]:
        virtual_stage, stage, i = self.stages.partition.virtual_stages[task.stage], task.stage, task.micro_batch
        match group:
            case "param_slices":
                return [("piece", stage, virtual_stage.param_slices[place])]
            case "batch":
                return [("batch", stage, virtual_stage.batch[place], i)]
            case "input_activations":
                return [("value", virtual_stage.input_activations[place], stage, i)]
            case "arriving":
                value = virtual_stage.output_activations[self.stages.programs[stage].stage.arriving[place]]
                return [("back", value, reader, stage, i) for reader in self.stages.partition.values[value].readers]
        return [(group, stage, place, i)]

    def _result_slot(self, group: str, place: int, task: Task) -> Name:
        virtual_stage, stage, i = self.stages.partition.virtual_stages[task.stage], task.stage, task.micro_batch
        match group:
            case "output_activations":
                return ("value", virtual_stage.output_activations[place], stage, i)
            case "departing":
                value = virtual_stage.input_activations[self.stages.programs[stage].stage.departing[place]]
                return ("back", value, stage, stage, i)
            case "loss" | "weight":
                return (group, i)
        return (group, stage, place, i)

    def _value_sends(self, stage: int, i: int) -> list[tuple[Name, Name, Any]]:
        """The source and destination slot of each send, and the sharding at the destination."""
        sends: list[tuple[Name, Name, Any]] = []
        for value in self.stages.partition.virtual_stages[stage].output_activations:
            for reader in self.stages.partition.values[value].readers:
                place = self.stages.partition.virtual_stages[reader].input_activations.index(value)
                sends.append(
                    (("value", value, stage, i), ("value", value, reader, i), self.stages.programs[reader].input_activations[place])
                )
        return sends

    def _gradient_sends(self, stage: int, i: int) -> list[tuple[Name, Name, Any]]:
        sends: list[tuple[Name, Name, Any]] = []
        programs = self.stages.programs[stage].stage
        for place in programs.departing:
            value = self.stages.partition.virtual_stages[stage].input_activations[place]
            maker = self.stages.partition.values[value].maker
            at = self.stages.partition.virtual_stages[maker].output_activations.index(value)
            sends.append(
                (
                    ("back", value, stage, stage, i),
                    ("back", value, stage, maker, i),
                    self.stages.programs[maker].shardings["output_activations", at],
                )
            )
        return sends

    def _transfer(self, sends: Sequence[tuple[Name, Name, Any]]) -> list[Instruction]:
        if not sends:
            return []
        call = _make_sender([place for _, _, place in sends])
        return [Instruction(call, self.buffer_slots.of(a for a, _, _ in sends), self.buffer_slots.of(b for _, b, _ in sends), ())]

    def end(self) -> list[Instruction]:
        """What follows the last micro-batch: the loss, gradients of shared parameters to their owners, the updates, new values back."""
        stages, count = self.stages, self.stages.spec.micro_batches
        weighs = stages.partition.network.flat.weight is not None
        parts = [*(("loss", i) for i in range(count)), *((("weight", i) for i in range(count)) if weighs else ())]
        found = [Instruction(stages.finish, self.buffer_slots.of(parts), self.buffer_slots.of(["loss", "weight"]), ())]
        if weighs:
            found += self._transfer([("weight", ("total weight", stage), stages.devices(stage).whole) for stage in range(stages.count)])
        found += [self._sum_partials(stage) for stage in stages.compiled_sums]
        found += self._transfer(self._borrowed_grad_sends())
        found += self._sum_over_params(weighs=weighs)
        for stage in range(stages.count):
            found += [self._update(stage, weighs=weighs), self._zero_totals(stage)]
        return [*found, *self._transfer(self._param_sends())]

    def _sum_partials(self, stage: int) -> Instruction:
        """Add the partial sums over the data-parallel devices."""
        split = self.stages.partial_sum_params(stage)
        reads: list[Name] = [("total", stage, param_slice) for param_slice in split]
        writes: list[Name] = [("token", "sums", stage), *(("whole", stage, param_slice) for param_slice in split)]
        return Instruction(self.stages.compiled_sums[stage], self.buffer_slots.of(reads), self.buffer_slots.of(writes), (), ("sums", stage))

    def _gradient_slot(self, stage: int, param_slice: int) -> Name:
        """The slot of the sum of a step's gradients."""
        return ("whole" if param_slice in self.stages.partial_sum_params(stage) else "total", stage, param_slice)

    def _borrowed_grad_sends(self) -> list[tuple[Name, Name, Any]]:
        sends: list[tuple[Name, Name, Any]] = []
        for stage, update in enumerate(self.stages.updates):
            for place, user in self.stages.borrowed_grads(stage):
                param_slice = update.owned[place]
                sends.append(
                    (
                        self._gradient_slot(user, param_slice),
                        ("lent", stage, param_slice, user),
                        self._param_sharding(stage, param_slice),
                    )
                )
        return sends

    def _param_sends(self) -> list[tuple[Name, Name, Any]]:
        return [
            (
                ("piece", self.stages.owners[param_slice], param_slice),
                ("piece", stage, param_slice),
                self._param_sharding(stage, param_slice),
            )
            for stage in range(self.stages.count)
            for param_slice in self.stages.borrowed_params(stage)
        ]

    def _param_sharding(self, stage: int, param_slice: int) -> Any:
        return param_slice_sharding(self.stages, self.stages.devices(stage), param_slice)

    def _sum_over_params(self, *, weighs: bool) -> list[Instruction]:
        """Sums over all parameters (a global norm, say): each stage's terms to the first stage, and the totals back to each."""
        stages, found = self.stages, []
        ends: list[tuple[Name, Name, Any]] = []
        count = max(update.sums for update in stages.updates)
        for stage, call in stages.compiled_terms.items():
            terms: list[Name] = [("term", stage, place) for place in range(count)]
            param_slices, state, totals, borrowed_grads = self._update_slots(stage)
            reads = [*param_slices, *state, *totals, *borrowed_grads, *([("total weight", stage)] if weighs else [])]
            found.append(Instruction(call, self.buffer_slots.of(reads), self.buffer_slots.of(terms), ()))
            ends += [(name, ("added", 0, stage, place), stages.devices(0).whole) for place, name in enumerate(terms)]
        if not ends:
            return []
        sums: list[Name] = [("sum", 0, place) for place in range(count)]
        added = Instruction(stages.add_up, self.buffer_slots.of(to for _, to, _ in ends), self.buffer_slots.of(sums), ())
        backs: list[tuple[Name, Name, Any]] = []
        for stage in stages.compiled_terms:
            backs += [(name, ("sum", stage, place, "here"), stages.devices(stage).whole) for place, name in enumerate(sums)]
        return [*found, *self._transfer(ends), added, *self._transfer(backs)]

    def _update_slots(self, stage: int) -> tuple[list[Name], list[Name], list[Name], list[Name]]:
        """Slots of what a stage updates: its parameter slices, its state, the sums of their gradients, and other stages' gradients of
        those."""
        update = self.stages.updates[stage]
        return (
            [("piece", stage, param_slice) for param_slice in update.owned],
            [("state", stage, place) for place in range(len(update.state))],
            [self._gradient_slot(stage, param_slice) for param_slice in update.owned],
            [("lent", stage, update.owned[place], user) for place, user in self.stages.borrowed_grads(stage)],
        )

    def _update(self, stage: int, *, weighs: bool) -> Instruction:
        param_slices, state, totals, borrowed_grads = self._update_slots(stage)
        sums: list[Name] = [("sum", stage, place, "here") for place in range(self.stages.updates[stage].sums)]
        reads = [*param_slices, *state, *totals, *borrowed_grads, *([("total weight", stage)] if weighs else []), *sums]
        writes: list[Name] = [("token", "update", stage), *param_slices, *state]
        return Instruction(
            self.stages.compiled_updates[stage], self.buffer_slots.of(reads), self.buffer_slots.of(writes), (), ("update", stage)
        )

    def _zero_totals(self, stage: int) -> Instruction:
        """Zero the sums of gradients for the next step, once the update has read them."""
        param_slices = (*self.stages.updates[stage].owned, *self.stages.borrowed_params(stage))
        totals = self.buffer_slots.of(("total", stage, param_slice) for param_slice in param_slices)
        return Instruction(self.stages.compiled_zeros[stage], totals, totals, ())


def _make_sender(places: Sequence[Any]) -> Callable[..., Sequence[Any]]:
    if len(places) == 1:
        return partial(_send_one, places[0])
    return partial(_send, list(places))


def _send_one(place: Any, value: Any) -> Sequence[Any]:
    return (jax.device_put(value, place),)


def _send(places: list[Any], *values: Any) -> Sequence[Any]:
    return jax.device_put(list(values), places)
