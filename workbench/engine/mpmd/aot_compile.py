"""Compile a pipeline's stages to read their memory and communication; equal tasks are compiled once, none is run."""

import time
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from math import prod
from typing import Any

import jax

from workbench.engine.compile.compile_targets import Target
from workbench.engine.compile.read_memory import compile_and_read_memory
from workbench.engine.hlo.read_compiled import READER_VERSION, read_compiled, read_memory_analysis
from workbench.engine.mpmd.compiled_stages import Sample
from workbench.engine.mpmd.mpmd_step import MpmdStep, compile_mpmd
from workbench.plan.plan import Plan
from workbench.reports.compiled import Compiled, CompiledMemory
from workbench.spmd.buffer_assignment import PackedMemory
from workbench.spmd.compile_to_schedule import module_of


def compile_pipeline(
    plan: Plan, target: Target, tell: Callable[[str, float], None], options: Mapping[str, str | bool | int | float]
) -> tuple[Compiled, Callable[[], str]]:
    """Return the record of the stage with the highest peak, including all stages, and a function for the HLO text."""
    start = time.perf_counter()
    compiled_by_text: dict[str, jax.stages.Compiled] = {}
    packed: dict[int, PackedMemory | None] = {}

    def compiler(lowered: jax.stages.Lowered) -> jax.stages.Compiled:
        text = lowered.as_text()
        if text not in compiled_by_text:
            compiled_by_text[text], memory = compile_and_read_memory(lowered, options, target.compiler)
            packed[id(compiled_by_text[text])] = memory
        return compiled_by_text[text]

    step = compile_mpmd(plan, tell, Sample(target.mesh, compiler))
    seconds = time.perf_counter() - start
    tell("reading", 0.95)
    records = {
        id(task): read_compiled(
            module_of(task), plan.mesh, task.memory_analysis(), packed[id(task)], clock=target.clock, compiler=target.compiler
        )
        for task in compiled_by_text.values()
    }
    resting_and_peak = zip(resting_bytes(step), compiled_peaks(step, lambda call: records[id(call)].memory.temporary), strict=True)
    stages = tuple(_stage_record(step, position, *sizes, records, target, seconds) for position, sizes in enumerate(resting_and_peak))
    fullest = max(stages, key=lambda stage: stage.memory.peak)
    return replace(fullest, stages=stages), lambda: "\n\n".join(task.as_text() for task in compiled_by_text.values())


def _stage_record(
    step: MpmdStep, position: int, resting: int, peak: int, read: Mapping[int, Compiled], target: Target, seconds: float
) -> Compiled:
    """Record of one device of a stage over a step: each task times its executions."""
    labelled = (
        instruction
        for instruction in step.instructions
        if instruction.label is not None and step.position_of(instruction.label) == position
    )
    times = Counter(id(instruction.call) for instruction in labelled)
    collectives = (replace(each, count=each.count * count) for call, count in times.items() for each in read[call].collectives)
    kernels = (replace(each, count=each.count * count) for call, count in times.items() for each in read[call].kernels)
    memory = CompiledMemory(arguments=resting, outputs=resting, aliased=resting, temporary=peak - resting)
    return Compiled(
        target=target.name,
        devices=step.plan.mesh.size,
        compile_seconds=seconds,
        memory=memory,
        collectives=tuple(collectives),
        kernels=tuple(kernels),
        compiler=target.compiler,
        reader=READER_VERSION,
    )


# Peak memory per device of a pipelined plan, from the compiled tasks: the live buffer slots as the instructions run, and
# the temporaries of the current task (XLA's figures).

_INITIAL = ("piece", "state", "total", "batch")


