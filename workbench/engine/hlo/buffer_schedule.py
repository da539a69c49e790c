"""Values of a scheduled program, as trees of buffers, and each buffer's live range as positions in the schedule."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

from workbench.spmd.hlo_module import Computation, HloInstruction, HloModule, loop_body, loop_condition, parameter_of, root_of
from workbench.spmd.hlo_shapes import Array, Shape

Tree = int | tuple["Tree", ...]  # buffer numbers


@dataclass(slots=True)
class HloValue:
    """Result of an instruction, or a loop's state on one side of its boundary; live from position `born` to `last`."""

    array: Array
    maker: HloInstruction
    born: int
    last: int
    is_given: bool = False  # an argument of the program or a constant
    is_result: bool = False  # a result of the program


@dataclass(frozen=True, slots=True)
class Buffer:
    """Values that share one allocation, which is free for others between the values."""

    values: tuple[HloValue, ...]

    @property
    def bytes(self) -> int:
        return max(value.array.padded_bytes for value in self.values)

    @property
    def space(self) -> int:
        return max(self.values, key=lambda value: value.array.padded_bytes).array.space

    @property
    def is_given(self) -> bool:
        return any(value.is_given for value in self.values)

    @property
    def is_result(self) -> bool:
        """Whether it is allocated for a result; a result in an argument's buffer belongs to that argument."""
        return not self.is_given and any(value.is_result for value in self.values)

    @property
    def is_temporary(self) -> bool:
        return not self.is_given and not self.is_result

    @property
    def makers(self) -> Iterator[HloInstruction]:
        """Instructions whose values share this buffer, in schedule order."""
        return (value.maker for value in sorted(self.values, key=lambda value: value.born))

    @property
    def spans(self) -> list[tuple[int, int]]:
        """Disjoint live ranges of the buffer: first and last positions."""
        merged: list[tuple[int, int]] = []
        for born, last in sorted((value.born, value.last) for value in self.values):
            if merged and born <= merged[-1][1] + 1:
                merged[-1] = merged[-1][0], max(last, merged[-1][1])
            else:
                merged.append((born, last))
        return merged


@dataclass(frozen=True)
class BufferSchedule:
    """Instructions in execution order, with loop bodies once, and the buffers."""

    steps: Sequence[HloInstruction]
    buffers: Sequence[Buffer]


def leaves(tree: Tree) -> Iterator[int]:
    if isinstance(tree, int):
        yield tree
    else:
        for branch in tree:
            yield from leaves(branch)


def subtree_at(tree: Tree, path: Iterable[int]) -> Tree:
    for index in path:
        if isinstance(tree, tuple) and index < len(tree):
            tree = tree[index]
    return tree


# Values of a scheduled program that share a buffer.
#
# The schedule is the order of the instructions, with loop bodies at their loops. Values that the compiler must or may alias are joined: a
# loop's state from operand to result, a branch's result, in-place updates, a donated argument and its result.

_IDENTITY_OPCODES = ("bitcast", "optimization-barrier", "add-dependency", "domain")


def schedule_of(module: HloModule) -> BufferSchedule:
    walk = _ScheduleWalk(module)
    entry = module.computations[module.entry]
    walk.run(entry, ())
    walk.close(entry)
    return BufferSchedule(walk.steps, walk.buffers())


