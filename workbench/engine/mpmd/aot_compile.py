"""Compile a pipelined plan of separate stages to read what each stage's devices hold and send in a step, for hardware that may be absent.
Nothing runs. Equal tasks, such as those of equal stages, are compiled once."""

import time
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import replace

import jax

from workbench.engine.compile.read_memory import compile_and_read_memory
from workbench.engine.compile.targets import Target
from workbench.engine.hlo.read_compiled import READER_VERSION, read_compiled
from workbench.engine.mpmd.compiled_stage_memory import compiled_peaks, resting_bytes
from workbench.engine.mpmd.compiled_stages import Sample
from workbench.engine.mpmd.mpmd_step import MpmdStep, compile_mpmd
from workbench.plan.plan import Plan
from workbench.reports.compiled import Compiled, CompiledMemory
from workbench.spmd.buffer_assignment import PackedMemory
from workbench.spmd.executable import module_of


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
