"""Which results of an instruction share a buffer with its operands, as XLA's back ends declare it or are known to do it."""

from collections.abc import Callable, Iterator, Sequence

from workbench.engine.hlo.buffer_schedule import HloValue, Tree, leaves, subtree_at
from workbench.spmd.hlo_instruction import Computation, HloInstruction, parameter_of
from workbench.spmd.hlo_module import HloModule

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
