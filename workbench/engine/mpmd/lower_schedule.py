"""Turn a schedule's tasks into instructions over buffer slots: reads and writes of each task, and sends between stages.

Buffer slots of a step by name; a `piece` is a parameter slice: `("piece", stage, piece)`, `("state", stage, place)`, `("total", stage,
piece)` persist between steps;
`("batch", stage, leaf, i)`, `("value", value, stage, i)` (a value on one stage), `("back", value, from stage, to stage, i)` (its
gradient), `("kept", stage, place, i)`, `("pending", stage, place, i)`, `("loss", i)`, `("weight", i)` live while micro-batch i
needs them; `("whole", stage, piece)`, a total with its partial sums added up, until the update.
"""

from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, NamedTuple

import jax

from workbench.core.schedules.schedule import Kind, Task
from workbench.engine.mpmd.compiled_stages import Stages, param_slice_sharding

# A step as a list of instructions over buffer slots, created once, so that at run time Python only runs a loop.
#
# A slot has one array. An instruction calls a compiled function (or a transfer) with the arrays of some slots and stores its results in
# others; slots that are not read again are emptied, which frees their memory. Nothing blocks: devices lag behind the loop as far as their
# queues allow.

Name = Hashable


class Instruction(NamedTuple):
    """`buffer_slots[writes] = call(*buffer_slots[reads])`, then `drops` are emptied. `label` names its task."""

    call: Callable[..., Sequence[Any]]
    reads: tuple[int, ...]
    writes: tuple[int, ...]
    drops: tuple[int, ...]
    label: Any = None


@dataclass(slots=True)
class BufferSlots:
    numbers: dict[Name, int] = field(default_factory=dict)

    def number(self, name: Name) -> int:
        return self.numbers.setdefault(name, len(self.numbers))

    def of(self, names: Iterable[Name]) -> tuple[int, ...]:
        return tuple(map(self.number, names))

    def __len__(self) -> int:
        return len(self.numbers)


def run_instructions(instructions: Sequence[Instruction], buffer_slots: list[Any]) -> None:
    for call, reads, writes, drops, _ in instructions:
        results = call(*[buffer_slots[i] for i in reads])
        for i, value in zip(writes, results):  # noqa: B905 - equal by construction; this loop is the engine's overhead
            buffer_slots[i] = value
        for i in drops:
            buffer_slots[i] = None


def with_drops(instructions: Sequence[Instruction], lasting: Iterable[int]) -> list[Instruction]:
    """Empty each slot after its last read (or write), except the lasting ones."""
    lasting_slots = set(lasting)
    last: dict[int, int] = {}
    for index, instruction in enumerate(instructions):
        for i in (*instruction.reads, *instruction.writes):
            last[i] = index
    drops: list[list[int]] = [[] for _ in instructions]
    for i, index in last.items():
        if i not in lasting_slots:
            drops[index].append(i)
    return [instruction._replace(drops=tuple(dropped)) for instruction, dropped in zip(instructions, drops, strict=True)]


def order_instructions(queues: Sequence[Sequence[Sequence[Instruction]]], ready: Iterable[int]) -> list[Instruction]:
    """Merge the instructions of several devices: each device's in sequence, each after the writers of its slots.

    `queues`: per device a list of tasks, each a list of instructions. Raises `ValueError` for a deadlock.
    """
    written = set(ready)
    heads = [0] * len(queues)
    ordered: list[Instruction] = []
    while any(head < len(queue) for head, queue in zip(heads, queues, strict=True)):
        previous_count = len(ordered)
        for device, queue in enumerate(queues):
            if heads[device] < len(queue) and written.issuperset(queue[heads[device]][0].reads):
                for instruction in queue[heads[device]]:
                    ordered.append(instruction)
                    written.update(instruction.writes)
                heads[device] += 1
        if len(ordered) == previous_count:
            raise ValueError("the schedule deadlocks")
    return ordered


@dataclass(frozen=True)
class Compilation:
    """Facts about a step's instructions. `last`: slots written at the very end of a step, to wait for."""

    last: tuple[int, ...]
    micro_batches: int


