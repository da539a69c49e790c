"""Which values of a scheduled program share a buffer, and from where to where each buffer is alive.

The schedule is the order of the text, loop bodies in their loop's place. A value is a tree of buffers, a tuple's branches its elements.
Values that the compiler must or may lay over one another are joined: a loop's state from operand to result, a branch's result, what is
updated in place, a donated argument and its result.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from workbench.engine.hlo import Computation, HloModule, Instruction, root_of
from workbench.engine.hlo_shapes import Array, Shape, parse_shape

Tree = int | tuple["Tree", ...]  # numbers of buffers

_MUST_ALIAS = re.compile(r"\{([\d, ]*)\}: \((\d+), \{([\d, ]*)\}")
_TPU_ALIAS = re.compile(r'"indices":\[([^\]]*)\]')
_OVERWRITES = ("sort", "all-reduce", "all-reduce-start")
_IN_PLACE = ("dynamic-update-slice", "bitcast", "tuple", "fusion")
_SAME = ("bitcast", "optimization-barrier", "add-dependency", "domain")
_UPDATES = ("dynamic-update-slice", "scatter", "all-reduce-done", "send-done")
_ELEMENTWISE = (
    *("abs", "add", "and", "cbrt", "ceil", "clamp", "compare", "convert", "cosine", "divide", "exponential"),
    *("exponential-minus-one", "floor", "log", "log-plus-one", "logistic", "maximum", "minimum", "multiply", "negate"),
    *("not", "or", "power", "remainder", "round-nearest-afz", "round-nearest-even", "rsqrt", "select", "sign", "sine"),
    *("sqrt", "subtract", "tan", "tanh", "xor"),
)


@dataclass(slots=True)
class _Value:
    """What one instruction makes, or a loop's state at one side of its walls; alive from `born` to `last`, positions in the schedule."""

    array: Array
    maker: Instruction
    born: int
    last: int
    external: bool = False  # an argument or a result of the program, or a constant: not a temporary


@dataclass(frozen=True, slots=True)
class Buffer:
    """Values that lie in one place. Between two of them the place is free for others: a loop's state after its last use in the body and
    before its next value is made."""

    values: tuple[_Value, ...]

    @property
    def bytes(self) -> int:
        return max(each.array.padded_bytes for each in self.values)

    @property
    def space(self) -> int:
        return max(self.values, key=lambda each: each.array.padded_bytes).array.space

    @property
    def is_temporary(self) -> bool:
        return not any(each.external for each in self.values)

    @property
    def makers(self) -> Iterator[Instruction]:
        """The instructions whose values lie here, in the order of the schedule."""
        return (each.maker for each in sorted(self.values, key=lambda each: each.born))

    @property
    def spans(self) -> list[tuple[int, int]]:
        """When the buffer is in use: first and last positions, none of which meet."""
        merged: list[tuple[int, int]] = []
        for born, last in sorted((each.born, each.last) for each in self.values):
            if merged and born <= merged[-1][1] + 1:
                merged[-1] = merged[-1][0], max(last, merged[-1][1])
            else:
                merged.append((born, last))
        return merged


@dataclass(frozen=True)
class Schedule:
    """Instructions in the order they run, loop bodies once, and the buffers."""

    steps: Sequence[Instruction]
    buffers: Sequence[Buffer]


def schedule_of(module: HloModule, header: str) -> Schedule:
    """Walk a scheduled module; `header` is its text's first line, which names donated arguments."""
    walk = _Walk(module)
    entry = module.computations[module.entry]
    walk.run(entry, ())
    walk.close(entry, header)
    return Schedule(walk.steps, walk.buffers())


