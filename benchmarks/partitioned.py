"""What XLA's own partitioner answers: how soon, and how near to what the compilers make of the same plans.

- `small_ms`, `gpt3_ms`, `unrolled_ms`: medians of one question, asked again in a warm process: the step of six small layers on 8 devices,
  GPT-3 175B on 2,048 scanned, and the same with its 96 layers written out. `cold_ms`: a new process, from its start to its first answer.
- `random_exact_share`: of random plans of the zoo, those whose collectives are, to the byte, what XLA:CPU compiles for them.
- `planned_p50`, `planned_p90`: of the same plans, how far the planner's bytes are from the partitioner's.
- `tpu_exact_share`, `tpu_random_share`: of the corpus, and of random layouts, those whose payload by mesh axes and class of collective is
  within 2 % of what libtpu compiles for TPU v5e, by the program that it is asked for before it generates code; `..._p50` and `..._p90` are
  of the error of all bytes, `tpu_ms` and `tpu_ms_p90` how soon it answers. Programs are compiled in a worker process and kept on disk: the
  first run takes half an hour on two cores.

    python benchmarks/partitioned.py [--quick] [--json]
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from multiprocessing import get_context
from pathlib import Path
from typing import NamedTuple

os.environ.setdefault("JAX_PLATFORMS", "cpu")
sys.path.insert(0, str(Path(__file__).parent))

import jax
import numpy as np
import optax
from random_plans import PROGRAMS, random_plan

import workbench as wb
from benchmarks.corpus.zoo import CASES, QUICK
from workbench.analysis.compared_figures import is_same
from workbench.engine import compile_plan, partition_plan
from workbench.engine.compile.compile_in_process import compile_here
from workbench.errors import WorkbenchError
from workbench.hardware.catalogue import parse_hardware
from workbench.models import build
from workbench.reports.collective import collective_class
from workbench.spmd.ask_partitioner import ask_partitioner

LARGE = ("data:64 model:32", "batch:data; heads:model; vocab:model; d_ff:model")
TPU = "TPU v5e"
EIGHT = parse_hardware(f"{TPU} 2x4")
SEEDS = {"gpt unrolled": 14, "conformer": 2, "unet": 2}  # of random plans a program; of the others 4
TPU_SEEDS = {"gpt unrolled": 14, "gpt": 6, "two_layer": 5, "mnist": 5, "decoder": 4, "mixture": 4, "t5": 3}
CHECKED_ANEW = 20  # plans a process: XLA:CPU keeps what it compiled

Bytes = Mapping[tuple[tuple[str, ...], str], int]  # by mesh axes and class of collective
_FIRST_ANSWER = "from partitioned import ask_partitioner, small; ask_partitioner(small())"


class Figures(NamedTuple):
    """Bytes of one plan from two sides: all alike, by axes and class, or not; how far apart their sums are; seconds of the answer."""

    name: str
    is_exact: bool
    error: float
    seconds: float = 0.0


class Checked(NamedTuple):
    """One random plan: beside the compiled program, and the planner's bytes beside the partitioner's."""

    compiled: Figures
    planned: Figures


def small() -> wb.Plan:
    """x[batch=64, d=256] through six layers of w[d=256, d_ff=256], one step of Adam."""

    def loss(weights: list[jax.Array], batch: dict[str, jax.Array]) -> jax.Array:
        x = batch["x"]
        for up, down in weights:
            x = x + jax.nn.relu(x @ up) @ down
        return (x**2).mean()

    weights = [(jax.ShapeDtypeStruct((256, 1024), "float32"), jax.ShapeDtypeStruct((1024, 256), "float32"))] * 6
    batch = {"x": jax.ShapeDtypeStruct((64, 256), "float32")}
    dims = {"params/*/0": "d_model d_ff", "params/*/1": "d_ff d_model", "batch/x": "batch d_model"}
    program = wb.trace_training(loss, weights, batch, optimizer=optax.adam(1e-3), dims=dims, name="mlp")
    return wb.Plan(program, "data:4 model:2", "batch:data; d_ff:model")


def milliseconds(plan: wb.Plan, repeats: int) -> float:
    """The median of as many answers, after a first."""
    ask_partitioner(plan)
    seconds = []
    for _ in range(repeats):
        start = time.perf_counter()
        ask_partitioner(plan)
        seconds.append(time.perf_counter() - start)
    return 1e3 * statistics.median(seconds)


def cold_milliseconds(repeats: int) -> float:
    """From the start of an interpreter to its end, after one answer; the trace of the small program is a part of it."""
    seconds = []
    for _ in range(repeats):
        start = time.perf_counter()
        subprocess.run([sys.executable, "-c", _FIRST_ANSWER], cwd=Path(__file__).parent, check=True)
        seconds.append(time.perf_counter() - start)
    return 1e3 * statistics.median(seconds)


def by_class(volumes: Bytes) -> Bytes:
    totals: dict[tuple[tuple[str, ...], str], int] = {}
    for (axes, kind), payload in volumes.items():
        key = axes, collective_class(kind)
        totals[key] = totals.get(key, 0) + payload
    return {key: payload for key, payload in totals.items() if payload}


def figures(name: str, answered: Bytes, expected: Bytes, *, to_the_byte: bool) -> Figures:
    ours, theirs = by_class(answered), by_class(expected)
    keys = {*ours, *theirs}
    alike = ours == theirs if to_the_byte else all(is_same(ours.get(key, 0), theirs.get(key, 0)) for key in keys)
    one, other = sum(ours.values()), sum(theirs.values())
    return Figures(name, alike, abs(one / other - 1) if other else float(one > 0))


def check(program: str, seed: int) -> Checked | None:
    """Random plan number `seed` of a program; `None` where XLA refuses it. Called in a process of its own."""
    jax.config.update("jax_num_cpu_devices", 8)
    jax.config.update("jax_disable_most_optimizations", True)  # of LLVM: which collectives there are was decided before
    plan = random_plan(program, seed)
    try:
        answer, compiled = ask_partitioner(plan, "cpu"), compile_here(plan, keep=False)
    except WorkbenchError:
        return None
    name = f"{program} {seed}"
    planned = figures(name, plan.report().by_axis_and_kind, ask_partitioner(plan).by_axis_and_kind, to_the_byte=True)
    return Checked(figures(name, answer.by_axis_and_kind, compiled.by_axis_and_kind, to_the_byte=True), planned)


def checks(count: Callable[[str], int]) -> tuple[list[Checked], list[str]]:
    """Of `count` random plans of every program; and those that XLA refused, or aborted on."""
    found: list[Checked] = []
    failed: list[str] = []
    for program, seed in [(name, number) for name in PROGRAMS for number in range(count(name))]:
        try:
            result = _pool().submit(check, program, seed).result()
        except BrokenProcessPool:
            _pools.clear()
            result = None
        if result is None:
            failed.append(f"{program} {seed}")
            print(f"{program} {seed:<4} XLA refuses it", flush=True)
            continue
        found.append(result)
        print(row("compiled", result.compiled) + f"   planned {result.planned.error:7.2%} off", flush=True)
    for each in _pools:
        each.shutdown()
    return found, failed


_pools: list[ProcessPoolExecutor] = []


def _pool() -> ProcessPoolExecutor:
    if not _pools:
        _pools.append(ProcessPoolExecutor(1, get_context("spawn"), max_tasks_per_child=CHECKED_ANEW))
    return _pools[0]


def tpu_figures(plans: Iterable[tuple[str, wb.Plan]]) -> Iterator[Figures]:
    """What libtpu compiles beside the program that it is asked for before it generates code."""
    for name, plan in plans:
        try:
            compiled = compile_plan(plan)
            asked = partition_plan(plan, keep=False)
            result = figures(name, asked.by_axis_and_kind, compiled.by_axis_and_kind, to_the_byte=False)
        except WorkbenchError as error:
            print(f"{name}: NOT COMPILED: {str(error).splitlines()[0][:160]}", flush=True)
            continue
        print(row("libtpu", result), flush=True)
        yield result._replace(seconds=asked.seconds)


def row(side: str, result: Figures) -> str:
    return f"{result.name:<52} {side} {'same' if result.is_exact else 'DIFFERS':<8}{result.error:8.2%}"


def corpus_plans(*, quick: bool) -> Iterator[tuple[str, wb.Plan]]:
    for case in QUICK if quick else CASES:
        if case.target == TPU:
            yield str(case), case.plan().updated(hardware=parse_hardware(case.hardware))


def random_plans(*, quick: bool) -> Iterator[tuple[str, wb.Plan]]:
    for program, seeds in TPU_SEEDS.items():
        for seed in range(1 if quick else seeds):
            yield f"{program} {seed}", random_plan(program, seed).updated(hardware=EIGHT)


def summary(share: str, errors: str, found: Iterable[Figures]) -> dict[str, float | None]:
    found = list(found)
    off = [each.error for each in found]
    quantiles = {f"{errors}_p{q}": round(float(np.quantile(off, q / 100)), 4) if off else None for q in (50, 90)}
    return {share: round(sum(each.is_exact for each in found) / len(found), 4) if found else None, **quantiles}


def times(*, quick: bool) -> dict[str, object]:
    repeats = 5 if quick else 15
    return {
        "small_ms": round(milliseconds(small(), repeats), 1),
        "gpt3_ms": round(milliseconds(wb.Plan(build("gpt", preset="gpt3-175b", scan=True), *LARGE), repeats), 1),
        "unrolled_ms": round(milliseconds(wb.Plan(build("gpt", preset="gpt3-175b", scan=False), *LARGE), 1 if quick else 3), 1),
        "cold_ms": round(cold_milliseconds(1 if quick else 5), 1),
    }


def random_shares(*, quick: bool) -> dict[str, object]:
    found, failed = checks(lambda program: 1 if quick else SEEDS.get(program, 4))
    return {
        "random": len(found),
        "refused": failed,
        **summary("random_exact_share", "random", (each.compiled for each in found)),
        **summary("planned_exact_share", "planned", (each.planned for each in found)),
    }


def tpu_shares(*, quick: bool) -> dict[str, object]:
    corpus = list(tpu_figures(corpus_plans(quick=quick)))
    random = list(tpu_figures(random_plans(quick=quick)))
    return {
        "tpu": len(corpus),
        **summary("tpu_exact_share", "tpu", corpus),
        "tpu_random": len(random),
        **summary("tpu_random_share", "tpu_random", random),
        "tpu_ms": milliseconds_at(0.5, [*corpus, *random]),
        "tpu_ms_p90": milliseconds_at(0.9, [*corpus, *random]),
    }


def milliseconds_at(quantile: float, found: list[Figures]) -> float | None:
    return round(1e3 * float(np.quantile([each.seconds for each in found], quantile)), 1) if found else None


PARTS = {"times": times, "random": random_shares, "tpu": tpu_shares}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="a plan or two of each program, and the smallest ones for TPU; two minutes")
    parser.add_argument("--json", action="store_true", help="the last line is one JSON object")
    parser.add_argument("--only", choices=PARTS, help="one part alone")
    options = parser.parse_args()
    result: dict[str, object] = {}
    for name, part in PARTS.items():
        if options.only in (None, name):
            result |= part(quick=options.quick)
    for name, value in result.items():
        print(f"{name:<20} {value}")
    if options.json:
        print(json.dumps(result))


if __name__ == "__main__":
    main()
