"""Propagates over only a few of many equal layers.

Shardy walks over a whole program some ten times. Where a program has many equal unrolled layers and the plan shards
them alike, propagation is the same in each except near the first and the last: it runs on a program with
`repeated_layers.KEPT_LAYERS` layers at either end, and the layers in between copy their neighbors' shardings. If these
disagree, or the plan treats layers differently or constrains a value, the whole program is propagated.
"""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from jax.extend.mlir import ir

from workbench.core.derived_value_cache import cache_with_program
from workbench.core.program import Program
from workbench.plan.plan import Plan
from workbench.propagation.module.insert_statements import result_shardings
from workbench.propagation.module.mlir_context import main_function, run_passes
from workbench.propagation.module.operation_kinds import operations_below
from workbench.propagation.module.prepare_module import ID
from workbench.propagation.prepared_program import load_prepared
from workbench.propagation.repeated_layers import FEWEST_LAYERS, KEPT_LAYERS, Operands, RepeatedLayers, find_counterpart, find_layers
from workbench.propagation.structure.program_structure import Structure

_LEAST = 40 * FEWEST_LAYERS  # in a program with fewer operations no layers are searched for
_SHARDING, _RULE = "sdy.sharding", "sdy.sharding_rule"
_CLEAN = "sdy-basic-propagate{keep-sharding-rules=true},func.func(sdy-sink-data-flow-edges)"  # without shardings: only drops dead code
_STATED = ("sdy.sharding_constraint", "sdy.sharding_group", "sdy.propagation_barrier")

_Pairs = tuple[tuple[int, int], ...]
_Numbers = tuple[int, ...]


class ShortenedProgram(NamedTuple):
    """A program's module `whole`, without dead operations, and a module without the middle layers, `few`.

    `likes`: for each operation of `whole`, the number of the operation in `few` whose sharding it copies; `same`:
    groups of numbers whose shardings must agree for that; `arguments` and `results`: pairs of one of a middle layer and
    one of a remaining layer.
    """

    whole: ir.Operation
    few: ir.Operation
    likes: _Numbers
    same: tuple[_Numbers, ...]
    arguments: _Pairs
    results: _Pairs

    def is_valid_for(self, plan: Plan) -> bool:
        """Return whether a plan shards the layers alike and closes all arguments."""
        layout, shardings = plan.layout, plan.argument_shardings
        if layout.constraints or layout.groups or layout.barriers or layout.priorities or not all(item.is_plain for item in shardings):
            return False
        stated = result_shardings(plan) if layout.overrides else {}
        return all(shardings[one] == shardings[two] for one, two in self.arguments) and all(
            stated.get(one) == stated.get(two) for one, two in self.results
        )

    def transfer_shardings(self, whole: ir.Operation, few: ir.Operation) -> list[ir.Operation] | None:
        """Copy shardings from `few` to a clone of `whole`, and return its operations; `None` if layers disagree."""
        sharding_of: dict[int, ir.Attribute | None] = {}
        for op in operations_below(few):
            attributes = op.attributes
            sharding_of[attributes[ID].value] = attributes.get(_SHARDING)
        if any(len({sharding_of.get(number) for number in group}) > 1 for group in self.same) or not sharding_of.keys() >= set(self.likes):
            return None
        for side in ("arg_attrs", "res_attrs"):
            whole.attributes[side] = few.attributes[side]
        ops = list(operations_below(whole))
        for op, twin in zip(ops, self.likes, strict=True):
            if (sharding := sharding_of[twin]) is not None:
                op.attributes[_SHARDING] = sharding
        return ops


@cache_with_program(350)
def shorten_program(program: Program) -> ShortenedProgram | None:
    """The program without its middle layers; `None` if it has too few layers."""
    source, structure = load_prepared(program)
    if len(structure.regions) > 1 or len(structure.ops) < _LEAST or not structure.kinds.isdisjoint(_STATED):
        return None
    with source.context, ir.Location.unknown():
        return _shorten(source, structure)


