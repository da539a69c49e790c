"""Compile a pipelined plan of separate stages to read what each stage's devices hold and send in a step, for hardware that may be absent.
Nothing runs. Equal tasks, such as those of equal stages, are compiled once.
"""

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
    """The record of the stage with the highest peak memory, with those of all stages in it (`Compiled.stages`), and the function that
    writes the HLO text of every task."""
    start = time.perf_counter()
    known: dict[str, jax.stages.Compiled] = {}
    packed: dict[int, PackedMemory | None] = {}

    def compiler(lowered: jax.stages.Lowered) -> jax.stages.Compiled:
        text = lowered.as_text()
        if text not in known:
            known[text], memory = compile_and_read_memory(lowered, options, target.compiler)
            packed[id(known[text])] = memory
        return known[text]

    step = compile_mpmd(plan, tell, Sample(target.mesh, compiler))
    seconds = time.perf_counter() - start
    tell("reading", 0.95)
    read = {
        id(each): read_compiled(
            module_of(each), plan.mesh, each.memory_analysis(), packed[id(each)], clock=target.clock, compiler=target.compiler
        )
        for each in known.values()
    }
    resting_and_peak = zip(resting_bytes(step), compiled_peaks(step, lambda call: read[id(call)].memory.temporary), strict=True)
    stages = tuple(_stage_record(step, position, *sizes, read, target, seconds) for position, sizes in enumerate(resting_and_peak))
    fullest = max(stages, key=lambda each: each.memory.peak)
    return replace(fullest, stages=stages), lambda: "\n\n".join(each.as_text() for each in known.values())


def _stage_record(
    step: MpmdStep, position: int, resting: int, peak: int, read: Mapping[int, Compiled], target: Target, seconds: float
) -> Compiled:
    """One device of a stage over a step: each task times its executions; bytes that it holds between tasks, and at its peak."""
    labelled = (each for each in step.instructions if each.label is not None and step.position_of(each.label) == position)
    times = Counter(id(each.call) for each in labelled)
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


# Peak memory per device of a pipelined plan, from the compiled tasks: the buffer slots that are alive there as the instructions run, and
# the temporaries of the current task (XLA's own figures).

_INITIAL = ("piece", "state", "total", "batch")


def compiled_peaks(step: MpmdStep, temporary_of: Callable[[Any], int] | None = None) -> tuple[int, ...]:
    """Peak bytes on one device of each stage's group, by pipeline position. `temporary_of(task)`: bytes that a compiled task needs beside
    what it reads and returns, where that is known better than `memory_analysis()` has it."""
    devices = step.stages.spec.stages
    sizes, home, alive = _sizes(step), _locate_slots(step), _initial_bytes(step)
    peaks = [sum(each.values()) for each in alive]
    temporary_of = temporary_of or partial(_read_temporary, on_tpu=step.stages.devices(0).mesh.devices.flat[0].platform == "tpu")
    for each in step.instructions:
        for read, written in zip(each.reads, each.writes, strict=False) if each.label is None else ():
            if home[read] == home[written]:  # sent to where it is: the same array
                alive[home[read]].pop(read, None)
        for number in each.writes:
            if number in sizes:
                alive[home[number]][number] = sizes[number]
        if each.label is not None:
            device = step.position_of(each.label)
            peaks[device] = max(peaks[device], sum(alive[device].values()) + temporary_of(each.call))
        for device in range(devices):
            peaks[device] = max(peaks[device], sum(alive[device].values()))
        for number in each.drops:
            for slots in alive:
                slots.pop(number, None)
    return tuple(peaks)


def _read_temporary(task: Any, *, on_tpu: bool) -> int:
    return read_memory_analysis(task.memory_analysis(), on_tpu=on_tpu).temporary


def resting_bytes(step: MpmdStep) -> tuple[int, ...]:
    """Bytes on one device of each stage's group before the first task: parameters, state, sums of gradients, the batch."""
    return tuple(sum(each.values()) for each in _initial_bytes(step))


def _initial_bytes(step: MpmdStep) -> list[dict[int, int]]:
    """For each device the bytes of its slots that hold something initially."""
    sizes, home = _sizes(step), _locate_slots(step)
    alive: list[dict[int, int]] = [{} for _ in range(step.stages.spec.stages)]
    for name, number in step.buffer_slots.numbers.items():
        if isinstance(name, tuple) and name[0] in _INITIAL:
            alive[home[number]][number] = sizes.get(number, 0)
    return alive


def _locate_slots(step: MpmdStep) -> Mapping[int, int]:
    """The device that each slot's array is placed on."""
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
    """Bytes of each slot on one device, from what its writer returns or its reader takes."""
    found: dict[int, int] = {}
    for each in step.instructions:
        if each.label is None:
            continue
        shapes, formats = _arguments(each.call)
        for number, aval, format_ in zip(each.reads, shapes, formats, strict=False):
            found[number] = _bytes(aval, format_)
        for number, aval, format_ in zip(each.writes, _results(each.call), each.call.output_formats, strict=True):  # type: ignore[attr-defined]
            found[number] = _bytes(aval, format_)
    return found


def _arguments(compiled: Any) -> tuple[Any, Any]:
    return jax.tree.leaves(compiled.in_avals), jax.tree.leaves(compiled.input_formats[0])


def _results(compiled: Any) -> Any:
    return jax.tree.leaves(compiled.out_info)


def _bytes(aval: Any, format_: Any) -> int:
    """Bytes as stored in memory: the last dimensions padded to the layout's tile, if it has any."""
    if jax.dtypes.issubdtype(aval.dtype, jax.dtypes.prng_key):  # its layout is that of the words it is packed into
        return prod(format_.sharding.shard_shape(aval.shape)) * int(aval.dtype.itemsize)
    local, layout = format_.sharding.shard_shape(aval.shape), format_.layout
    sides = [local[dim] for dim in layout.major_to_minor]
    tile = layout.tiling[0] if layout.tiling else ()
    sides = [1] * (len(tile) - len(sides)) + sides
    padded = [-(-side // step) * step for side, step in zip(sides[len(sides) - len(tile) :], tile, strict=True)]
    return prod((*sides[: len(sides) - len(tile)], *padded)) * int(getattr(aval.dtype, "itemsize", 4))
