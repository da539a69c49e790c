"""Separates the hand-written kernels that share a named scope.

The scope's name gives the kind of kernel, not the call: all layers may have the same scope, and other operations may
stand between the parts of one call, such as a product whose gradient is needed first. One kernel is what one call
computes forward, or backward (with its recomputation): operations of one scope and region that can run as one. They can
unless another operation reads from one of them and is read by another.

Parts are joined if one reads from the other, or if they were traced without a foreign product in between. The program
is kept in an order in which each operation follows its operands and each kernel is contiguous. Two kernels can be
joined there if no operation between them both needs the first and is needed by the second; the operations that the
second needs then move in front of both.
"""

import math
from bisect import bisect_left
from collections.abc import Iterator
from itertools import pairwise

from workbench.propagation.module.operation_kinds import CONSTANTS, CONTROL_FLOW, ELEMENTWISE
from workbench.propagation.structure.program_structure import Op, Structure, invariant_slots
from workbench.propagation.structure.stored_values import PASSING

# Constants that a hand-written kernel computes itself, such as the mask of an attention from an iota.
#
# In a trace such a value is an ordinary operation, which JAX hoists out of loops and passes to all layers, forward and backward. A kernel
# recomputes it, so that it is never stored, and it does not join two kernels.

_LOOP = "stablehlo.while"
_ENDS = frozenset({"stablehlo.return", "func.return"})
_HANDED_ON = PASSING | {"stablehlo.broadcast_in_dim", "stablehlo.reshape", "stablehlo.transpose"}  # also outside of kernels
_CHEAP = _HANDED_ON | {"stablehlo.iota", *CONSTANTS}  # computed inside their readers, kernel or not
_COMPUTED = ELEMENTWISE | _CHEAP | {"stablehlo.reduce", "stablehlo.slice", "stablehlo.pad", "stablehlo.concatenate", "stablehlo.reverse"}
_SCALARS = 256  # a constant of more elements is an array the function closed over, and takes memory


class KernelConstants:
    """Values that are computed without any input.

    - `made_of_nothing`: the ids of all operations with such results, also outside of kernels;
    - `values`: such results that only kernels read, directly or through operations that pass them on.
    """

    def __init__(self, structure: Structure) -> None:
        self._structure = structure
        self.made_of_nothing: set[int] = set()
        self._known: set[int] = set()
        self._of_kernels: set[int] = set()
        self._unchanged = {loop: invariant_slots(structure, loop) for loop in structure.body_of}
        self._users: dict[int, list[int]] = {}
        for index, op in enumerate(structure.ops):
            for operand in set(op.operands):
                self._users.setdefault(operand, []).append(index)
            self._read(index, op)
        self._escaping: set[int] = set()
        for index in range(len(structure.ops) - 1, -1, -1):
            self._note_escapes(index)
        self.values = self._of_kernels - self._escaping

    def users(self, value: int) -> list[int]:
        return self._users.get(value, [])

    def is_read_outside_kernels(self, index: int) -> bool:
        """Return whether a kernel's cheap constant is read outside of kernels, and so not part of the kernel."""
        op = self._structure.ops[index]
        return op.kind in _CHEAP and index in self.made_of_nothing and bool(self._escaping.intersection(op.results))

    def _read(self, index: int, op: Op) -> None:
        values = self._structure.values
        if op.kind == _LOOP:
            for slot in self._unchanged[index]:
                if op.operands[slot] in self._known:
                    carried = tuple(self._carried(index, slot))
                    self._known.update(carried)
                    self._of_kernels.update(carried if op.operands[slot] in self._of_kernels else ())
        elif op.results and op.kind in (_COMPUTED if op.custom_kernel else _CHEAP) and all(item in self._known for item in op.operands):
            if op.kind in CONSTANTS and math.prod(values[op.results[0]].shape) > _SCALARS:
                return
            self.made_of_nothing.add(index)
            self._known.update(op.results)
            if op.custom_kernel or any(item in self._of_kernels for item in op.operands):
                self._of_kernels.update(op.results)

    def _carried(self, loop: int, slot: int) -> Iterator[int]:
        """The result of a loop and the arguments of its regions that stand for one operand."""
        yield self._structure.ops[loop].results[slot]
        for region in self._structure.regions:
            if region.parent == loop:
                yield from (item for item in region.values if (value := self._structure.values[item]).maker < 0 and value.result == slot)

    def _note_escapes(self, index: int) -> None:
        op = self._structure.ops[index]
        carried = [item for slot in self._unchanged.get(index, ()) for item in self._carried(index, slot)]
        for value in (*op.results, *carried):
            if value in self._of_kernels and any(self._leaves(value, user) for user in self.users(value)):
                self._escaping.add(value)

    def _leaves(self, value: int, user: int) -> bool:
        op, values = self._structure.ops[user], self._structure.values
        if op.kind in _ENDS:
            loop = self._structure.regions[op.region].parent
            return not all(values[value].maker < 0 and slot in self._unchanged.get(loop, ()) for slot in _slots(op, value))
        if op.kind == _LOOP:
            slots = _slots(op, value)
            is_carried = self._unchanged[user].issuperset(slots)
            return not is_carried or any(item in self._escaping for slot in slots for item in self._carried(user, slot))
        if op.kind in CONTROL_FLOW:
            return True
        if user in self.made_of_nothing and op.kind in _CHEAP:
            return bool(self._escaping.intersection(op.results))
        return not op.custom_kernel


