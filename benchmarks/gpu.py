"""One GPU against its entry in the catalogue: kernels, eager training steps and compiled ones, each beside what the workbench predicts.

The GPU is measured where PyTorch and JAX with CUDA are; nothing else is needed there than this repository (and optax, cloudpickle,
protobuf). What it wrote is compared anywhere:

    python benchmarks/gpu.py rates --save rates.json       # kernels of PyTorch: products, attention, memory, calls
    python benchmarks/gpu.py eager --save eager.json       # steps of PyTorch: eager, as a CUDA graph, compiled
    python benchmarks/gpu.py xla --save xla.json           # steps of the zoo's programs, and `workbench calibrate`
    python benchmarks/gpu.py xla --kernels --save xla_kernels.json
    python benchmarks/gpu.py compare rates.json eager.json xla.json xla_kernels.json --save benchmarks/results/h100.json

`--until SECONDS` begins no case later than that; `--small` tries the script where there is no GPU.
"""

import argparse
import json
import os
import subprocess
import sys
import time
import traceback
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from benchmarks.gpu_cases import ALL_WAYS, KERNEL_ZOO, LAYERS, SMALL, SMALL_ZOO, TINY_LAYERS, ZOO


def eager_cases(small: bool) -> list[tuple[Any, str]]:
    """Cases and ways: eagerly first, what takes long to compile last."""
    if small:
        return [(SMALL, way) for way in ("eager", "foreach")]
    found = [(case, "eager") for case in (*LAYERS, *TINY_LAYERS)]
    return found + [(LAYERS[place], way) for way in ("graph", "foreach", "compile") for place in sorted(ALL_WAYS)]


def run_cases(calls: Iterable[tuple[str, Callable[[], Any]]], until: float, save: Callable[[list[Any]], None]) -> None:
    """Each case, saved as it comes; one that fails is written down as such."""
    found: list[Any] = []
    for name, call in calls:
        if time.monotonic() > until:
            found.append({"name": name, "error": "left out: no time"})
            continue
        try:
            found.append(call())
            print(f"{name}: {found[-1].get('seconds')}", flush=True)
        except Exception as error:  # noqa: BLE001 -- of a library, a GPU, or memory: the other cases count
            traceback.print_exc()
            found.append({"name": name, "error": f"{type(error).__name__}: {error}"[:400]})
        save(found)


def measure_rates(options: argparse.Namespace) -> None:
    import torch

    from benchmarks import gpu_rates

    save_json(options.save, {**about(), "torch": torch.__version__, "rates": gpu_rates.measure(options.small)})


def measure_eager(options: argparse.Namespace) -> None:
    import gc

    import torch

    from benchmarks import gpu_eager

    def call(case: Any, way: str) -> Any:
        gc.collect()
        if torch.cuda.is_available():
            torch.cuda.empty_cache()
        torch._dynamo.reset()  # noqa: SLF001 -- PyTorch has no other name for it
        return gpu_eager.measure(case, way, 2 if options.small else 12)

    cases = ((f"{case}, {way}", lambda case=case, way=way: call(case, way)) for case, way in eager_cases(options.small))
    head = {**about(), "torch": torch.__version__}
    run_cases(cases, options.until, lambda found: save_json(options.save, {**head, "eager": found}))


def measure_xla(options: argparse.Namespace) -> None:
    """With `--kernels` no kernels are started together (command buffers), so that the profiler names each."""
    if options.kernels:
        os.environ["XLA_FLAGS"] = f"{os.environ.get('XLA_FLAGS', '')} --xla_gpu_enable_command_buffer="
    import jax

    from benchmarks import gpu_xla

    chosen = SMALL_ZOO if options.small else KERNEL_ZOO if options.kernels else ZOO
    cases = ((str(case), lambda case=case: gpu_xla.measure(case, 2 if options.small else 5)) for case in chosen)
    begin = [] if options.kernels else [("workbench calibrate", lambda: {"calibrate": gpu_xla.calibrated()})]
    head = {**about(), "jax": jax.__version__}
    name = "xla_kernels" if options.kernels else "xla"
    run_cases((*begin, *cases), options.until, lambda found: save_json(options.save, {**head, name: found}))


def compare(options: argparse.Namespace) -> None:
    from benchmarks.gpu_predictions import compare_all

    measured: dict[str, Any] = {}
    for path in options.files:
        measured |= json.loads(Path(path).read_text(encoding="utf-8"))
    save_json(options.save, compare_all(measured))


def about() -> dict[str, Any]:
    """The date, and the device and its driver as `nvidia-smi` names them."""
    query = ["nvidia-smi", "--query-gpu=name,driver_version,memory.total,power.limit,clocks.max.sm", "--format=csv,noheader"]
    try:
        device = subprocess.run(query, capture_output=True, text=True, check=True).stdout.strip()
    except (OSError, subprocess.CalledProcessError):
        device = "no GPU"
    return {"date": time.strftime("%Y-%m-%d"), "device": device}


def save_json(path: str, found: Any) -> None:
    Path(path).write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")


def main() -> None:
    parts = {"rates": measure_rates, "eager": measure_eager, "xla": measure_xla, "compare": compare}
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("part", choices=parts)
    parser.add_argument("files", nargs="*", help="with compare: what the other parts wrote")
    parser.add_argument("--save", required=True, metavar="FILE")
    parser.add_argument("--until", type=float, default=1e6, metavar="SECONDS", help="begin no case later")
    parser.add_argument("--kernels", action="store_true", help="with xla: the kernels of some programs, one by one")
    parser.add_argument("--small", action="store_true", help="tiny cases, for a try without a GPU")
    options = parser.parse_args()
    options.until += time.monotonic()
    parts[options.part](options)


if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).parents[1]))
    main()
