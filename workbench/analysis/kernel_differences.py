"""Why the compiled program's kernels take a different time than the plan's: by named scope and by kind of work."""

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from typing import NamedTuple

from workbench.analysis.collective_causes import Cause
from workbench.analysis.memory_differences import scope_of
from workbench.reports.compiled import Compiled, CompiledKernel
from workbench.reports.report import Report

COPIED = Cause("copies", "the compiler moves or converts values between kernels: other layouts, loop buffers, pieces put together")
IN_PIECES = Cause("in pieces", "the compiler cuts these products up, to multiply shards as they arrive or to fit its memory")
RECOMPUTED = Cause("rematerialised", "the compiler computes products again that it would have to keep: more arithmetic, less memory")
RATE = Cause("another rate", "the same products, which the compiler expects to run faster or slower than the roofline says")
FUSED = Cause("fused otherwise", "elementwise work is in other kernels than in the plan: values are read and written more often, or less")

KERNEL_CAUSES = (COPIED, IN_PIECES, RECOMPUTED, RATE, FUSED)

_COPIES = ("copy", "transpose", "convert", "broadcast", "reshape", "pad", "slice", "dynamic-slice", "dynamic-update-slice", "concatenate")
_MIN_SHARE = 0.01  # share of all kernels below which a difference is not reported
_PIECES = 1.3  # ratio of kernel counts above which they are no longer the same kernels


@dataclass(frozen=True, slots=True)
class KernelDifference:
    """Seconds per device and step in kernels of the outermost named `scope` that do one kind of `work`."""

    scope: str
    work: str
    predicted: float
    compiled: float
    cause: Cause


class _KernelSum(NamedTuple):
    """Kernels of one scope and work on one side."""

    seconds: float = 0.0
    kernels: int = 0
    flops: int = 0

    def plus(self, seconds: float, kernels: int, flops: int) -> "_KernelSum":
        return _KernelSum(self.seconds + seconds, self.kernels + kernels, self.flops + flops)


def explain_kernels(report: Report, compiled: Compiled) -> tuple[KernelDifference, ...]:
    """The differences of at least a hundredth of the time in kernels, the largest first."""
    sustained = report.step_time.sustained if report.step_time else 1.0  # the compiler's estimate knows nothing of that
    ours = _sum_kernels(
        ((scope_of(each.path), "products" if each.flops else "elementwise"), each.estimate(sustained), each.count, each.flops * each.count)
        for each in report.kernel_costs
    )
    theirs = _sum_kernels(
        ((scope_of(each.path), _kernel_work(each)), (each.seconds or 0.0) * each.count, each.count, each.flops * each.count)
        for each in compiled.kernels
    )
    found = [
        KernelDifference(*key, ours[key].seconds, theirs[key].seconds, _find_cause(key[1], ours[key], theirs[key]))
        for key in {**ours, **theirs}
    ]
    least = _MIN_SHARE * max(sum(each.predicted for each in found), sum(each.compiled for each in found))
    significant = (each for each in found if abs(each.predicted - each.compiled) >= least)
    return tuple(sorted(significant, key=lambda each: -abs(each.predicted - each.compiled)))


def _sum_kernels(kernels: Iterable[tuple[tuple[str, str], float, int, int]]) -> defaultdict[tuple[str, str], _KernelSum]:
    sums: defaultdict[tuple[str, str], _KernelSum] = defaultdict(_KernelSum)
    for key, seconds, count, flops in kernels:
        sums[key] = sums[key].plus(seconds, count, flops)
    return sums


def _kernel_work(kernel: CompiledKernel) -> str:
    return "products" if kernel.flops else "copies" if kernel.kind in _COPIES else "elementwise"


def _find_cause(work: str, ours: _KernelSum, theirs: _KernelSum) -> Cause:
    if work != "products":
        return COPIED if work == "copies" else FUSED
    if theirs.flops > _PIECES * ours.flops:
        return RECOMPUTED
    return IN_PIECES if theirs.kernels > _PIECES * ours.kernels else RATE
