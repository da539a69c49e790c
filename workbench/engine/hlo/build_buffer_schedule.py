"""Which values of a scheduled program share a buffer.

The schedule is the order of the instructions, loop bodies in their loop's place. Values that the compiler must or may alias are joined: a
loop's state from operand to result, a branch's result, what is updated in place, a donated argument and its result.
"""

from collections.abc import Sequence

from workbench.engine.hlo.alias_analysis import AliasAnalysis
from workbench.engine.hlo.buffer_schedule import Buffer, BufferSchedule, HloValue, Tree, leaves, subtree_at
from workbench.spmd.hlo_instruction import Computation, HloInstruction, root_of
from workbench.spmd.hlo_module import HloModule
from workbench.spmd.hlo_shapes import Array, Shape
from workbench.spmd.hlo_trip_counts import body_of, condition_of

_IDENTITY_OPCODES = ("bitcast", "optimization-barrier", "add-dependency", "domain")


def schedule_of(module: HloModule) -> BufferSchedule:
    """Walk a scheduled module."""
    walk = _ScheduleWalk(module)
    entry = module.computations[module.entry]
    walk.run(entry, ())
    walk.close(entry)
    return BufferSchedule(walk.steps, walk.buffers())


class _ScheduleWalk:
    """One pass over the schedule; buffers are joined as a union-find."""

    def __init__(self, module: HloModule) -> None:
        self.module = module
        self.steps: list[HloInstruction] = []
        self._values: list[HloValue] = []
        self._parents: list[int] = []
        self._entry_values: dict[str, Tree] = {}
        self._aliases = AliasAnalysis(module, self._values.__getitem__)

    def run(self, computation: Computation, arguments: Sequence[Tree]) -> Tree:
        """Walk a computation and return the value of its root; `arguments` are the values of its parameters, none for the entry
        computation."""
        values: dict[str, Tree] = {}
        if not self._entry_values:
            self._entry_values = values
        for instruction in computation.values():
            self.steps.append(instruction)
            operands = [values[name] for name in instruction.operands]
            for operand in operands:
                self._use(operand)
            values[instruction.name] = self._evaluate(computation, instruction, operands, arguments)
        root = root_of(computation)
        result = values[root.name] if root else ()
        self._use(result)
        return result

    def close(self, entry: Computation) -> None:
        """Mark what is not temporary: arguments, which live through the whole program, and results, which live to its end."""
        parameters = {each.fields.parameter_number: each.name for each in entry.values() if each.opcode == "parameter"}
        root = root_of(entry)
        result = self._entry_values[root.name] if root else ()
        for each in self.module.fields.input_output_alias.entries:
            donated = self._entry_values[parameters[each.parameter_number]]
            self._join(subtree_at(result, each.output_shape_index), subtree_at(donated, each.parameter_shape_index))
        for number in (leaf for name in parameters.values() for leaf in leaves(self._entry_values[name])):
            self._values[number].is_given = True
        for number in leaves(result):
            self._values[number].is_result = True

    def buffers(self) -> list[Buffer]:
        joined: dict[int, list[HloValue]] = {}
        for number, value in enumerate(self._values):
            joined.setdefault(self._find(number), []).append(value)
        return [Buffer(tuple(values)) for values in joined.values()]

    def _evaluate(self, computation: Computation, instruction: HloInstruction, operands: list[Tree], arguments: Sequence[Tree]) -> Tree:
        opcode = instruction.opcode
        if opcode == "parameter":
            return arguments[instruction.fields.parameter_number] if arguments else self._new_value(instruction)
        if opcode == "tuple":
            return tuple(operands)
        if opcode == "get-tuple-element" and operands and isinstance(operands[0], tuple):
            return operands[0][instruction.element]
        if opcode in _IDENTITY_OPCODES and operands:
            return operands[0]
        if opcode == "while":
            return self._walk_loop(instruction, operands[0])
        if opcode == "conditional":
            return self._walk_branches(instruction, operands)
        if opcode == "call":
            return self.run(self.module.computations[self.module.callees(instruction)[0]], operands)
        if opcode.endswith(("-done", "-update")):
            return self._read_async_result(instruction, operands)
        made = self._new_value(instruction)
        for one, other in self._aliases.pairs(computation, instruction, operands, made):
            self._join(one, other)
        return made

    def _walk_loop(self, instruction: HloInstruction, state: Tree) -> Tree:
        """A loop's state is updated in place: operand, parameter, the body's root and result share one buffer."""
        for name in (condition_of(instruction), body_of(instruction)):
            result = self.run(self.module.computations[name], (self._rebind(state),))
        self._join(result, state)
        return self._rebind(state)

    def _walk_branches(self, instruction: HloInstruction, operands: list[Tree]) -> Tree:
        results = []
        for number, name in enumerate(self.module.callees(instruction)):
            results.append(self.run(self.module.computations[name], operands[number + 1 : number + 2]))
            for operand in operands[number + 1 :]:
                self._use(operand)
        made = self._new_value(instruction)
        for result in results:
            self._join(made, result)
        return made

    def _rebind(self, tree: Tree) -> Tree:
        """New values in the same buffers, from here on."""
        if isinstance(tree, tuple):
            return tuple(map(self._rebind, tree))
        value = self._values[tree]
        again = self._add(value.array, value.maker)
        self._join(tree, again)
        return again

    def _read_async_result(self, instruction: HloInstruction, operands: list[Tree]) -> Tree:
        """The result of an asynchronous operation: its destination, among what its start returned with operands and contexts."""
        shape = instruction.shape
        started = operands[0] if operands else ()
        if instruction.opcode == "copy-done" and isinstance(started, tuple):
            return started[0]
        if isinstance(started, tuple) and len(started) > 1:
            return started[1]
        return started if started != () else self._new_tree(shape, instruction)

    def _new_value(self, instruction: HloInstruction) -> Tree:
        return self._new_tree(instruction.shape, instruction)

    def _new_tree(self, shape: Shape, instruction: HloInstruction) -> Tree:
        if not isinstance(shape, Array):
            return tuple(self._new_tree(each, instruction) for each in shape)
        return self._add(shape, instruction)

    def _add(self, array: Array, maker: HloInstruction) -> int:
        position = len(self.steps) - 1
        self._values.append(HloValue(array, maker, position, position, is_given=maker.opcode in ("parameter", "constant")))
        self._parents.append(len(self._parents))
        return len(self._parents) - 1

    def _use(self, tree: Tree) -> None:
        for number in leaves(tree):
            self._values[number].last = len(self.steps) - 1

    def _join(self, one: Tree, other: Tree) -> None:
        for first, second in zip(leaves(one), leaves(other), strict=False):
            self._parents[self._find(second)] = self._find(first)

    def _find(self, number: int) -> int:
        while self._parents[number] != number:
            self._parents[number] = self._parents[self._parents[number]]
            number = self._parents[number]
        return number
