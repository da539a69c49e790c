"""Values of a scheduled program, the buffers they share, and the live range of each buffer.

A value is a tree of buffers, a tuple's branches its elements; positions are indices in the schedule.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

from workbench.spmd.hlo_module import Computation, HloInstruction, HloModule, loop_body, loop_condition, parameter_of, root_of
from workbench.spmd.hlo_shapes import Array, Shape

Tree = int | tuple["Tree", ...]  # numbers of buffers


@dataclass(slots=True)
class HloValue:
    """What one instruction makes, or a loop's state on one side of the loop's boundary; alive from `born` to `last`, positions in the
    schedule."""

    array: Array
    maker: HloInstruction
    born: int
    last: int
    is_given: bool = False  # an argument of the program, or a constant: there before the step
    is_result: bool = False  # of the program


@dataclass(frozen=True, slots=True)
class Buffer:
    """Values that share one allocation. Between two of them it is free for others: a loop's state after its last use in the body and before
    its next value is made."""

    values: tuple[HloValue, ...]

    @property
    def bytes(self) -> int:
        return max(each.array.padded_bytes for each in self.values)

    @property
    def space(self) -> int:
        return max(self.values, key=lambda each: each.array.padded_bytes).array.space

    @property
    def is_given(self) -> bool:
        return any(each.is_given for each in self.values)

    @property
    def is_result(self) -> bool:
        """Whether it is allocated for a result; a result that shares an argument's buffer is that argument's."""
        return not self.is_given and any(each.is_result for each in self.values)

    @property
    def is_temporary(self) -> bool:
        return not self.is_given and not self.is_result

    @property
    def makers(self) -> Iterator[HloInstruction]:
        """The instructions whose values share this buffer, in the order of the schedule."""
        return (each.maker for each in sorted(self.values, key=lambda each: each.born))

    @property
    def spans(self) -> list[tuple[int, int]]:
        """The live ranges of the buffer: first and last positions, not overlapping."""
        merged: list[tuple[int, int]] = []
        for born, last in sorted((each.born, each.last) for each in self.values):
            if merged and born <= merged[-1][1] + 1:
                merged[-1] = merged[-1][0], max(last, merged[-1][1])
            else:
                merged.append((born, last))
        return merged


@dataclass(frozen=True)
class BufferSchedule:
    """Instructions in the order they run, loop bodies once, and the buffers."""

    steps: Sequence[HloInstruction]
    buffers: Sequence[Buffer]


def leaves(tree: Tree) -> Iterator[int]:
    if isinstance(tree, int):
        yield tree
    else:
        for each in tree:
            yield from leaves(each)


def subtree_at(tree: Tree, path: Iterable[int]) -> Tree:
    """The branch at an index path."""
    for index in path:
        if isinstance(tree, tuple) and index < len(tree):
            tree = tree[index]
    return tree


# Which values of a scheduled program share a buffer.
#
# The schedule is the order of the instructions, loop bodies in their loop's place. Values that the compiler must or may alias are joined: a
# loop's state from operand to result, a branch's result, what is updated in place, a donated argument and its result.

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
        for name in (loop_condition(instruction), loop_body(instruction)):
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


# Which results of an instruction share a buffer with its operands, as XLA's back ends declare it or are known to do it.

_ALIASING_KEY = "aliasing_operands"  # XLA:TPU's own annotation
_ASYNC_STARTS = ("copy-start", "async-start", "slice-start", "collective-permute-start", "all-gather-start")
_OVERWRITES = ("sort", "all-reduce", "all-reduce-start")
_IN_PLACE = ("dynamic-update-slice", "bitcast", "tuple", "fusion")
_UPDATES = ("dynamic-update-slice", "scatter", "all-reduce-done", "send-done")
_ELEMENTWISE = (
    *("abs", "add", "and", "cbrt", "ceil", "clamp", "compare", "convert", "cosine", "divide", "exponential"),
    *("exponential-minus-one", "floor", "log", "log-plus-one", "logistic", "maximum", "minimum", "multiply", "negate"),
    *("not", "or", "power", "remainder", "round-nearest-afz", "round-nearest-even", "rsqrt", "select", "sign", "sine"),
    *("sqrt", "subtract", "tan", "tanh", "xor"),
)
Pairs = Iterator[tuple[Tree, Tree]]


class AliasAnalysis:
    """Finds the aliases of a module's instructions; `value` gives the `HloValue` of a buffer number."""

    def __init__(self, module: HloModule, value: Callable[[int], HloValue]) -> None:
        self._module, self._value = module, value
        self._last_uses: dict[int, dict[str, str]] = {}

    def pairs(self, computation: Computation, instruction: HloInstruction, operands: Sequence[Tree], made: Tree) -> Pairs:
        """Pairs of trees that share buffers once an instruction has made `made` from its operands."""
        results, operand_values = list(leaves(made)), [leaf for tree in operands for leaf in leaves(tree)]
        declared = [*_read_declared_aliases(instruction, operands, made), *_read_aliasing_lists(instruction, [*operand_values, *results])]
        yield from declared
        if instruction.opcode in _ASYNC_STARTS:
            yield from _alias_start_operands(instruction, operands, made)
        elif "ConcatBitcast" in instruction.fields.custom_call_target:
            yield from ((leaf, results[0]) for leaf in operand_values)
        elif not declared and _ALIASING_KEY not in instruction.backend_config:
            yield from self._infer_reuse(computation, instruction, operand_values, results)

    def _infer_reuse(self, computation: Computation, instruction: HloInstruction, operand_values: list[int], results: list[int]) -> Pairs:
        """Infer the reuse that XLA:CPU and GPU do not declare: an update is in place, and an element-wise result takes the buffer of an
        operand last used here."""
        if instruction.opcode in _UPDATES and operand_values and results:
            yield operand_values[0], results[0]
            return
        last_use = self._find_last_uses(computation)
        free = [
            number
            for position, number in enumerate(operand_values[: len(instruction.operands)])
            if last_use.get(instruction.operands[position]) == instruction.name and self._is_overwritable(instruction, position)
        ]
        for result in results:
            size = self._value(result).array.bytes
            reusable = next((each for each in free if self._value(each).array.bytes == size and not self._value(each).is_given), None)
            if reusable is not None:
                yield reusable, result
                free.remove(reusable)

    def _is_overwritable(self, instruction: HloInstruction, position: int) -> bool:
        """Whether an operand is read only where a result is written: element by element, or updated in place."""
        if instruction.opcode != "fusion":
            return instruction.opcode in _ELEMENTWISE or instruction.opcode in _OVERWRITES
        body = self._module.computations[self._module.callees(instruction)[0]]
        parameter = parameter_of(body, position)
        users = [each for each in body.values() if parameter and parameter.name in each.operands]
        return bool(users) and all(each.opcode in _ELEMENTWISE or each.opcode in _IN_PLACE for each in users)

    def _find_last_uses(self, computation: Computation) -> dict[str, str]:
        """The last user of every value of a computation."""
        known = self._last_uses.get(id(computation))
        if known is None:
            known = {name: each.name for each in computation.values() for name in each.operands}
            self._last_uses[id(computation)] = known
        return known


def _read_declared_aliases(instruction: HloInstruction, operands: Sequence[Tree], made: Tree) -> Pairs:
    for each in instruction.fields.output_operand_aliasing:
        yield subtree_at(made, each.output_shape_index), subtree_at(operands[each.operand_index], each.operand_shape_index)


def _read_aliasing_lists(instruction: HloInstruction, both: Sequence[int]) -> Pairs:
    """The aliases that XLA:TPU declares, numbering operands first and results after them."""
    for each in instruction.backend_config.get(_ALIASING_KEY, {}).get("lists", ()):
        chosen = [both[int(index)] for index in each.get("indices", ()) if int(index) < len(both)]
        yield from ((chosen[0], leaf) for leaf in chosen[1:])


def _alias_start_operands(instruction: HloInstruction, operands: Sequence[Tree], made: Tree) -> Pairs:
    """An asynchronous start returns its operands again, which are no new buffers."""
    if isinstance(made, tuple) and operands:
        yield made[1] if instruction.opcode == "copy-start" else made[0], tuple(operands)
