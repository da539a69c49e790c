"""Cycles of the kernels of a scheduled program: the numbers of `workbench/cost/kernel_rates.toml` for TPU v5e.

The third-party programs for fitting (`corpus/split.py`) are compiled by libtpu with code, which tells its own estimate of each kernel; a
compiled program is kept in FOLDER, so that a second fit compiles nothing. Fitted are the cycles of a register (`KernelRates`), by the
logarithm of predicted over estimated: of each kernel, weighted by its share of its program, and of each program. What a window takes to
start and what is only moved stand in the file as libtpu states them of kernels that do nothing else.

    python benchmarks/fit_kernels.py FOLDER [--layout NAME] [--save] [--json]
"""

import argparse
import gzip
import json
import os
from collections.abc import Iterator
from dataclasses import asdict, fields, replace
from pathlib import Path
from typing import NamedTuple

os.environ.setdefault("JAX_PLATFORMS", "cpu")  # this process only plans

import numpy as np
from scipy.optimize import least_squares

from benchmarks.corpus.program import LAYOUTS, TARGET
from benchmarks.corpus.third_party import PROGRAMS
from workbench.catalogue import parse_hardware
from workbench.cost.scheduled import SHIPPED, KernelRates, Registers, is_unestimated, kernel_cycles, rates_of, work_of
from workbench.engine import compile_plan
from workbench.engine.compiled_store import load
from workbench.engine.hlo_kernels import working_visits
from workbench.errors import WorkbenchError
from workbench.plan import Plan
from workbench.spmd.module import HloModule, read_module

FITTED = ("read", "written", "rounded", "summed", "operation", "product_operation", "product_rounded", "unhidden")
OF_PROGRAMS = 3.0  # what a program's sum weighs beside its kernels
HEAD = """# Cycles that XLA:TPU estimates for kernels (workbench/cost/scheduled.py), by the `target` of a chip. The cycles of a register
# were fitted by benchmarks/fit_kernels.py on {kernels:,} kernels of {programs} compiled programs of benchmarks/corpus that are for
# fitting, for {target} with {compiler}; those of a window, and of what is only moved, are read off kernels that do nothing else.
"""


class Kernel(NamedTuple):
    """One kernel of a compiled program, with libtpu's estimate of its cycles; `runs` a step."""

    case: str
    work: Registers
    cycles: int
    runs: int


def compiled_module(plan: Plan, folder: Path) -> HloModule:
    """The program as compiled, from FOLDER where it is kept."""
    path = folder / f"{plan.name.replace('/', '__').replace(' ', '_')}.gz"
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
    for visit in working_visits(module):
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


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, metavar="FOLDER", help="where compiled programs are kept")
    parser.add_argument("--layout", choices=LAYOUTS, action="append", help="these alone; all if none is given")
    parser.add_argument("--kept", action="store_true", help="only what is in FOLDER: nothing is compiled")
    parser.add_argument("--save", action="store_true", help="write kernel_rates.toml")
    parser.add_argument("--json", action="store_true", help="the last line is one JSON object of the rates")
    options = parser.parse_args()
    kernels: list[Kernel] = []
    for case, module in modules(options.folder, options.layout or LAYOUTS, kept=options.kept):
        kernels += kernels_of(case, module)
        print(f"{case:<48}{len(kernels):>8,} kernels", flush=True)
    hardware = parse_hardware(TARGET)
    rates, errors = fit(kernels, rates_of(hardware.chip.target))
    for case, error in errors.items():
        print(f"{case:<48}{error:>+8.1%}")
    if options.save:
        SHIPPED.write_text(text_of(rates, hardware.chip.target, len(kernels), len(errors)), encoding="utf-8")
    if options.json:
        print(json.dumps({**asdict(rates), "programs": len(errors), "median": float(np.median(np.abs(list(errors.values()))))}))


def modules(folder: Path, layouts: list[str], *, kept: bool) -> Iterator[tuple[str, HloModule]]:
    """Of the programs for fitting; a plan that is refused is left out."""
    if kept:
        for path in sorted(folder.glob("*.gz")):
            yield path.stem, read_module(gzip.decompress(path.read_bytes()))
        return
    for program in PROGRAMS:
        for layout in layouts if program.half == "fitted" and not program.missing else ():
            try:
                yield f"{program.name}/{layout}", compiled_module(program.plan(layout), folder)
            except WorkbenchError as error:
                print(f"{program.name}/{layout} is left out: {error.message[:120]}", flush=True)


def text_of(rates: KernelRates, target: str, kernels: int, programs: int) -> str:
    from workbench.engine.targets import compiler_of

    head = HEAD.format(kernels=kernels, programs=programs, target=TARGET, compiler=compiler_of(parse_hardware(TARGET)))
    return f'{head}\n[rates."{target}"]\n' + "".join(f"{each.name} = {getattr(rates, each.name)}\n" for each in fields(rates))


if __name__ == "__main__":
    main()
