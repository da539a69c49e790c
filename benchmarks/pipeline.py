"""Pipelines run: the bubble against its formula, both engines against the same network by hand and under PyTorch, the cost of a task.

Two stages on two virtual CPU devices, a network of products too small to be split over threads (`pipeline_network.py`), no recomputation,
several numbers of micro-batches. All ways take turns in one run, so that whatever else the machine does falls on all alike, and must
find the same losses; of each the median of its faster half counts. PyTorch (`pip install torch`, its CPU build; `null` where it is not
installed) runs as two processes of one thread.

- `bubble_gap_points`: measured idle share of the devices less (K-1)/(M+K-1), in percentage points, the worst M; goal within 5
- `spmd_vs_handwritten`, `mpmd_vs_handwritten`: throughput over that of `shard_map` and `ppermute`, geometric mean over M; goal 1
- `mpmd_vs_torch`: over `torch.distributed.pipelining` with the same schedule, 1F1B; goal above 1
- `task_overhead_us`: a task whose operations are next to nothing, transfers and all; goal below 200

    python benchmarks/pipeline.py --quick --json
"""

import argparse
import json
import os
import time
from collections.abc import Callable
from contextlib import nullcontext
from functools import partial
from statistics import geometric_mean, median

os.environ["JAX_NUM_CPU_DEVICES"] = "2"
os.environ["JAX_PLATFORMS"] = "cpu"
os.environ["XLA_FLAGS"] = os.environ.get("XLA_FLAGS", "") + " --xla_cpu_multi_thread_eigen=false"

import jax
import numpy as np
import optax

import workbench as wb
from benchmarks.pipeline_network import STAGES
from benchmarks.pipeline_ways import ByHand, Mpmd, Spmd, Torch, has_torch
from workbench.engine.mpmd.execute_pipeline import measure_tasks
from workbench.engine.mpmd.mpmd_step import compile_mpmd
from workbench.reports.measurement import bubble_share

Run = Callable[[int], tuple[float, float]]
WARM = 3  # steps


def formula(micro_batches: int) -> float:
    """The share of the time that a device waits, with equal stages."""
    return (STAGES - 1) / (micro_batches + STAGES - 1)


def measure(micro_batches: int, turns: int, torch: Torch | None) -> dict[str, float]:
    """Seconds a step of each way, and the measured bubble."""
    mpmd = Mpmd(micro_batches)
    ways: dict[str, Run] = {"mpmd": mpmd.run, "spmd": Spmd(micro_batches).run, "hand": ByHand(micro_batches).run}
    if torch:
        ways["torch"] = partial(torch.run, micro_batches)
    verify_equal({name: run(WARM)[1] for name, run in ways.items()})
    steps = max(2, 8 // micro_batches)
    found: dict[str, list[float]] = {name: [] for name in ways}
    bubbles = []
    for turn in range(turns):
        for name in list(ways)[:: 1 if turn % 2 else -1]:
            found[name].append(ways[name](steps)[0] / steps)
        bubbles.append(watched_steps(mpmd))
    return {name: undisturbed(each) for name, each in found.items()} | {"bubble": median(bubble for _, bubble in faster_half(bubbles))}


def watched_steps(mpmd: Mpmd) -> tuple[float, float]:
    """Seconds and bubble of the median of several steps."""
    tasks = measure_tasks(mpmd.step, mpmd.values, 15)
    return max(task.end for task in tasks), bubble_share(tasks)


def faster_half(found: list) -> list:
    return sorted(found)[: (len(found) + 1) // 2]


def undisturbed(seconds: list[float]) -> float:
    return median(faster_half(seconds))


def verify_equal(losses: dict[str, float]) -> None:
    if max(losses.values()) - min(losses.values()) > 1e-4 * max(losses.values()):
        raise SystemExit(f"These are not the same network: after {WARM} steps the losses are {losses}.")


def task_overhead(turns: int) -> float:
    """Microseconds a task of a step whose operations are next to nothing takes, from its dispatch to the end of all."""
    loss = wb.sequential_loss([lambda weight, x: x * weight] * STAGES, lambda x, _: x.sum())
    batch = {"x": np.ones((16, 1), "float32")}
    program = wb.trace_training(loss, [np.ones(1, "float32")] * STAGES, batch, optimizer=optax.sgd(0.0), dims={"batch/*": "batch _"})
    step = compile_mpmd(wb.Plan(program, f"stage:{STAGES}", pipeline=f"stages:{STAGES} micro_batches:16"))
    values = step.begin()
    count = sum(each.label is not None for each in step.instructions)
    seconds = []
    for turn in range(turns + WARM):
        step.feed(values, turn)
        jax.block_until_ready([value for value in values if value is not None])
        start = time.perf_counter()
        step.advance(values)
        seconds.append((time.perf_counter() - start) / count)
    return undisturbed(seconds[WARM:]) * 1e6


def figures_of(measured: dict[int, dict[str, float]], overhead: float) -> dict[str, float | None]:
    def over(other: str, ours: str) -> float | None:
        ratios = [each[other] / each[ours] for each in measured.values() if other in each]
        return round(geometric_mean(ratios), 3) if ratios else None

    gaps = [100 * (each["bubble"] - formula(count)) for count, each in measured.items()]
    return {
        "bubble_gap_points": round(max(gaps, key=abs), 2),
        "spmd_vs_handwritten": over("hand", "spmd"),
        "mpmd_vs_handwritten": over("hand", "mpmd"),
        "mpmd_vs_torch": over("torch", "mpmd"),
        "task_overhead_us": round(overhead, 1),
    }


def print_row(micro_batches: int, each: dict[str, float]) -> None:
    times = "  ".join(f"{name} {each[name] * 1e3:6.1f} ms" for name in ("mpmd", "spmd", "hand", "torch") if name in each)
    print(f"{micro_batches:3} micro-batches: {times}   bubble {each['bubble']:.1%}, formula {formula(micro_batches):.1%}", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="under 45 seconds")
    parser.add_argument("--json", action="store_true", help="the last line is one JSON object")
    options = parser.parse_args()
    counts, turns = ((2, 4, 8), 8) if options.quick else ((1, 2, 4, 8, 16), 30)
    measured = {}
    with Torch() if has_torch() else nullcontext() as torch:
        for count in counts:
            measured[count] = measure(count, turns, torch)
            print_row(count, measured[count])
    figures = figures_of(measured, task_overhead(30 if options.quick else 200))
    for name, value in figures.items():
        print(f"{name}: {value}")
    if options.json:
        print(json.dumps(figures))


if __name__ == "__main__":
    main()