class _Walk:
    """One pass over the schedule; buffers are joined as a union-find."""

    def __init__(self, module: HloModule) -> None:
        self.module = module
        self.steps: list[Instruction] = []
        self._values: list[_Value] = []
        self._parents: list[int] = []
        self._entry_values: dict[str, Tree] = {}
        self._last_uses: dict[int, dict[str, str]] = {}

    def run(self, computation: Computation, arguments: Sequence[Tree]) -> Tree:
        """The value of the computation's root; `arguments` those of its parameters, none for the program's own."""
        values: dict[str, Tree] = {}
        if not self._entry_values:
            self._entry_values = values
        for instruction in computation.values():
            self.steps.append(instruction)
            operands = [values[name] for name in instruction.operands if name in values]
            for operand in operands:
                self._use(operand)
            values[instruction.name] = self._value(computation, instruction, operands, arguments)
        root = root_of(computation)
        result = values[root.name] if root else ()
        self._use(result)
        return result

    def close(self, entry: Computation, header: str) -> None:
        """Mark what is not temporary: arguments and results, which live through the whole program."""
        parameters = {each.literal: each.name for each in entry.values() if each.opcode == "parameter"}
        root = root_of(entry)
        result = self._entry_values[root.name] if root else ()
        for output, parameter, inner in _MUST_ALIAS.findall(header.partition("entry_computation_layout")[0]):
            if parameter in parameters:
                self._join(_at(result, output), _at(self._entry_values[parameters[parameter]], inner))
        for tree in (result, *(self._entry_values[name] for name in parameters.values())):
            for number in _leaves(tree):
                self._values[number].external = True

    def buffers(self) -> list[Buffer]:
        joined: dict[int, list[_Value]] = {}
        for number, value in enumerate(self._values):
            joined.setdefault(self._find(number), []).append(value)
        return [Buffer(tuple(values)) for values in joined.values()]

    def _value(self, computation: Computation, instruction: Instruction, operands: list[Tree], arguments: Sequence[Tree]) -> Tree:
        opcode = instruction.opcode
        if opcode == "parameter":
            return arguments[int(instruction.literal)] if arguments else self._new(instruction)
        if opcode == "tuple":
            return tuple(operands)
        if opcode == "get-tuple-element" and operands and isinstance(operands[0], tuple):
            return operands[0][instruction.element]
        if opcode in _SAME and operands:
            return operands[0]
        if opcode == "while":
            return self._loop(instruction, operands[0])
        if opcode == "conditional":
            return self._branches(instruction, operands)
        if opcode == "call":
            return self.run(self.module.computations[self.module.callees(instruction)[0]], operands)
        if opcode.endswith(("-done", "-update")):
            return self._awaited(instruction, operands)
        made = self._new(instruction)
        self._share(computation, instruction, operands, made)
        return made

    def _loop(self, instruction: Instruction, state: Tree) -> Tree:
        """In place: state, parameter, the body's root and result lie in one buffer."""
        for key in ("condition", "body"):
            if (name := instruction.attribute(key)) in self.module.computations:
                result = self.run(self.module.computations[name or ""], (self._again(state),))
                if key == "body":
                    self._join(result, state)
        return self._again(state)

    def _branches(self, instruction: Instruction, operands: list[Tree]) -> Tree:
        results = []
        for number, name in enumerate(self.module.callees(instruction)):
            results.append(self.run(self.module.computations[name], operands[number + 1 : number + 2]))
            for operand in operands[number + 1 :]:
                self._use(operand)
        made = self._new(instruction)
        for result in results:
            self._join(made, result)
        return made

    def _again(self, tree: Tree) -> Tree:
        """New values in the same buffers, from here on."""
        if isinstance(tree, tuple):
            return tuple(map(self._again, tree))
        value = self._values[tree]
        again = self._add(value.array, value.maker)
        self._join(tree, again)
        return again

    def _awaited(self, instruction: Instruction, operands: list[Tree]) -> Tree:
        """The end of an asynchronous operation: its destination, among what was started, with operands and contexts."""
        shape = parse_shape(instruction.shape)
        started = operands[0] if operands else ()
        if instruction.opcode == "copy-done" and isinstance(started, tuple):
            return started[0]
        if isinstance(started, tuple) and len(started) > 1:
            return started[1]
        return started if started != () else self._fresh(shape, instruction)

    def _share(self, computation: Computation, instruction: Instruction, operands: list[Tree], made: Tree) -> None:
        """Join a result with the operand it is laid over."""
        results, given = list(_leaves(made)), [leaf for tree in operands for leaf in _leaves(tree)]
        explicit = False
        for output, operand, inner in _MUST_ALIAS.findall(_section(instruction.attributes, "output_to_operand_aliasing")):
            self._join(_at(made, output), _at(operands[int(operand)], inner))
            explicit = True
        for indices in _TPU_ALIAS.findall(_section(instruction.attributes, '"aliasing_operands"')):
            self._join_numbered([int(each) for each in re.findall(r"\d+", indices)], given, results)
            explicit = True
        if instruction.opcode in ("copy-start", "async-start", "slice-start", "collective-permute-start", "all-gather-start"):
            self._started(instruction, operands, made)
        elif "ConcatBitcast" in instruction.attributes:
            for leaf in given:
                self._join(leaf, results[0])
        elif not explicit and '"aliasing_operands"' not in instruction.attributes:
            self._reuse(computation, instruction, given, results)

    def _join_numbered(self, indices: list[int], given: list[int], results: list[int]) -> None:
        """XLA:TPU numbers operands first and results after them."""
        both = [*given, *results]
        chosen = [both[index] for index in indices if index < len(both)]
        for leaf in chosen[1:]:
            self._join(chosen[0], leaf)

    def _started(self, instruction: Instruction, operands: list[Tree], made: Tree) -> None:
        """What is started names its operands again, which are no new buffers."""
        if isinstance(made, tuple) and operands:
            source = made[1] if instruction.opcode == "copy-start" else made[0]
            self._join(source, tuple(operands))

    def _reuse(self, computation: Computation, instruction: Instruction, given: list[int], results: list[int]) -> None:
        """XLA:CPU and GPU do not say: an update is in place, and an element-wise result takes the place of an operand that ends here."""
        if instruction.opcode in _UPDATES and given and results:
            self._join(given[0], results[0])
            return
        ending = self._ending(computation)
        free = [
            number
            for position, number in enumerate(given[: len(instruction.operands)])
            if ending.get(instruction.operands[position]) == instruction.name and self._is_overwritable(instruction, position)
        ]
        for result in results:
            size = self._values[result].array.bytes
            place = next((each for each in free if self._values[each].array.bytes == size and not self._values[each].external), None)
            if place is not None:
                self._join(place, result)
                free.remove(place)

    def _is_overwritable(self, instruction: Instruction, position: int) -> bool:
        """Whether an operand is read only where a result is written: element by element, or updated in place."""
        if instruction.opcode != "fusion":
            return instruction.opcode in _ELEMENTWISE or instruction.opcode in _OVERWRITES
        body = self.module.computations[self.module.callees(instruction)[0]]
        parameter = next((each.name for each in body.values() if each.opcode == "parameter" and each.literal == str(position)), "")
        users = [each for each in body.values() if parameter in each.operands]
        return bool(users) and all(each.opcode in _ELEMENTWISE or each.opcode in _IN_PLACE for each in users)

    def _ending(self, computation: Computation) -> dict[str, str]:
        """The last user of every value of a computation."""
        known = self._last_uses.get(id(computation))
        if known is None:
            known = {name: each.name for each in computation.values() for name in each.operands}
            self._last_uses[id(computation)] = known
        return known

    def _new(self, instruction: Instruction) -> Tree:
        return self._fresh(parse_shape(instruction.shape), instruction)

    def _fresh(self, shape: Shape, instruction: Instruction) -> Tree:
        if not isinstance(shape, Array):
            return tuple(self._fresh(each, instruction) for each in shape)
        return self._add(shape, instruction)

    def _add(self, array: Array, maker: Instruction) -> int:
        here = len(self.steps) - 1
        self._values.append(_Value(array, maker, here, here, external=maker.opcode in ("parameter", "constant")))
        self._parents.append(len(self._parents))
        return len(self._parents) - 1

    def _use(self, tree: Tree) -> None:
        for number in _leaves(tree):
            self._values[number].last = len(self.steps) - 1

    def _join(self, one: Tree, other: Tree) -> None:
        for first, second in zip(_leaves(one), _leaves(other), strict=False):
            self._parents[self._find(second)] = self._find(first)

    def _find(self, number: int) -> int:
        while self._parents[number] != number:
            self._parents[number] = self._parents[self._parents[number]]
            number = self._parents[number]
        return number


def _leaves(tree: Tree) -> Iterator[int]:
    if isinstance(tree, int):
        yield tree
    else:
        for each in tree:
            yield from _leaves(each)


def _at(tree: Tree, path: str) -> Tree:
    """The branch at an index path, `1, 0`."""
    for index in re.findall(r"\d+", path):
        if isinstance(tree, tuple) and int(index) < len(tree):
            tree = tree[int(index)]
    return tree


def _section(attributes: str, key: str) -> str:
    """The attribute from its key to where its braces close."""
    start = attributes.find(key)
    if start < 0:
        return ""
    depth, begun = 0, False
    for position in range(start, len(attributes)):
        depth += {"{": 1, "}": -1}.get(attributes[position], 0)
        begun |= attributes[position] == "{"
        if begun and depth == 0:
            return attributes[start : position + 1]
    return attributes[start:]