def instructions_of(stages: Stages, buffer_slots: BufferSlots) -> tuple[list[Instruction], Compilation]:
    """Return the instructions of one step, ordered so that nothing is read before it is written."""
    builder = _InstructionBuilder(stages, buffer_slots)
    queues = [[builder.task(task) for task in order] for order in stages.orders]
    queues = [[task for task in queue if task] for queue in queues]
    prefilled = [number for name, number in buffer_slots.numbers.items() if isinstance(name, tuple) and name[0] in _PREFILLED]
    ordered = [*order_instructions(queues, prefilled), *builder.end()]
    lasting = [
        number for name, number in buffer_slots.numbers.items() if name == "loss" or (isinstance(name, tuple) and name[0] in _LASTING)
    ]
    last = buffer_slots.of(("piece", stage, param_slice) for stage in range(stages.count) for param_slice in stages.updates[stage].owned)
    loss_slots = buffer_slots.of(["loss"])
    return with_drops(ordered, lasting), Compilation((*last, *loss_slots), stages.spec.micro_batches)


_LASTING = ("piece", "state", "total")
_PREFILLED = (*_LASTING, "batch")


@dataclass(frozen=True)
class _InstructionBuilder:
    stages: Stages
    buffer_slots: BufferSlots

    def task(self, task: Task) -> list[Instruction]:
        spec = self.stages.spec
        recompute = spec.recomputes(task.micro_batch, spec.device_of(task.stage))
        compiled_task = self.stages.tasks.get((task.kind, task.stage, recompute))
        if compiled_task is None:
            return []
        virtual_stage, i = self.stages.partition.virtual_stages[task.stage], task.micro_batch
        totals: list[Name] = [("total", task.stage, virtual_stage.param_slices[place]) for place in compiled_task.totals]
        reads = [*totals, *(name for group, place in compiled_task.task.reads for name in self._list_reads(group, place, task))]
        results = [self._result_slot(group, place, task) for group, place in compiled_task.task.gives if group != "gradient"]
        token = ("token", *task)
        compute = self._call(compiled_task.compiled, reads, [token, *totals, *results], task)
        sends = self._value_sends(task.stage, i) if task.kind is Kind.FORWARD else self._gradient_sends(task.stage, i)
        gives = {group for group, _ in compiled_task.task.gives}
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
        """Return source slot, destination slot and destination sharding of each send."""
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
            index = self.stages.partition.virtual_stages[maker].output_activations.index(value)
            sends.append(
                (
                    ("back", value, stage, stage, i),
                    ("back", value, stage, maker, i),
                    self.stages.programs[maker].shardings["output_activations", index],
                )
            )
        return sends

    def _call(self, call: Callable[..., Sequence[Any]], reads: Iterable[Name], writes: Iterable[Name], label: Any = None) -> Instruction:
        return Instruction(call, self.buffer_slots.of(reads), self.buffer_slots.of(writes), (), label)

    def _transfer(self, sends: Sequence[tuple[Name, Name, Any]]) -> list[Instruction]:
        if not sends:
            return []
        sources, destinations, places = zip(*sends, strict=True)
        return [self._call(_make_sender(places), sources, destinations)]

    def end(self) -> list[Instruction]:
        """Return the instructions after the last micro-batch: loss, gradient sends, updates, parameter sends."""
        stages, count = self.stages, self.stages.spec.micro_batches
        has_weights = stages.partition.network.flat.weight is not None
        loss_parts = [*(("loss", i) for i in range(count)), *((("weight", i) for i in range(count)) if has_weights else ())]
        instructions = [self._call(stages.finish, loss_parts, ["loss", "weight"])]
        if has_weights:
            instructions += self._transfer(
                [("weight", ("total weight", stage), stages.devices(stage).whole) for stage in range(stages.count)]
            )
        instructions += [self._sum_partials(stage) for stage in stages.compiled_sums]
        instructions += self._transfer(self._borrowed_grad_sends())
        instructions += self._sum_over_params(weighs=has_weights)
        for stage in range(stages.count):
            instructions += [self._update(stage, weighs=has_weights), self._zero_totals(stage)]
        return [*instructions, *self._transfer(self._param_sends())]

    def _sum_partials(self, stage: int) -> Instruction:
        split = self.stages.partial_sum_params(stage)
        reads: list[Name] = [("total", stage, param_slice) for param_slice in split]
        writes: list[Name] = [("token", "sums", stage), *(("whole", stage, param_slice) for param_slice in split)]
        return self._call(self.stages.compiled_sums[stage], reads, writes, ("sums", stage))

    def _gradient_slot(self, stage: int, param_slice: int) -> Name:
        return ("whole" if param_slice in self.stages.partial_sum_params(stage) else "total", stage, param_slice)

    def _borrowed_grad_sends(self) -> list[tuple[Name, Name, Any]]:
        sends: list[tuple[Name, Name, Any]] = []
        for stage, update in enumerate(self.stages.updates):
            for place, user in self.stages.borrowed_grads(stage):
                param_slice = update.owned[place]
                sends.append(
                    (self._gradient_slot(user, param_slice), ("lent", stage, param_slice, user), self._param_sharding(stage, param_slice))
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
        """Sum over all parameters, such as a global norm: terms go to the first stage, and the sums back to each."""
        stages, instructions = self.stages, []
        term_sends: list[tuple[Name, Name, Any]] = []
        count = max(update.sums for update in stages.updates)
        for stage, call in stages.compiled_terms.items():
            terms: list[Name] = [("term", stage, place) for place in range(count)]
            instructions.append(self._call(call, self._update_reads(stage, weighs=weighs), terms))
            term_sends += [(name, ("added", 0, stage, place), stages.devices(0).whole) for place, name in enumerate(terms)]
        if not term_sends:
            return []
        sums: list[Name] = [("sum", 0, place) for place in range(count)]
        add_up = self._call(stages.add_up, (to for _, to, _ in term_sends), sums)
        sum_sends: list[tuple[Name, Name, Any]] = []
        for stage in stages.compiled_terms:
            sum_sends += [(name, ("sum", stage, place, "here"), stages.devices(stage).whole) for place, name in enumerate(sums)]
        return [*instructions, *self._transfer(term_sends), add_up, *self._transfer(sum_sends)]

    def _kept_slots(self, stage: int) -> list[Name]:
        update = self.stages.updates[stage]
        pieces: list[Name] = [("piece", stage, param_slice) for param_slice in update.owned]
        return [*pieces, *(("state", stage, place) for place in range(len(update.state)))]

    def _update_reads(self, stage: int, *, weighs: bool) -> list[Name]:
        owned = self.stages.updates[stage].owned
        totals = [self._gradient_slot(stage, param_slice) for param_slice in owned]
        borrowed_grads = [("lent", stage, owned[place], user) for place, user in self.stages.borrowed_grads(stage)]
        return [*self._kept_slots(stage), *totals, *borrowed_grads, *([("total weight", stage)] if weighs else [])]

    def _update(self, stage: int, *, weighs: bool) -> Instruction:
        sums = [("sum", stage, place, "here") for place in range(self.stages.updates[stage].sums)]
        writes: list[Name] = [("token", "update", stage), *self._kept_slots(stage)]
        return self._call(
            self.stages.compiled_updates[stage], [*self._update_reads(stage, weighs=weighs), *sums], writes, ("update", stage)
        )

    def _zero_totals(self, stage: int) -> Instruction:
        param_slices = (*self.stages.updates[stage].owned, *self.stages.borrowed_params(stage))
        totals: list[Name] = [("total", stage, param_slice) for param_slice in param_slices]
        return self._call(self.stages.compiled_zeros[stage], totals, totals)


def _make_sender(places: Sequence[Any]) -> Callable[..., Sequence[Any]]:
    if len(places) == 1:
        return partial(_send_one, places[0])
    return partial(_send, list(places))


def _send_one(place: Any, value: Any) -> Sequence[Any]:
    return (jax.device_put(value, place),)


def _send(places: list[Any], *values: Any) -> Sequence[Any]:
    return jax.device_put(list(values), places)