class _ScheduleWalk:
    """One pass over the schedule; joins buffers with union-find."""

    def __init__(self, module: HloModule) -> None:
        self.module = module
        self.steps: list[HloInstruction] = []
        self._values: list[HloValue] = []
        self._parents: list[int] = []
        self._entry_values: dict[str, Tree] = {}
        self._aliases = AliasAnalysis(module, self._values.__getitem__)

    def run(self, computation: Computation, arguments: Sequence[Tree]) -> Tree:
        """Walk a computation and return its root's value; `arguments` is empty for the entry computation."""
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
        """Mark arguments, which live through the whole program, and results, which live to its end."""
        parameters = {
            instruction.fields.parameter_number: instruction.name for instruction in entry.values() if instruction.opcode == "parameter"
        }
        root = root_of(entry)
        result = self._entry_values[root.name] if root else ()
        for alias in self.module.fields.input_output_alias.entries:
            donated = self._entry_values[parameters[alias.parameter_number]]
            self._join(subtree_at(result, alias.output_shape_index), subtree_at(donated, alias.parameter_shape_index))
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
        value = self._new_value(instruction)
        for one, other in self._aliases.pairs(computation, instruction, operands, value):
            self._join(one, other)
        return value

    def _walk_loop(self, instruction: HloInstruction, state: Tree) -> Tree:
        """Walk a loop, whose state is in place: operand, parameter, the body's root and result share one buffer."""
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
        value = self._new_value(instruction)
        for result in results:
            self._join(value, result)
        return value

    def _rebind(self, tree: Tree) -> Tree:
        if isinstance(tree, tuple):
            return tuple(map(self._rebind, tree))
        value = self._values[tree]
        rebound = self._add(value.array, value.maker)
        self._join(tree, rebound)
        return rebound

    def _read_async_result(self, instruction: HloInstruction, operands: list[Tree]) -> Tree:
        """Return the result of an asynchronous operation: its destination among the start's results."""
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
            return tuple(self._new_tree(element, instruction) for element in shape)
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


# Results of an instruction that share a buffer with its operands, as declared or known of XLA's back ends.

_ALIASING_KEY = "aliasing_operands"  # XLA:TPU's annotation
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
    """Finds the aliases of a module's instructions; `value` returns the `HloValue` of a buffer number."""

    def __init__(self, module: HloModule, value: Callable[[int], HloValue]) -> None:
        self._module, self._value = module, value
        self._last_uses: dict[int, dict[str, str]] = {}

    def pairs(self, computation: Computation, instruction: HloInstruction, operands: Sequence[Tree], made: Tree) -> Pairs:
        """Yield pairs of trees that share buffers, given the result `made` of an instruction."""
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
        """Infer reuse that XLA:CPU and GPU do not declare: in-place updates, and element-wise results over dead
        operands.
        """
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
            reusable = next(
                (candidate for candidate in free if self._value(candidate).array.bytes == size and not self._value(candidate).is_given),
                None,
            )
            if reusable is not None:
                yield reusable, result
                free.remove(reusable)

    def _is_overwritable(self, instruction: HloInstruction, position: int) -> bool:
        """Return whether an operand is only read where a result is written: element-wise or updated in place."""
        if instruction.opcode != "fusion":
            return instruction.opcode in _ELEMENTWISE or instruction.opcode in _OVERWRITES
        body = self._module.computations[self._module.callees(instruction)[0]]
        parameter = parameter_of(body, position)
        users = [user for user in body.values() if parameter and parameter.name in user.operands]
        return bool(users) and all(user.opcode in _ELEMENTWISE or user.opcode in _IN_PLACE for user in users)

    def _find_last_uses(self, computation: Computation) -> dict[str, str]:
        last_users = self._last_uses.get(id(computation))
        if last_users is None:
            last_users = {name: instruction.name for instruction in computation.values() for name in instruction.operands}
            self._last_uses[id(computation)] = last_users
        return last_users


def _read_declared_aliases(instruction: HloInstruction, operands: Sequence[Tree], made: Tree) -> Pairs:
    for alias in instruction.fields.output_operand_aliasing:
        yield subtree_at(made, alias.output_shape_index), subtree_at(operands[alias.operand_index], alias.operand_shape_index)


def _read_aliasing_lists(instruction: HloInstruction, both: Sequence[int]) -> Pairs:
    """Yield the aliases declared by XLA:TPU, which numbers operands first and results after them."""
    for alias_list in instruction.backend_config.get(_ALIASING_KEY, {}).get("lists", ()):
        chosen = [both[int(index)] for index in alias_list.get("indices", ()) if int(index) < len(both)]
        yield from ((chosen[0], leaf) for leaf in chosen[1:])


def _alias_start_operands(instruction: HloInstruction, operands: Sequence[Tree], made: Tree) -> Pairs:
    """Yield the operands that an asynchronous start returns again, which are no new buffers."""
    if isinstance(made, tuple) and operands:
        yield made[1] if instruction.opcode == "copy-start" else made[0], tuple(operands)
