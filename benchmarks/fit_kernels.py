"""Cycles of the kernels of a scheduled program: the numbers of `workbench/cost/kernel_rates.toml`.

Programs are compiled by libtpu with code, which tells its own estimate of each kernel: for TPU v5e the third-party programs for fitting
(`corpus/split.py`), for another TPU those of the zoo's corpus. A compiled program is kept in FOLDER, so that a second fit compiles nothing.
Fitted are the cycles of a register (`KernelRates`), by the logarithm of predicted over estimated: of each kernel, weighted by its share of
its program, and of each program. What a window takes to start, and what is only moved, was read by hand off TPU v5e's kernels that do
nothing else; another chip's window is that of its idle kernels.

    python benchmarks/fit_kernels.py FOLDER [--target "TPU v6e"] [--layout NAME] [--save] [--json]
"""

import argparse
import gzip
import json
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, fields, replace
from pathlib import Path
from typing import NamedTuple

os.environ.setdefault("JAX_PLATFORMS", "cpu")  # this process only plans

import numpy as np
from scipy.optimize import least_squares

from benchmarks.corpus.program import LAYOUTS
from benchmarks.corpus.third_party import PROGRAMS
from benchmarks.corpus.zoo import CASES, TARGETS
from workbench.cost.tpu_kernel_cycles import SHIPPED, KernelRates, Registers, is_unestimated, kernel_cycles, known_rates, rates_for, work_of
from workbench.engine import compile_plan
from workbench.engine.compile.compile_cache import load
from workbench.engine.compile.compile_targets import CLOCKS, compiler_of
from workbench.engine.hlo.compiled_kernels import visit_kernels
from workbench.errors import WorkbenchError
from workbench.hardware.catalogue import parse_hardware
from workbench.hardware.hardware import Hardware
from workbench.plan.plan import Plan
from workbench.spmd.hlo_module import HloModule, read_module

FITTED = ("read", "written", "rounded", "summed", "operation", "product_operation", "product_rounded", "unhidden")
OF_PROGRAMS = 3.0  # what a program's sum weighs beside its kernels
HEAD = """# Cycles that XLA:TPU estimates for kernels (workbench/cost/tpu_kernel_cycles.py), by the `target` of a chip. Made by
# benchmarks/fit_kernels.py: `source` says what the cycles of a register were fitted on; those of a window, and of what is only
# moved or filled, were read by hand off TPU v5e's kernels that do nothing else, of other chips the window alone.
"""


class Kernel(NamedTuple):
    """One kernel of a compiled program, with libtpu's estimate of its cycles; `runs` a step."""

    case: str
    work: Registers
    cycles: int
    runs: int


def compiled_module(name: str, plan: Plan, folder: Path) -> HloModule:
    """The program as compiled, from FOLDER where it is kept."""
    path = folder / f"{name.replace('/', '__').replace(' ', '_')}.gz"
    if not path.exists():
        os.environ["WORKBENCH_CACHE"] = str(folder / "cache")
        compiled = compile_plan(plan)
        newest = max((folder / "cache" / "compiled").glob("*.gz"), key=lambda each: each.stat().st_mtime)
        found = load(newest.stem)
        assert found is not None, compiled.target
        path.write_bytes(gzip.compress(found[1], 1))
    return read_module(gzip.decompress(path.read_bytes()))


def kernels_of(case: str, module: HloModule) -> Iterator[Kernel]:
    """Those of which libtpu gives an estimate."""
    for visit in visit_kernels(module):
        cycles = visit.instruction.backend_config.get("window_config", {}).get("estimated_cycles")
        if cycles and not is_unestimated(module, visit):
            yield Kernel(case, work_of(module, visit), int(cycles), visit.runs)


def fit(kernels: list[Kernel], rates: KernelRates) -> tuple[KernelRates, dict[str, float]]:
    """The rates that fit best, and how far each program's sum is off with them."""
    cases = sorted({each.case for each in kernels})
    numbers = np.array([cases.index(each.case) for each in kernels])
    true, runs = np.array([each.cycles for each in kernels], dtype=float), np.array([each.runs for each in kernels], dtype=float)
    sums = np.bincount(numbers, true * runs)
    weights = np.sqrt(true * runs / sums[numbers])

    def predicted(logarithms: np.ndarray) -> np.ndarray:
        tried = replace(rates, **dict(zip(FITTED, np.exp(logarithms).tolist(), strict=True)))
        return np.array([kernel_cycles(each.work, tried) for each in kernels])

    def residuals(logarithms: np.ndarray) -> np.ndarray:
        found = predicted(logarithms)
        return np.concatenate([np.log(found / true) * weights, OF_PROGRAMS * np.log(np.bincount(numbers, found * runs) / sums)])

    start = np.log([getattr(rates, name) for name in FITTED])
    best = least_squares(residuals, start, loss="soft_l1", f_scale=0.1, max_nfev=30).x
    errors = np.bincount(numbers, predicted(best) * runs) / sums - 1
    fitted = dict(zip(FITTED, (round(value, 3) for value in np.exp(best).tolist()), strict=True))
    return replace(rates, **fitted), dict(zip(cases, errors.round(4).tolist(), strict=True))


