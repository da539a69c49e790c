"""A pipelined step with a separate program per stage on separate devices (multiple programs, multiple data).

The tasks of every device are turned once into instructions over buffer slots, and a step runs through them. Transfers
between stages are dispatched right after the task that produces the data, and overlap with computation of both stages.
Parameters, optimizer state and gradient sums stay on their devices and are updated in place. There is one process; a
pipeline over several hosts needs the `spmd` engine.
"""

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import jax

from workbench.core.pipeline_spec import plan_input_splits
from workbench.engine.mpmd.compiled_stages import Sample, Stages, compile_stages
from workbench.engine.mpmd.lower_schedule import BufferSlots, Compilation, Instruction, instructions_of, run_instructions
from workbench.engine.spmd.device_mesh import put_sharded
from workbench.plan.plan import Plan
from workbench.tracing.grad_accumulation.micro_batch_marks import micro_batch_leaves

Watch = Callable[[Any, Any], None]


@dataclass(frozen=True)
class MpmdStep:
    """A pipelined plan ready to run: `instructions` over `buffer_slots`, which include the batch leaves."""

    plan: Plan
    stages: Stages
    buffer_slots: BufferSlots
    instructions: tuple[Instruction, ...]
    compilation: Compilation
    compile_seconds: float

    def begin(self) -> list[Any]:
        """Return the slots at the start of training: initial parameters and optimizer state, zero gradient sums."""
        values: list[Any] = [None] * len(self.buffer_slots)
        for name, value in self.stages.init_state().items():
            values[self.buffer_slots.number(name)] = value
        return values

    def position_of(self, label: Any) -> int:
        """Return the pipeline position of a labelled instruction; a label's second entry is its virtual stage."""
        return self.stages.spec.device_of(label[1])

    def feed(self, values: list[Any], step: int) -> None:
        """Put the micro-batches of step `step` into their slots; each device gets only its part."""
        program, count = self.plan.program, self.compilation.micro_batches
        leaves = program.step.feed(step)
        splits = plan_input_splits(program, count)
        numbers, parts, places = [], [], []
        for leaf_number, (leaf, split) in enumerate(zip(leaves, splits, strict=True)):
            users = self.stages.users_of_batch(leaf_number)
            if not users:
                continue
            for micro_batch, part in enumerate(micro_batch_leaves(leaf, split, count)):
                for stage, sharding in users:
                    numbers.append(self.buffer_slots.number(("batch", stage, leaf_number, micro_batch)))
                    parts.append(part)
                    places.append(sharding)
        for number, value in zip(numbers, _put_parts(parts, places), strict=True):
            values[number] = value

    def advance(self, values: list[Any], feed_next: int | None = None) -> jax.Array:
        """Run one step, wait for it and return the loss. The host feeds the next batch while the devices work."""
        run_instructions(self.instructions, values)
        loss = values[self.buffer_slots.number("loss")]
        if feed_next is not None:
            self.feed(values, feed_next)
        jax.block_until_ready([values[i] for i in self.compilation.last])
        return loss

    def results(self, values: Sequence[Any]) -> Mapping[tuple[str, int, int], Any]:
        """Return parameters and optimizer state by slot name (`("piece", stage, piece)`, `("state", stage, place)`)."""
        names = {
            name: number for name, number in self.buffer_slots.numbers.items() if isinstance(name, tuple) and name[0] in ("piece", "state")
        }
        return {name: values[number] for name, number in names.items()}


def _put_parts(parts: Sequence[Any], places: Sequence[Any]) -> list[Any]:
    if all(sharding.num_devices == 1 for sharding in places):
        return list(jax.device_put(list(parts), list(places)))
    return [put_sharded(part, sharding) for part, sharding in zip(parts, places, strict=True)]


def compile_mpmd(plan: Plan, tell: Callable[[str, float], None] = lambda _name, _fraction: None, sample: Sample | None = None) -> MpmdStep:
    """Compile every stage of a pipelined plan for the attached devices, or with `sample` for others.

    `tell` is called with each stage. Raises `EngineError` for too few devices, `PipelineError` if the program cannot be
    partitioned.
    """
    start = time.perf_counter()
    stages = compile_stages(plan, tell, sample)
    buffer_slots = BufferSlots()
    instructions, compilation = instructions_of(stages, buffer_slots)
    return MpmdStep(plan, stages, buffer_slots, tuple(instructions), compilation, time.perf_counter() - start)


def run_watched(step: MpmdStep, values: list[Any], watch: Watch) -> jax.Array:
    """Run one step like `advance`, calling `watch(label, token)` for each task when it is dispatched."""
    instructions = [
        instruction
        if instruction.label is None
        else instruction._replace(call=partial(_call_watched, instruction.call, instruction.label, watch))
        for instruction in step.instructions
    ]
    run_instructions(instructions, values)
    jax.block_until_ready([values[i] for i in step.compilation.last])
    loss: jax.Array = values[step.buffer_slots.number("loss")]
    return loss


def _call_watched(call: Callable[..., Sequence[Any]], label: Any, watch: Watch, *values: Any) -> Sequence[Any]:
    results = call(*values)
    watch(label, results[0])
    return results