def _shorten(source: ir.Module, structure: Structure) -> ShortenedProgram | None:
    few = source.operation.clone()
    ops = list(operations_below(main_function(few)))
    operands = [[structure.values[operand].maker for operand in op.operands] for op in structure.ops]
    if (layers := find_layers(_kinds(ops, structure), operands)) is None or (results := _result_pairs(layers, operands[-1])) is None:
        return None
    _remove_middle_layers(ops, layers, operands)
    whole = source.operation.clone()
    run_passes(whole, _CLEAN)
    stay = [op.attributes[ID].value for op in operations_below(main_function(whole))]
    return ShortenedProgram(
        whole, few, tuple(_find_like(layers, i) for i in stay), _group_alike(layers, stay), _argument_pairs(layers, structure), results
    )


def _kinds(ops: Sequence[ir.Operation], structure: Structure) -> list[int]:
    """A number for the properties of an operation that propagation depends on: its rule and its types."""
    values = [(value.shape, value.dtype, value.result if value.maker >= 0 else -1) for value in structure.values]
    numbers: dict[object, int] = {}
    kinds = []
    for op, record in zip(ops, structure.ops, strict=True):
        attributes = op.attributes
        types = tuple(values[number] for number in (*record.operands, *record.results))
        key = record.kind, attributes.get(_RULE), types
        kinds.append(numbers.setdefault(key, len(numbers)))
    return kinds


def _remove_middle_layers(ops: Sequence[ir.Operation], layers: RepeatedLayers, operands: Operands) -> None:
    """Remove the middle layers from a module, and let their readers read the counterparts in the remaining layers."""
    last = len(ops) - 1
    for index, (op, sources) in enumerate(zip(ops, operands, strict=True)):
        position = layers.positions[index]
        if layers.is_between(position):
            continue
        for slot, source in enumerate(sources):
            if source >= 0 and layers.is_between(layers.positions[source]):
                twin = _find_like(layers, source) if index == last or position is None else find_counterpart(layers, source, position.layer)
                op.operands[slot] = ops[twin].results[ir.OpResult(op.operands[slot]).result_number]
    for index in range(last, -1, -1):
        if layers.is_between(layers.positions[index]):
            ops[index].erase()


def _find_like(layers: RepeatedLayers, index: int) -> int:
    """The counterpart in the layer before the middle ones; any other operation stands for itself."""
    position = layers.positions[index]
    return layers.operation_at(position, layers.first - 1) if position is not None and layers.is_between(position) else index


def _group_alike(layers: RepeatedLayers, stay: Iterable[int]) -> tuple[_Numbers, ...]:
    """The counterparts of each operation in the remaining layers next to the middle ones."""
    positions = (layers.positions[index] for index in stay)
    near = (item for item in positions if item is not None and item.layer == layers.first - 1)
    beside = (*range(layers.first - KEPT_LAYERS + 1, layers.first), *range(layers.last, layers.last + KEPT_LAYERS - 1))
    return tuple(tuple(layers.operation_at(position, layer) for layer in beside) for position in near)


def _argument_pairs(layers: RepeatedLayers, structure: Structure) -> _Pairs:
    """Arguments that operations of middle layers read, paired with those that their counterparts read."""
    argument_pairs = set()
    for index, op in enumerate(structure.ops):
        if (twin := _find_like(layers, index)) != index:
            pairs = zip(op.operands, structure.ops[twin].operands, strict=True)
            argument_pairs |= {(one, two) for one, two in pairs if one != two and structure.values[one].maker < 0}
    return tuple((structure.values[one].result, structure.values[two].result) for one, two in sorted(argument_pairs))


def _result_pairs(layers: RepeatedLayers, returned: Sequence[int]) -> _Pairs | None:
    """Results of middle layers, paired with those of their counterparts; `None` if only some of these are returned."""
    positions: dict[int, list[int]] = defaultdict(list)
    for position, index in enumerate(returned):
        positions[index].append(position)
    result_pairs: list[tuple[int, int]] = []
    for index, own_positions in positions.items():
        if index >= 0 and (twin := _find_like(layers, index)) != index:
            if len(own_positions) != len(positions.get(twin, ())):
                return None
            result_pairs += zip(own_positions, positions[twin], strict=True)
    return tuple(result_pairs)
