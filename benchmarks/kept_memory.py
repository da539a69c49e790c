"""What is kept of large programs: bytes of each kept value beside what is declared for it, and what five unrolled GPTs leave behind.

python benchmarks/kept_memory.py               # five GPTs of 96 layers, unrolled: some minutes
python benchmarks/kept_memory.py --quick       # two of 12
python benchmarks/kept_memory.py --values      # bytes of each kept value per operation, by tracemalloc; and of MLIR, by resident memory
"""

import argparse
import gc
import json
import resource
import sys
import time
import tracemalloc
import weakref
from collections import defaultdict
from pathlib import Path

from workbench.core.derived_value_cache import CACHE
from workbench.core.program import Program
from workbench.models import build
from workbench.propagation.module.mlir_context import parse_module
from workbench.public_plan import Plan
from workbench.recipes.recipe_list import list_recipes
from workbench.reports.report import Report

_PAGE = resource.getpagesize()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--values", action="store_true")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    layers = 12 if options.quick else 96
    result = measured_values(layers=min(layers, 32)) if options.values else left_behind(layers, count=2 if options.quick else 5)
    print(json.dumps(result, indent=1) if options.json else "\n".join(f"{key:50} {value}" for key, value in result.items()))


def unrolled(layers: int) -> Program:
    return build("gpt", preset="gpt3-175b", scan=False, layers=layers)


def planned(program: Program, layout: str = "batch:data; d_ff:model; heads:model") -> Report:
    """As a board shows it, a view or two opened."""
    report = Plan(program, "data:8 model:8", layout, hardware="TPU v5p 4x4x4").report()
    str(report)
    return report


def resident() -> float:
    """MiB; Linux says it of now, others of the worst so far."""
    if Path("/proc/self/statm").exists():
        return int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1]) * _PAGE / 2**20
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / (2**20 if sys.platform == "darwin" else 2**10)


def collected() -> float:
    """Seconds of one full collection, once what is garbage is gone."""
    gc.collect()
    begin = time.perf_counter()
    gc.collect()
    return time.perf_counter() - begin


def left_behind(layers: int, count: int) -> dict[str, float]:
    """Memory, objects and seconds of a collection before, with and after so many programs."""
    planned(unrolled(2))
    found = _state("before")
    alive, kept = [], []
    for number in range(count):
        program = unrolled(layers - number)
        kept.append((program, planned(program)))
        alive.append(weakref.ref(program))
    found |= _state(f"with {count}")
    del program
    kept.clear()
    return found | _state("after") | {"programs still alive": sum(each() is not None for each in alive)}


def _state(when: str) -> dict[str, float]:
    seconds = collected()
    objects = len(gc.get_objects())
    return {
        f"{when}: resident MiB": round(resident(), 1),
        f"{when}: objects": objects,
        f"{when}: collection, seconds": round(seconds, 3),
        f"{when}: kept bytes, as counted": CACHE.bytes,
    }


def measured_values(layers: int) -> dict[str, str]:
    """Of each kept value: bytes per operation of its program as found, and as declared."""
    found: dict[str, list[tuple[int, int, int]]] = defaultdict(list)
    inner = [0]
    keep = CACHE.get

    def get(program: Program, key: tuple, make, size: int):
        def measured():
            outer, inner[0] = inner[0], 0
            gc.collect()
            before = tracemalloc.get_traced_memory()[0]
            value = make()
            gc.collect()
            whole = tracemalloc.get_traced_memory()[0] - before
            found[f"{key[0].__module__}.{key[0].__name__}"].append((len(program.operations), whole - inner[0], size))
            inner[0] = outer + whole
            return value

        return keep(program, key, measured, size)

    CACHE.get = get
    planned(unrolled(2))
    found.clear()
    program = unrolled(layers)
    tracemalloc.start()
    planned(program)
    plan = Plan(program, "stage:4 data:2 model:4", "batch:data; d_ff:model", hardware="TPU v5p 4x4x2", pipeline="stages:4 micro_batches:8")
    list_recipes(Plan(program, "data:8 model:8"))
    before = tracemalloc.get_traced_memory()[0]
    again = Plan(program, "data:8 model:8", "batch:data; d_ff:model", hardware="TPU v5p 4x4x4").report()
    str(again)
    gc.collect()
    report_bytes = tracemalloc.get_traced_memory()[0] - before
    _ = plan.report().pipeline
    tracemalloc.stop()
    rows = {
        name: f"{max(sizes)[1] / max(sizes)[0]:8.0f} B an operation found, {max(sizes)[2] / max(sizes)[0]:8.0f} declared, "
        f"{len(sizes)} values, {sum(each[1] for each in sizes) / 2**20:.1f} MiB"
        for name, sizes in sorted(found.items())
    }
    rows["a report, read as text"] = f"{report_bytes / len(program.operations):8.0f} B an operation found"
    modules = [parse_module(program.module) for _ in range(20)]  # they fill what was free
    start = resident()
    modules += [parse_module(program.module) for _ in range(20)]
    native = (resident() - start) * 2**20 / 20
    rows["MLIR module, resident"] = (
        f"{native / len(program.operations):8.0f} B an operation, {native / len(program.module):.1f} x its bytecode"
    )
    return rows


if __name__ == "__main__":
    main()