def start_of(hardware: Hardware, kernels: list[Kernel]) -> KernelRates:
    """The rates to begin with. For a chip that nothing was fitted on, a window starts as long as kernels take that do next to nothing."""
    rates = rates_for(hardware.chip, CLOCKS[hardware.chip.target])
    if hardware.chip.target in known_rates():
        return rates
    idle = [each.cycles for each in kernels if not each.work.dots and not each.work.move and each.work.read + each.work.written < 1]
    return replace(rates, window=float(np.median(idle)))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, metavar="FOLDER", help="where compiled programs are kept")
    parser.add_argument("--target", choices=[each for each in TARGETS if each.startswith("TPU")], default="TPU v5e")
    parser.add_argument("--layout", choices=LAYOUTS, action="append", help="of the third-party programs, these alone; all if none is given")
    parser.add_argument("--kept", action="store_true", help="only what is in FOLDER: nothing is compiled")
    parser.add_argument("--save", action="store_true", help="write kernel_rates.toml")
    parser.add_argument("--json", action="store_true", help="the last line is one JSON object of the rates")
    options = parser.parse_args()
    options.folder.mkdir(parents=True, exist_ok=True)
    hardware = parse_hardware(f"{options.target} {TARGETS[options.target][0]}")
    plans = third_party_plans(options.layout or LAYOUTS) if hardware.chip.target == "tpu:v5e" else zoo_plans(options.target)
    kernels: list[Kernel] = []
    for case, module in kept_modules(options.folder) if options.kept else modules(plans, options.folder):
        kernels += kernels_of(case, module)
        print(f"{case:<48}{len(kernels):>8,} kernels", flush=True)
    rates, errors = fit(kernels, start_of(hardware, kernels))
    for case, error in errors.items():
        print(f"{case:<48}{error:>+8.1%}")
    whose = "third-party programs for fitting" if hardware.chip.target == "tpu:v5e" else "programs of the zoo"
    source = f"{len(kernels):,} kernels of {len(errors)} compiled {whose}, {options.target}, {compiler_of(hardware)}"
    if options.save:
        save({**known_rates(), hardware.chip.target: replace(rates, source=source)})
    if options.json:
        print(json.dumps({**asdict(rates), "programs": len(errors), "median": float(np.median(np.abs(list(errors.values()))))}))


def third_party_plans(layouts: Sequence[str]) -> Iterator[tuple[str, Plan]]:
    for program in PROGRAMS:
        for layout in layouts if program.half == "fitted" and not program.missing else ():
            yield f"{program.name}/{layout}", program.plan(layout)


def zoo_plans(target: str) -> Iterator[tuple[str, Plan]]:
    for case in CASES:
        if case.target == target:
            yield str(case), case.plan().updated(hardware=parse_hardware(case.hardware))


def modules(plans: Iterable[tuple[str, Plan]], folder: Path) -> Iterator[tuple[str, HloModule]]:
    """Compiled where they are not kept; a plan that is refused is left out."""
    for name, plan in plans:
        try:
            yield name, compiled_module(name, plan, folder)
        except WorkbenchError as error:
            print(f"{name} is left out: {error.message[:120]}", flush=True)


def kept_modules(folder: Path) -> Iterator[tuple[str, HloModule]]:
    for path in sorted(folder.glob("*.gz")):
        yield path.stem, read_module(gzip.decompress(path.read_bytes()))


def save(rates: Mapping[str, KernelRates]) -> None:
    """The file, a table a chip."""
    blocks = []
    for target, each in sorted(rates.items()):
        values = ((name.name, getattr(each, name.name)) for name in fields(each))
        blocks.append(f'\n[rates."{target}"]\n' + "".join(f"{name} = {json.dumps(value)}\n" for name, value in values))
    SHIPPED.write_text(HEAD + "".join(blocks), encoding="utf-8")


if __name__ == "__main__":
    main()
