"""Propagation over only a few of many equal layers.

Shardy walks over a whole program some ten times. Where a program writes out many equal layers, and the plan shards them alike, propagation
is the same in each but for those near the first and the last: it runs on a program with `repeated_layers.KEPT_LAYERS` layers at either end,
and the layers in between copy what the layers beside them got. Where these differ among each other, or the plan tells layers apart or
constrains a value, the whole program is propagated.
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
from workbench.propagation.repeated_layers import FEWEST_LAYERS, KEPT_LAYERS, Operands, RepeatedLayers, find_layers, find_stand_in
from workbench.propagation.structure.program_structure import Structure

_LEAST = 40 * FEWEST_LAYERS  # operations of a program from which on layers are looked for
_SHARDING, _RULE = "sdy.sharding", "sdy.sharding_rule"
_CLEAN = "sdy-basic-propagate{keep-sharding-rules=true},func.func(sdy-sink-data-flow-edges)"  # with nothing to propagate: drop what is dead
_STATED = ("sdy.sharding_constraint", "sdy.sharding_group", "sdy.propagation_barrier")

_Pairs = tuple[tuple[int, int], ...]
_Numbers = tuple[int, ...]


class ShortenedProgram(NamedTuple):
    """A program's module `whole`, without dead operations, and one without the middle layers, `few`.

    `likes` has for each operation of `whole` the number of the one in `few` whose sharding it takes; `same` the numbers of those that must
    agree for that; `arguments` and `results` are of the middle layers, each with the one of a layer that stays.
    """

    whole: ir.Operation
    few: ir.Operation
    likes: _Numbers
    same: tuple[_Numbers, ...]
    arguments: _Pairs
    results: _Pairs

    def is_valid_for(self, plan: Plan) -> bool:
        """Whether a plan shards the layers alike, and determines all arguments."""
        layout, shardings = plan.layout, plan.argument_shardings
        if layout.constraints or layout.groups or layout.barriers or layout.priorities or not all(each.is_plain for each in shardings):
            return False
        rejections = result_shardings(plan) if layout.overrides else {}
        return all(shardings[one] == shardings[two] for one, two in self.arguments) and all(
            rejections.get(one) == rejections.get(two) for one, two in self.results
        )

    def transfer_shardings(self, whole: ir.Operation, few: ir.Operation) -> list[ir.Operation] | None:
        """Write the shardings of `few` into a clone of `whole`, and return its operations; `None` where the layers that stay differ, or one
        vanished."""
        found: dict[int, ir.Attribute | None] = {}
        for op in operations_below(few):
            attributes = op.attributes
            found[attributes[ID].value] = attributes.get(_SHARDING)
        if any(len({found.get(each) for each in alike}) > 1 for alike in self.same) or not found.keys() >= set(self.likes):
            return None
        for side in ("arg_attrs", "res_attrs"):
            whole.attributes[side] = few.attributes[side]
        ops = list(operations_below(whole))
        for op, like in zip(ops, self.likes, strict=True):
            if (sharding := found[like]) is not None:
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
    operands = _operands(structure)
    if (layers := find_layers(_kinds(ops, structure), operands)) is None or (results := _result_pairs(layers, operands[-1])) is None:
        return None
    _remove_middle_layers(ops, layers, operands)
    whole = source.operation.clone()
    run_passes(whole, _CLEAN)
    stay = [op.attributes[ID].value for op in operations_below(main_function(whole))]
    return ShortenedProgram(
        whole, few, tuple(_find_like(layers, i) for i in stay), _group_alike(layers, stay), _argument_pairs(layers, structure), results
    )


def _operands(structure: Structure) -> Operands:
    return [[structure.values[each].maker for each in op.operands] for op in structure.ops]


def _kinds(ops: Sequence[ir.Operation], structure: Structure) -> list[int]:
    """A number for all that propagation looks at in an operation: its rule, and the types of its operands and results."""
    values = [(value.shape, value.dtype, value.result if value.maker >= 0 else -1) for value in structure.values]
    numbers: dict[object, int] = {}
    kinds = []
    for op, record in zip(ops, structure.ops, strict=True):
        attributes = op.attributes
        types = tuple(values[each] for each in (*record.operands, *record.results))
        key = record.kind, attributes.get(_RULE), types
        kinds.append(numbers.setdefault(key, len(numbers)))
    return kinds


def _remove_middle_layers(ops: Sequence[ir.Operation], layers: RepeatedLayers, operands: Operands) -> None:
    """Remove the middle layers from a module, and have their readers read the counterparts in layers that stay."""
    last = len(ops) - 1
    for index, (op, sources) in enumerate(zip(ops, operands, strict=True)):
        position = layers.positions[index]
        if layers.is_between(position):
            continue
        for slot, source in enumerate(sources):
            if source >= 0 and layers.is_between(layers.positions[source]):
                like = _find_like(layers, source) if index == last or position is None else find_stand_in(layers, source, position.layer)
                op.operands[slot] = ops[like].results[ir.OpResult(op.operands[slot]).result_number]
    for index in range(last, -1, -1):
        if layers.is_between(layers.positions[index]):
            ops[index].erase()


def _find_like(layers: RepeatedLayers, index: int) -> int:
    """The counterpart of an operation of a middle layer, in the layer before them; any other operation stands for itself."""
    position = layers.positions[index]
    return layers.operation_at(position, layers.first - 1) if position is not None and layers.is_between(position) else index


def _group_alike(layers: RepeatedLayers, stay: Iterable[int]) -> tuple[_Numbers, ...]:
    """The counterparts of each operation in the layers that stay next to the middle ones."""
    positions = (layers.positions[index] for index in stay)
    near = (each for each in positions if each is not None and each.layer == layers.first - 1)
    beside = (*range(layers.first - KEPT_LAYERS + 1, layers.first), *range(layers.last, layers.last + KEPT_LAYERS - 1))
    return tuple(tuple(layers.operation_at(position, layer) for layer in beside) for position in near)


def _argument_pairs(layers: RepeatedLayers, structure: Structure) -> _Pairs:
    """Arguments that operations of middle layers read, and those that their counterparts read."""
    found = set()
    for index, op in enumerate(structure.ops):
        if (like := _find_like(layers, index)) != index:
            pairs = zip(op.operands, structure.ops[like].operands, strict=True)
            found |= {(one, two) for one, two in pairs if one != two and structure.values[one].maker < 0}
    return tuple((structure.values[one].result, structure.values[two].result) for one, two in sorted(found))


def _result_pairs(layers: RepeatedLayers, returned: Sequence[int]) -> _Pairs | None:
    """Results that middle layers make, and those of their counterparts; `None` if some are returned and their counterparts are not."""
    positions: dict[int, list[int]] = defaultdict(list)
    for position, index in enumerate(returned):
        positions[index].append(position)
    found: list[tuple[int, int]] = []
    for index, mine in positions.items():
        if index >= 0 and (like := _find_like(layers, index)) != index:
            if len(mine) != len(positions.get(like, ())):
                return None
            found += zip(mine, positions[like], strict=True)
    return tuple(found)