def compiled_peaks(step: MpmdStep, temporary_of: Callable[[Any], int] | None = None) -> tuple[int, ...]:
    """Peak bytes on one device of each stage's group, by pipeline position.

    `temporary_of(task)`: temporary bytes of a compiled task, if more precise ones than `memory_analysis()` are known.
    """
    devices = step.stages.spec.stages
    sizes, home, alive = _sizes(step), _locate_slots(step), _initial_bytes(step)
    peaks = [sum(slots.values()) for slots in alive]
    temporary_of = temporary_of or partial(_read_temporary, on_tpu=step.stages.devices(0).mesh.devices.flat[0].platform == "tpu")
    for instruction in step.instructions:
        for read, written in zip(instruction.reads, instruction.writes, strict=False) if instruction.label is None else ():
            if home[read] == home[written]:  # sent within its device: the same array
                alive[home[read]].pop(read, None)
        for number in instruction.writes:
            if number in sizes:
                alive[home[number]][number] = sizes[number]
        if instruction.label is not None:
            device = step.position_of(instruction.label)
            peaks[device] = max(peaks[device], sum(alive[device].values()) + temporary_of(instruction.call))
        for device in range(devices):
            peaks[device] = max(peaks[device], sum(alive[device].values()))
        for number in instruction.drops:
            for slots in alive:
                slots.pop(number, None)
    return tuple(peaks)


def _read_temporary(task: Any, *, on_tpu: bool) -> int:
    return read_memory_analysis(task.memory_analysis(), on_tpu=on_tpu).temporary


def resting_bytes(step: MpmdStep) -> tuple[int, ...]:
    """Bytes on one device of each stage's group before the first task: parameters, state, gradient sums, batch."""
    return tuple(sum(slots.values()) for slots in _initial_bytes(step))


def _initial_bytes(step: MpmdStep) -> list[dict[int, int]]:
    sizes, home = _sizes(step), _locate_slots(step)
    alive: list[dict[int, int]] = [{} for _ in range(step.stages.spec.stages)]
    for name, number in step.buffer_slots.numbers.items():
        if isinstance(name, tuple) and name[0] in _INITIAL:
            alive[home[number]][number] = sizes.get(number, 0)
    return alive


def _locate_slots(step: MpmdStep) -> Mapping[int, int]:
    last, device_of = step.stages.count - 1, step.stages.spec.device_of
    return {
        number: device_of(_stage_of(name, step) if isinstance(name, tuple) else last) for name, number in step.buffer_slots.numbers.items()
    }


def _stage_of(name: tuple[Any, ...], step: MpmdStep) -> int:
    match name[0]:
        case "value":
            return int(name[2])
        case "back":
            return int(name[3])
        case "loss" | "weight":
            return step.stages.count - 1
        case "token":
            return int(name[2])
    return int(name[1])


def _sizes(step: MpmdStep) -> dict[int, int]:
    sizes: dict[int, int] = {}
    for instruction in step.instructions:
        if instruction.label is None:
            continue
        shapes, formats = _arguments(instruction.call)
        for number, aval, format_ in zip(instruction.reads, shapes, formats, strict=False):
            sizes[number] = _bytes(aval, format_)
        for number, aval, format_ in zip(instruction.writes, _results(instruction.call), instruction.call.output_formats, strict=True):  # type: ignore[attr-defined]
            sizes[number] = _bytes(aval, format_)
    return sizes


def _arguments(compiled: Any) -> tuple[Any, Any]:
    return jax.tree.leaves(compiled.in_avals), jax.tree.leaves(compiled.input_formats[0])


def _results(compiled: Any) -> Any:
    return jax.tree.leaves(compiled.out_info)


def _bytes(aval: Any, format_: Any) -> int:
    """Bytes as stored in memory, with the last dimensions padded to the layout's tile."""
    if jax.dtypes.issubdtype(aval.dtype, jax.dtypes.prng_key):  # its layout is that of its packed words
        return prod(format_.sharding.shard_shape(aval.shape)) * int(aval.dtype.itemsize)
    local, layout = format_.sharding.shard_shape(aval.shape), format_.layout
    sides = [local[dim] for dim in layout.major_to_minor]
    tile = layout.tiling[0] if layout.tiling else ()
    sides = [1] * (len(tile) - len(sides)) + sides
    padded = [-(-side // step) * step for side, step in zip(sides[len(sides) - len(tile) :], tile, strict=True)]
    return prod((*sides[: len(sides) - len(tile)], *padded)) * int(getattr(aval.dtype, "itemsize", 4))
