"""Why the compiled program's peak memory differs from the plan's: by named scope, what each side holds at its own peak."""

from collections import Counter
from dataclasses import dataclass

from workbench.analysis.collective_causes import Cause
from workbench.reports.compiled import Compiled
from workbench.reports.memory import ARGUMENT_ROLES
from workbench.reports.report import Report

PACKED = Cause("packed with gaps", "buffers of different sizes and lifetimes leave gaps in the memory the compiler sets aside")
FREED = Cause("not held", "the compiler has used up, fused away or put into on-chip memory what the plan holds at its peak")
HELD = Cause("held", "at the compiled program's own peak this is alive; at the plan's it is not")
SIZED = Cause("held otherwise", "both hold values of this scope, in other number, type or padding")
ARGUMENTS = Cause("arguments padded", "the compiler lays the arguments out in other sizes than the plan takes")
REST = Cause("the rest", "what is too small for a line of its own, and what the compiler holds without saying for which operation")

MEMORY_CAUSES = (PACKED, FREED, HELD, SIZED, ARGUMENTS, REST)

_MIN_SHARE = 0.01  # share of the peak below which a difference is not reported


@dataclass(frozen=True, slots=True)
class MemoryDifference:
    """Bytes on one device at either peak that belong to `scope`, the outermost named scope; empty for values outside of any scope."""

    scope: str
    predicted: int
    compiled: int
    cause: Cause


def explain_memory(report: Report, compiled: Compiled) -> tuple[MemoryDifference, ...]:
    """The differences of at least a hundredth of the peak, the largest first, and the remaining difference last.

    For the compiled program only the largest buffers are known by name, and the sum of all.
    """
    memory = compiled.memory
    ours = Counter[str]()
    for each in report.alive:
        if each.role not in ARGUMENT_ROLES:
            ours[scope_of(each.path)] += each.bytes
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
    """The outermost named scope of an operation's path, the backward pass apart from the forward one.

    >>> scope_of("grad/layers/2/mlp/up/dot_general"), scope_of("head/dot_general")
    ('grad/layers', 'head')
    """
    words = path.split("/")[:-1]
    return "/".join(words[: 2 if words[:1] == ["grad"] else 1])


def _make_difference(scope: str, predicted: int, compiled: int) -> MemoryDifference:
    cause = SIZED if predicted and compiled else FREED if predicted else HELD
    return MemoryDifference(scope, predicted, compiled, cause)
