"""The kernels of a program as tables: what each reads, writes and computes, for array arithmetic over all of them at once."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from workbench.cost.tuned_constants import tuned
from workbench.propagation.module.operation_kinds import DOTS
from workbench.propagation.structure.program_structure import Op, Structure

Integers = NDArray[np.int64]
Stored = Callable[[int], int]  # for a value: the value written when it is made
Pairs = Iterable[tuple[int, int]]
Key = TypeVar("Key")


class KernelDot(NamedTuple):
    """A dot or convolution: its operation, its kernel, and which dimensions of its result are batch dimensions, and which are columns: the
    right operand's, a convolution's features."""

    op: int
    kernel: int
    batch: tuple[int, ...]
    columns: tuple[int, ...]


@dataclass(frozen=True, slots=True, eq=False)
class Kernels:
    """The kernels of a program. Each pair of arrays is one relation, of kernel and value.

    - `of`: each operation's kernel, -1 for those that are in none;
    - `times`, `regions`, `ops`, `positions`: how often each runs a step, in which region, its last operation, and that one's place as
      traced;
    - `readers`, `read`, `read_extents`: kernel `readers[i]` reads once of value `read[i]`, as many bytes as value `read_extents[i]` has (of
      a gather's operand as many as the result); `writers`, `written`: the same for writes;
    - `last_reads`: the position up to which each stored value is read;
    - `workers`, `worked`, `steps`: kernel `workers[i]` does `steps[i]` elementwise steps on each element of value `worked[i]`.
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
    dot_reads: Mapping[int, int]  # by how many dots each value is read, through views of it
    serial: tuple[int, ...]  # scatters that run a row at a time
    numbers: Integers  # values that are single numbers, without dimensions
    unfilled: frozenset[int]  # values that have memory, and that nothing is written to where they are made (see `loop_edges`)
    continuing: frozenset[int] = frozenset()  # kernels that one call starts together with an earlier one (see `eager_kernels`)

    @property
    def count(self) -> int:
        return len(self.regions)


@dataclass(slots=True)
class KernelDraft:
    """A kernel while operations are grouped."""

    region: int
    sizes: set[int]  # numbers of elements that an operation may have to join
    position: int  # of its first operation
    is_dot: bool = False
    is_plain: bool = True  # elementwise operations alone
    is_library: bool = False  # a call of a library, which computes nothing besides
    readers: set[int] = field(default_factory=set)  # of its values: other kernels, -1 for what is no kernel
    reads: dict[int, int] = field(default_factory=dict)  # values, and of each the value that is as large as what is read of it
    work: list[tuple[int, int]] = field(default_factory=list)  # (value, steps an element)
    done: set[int] = field(default_factory=set)  # free operations that are in `work`


def note_read(reads: dict[Key, int], key: Key, taken: int, whole: int) -> None:
    """As much as value `taken` is read; as much as the `whole` where it is read in two ways."""
    reads[key] = taken if reads.get(key, taken) == taken else whole


class KernelTable:
    """Kernels as they are grouped in the end: `merged[i]` is the number of the draft that draft i became a part of; `ops` as the back end
    takes them, some of another kind than the program's."""

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
        """The number of the kernel that a draft was merged into."""
        return self._new[draft]

    def reads(self, written: Pairs, stored: Stored) -> list[tuple[int, int, int, int]]:
        """(draft, kernel, value, the value as large as what is read of it): what each kernel reads and does not make."""
        makers = {value: self._new[draft] for draft, value in written}
        found = [(number, self._new[number], *read) for number, draft in enumerate(self._drafts) for read in draft.reads.items()]
        return [each for each in found if makers.get(stored(each[2]), -1) != each[1]]

    def _reads_once(self, written: Pairs, stored: Stored) -> Iterator[tuple[int, int, int]]:
        """(kernel, value, as much as this one): all of it where a kernel needs it in two ways."""
        found: dict[tuple[int, int], int] = {}
        for _, kernel, value, taken in self.reads(written, stored):
            note_read(found, (kernel, value), taken, value)
        return ((kernel, value, taken) for (kernel, value), taken in found.items())

    def _writes(self, written: Pairs) -> list[tuple[int, int]]:
        """(kernel, value): what each kernel makes and others read."""
        readers: list[set[int]] = [set() for _ in self.last]
        for number, draft in enumerate(self._drafts):
            readers[self._new[number]].update(self._new[each] if each >= 0 else -1 for each in draft.readers)
        return [(self._new[draft], value) for draft, value in written if readers[self._new[draft]] - {self._new[draft]}]

    def kernels(
        self, written: Pairs, stored: Stored, kept: Mapping[int, int], multiplied: Mapping[int, int], unfilled: frozenset[int]
    ) -> Kernels:
        ops, regions = self._structure.ops, [self._structure.ops[op].region for op in self.last]
        work = ((self._new[number], *each) for number, draft in enumerate(self._drafts) for each in draft.work)
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
    """A dot's result has its batch dimensions first, then those of the left operand, then those of the right."""
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


# What elementwise operations cost a kernel: steps for each element, several for those that a vector unit does not have.

_SLOW = frozenset(
    {
        *("stablehlo.atan2", "stablehlo.cbrt", "stablehlo.cosine", "stablehlo.divide", "stablehlo.erf", "stablehlo.exponential"),
        *("stablehlo.exponential_minus_one", "stablehlo.log", "stablehlo.log_plus_one", "stablehlo.logistic", "stablehlo.power"),
        *("stablehlo.remainder", "stablehlo.rsqrt", "stablehlo.sine", "stablehlo.sqrt", "stablehlo.tan", "stablehlo.tanh"),
    }
)
_SLOW_STEPS = int(tuned("slow_steps"))
MOST_STEPS = int(tuned("most_recomputed_steps"))
"""Steps up to which a reader computes an operand itself."""


def steps_of(op: Op) -> int:
    """Steps of one elementwise operation for each element."""
    return _SLOW_STEPS if op.kind in _SLOW else 1
