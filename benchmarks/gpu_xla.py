"""Programs of the zoo as XLA runs them on the attached GPU: seconds of a step, bytes, and the kernels of one profiled step."""

import time
from collections import defaultdict
from dataclasses import asdict
from statistics import median
from typing import Any

import jax

import workbench as wb
from benchmarks.gpu_cases import ZooCase
from workbench.engine.spmd.calibrate import calibrate
from workbench.engine.spmd.compiled_step import CompiledStep, compile_step
from workbench.engine.spmd.profile_step import profile
from workbench.models import registry
from workbench.models.decoder import decoder

_GROUP = 5  # steps enqueued before the host waits


def cudnn_attention(query: Any, key: Any, value: Any) -> Any:
    """`decoder_blocks.flash_attention`, as cuDNN's kernel."""
    batch, seq, heads, per, d_head = query.shape
    flat = jax.nn.dot_product_attention(
        query.reshape(batch, seq, heads * per, d_head), key.squeeze(3), value.squeeze(3), is_causal=True, implementation="cudnn"
    )
    return flat.reshape(query.shape)


def measure(case: ZooCase, steps: int) -> dict[str, Any]:
    """The median of `steps` groups of steps, the compiler's own peak, and the kernels of a step, the longest first. The plan is made before
    the kernel stands in, which is written for GPUs alone."""
    plan, written = wb.Plan(registry.build(case.model, **case.arguments), "data:1"), decoder.flash_attention
    if case.is_cudnn:
        decoder.flash_attention = cudnn_attention
    try:
        step = compile_step(plan)
    finally:
        decoder.flash_attention = written
    arguments = step.arguments(0)
    for _ in range(2):
        step.advance(arguments, None)
    seconds = [_seconds(step, arguments) for _ in range(steps)]
    peak = step.compiled.memory_analysis().peak_memory_in_bytes
    trace, why = profile(step, arguments)
    kernels = [] if trace is None else _kernels(trace.events)
    return {
        "case": str(case),
        "seconds": median(seconds),
        "range": [min(seconds), max(seconds)],
        "compile": step.compile_seconds,
        "peak": peak,
        "kernels": sum(each["count"] for each in kernels),
        "busy": sum(each["seconds"] for each in kernels),
        "by_kernel": kernels[:60],
        "untraced": why,
    }


def _seconds(step: CompiledStep, arguments: list[jax.Array]) -> float:
    """Of one of several steps on the same batch, each enqueued behind the other."""
    start = time.perf_counter()
    for _ in range(_GROUP):
        results = tuple(step.compiled(*arguments))
        for result, argument in step.program.carried:
            arguments[argument] = results[result]
    jax.block_until_ready(results)
    return (time.perf_counter() - start) / _GROUP


def _kernels(events: Any) -> list[dict[str, Any]]:
    """Alike instructions together: kind, path, how often, seconds in all."""
    sums: dict[tuple[str, str], list[float]] = defaultdict(list)
    for event in events:
        sums[event.kind, event.path or event.name].append(event.seconds)
    rows = [{"kind": kind, "path": path, "count": len(times), "seconds": sum(times)} for (kind, path), times in sums.items()]
    return sorted(rows, key=lambda row: -row["seconds"])


def calibrated() -> dict[str, Any]:
    """What `workbench calibrate` finds."""
    return {name: str(value) for name, value in asdict(calibrate(tuple(jax.devices())).chip).items()}
