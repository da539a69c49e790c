"""From an edit to a finished report: the GPT-3 175B training step (Adam) on 2,048 devices, scanned and unrolled over 96 layers.

Beside it, in the same run, what the same edit costs when the compiler is asked instead: `jit(...).lower(...).compile()` for 8 CPU devices,
of the same step (scanned; the unrolled one takes XLA many minutes). And how the time grows from 8 to 65,536 devices.

    python benchmarks/plan_latency.py [--quick] [--json]
"""

import argparse
import json
import os
import statistics
import time
from collections.abc import Iterator

os.environ.setdefault("JAX_PLATFORMS", "cpu")

import jax
from jax.sharding import AxisType, NamedSharding

from workbench.core.program import Program
from workbench.models import build
from workbench.plan.edits import Edit, ShardDim
from workbench.public_plan import Plan
from workbench.session.plan_history import Session
from workbench.tracing.constrain import partition_spec

MESHES = ((8, "data:4 model:2"), (2048, "data:64 model:32"), (65536, "data:2048 model:32"))
LAYOUT = "batch:data; heads:model; vocab:model"


def edits(count: int) -> Iterator[Edit]:
    """A hand that drags `d_ff` onto `model` and off again."""
    for i in range(count):
        yield ShardDim("d_ff", () if i % 2 else ("model",))


def report_seconds(program: Program, mesh: str, repeats: int) -> list[float]:
    """Seconds of each edit, from the gesture to the report."""
    session = Session(Plan(program, mesh, LAYOUT))
    session.apply(ShardDim("d_ff", ("model",)))
    session.undo()
    seconds = []
    for edit in edits(repeats):
        start = time.perf_counter()
        session.apply(edit)
        seconds.append(time.perf_counter() - start)
    return seconds


def compile_seconds(program: Program) -> float:
    """Seconds that lowering and compiling one edit takes on 8 devices of this machine."""
    plan = Plan(program, "data:4 model:2", f"{LAYOUT}; d_ff:model")
    mesh = jax.make_mesh(plan.mesh.sizes, plan.mesh.names, axis_types=(AxisType.Auto,) * 2)
    shardings = [NamedSharding(mesh, partition_spec(each)) for each in plan.argument_shardings]
    carried = dict(program.carried)
    results = tuple(shardings[carried[i]] if i in carried else None for i in range(len(program.results)))
    specs = [jax.ShapeDtypeStruct(tensor.shape, tensor.dtype) for tensor in program.arguments]
    start = time.perf_counter()
    step = jax.jit(
        program.step.call, in_shardings=shardings, out_shardings=results, donate_argnums=tuple(carried.values()), keep_unused=True
    )
    step.lower(*specs).compile()
    return time.perf_counter() - start


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="fewer repetitions; under 45 s")
    parser.add_argument("--json", action="store_true", help="the last line is one JSON object")
    options = parser.parse_args()
    jax.config.update("jax_num_cpu_devices", 8)
    scanned = build("gpt", preset="gpt3-175b", scan=True)
    scanned_ms = 1e3 * statistics.median(report_seconds(scanned, "data:64 model:32", 20 if options.quick else 60))
    print(f"scanned, 2,048 devices          {scanned_ms:9.1f} ms a report (median)")
    large_batch = build("gpt", preset="gpt3-175b", scan=True, batch=4096)  # 2,048-way data parallelism needs as many sequences
    growth = {size: 1e3 * statistics.median(report_seconds(large_batch, mesh, 10 if options.quick else 30)) for size, mesh in MESHES}
    for size, milliseconds in growth.items():
        print(f"scanned, {size:>6,} devices         {milliseconds:9.1f} ms")
    compiled = compile_seconds(scanned)
    print(f"scanned, lower + compile        {1e3 * compiled:9.1f} ms on 8 devices: {1e3 * compiled / scanned_ms:.0f} times as long")
    unrolled = build("gpt", preset="gpt3-175b", scan=False)
    unrolled_ms = 1e3 * statistics.median(report_seconds(unrolled, "data:64 model:32", 5 if options.quick else 15))
    print(f"unrolled, 2,048 devices         {unrolled_ms:9.1f} ms a report ({len(unrolled.operations):,} operations)")
    figures = {
        "scanned_ms": round(scanned_ms, 2),
        "unrolled_ms": round(unrolled_ms, 1),
        "compile_ratio": round(1e3 * compiled / scanned_ms, 1),
        "growth_8_to_65536": round(growth[65536] / growth[8], 3),
    }
    if options.json:
        print(json.dumps(figures))


if __name__ == "__main__":
    main()
