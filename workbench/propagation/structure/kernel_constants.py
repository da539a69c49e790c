"""What a hand-written kernel computes of nothing: the mask of an attention, made of positions it counts itself.

Traced, such a value is an operation like others, and JAX moves it out of loops and hands it to all layers, forward and backward. A kernel
makes it anew, so that it is never stored, and it joins no two kernels to one.
"""

import math
from collections.abc import Iterator

from workbench.propagation.module.operation_kinds import CONSTANTS, CONTROL_FLOW, ELEMENTWISE
from workbench.propagation.structure.aliased_values import PASSING
from workbench.propagation.structure.loop_invariants import unchanged_slots
from workbench.propagation.structure.program_structure import Op, Structure

_LOOP = "stablehlo.while"
_ENDS = frozenset({"stablehlo.return", "func.return"})
_HANDED_ON = PASSING | {"stablehlo.broadcast_in_dim", "stablehlo.reshape", "stablehlo.transpose"}  # by operations outside of kernels too
_CHEAP = _HANDED_ON | {"stablehlo.iota", *CONSTANTS}  # computed in whatever reads them, kernel or not
_COMPUTED = ELEMENTWISE | _CHEAP | {"stablehlo.reduce", "stablehlo.slice", "stablehlo.pad", "stablehlo.concatenate", "stablehlo.reverse"}
_SCALARS = 256  # a constant of more elements is an array the function closed over, and takes memory


class KernelConstants:
    """Values that are computed of nothing.

    - `made_of_nothing`: all operations whose results are, those outside of kernels too;
    - `values`: results of operations of kernels, and what hands these on, which only kernels read.
    """

    def __init__(self, structure: Structure) -> None:
        self._structure = structure
        self.made_of_nothing: set[int] = set()
        self._known: set[int] = set()
        self._of_kernels: set[int] = set()
        self._unchanged = {loop: unchanged_slots(structure, loop) for loop in structure.body_of}
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
        """The operations that read a value."""
        return self._users.get(value, [])

    def leaves_kernels(self, index: int) -> bool:
        """Whether an operation of a kernel makes something cheap of nothing for others: it is no part of the kernel."""
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
        elif op.results and op.kind in (_COMPUTED if op.custom_kernel else _CHEAP) and all(each in self._known for each in op.operands):
            if op.kind in CONSTANTS and math.prod(values[op.results[0]].shape) > _SCALARS:
                return
            self.made_of_nothing.add(index)
            self._known.update(op.results)
            if op.custom_kernel or any(each in self._of_kernels for each in op.operands):
                self._of_kernels.update(op.results)

    def _carried(self, loop: int, slot: int) -> Iterator[int]:
        """The result of a loop and the arguments of its regions that stand for one operand."""
        yield self._structure.ops[loop].results[slot]
        for region in self._structure.regions:
            if region.parent == loop:
                yield from (each for each in region.values if (value := self._structure.values[each]).maker < 0 and value.result == slot)

    def _note_escapes(self, index: int) -> None:
        op = self._structure.ops[index]
        carried = [each for slot in self._unchanged.get(index, ()) for each in self._carried(index, slot)]
        for value in (*op.results, *carried):
            if value in self._of_kernels and any(self._leaves(value, user) for user in self.users(value)):
                self._escaping.add(value)

    def _leaves(self, value: int, user: int) -> bool:
        """Whether a value is used by something other than kernels, in the end."""
        op, values = self._structure.ops[user], self._structure.values
        if op.kind in _ENDS:
            loop = self._structure.regions[op.region].parent
            return not all(values[value].maker < 0 and slot in self._unchanged.get(loop, ()) for slot in _slots(op, value))
        if op.kind == _LOOP:
            slots = _slots(op, value)
            is_carried = self._unchanged[user].issuperset(slots)
            return not is_carried or any(each in self._escaping for slot in slots for each in self._carried(user, slot))
        if op.kind in CONTROL_FLOW:
            return True
        if user in self.made_of_nothing and op.kind in _CHEAP:
            return bool(self._escaping.intersection(op.results))
        return not op.custom_kernel


def _slots(op: Op, value: int) -> list[int]:
    return [slot for slot, operand in enumerate(op.operands) if operand == value]