def _slots(op: Op, value: int) -> list[int]:
    return [slot for slot, operand in enumerate(op.operands) if operand == value]


_NONE = -1  # an empty place in the order, after a join


def separate_kernels(structure: Structure) -> None:
    """Append the kernel's number to `Op.custom_kernel`; also set `kernel_constants` and `order` of the structure."""
    structure.order = tuple(range(len(structure.ops)))
    if not any(op.custom_kernel for op in structure.ops):
        return
    constants = KernelConstants(structure)
    for index, op in enumerate(structure.ops):
        if op.custom_kernel and constants.is_read_outside_kernels(index):
            op.custom_kernel = ""
    kernels = _KernelJoiner(structure, constants)
    kernels.join()
    kernels.absorb_constants(constants)
    structure.order = kernels.order()
    kernels.name()


class _KernelJoiner:
    """Joins operations to kernels by node, the first operation's id; `_lines` has each region's nodes in order."""

    def __init__(self, structure: Structure, constants: KernelConstants) -> None:
        self._structure, self._ops = structure, structure.ops
        self._needs_nothing = self._find_independent(constants)
        self._free = {index for index in self._needs_nothing if self._ops[index].custom_kernel}
        self._node = list(range(len(self._ops)))
        self._members = [[index] for index in range(len(self._ops))]
        self._lines: list[list[int]] = [[] for _ in structure.regions]
        self._place = [0] * len(self._ops)
        for index, op in enumerate(self._ops):
            self._place[index] = len(self._lines[op.region])
            self._lines[op.region].append(index)
        self._read = self._makers_in_region()
        dots = sorted(op.position for op in self._ops if op.work.flops and not op.custom_kernel)
        self._dots_before = [bisect_left(dots, op.position) for op in self._ops]

    def _find_independent(self, constants: KernelConstants) -> set[int]:
        """Operations that depend on no node: constants, unless a kernel computes them for other readers."""
        independent: set[int] = set()
        for index in sorted(constants.made_of_nothing):
            op = self._ops[index]
            makers = {maker for operand in op.operands if (maker := self._structure.values[operand].maker) >= 0}
            if independent.issuperset(makers) and (not op.custom_kernel or constants.values.issuperset(op.results)):
                independent.add(index)
        return independent

    def _makers_in_region(self) -> list[set[int]]:
        """For each operation, the operations of its region that it reads from, also inside its loops and branches."""
        made_by = {result: index for index, op in enumerate(self._ops) if index not in self._needs_nothing for result in op.results}
        read: list[set[int]] = [set() for _ in self._ops]
        for index, op in enumerate(self._ops):
            for maker in {made_by[operand] for operand in op.operands if operand in made_by}:
                reader = index
                while self._ops[reader].region != self._ops[maker].region:
                    reader = self._structure.regions[self._ops[reader].region].parent
                read[reader].add(maker)
        return read

    def join(self) -> None:
        """Join operations that were traced together before more distant ones; the nearest of several first."""
        marked = [index for index, op in enumerate(self._ops) if op.custom_kernel and index not in self._free]
        pairs = [(index, maker) for index in marked for maker in sorted(self._read[index], reverse=True) if self._is_alike(index, maker)]
        is_near = [self._dots_before[index] == self._dots_before[maker] for index, maker in pairs]
        for (index, maker), near in zip(pairs, is_near, strict=True):
            if near:
                self._try_join(maker, index)
        self._join_neighbours(marked)
        for (index, maker), near in zip(pairs, is_near, strict=True):
            if not near:
                self._try_join(maker, index)

    def _is_alike(self, one: int, other: int) -> bool:
        return self._ops[one].custom_kernel == self._ops[other].custom_kernel

    def _join_neighbours(self, marked: list[int]) -> None:
        """Join kernels of one scope without a foreign product between them, even if neither reads from the other."""
        scopes: dict[tuple[int, str], dict[int, None]] = {}
        for index in sorted(marked, key=lambda number: self._ops[number].position):
            scopes.setdefault((self._ops[index].region, self._ops[index].custom_kernel), {})[self._node[index]] = None
        for nodes in scopes.values():
            for first, second in pairwise(nodes):
                after = max(self._dots_before[member] for member in self._members[self._node[first]])
                if min(self._dots_before[member] for member in self._members[self._node[second]]) <= after:
                    self._try_join(first, second)

    def _try_join(self, one: int, other: int) -> None:
        first, second = sorted((self._node[one], self._node[other]), key=self._place.__getitem__)
        if first == second or (needed := self._needed_between(first, second)) is None:
            return
        line, low, high = self._lines[self._ops[first].region], self._place[first], self._place[second]
        between = [item for item in line[low + 1 : high] if item != _NONE]
        arranged = [*(item for item in between if item in needed), first, *(item for item in between if item not in needed)]
        line[low : high + 1] = [*arranged, *[_NONE] * (high + 1 - low - len(arranged))]
        for place, node in enumerate(arranged, low):
            self._place[node] = place
        for member in self._members[second]:
            self._node[member] = first
        self._members[first] += self._members[second]
        self._members[second] = []

    def _needed_between(self, first: int, second: int) -> set[int] | None:
        """The nodes after the first that the second needs; `None` if one of them needs the first."""
        needed: set[int] = set()
        pending = [maker for maker in self._makers(second) if maker != first]
        while pending:
            node = pending.pop()
            if node == first:
                return None
            if node not in needed and self._place[node] > self._place[first]:
                needed.add(node)
                pending += self._makers(node)
        return needed

    def _makers(self, node: int) -> set[int]:
        return {self._node[maker] for member in self._members[node] for maker in self._read[member]} - {node}

    def absorb_constants(self, constants: KernelConstants) -> None:
        """Add constants of one kernel to it; constants of several kernels belong to none and are never stored."""
        for index in sorted(self._free, reverse=True):
            users = [user for result in self._ops[index].results for user in constants.users(result)]
            owners = {self._node[user] if self._belongs(index, user) else _NONE for user in users}
            if self._ops[index].custom_kernel and len(owners) == 1 and _NONE not in owners:
                self._node[index] = owners.pop()
                self._members[self._node[index]].append(index)
        separate = {index for index in self._free if self._node[index] == index}
        in_kernels = (op for index, op in enumerate(self._ops) if op.custom_kernel and index not in separate)
        self._structure.kernel_constants = frozenset(constants.values.difference(*(op.results for op in in_kernels)))
        for index in separate:
            self._ops[index].custom_kernel = ""

    def _belongs(self, constant: int, user: int) -> bool:
        is_settled = user not in self._free or self._node[user] != user
        return is_settled and bool(self._ops[user].custom_kernel) and self._ops[user].region == self._ops[constant].region

    def order(self) -> tuple[int, ...]:
        """All operations: constants first in their region, then each after its operands, each kernel's together."""
        inner: dict[int, list[int]] = {}
        for number, region in enumerate(self._structure.regions):
            inner.setdefault(region.parent, []).append(number)
        ordered: list[int] = []
        pending = [self._in_region(0)]  # a stack: loops may be deep in loops
        while pending:
            index = next(pending[-1], _NONE)
            if index == _NONE:
                pending.pop()
                continue
            ordered.append(index)
            if self._ops[index].kind in CONTROL_FLOW:
                pending += [self._in_region(number) for number in reversed(inner.get(index, []))]
        return tuple(ordered)

    def _in_region(self, region: int) -> Iterator[int]:
        line = [item for item in self._lines[region] if item != _NONE and self._node[item] == item]
        yield from (item for item in line if item in self._needs_nothing and len(self._members[item]) == 1)
        for node in line:
            if node not in self._needs_nothing or len(self._members[node]) > 1:
                yield from sorted(self._members[node])

    def name(self) -> None:
        names: dict[int, str] = {}
        for index, op in enumerate(self._ops):
            if op.custom_kernel:
                node = self._node[index]
                op.custom_kernel = names.setdefault(node, f"{self._ops[node].custom_kernel}#{len(names)}")
