"""Tables of a program's kernels (reads, writes and work), for array arithmetic over all kernels at once."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from workbench.cost.tuned_constants import tuned
from workbench.propagation.module.operation_kinds import DOTS
from workbench.propagation.structure.program_structure import Op, Structure

Integers = NDArray[np.int64]
Stored = Callable[[int], int]  # value -> value written when it is made
Pairs = Iterable[tuple[int, int]]
Key = TypeVar("Key")


class KernelDot(NamedTuple):
    """A dot or convolution; `batch` and `columns` (the right operand's, or features) are dimensions of its result."""

    op: int
    kernel: int
    batch: tuple[int, ...]
    columns: tuple[int, ...]


@dataclass(frozen=True, slots=True, eq=False)
class Kernels:
    """The kernels of a program; parallel arrays form relations between kernels and values.

    - `of`: each operation's kernel, -1 if none;
    - `times`, `regions`, `ops`, `positions`: each kernel's executions per step, region, last operation, and its
      position in the trace;
    - `readers`, `read`, `read_extents`: kernel `readers[i]` reads value `read[i]` once, with the bytes of value
      `read_extents[i]` (for a gather's operand, of the result); `writers`, `written`: the same for writes;
    - `last_reads`: the last position at which each stored value is read;
    - `workers`, `worked`, `steps`: kernel `workers[i]` does `steps[i]` elementwise steps per element of value
      `worked[i]`.
    """

    of: tuple[int, ...]
    times: Integers
    regions: tuple[int, ...]
    ops: tuple[int, ...]
    positions: tuple[int, ...]
    readers: Integers
    read: Integers
    read_extents: Integers
    writers: Integers
    written: Integers
    workers: Integers
    worked: Integers
    steps: Integers
    dots: tuple[KernelDot, ...]
    itemsizes: NDArray[np.float64]  # of all values
    last_reads: Mapping[int, int]
    dot_reads: Mapping[int, int]  # number of dots that read each value, through views
    serial: tuple[int, ...]  # scatters that run row by row
    numbers: Integers  # scalar values
    unfilled: frozenset[int]  # allocated values that are not written where they are made (see `loop_edges`)
    continuing: frozenset[int] = frozenset()  # kernels started by an earlier kernel's call (see `eager_kernels`)

    @property
    def count(self) -> int:
        return len(self.regions)


@dataclass(slots=True)
class KernelDraft:
    """A kernel during grouping."""

    region: int
    sizes: set[int]  # element counts that can join
    position: int  # of its first operation
    is_dot: bool = False
    is_plain: bool = True  # only elementwise operations
    is_library: bool = False  # a library call, which nothing is fused into
    readers: set[int] = field(default_factory=set)  # kernels that read its values, -1 for other readers
    reads: dict[int, int] = field(default_factory=dict)  # value -> value of the size of the part read
    work: list[tuple[int, int]] = field(default_factory=list)  # (value, steps per element)
    done: set[int] = field(default_factory=set)  # free operations included in `work`


def note_read(reads: dict[Key, int], key: Key, taken: int, whole: int) -> None:
    """Record that the part `taken` is read, or the `whole` if two different parts are."""
    reads[key] = taken if reads.get(key, taken) == taken else whole


class KernelTable:
    """The final kernels: `merged[i]` is the draft that draft i became part of; `ops` are simplified by the back end."""

    def __init__(
        self,
        structure: Structure,
        ops: Sequence[Op],
        drafts: Sequence[KernelDraft],
        of: Sequence[int],
        merged: Sequence[int],
        itemsizes: Sequence[float],
    ) -> None:
        self._structure, self._ops, self._drafts, self._itemsizes = structure, ops, drafts, itemsizes
        places = {number: place for place, number in enumerate(sorted(set(merged)))}
        self._new = [places[into] for into in merged]
        self._of = tuple(-1 if kernel < 0 else self._new[kernel] for kernel in of)
        last: dict[int, int] = {}
        for index, kernel in enumerate(self._of):
            if kernel >= 0 and (kernel not in last or structure.ops[index].position >= structure.ops[last[kernel]].position):
                last[kernel] = index
        self.last = [last[kernel] for kernel in range(len(places))]  # operation of each kernel

    def number(self, draft: int) -> int:
        return self._new[draft]

    def reads(self, written: Pairs, stored: Stored) -> list[tuple[int, int, int, int]]:
        """Return (draft, kernel, value, value of the size read) for values that a kernel reads but does not make."""
        makers = {value: self._new[draft] for draft, value in written}
        reads = [(number, self._new[number], *read) for number, draft in enumerate(self._drafts) for read in draft.reads.items()]
        return [entry for entry in reads if makers.get(stored(entry[2]), -1) != entry[1]]

    def _reads_once(self, written: Pairs, stored: Stored) -> Iterator[tuple[int, int, int]]:
        """Yield (kernel, value, value of the size read): the whole if a kernel needs different parts."""
        extent_of: dict[tuple[int, int], int] = {}
        for _, kernel, value, taken in self.reads(written, stored):
            note_read(extent_of, (kernel, value), taken, value)
        return ((kernel, value, taken) for (kernel, value), taken in extent_of.items())

    def _writes(self, written: Pairs) -> list[tuple[int, int]]:
        readers: list[set[int]] = [set() for _ in self.last]
        for number, draft in enumerate(self._drafts):
            readers[self._new[number]].update(self._new[reader] if reader >= 0 else -1 for reader in draft.readers)
        return [(self._new[draft], value) for draft, value in written if readers[self._new[draft]] - {self._new[draft]}]

    def kernels(
        self, written: Pairs, stored: Stored, kept: Mapping[int, int], multiplied: Mapping[int, int], unfilled: frozenset[int]
    ) -> Kernels:
        ops, regions = self._structure.ops, [self._structure.ops[op].region for op in self.last]
        work = ((self._new[number], *entry) for number, draft in enumerate(self._drafts) for entry in draft.work)
        return Kernels(
            self._of,
            np.array([self._structure.regions[region].runs_per_step for region in regions], dtype=np.int64),
            tuple(regions),
            tuple(self.last),
            tuple(ops[op].position for op in self.last),
            *_three_columns(self._reads_once(written, stored)),
            *_two_columns(self._writes(written)),
            *_three_columns(work),
            tuple(_kernel_dot(self._structure, i, self._of[i]) for i, op in enumerate(self._ops) if op.kind in DOTS),
            np.array(self._itemsizes),
            kept,
            multiplied,
            tuple(i for i, op in enumerate(ops) if op.runs_row_by_row),
            np.array([i for i, value in enumerate(self._structure.values) if not value.shape], dtype=np.int64),
            unfilled,
        )


def _kernel_dot(structure: Structure, index: int, kernel: int) -> KernelDot:
    """Describe a dot, whose result has batch dimensions first, then the left and the right operand's."""
    op = structure.ops[index]
    left, right = (structure.values[operand].shape for operand in op.operands[:2])
    shape = structure.values[op.results[0]].shape
    if op.kind == "stablehlo.dot_general":
        summed = len(op.work.contracted)
        batch = len(left) + len(right) - len(shape) - 2 * summed
        columns = len(right) - batch - summed
        return KernelDot(index, kernel, tuple(range(batch)), tuple(range(len(shape) - columns, len(shape))))
    features = next(size for dim, size in enumerate(right) if dim not in op.work.contracted)
    return KernelDot(index, kernel, (), tuple(dim for dim, size in enumerate(shape) if size == features)[-1:])


def _two_columns(rows: Iterable[tuple[int, int]]) -> tuple[Integers, Integers]:
    table = np.array(list(rows), dtype=np.int64).reshape(-1, 2)
    return table[:, 0], table[:, 1]


def _three_columns(rows: Iterable[tuple[int, int, int]]) -> tuple[Integers, Integers, Integers]:
    table = np.array(list(rows), dtype=np.int64).reshape(-1, 3)
    return table[:, 0], table[:, 1], table[:, 2]


# Elementwise cost in steps per element; operations without a vector instruction take several.

_SLOW = frozenset(
    {
        *("stablehlo.atan2", "stablehlo.cbrt", "stablehlo.cosine", "stablehlo.divide", "stablehlo.erf", "stablehlo.exponential"),
        *("stablehlo.exponential_minus_one", "stablehlo.log", "stablehlo.log_plus_one", "stablehlo.logistic", "stablehlo.power"),
        *("stablehlo.remainder", "stablehlo.rsqrt", "stablehlo.sine", "stablehlo.sqrt", "stablehlo.tan", "stablehlo.tanh"),
    }
)
_SLOW_STEPS = int(tuned("slow_steps"))
MOST_STEPS = int(tuned("most_recomputed_steps"))
"""Maximum steps for which a reader recomputes an operand."""


def steps_of(op: Op) -> int:
    return _SLOW_STEPS if op.kind in _SLOW else 1
