"""Explain why a compiled program differs from its plan, by collective, kernel time and peak memory."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import NamedTuple

from workbench.core.sharding import base_axis
from workbench.cost.collective_times import closest_spans
from workbench.reports.compiled import Compiled, CompiledKernel
from workbench.reports.device_memory import ARGUMENT_ROLES
from workbench.reports.report import Report

# Causes of differences between planned and compiled communication.


class Cause(NamedTuple):
    """A named compiler transformation and its meaning."""

    name: str
    text: str


COMBINED = Cause("combined", "the compiler combines several arrays in one collective: fewer latencies, same bytes")
WINDOWED = Cause("windowed einsum", "the compiler sends shards around a ring and multiplies each on arrival: hidden communication")
WIDENED = Cause("widened", "this compiler reduces 2-byte floats as 4-byte ones: twice the bytes")
PADDED = Cause("padded", "the compiler pads reduce-scatters and shifts the slices afterwards: slightly more bytes")
GATHERED_AGAIN = Cause("gathered again", "the compiler gathers a value twice instead of keeping it: more bytes, less memory")
KEPT = Cause("kept", "the compiler keeps a value that the plan sends twice")
HOISTED = Cause("moved out of a loop", "the compiler hoists a loop-invariant collective and sends it once")
FOLDED = Cause("folded", "the compiler reduces over all axes at once, the plan over one axis after the other")
SPLIT = Cause("reduced axis by axis", "the compiler reduces over one axis after the other, the plan over all at once")
BORDERS = Cause("borders", "the halo exchange of a shift, window or pad differs from the plan")
REWRITTEN = Cause("rewritten first", "the compiler rewrites this operation before partitioning, with different communication")
NARROWED = Cause("narrowed", "the compiler rounds to 2-byte floats before sending, as the reading product would")
LOOKED_UP = Cause("looked up otherwise", "the compiler partitions the lookup or update of rows differently")
NOT_PARTITIONED = Cause("not partitioned", "the compiler cannot partition this operation and gathers its operand")
OTHERWISE = Cause("resharded otherwise", "the compiler uses another reshard method between the same shardings")
TOO_FINE = Cause(
    "cut too fine", "a dimension has fewer elements than devices: the compiler shrinks it, because most of the data is padding"
)
NOT_SENT = Cause("not sent", "the compiler found this value already available, or unused")
UNEXPLAINED = Cause("unexplained", "unknown cause; please report it")

ALL_CAUSES = (
    *(COMBINED, WINDOWED, WIDENED, PADDED, GATHERED_AGAIN, KEPT, HOISTED, FOLDED, SPLIT),
    *(BORDERS, REWRITTEN, NARROWED, LOOKED_UP, NOT_PARTITIONED, OTHERWISE, TOO_FINE, NOT_SENT, UNEXPLAINED),
)


# Causes of differences in kernel time, by named scope and kind of work.

COPIED = Cause("copies", "the compiler moves or converts values between kernels: different layouts, loop buffers, concatenations")
IN_PIECES = Cause("in pieces", "the compiler splits these products, to overlap communication or to fit memory")
RECOMPUTED = Cause("rematerialised", "the compiler recomputes products instead of keeping them: more arithmetic, less memory")
RATE = Cause("another rate", "the same products, with a different time estimate of the compiler")
FUSED = Cause("fused otherwise", "elementwise work is fused differently: values are read and written more, or less, often")

KERNEL_CAUSES = (COPIED, IN_PIECES, RECOMPUTED, RATE, FUSED)

_COPIES = ("copy", "transpose", "convert", "broadcast", "reshape", "pad", "slice", "dynamic-slice", "dynamic-update-slice", "concatenate")
_MIN_SHARE = 0.01  # share of all kernels; smaller differences are not reported
_PIECES = 1.3  # ratio of kernel counts above which the kernels differ


@dataclass(frozen=True, slots=True)
class KernelDifference:
    """Seconds per device and step in kernels of one kind of `work` in the outermost named `scope`."""

    scope: str
    work: str
    predicted: float
    compiled: float
    cause: Cause


class _KernelSum(NamedTuple):
    seconds: float = 0.0
    kernels: int = 0
    flops: int = 0

    def plus(self, seconds: float, kernels: int, flops: int) -> "_KernelSum":
        return _KernelSum(self.seconds + seconds, self.kernels + kernels, self.flops + flops)


def explain_kernels(report: Report, compiled: Compiled) -> tuple[KernelDifference, ...]:
    """Return the differences of at least 1 % of the kernel time, largest first."""
    sustained = report.step_time.sustained if report.step_time else 1.0  # not part of the compiler's estimate
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


# Causes of differences in peak memory, by named scope, each side at its own peak.

PACKED = Cause("packed with gaps", "fragmentation: buffers of different sizes and lifetimes leave gaps")
FREED = Cause("not held", "values at the plan's peak are freed, fused or in on-chip memory in the compiled program")
HELD = Cause("held", "live at the compiled program's peak, but not at the plan's")
SIZED = Cause("held otherwise", "both hold values of this scope, with different number, type or padding")
ARGUMENTS = Cause("arguments padded", "the compiler pads the arguments to other sizes")
REST = Cause("the rest", "small differences, and compiler memory without an operation")

MEMORY_CAUSES = (PACKED, FREED, HELD, SIZED, ARGUMENTS, REST)


@dataclass(frozen=True, slots=True)
class MemoryDifference:
    """Bytes on one device at either peak in `scope`, the outermost named scope; empty outside any scope."""

    scope: str
    predicted: int
    compiled: int
    cause: Cause


def explain_memory(report: Report, compiled: Compiled) -> tuple[MemoryDifference, ...]:
    """Return differences of at least 1 % of the peak, largest first, then the rest; only large buffers have names."""
    memory = compiled.memory
    ours = Counter[str]()
    for value in report.alive:
        if value.role not in ARGUMENT_ROLES:
            ours[scope_of(value.path)] += value.bytes
    theirs = Counter[str]()
    for path, count in compiled.alive_at_peak:
        theirs[scope_of(path)] += count
    found = [_make_difference(scope, ours[scope], theirs[scope]) for scope in {**ours, **theirs}]
    found.append(MemoryDifference("arguments", report.memory.argument_bytes, memory.arguments, ARGUMENTS))
    if memory.live:
        found.append(MemoryDifference("", 0, max(memory.temporary - memory.live, 0), PACKED))
    least = _MIN_SHARE * max(report.memory.peak, memory.peak)
    significant = sorted((each for each in found if _gap(each) >= least), key=lambda each: -_gap(each))
    left = report.memory.peak - sum(each.predicted for each in significant), memory.peak - sum(each.compiled for each in significant)
    rest = MemoryDifference("", *left, REST)
    return (*significant, rest) if _gap(rest) >= least else tuple(significant)


def _gap(each: MemoryDifference) -> int:
    return abs(each.predicted - each.compiled)


def scope_of(path: str) -> str:
    """Return the outermost named scope of a path, with the backward pass separate.

    >>> scope_of("grad/layers/2/mlp/up/dot_general"), scope_of("head/dot_general")
    ('grad/layers', 'head')
    """
    words = path.split("/")[:-1]
    return "/".join(words[: 2 if words[:1] == ["grad"] else 1])


def _make_difference(scope: str, predicted: int, compiled: int) -> MemoryDifference:
    cause = SIZED if predicted and compiled else FREED if predicted else HELD
    return MemoryDifference(scope, predicted, compiled, cause)


# Causes of differences between predicted and measured time that a compiler does not model.

HOST = Cause("bound by the host", "the device waits for the host to launch kernels: use a faster host or fewer kernels")
RING = Cause("ring over nodes", "collectives between nodes: NCCL rings and trees on this network, as far as known")
TIME_CAUSES = (HOST, RING)


class TimeCause(NamedTuple):
    """Predicted seconds of a step that depend on a cause."""

    cause: Cause
    seconds: float


def explain_time(report: Report) -> tuple[TimeCause, ...]:
    """Return the causes of at least 1 % of the step time, largest first; empty without hardware."""
    if report.step_time is None:
        return ()
    least = _MIN_SHARE * report.step_time.total
    return tuple(sorted((each for each in _causes(report) if each.seconds >= max(least, 1e-12)), key=lambda each: -each.seconds))


def _causes(report: Report) -> Iterator[TimeCause]:
    assert report.step_time is not None
    yield TimeCause(HOST, report.step_time.host)
    between = sum(collective.seconds * collective.count for collective in report.collectives if _crosses_nodes(report, collective.axes))
    yield TimeCause(RING, min(between, report.step_time.exposed))


def _crosses_nodes(report: Report, axes: tuple[str, ...]) -> bool:
    plan, hardware = report.plan, report.hardware
    if hardware is None or hardware.chip.platform != "cuda" or len(hardware.axes) == 1:
        return False
    spans = closest_spans(plan.mesh, hardware, plan.axis_assignment)
    inside = hardware.axes[-1].name
    return any(span.physical.name != inside and span.size > 1 for axis in axes for span in spans.get(base_axis(axis), ()))
