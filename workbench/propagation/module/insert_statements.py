"""Writes a layout's statements as Shardy attributes and operations: shardings of arguments and results, constraints,
groups and barriers.

They are written into the prepared module that the planner propagates and into the module that JAX compiles
(`annotate_lowered_module.write_layout`): what is predicted is what is compiled, even where JAX itself cannot express
it.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence

from jax.extend.mlir import ir
from jax.extend.mlir.dialects import sdy

from workbench.core.layout import Layout
from workbench.core.mesh import Mesh
from workbench.core.path_patterns import matches, operations_at
from workbench.core.sharding import Sharding, axis_size
from workbench.plan.plan import Plan
from workbench.propagation.module.mlir_context import int64
from workbench.propagation.module.operation_kinds import operations_below
from workbench.propagation.module.shardy_attributes import axes_text

Find = Callable[[str, int | None], Iterable[int]]  # (pattern, rank or None for any) -> selected positions in a list of operations

_DIRECTIONS = {"none": 0, "forward": 1, "backward": 2}  # sdy.PropagationDirection
_GROUPS = 1 << 20  # first id of the plan's groups; those of the function (`shard_alike`) count from 0


def sharding_attribute(sharding: Sharding, mesh: Mesh, rank: int) -> ir.Attribute:
    """The `#sdy.sharding` attribute without axes of size one; extra dimensions (a random key's words) are whole."""
    dims = [_dim_text(sharding, place, mesh) for place in range(len(sharding.dims))] + ["{}"] * (rank - len(sharding.dims))
    kinds = (("replicated", sharding.replicated), ("unreduced", sharding.unreduced))
    axis_lists = "".join(f", {kind}={_axis_list(axes, mesh)}" for kind, axes in kinds if any(axis_size(axis, mesh) > 1 for axis in axes))
    return ir.Attribute.parse(f"#sdy.sharding<@mesh, [{', '.join(dims)}]{axis_lists}>")


def _dim_text(sharding: Sharding, place: int, mesh: Mesh) -> str:
    axes = [f'"{axis}"' for axis in sharding.dims[place] or () if mesh[axis] > 1]
    words = axes + ["?"] * sharding.is_open(place)
    priority = f"p{sharding.priority(place)}" if words and sharding.priority(place) else ""
    return "{" + ", ".join(words) + "}" + priority


def _axis_list(axes: Iterable[str], mesh: Mesh) -> str:
    """Axes in mesh order, as Shardy requires."""
    return "{" + axes_text(axis for axis in mesh.names if axis in axes and mesh[axis] > 1) + "}"


def annotate_main(main: ir.Operation, plan: Plan, *, keep: bool = False) -> None:
    """Put the plan's shardings on main's arguments and results.

    A result that is carried to the next step gets its argument's sharding; the others get their override, if any, else
    propagation's. With `keep`, other attributes that JAX wrote there (a donation) stay.
    """
    attributes: dict[tuple[Sharding, int], ir.Attribute] = {}
    kind = ir.TypeAttr(main.attributes["function_type"]).value
    inputs, results = ([ir.RankedTensorType(tensor_type).rank for tensor_type in side] for side in (kind.inputs, kind.results))
    for side, ranks, shardings in (
        ("arg_attrs", inputs, dict(enumerate(plan.argument_shardings))),
        ("res_attrs", results, result_shardings(plan)),
    ):
        old = list(ir.ArrayAttr(main.attributes[side])) if keep and side in main.attributes else []
        main.attributes[side] = _sharding_attributes(shardings, ranks, plan.mesh, attributes, old)


def result_shardings(plan: Plan) -> dict[int, Sharding]:
    """The shardings that the plan states for results, by result number."""
    carried = {result: plan.argument_shardings[argument] for result, argument in plan.program.carried}
    if not plan.layout.overrides:
        return carried
    overrides = {i: plan.layout.override_of(tensor) for i, tensor in enumerate(plan.program.results) if i not in carried}
    return carried | {i: sharding for i, sharding in overrides.items() if sharding is not None}


def _sharding_attributes(
    shardings: Mapping[int, Sharding],
    ranks: Sequence[int],
    mesh: Mesh,
    known: dict[tuple[Sharding, int], ir.Attribute],
    old: Sequence[ir.Attribute],
) -> ir.ArrayAttr:
    """One dictionary per tensor, equal ones made once; entries of `old` stay except replaced shardings."""
    dictionaries = []
    for i, rank in enumerate(ranks):
        other_entries = (
            {entry.name: entry.attr for entry in ir.DictAttr(old[i]) if not (i in shardings and entry.name == "sdy.sharding")}
            if old
            else {}
        )
        if i in shardings and (key := (shardings[i], rank)) not in known:
            known[key] = ir.DictAttr.get({"sdy.sharding": sharding_attribute(shardings[i], mesh, rank)})
        if i in shardings and not other_entries:
            dictionaries.append(known[key])
        else:
            dictionaries.append(
                ir.DictAttr.get(other_entries | ({"sdy.sharding": ir.DictAttr(known[key])["sdy.sharding"]} if i in shardings else {}))
            )
    return ir.ArrayAttr.get(dictionaries)


def insert_statements(main: ir.Operation, ops: Sequence[ir.Operation], plan: Plan, find: Find) -> None:
    """Insert constraints after the values they name, then barriers, then groups; `find` returns positions in `ops`."""
    layout = plan.layout
    if not (layout.constraints or layout.groups or layout.barriers):
        return
    values: dict[int, ir.Value] = {}  # the value that others read, by constrained operation
    for i, sharding in _effective_constraints(layout, find).items():
        attribute = sharding_attribute(sharding, plan.mesh, len(sharding.dims))
        values[i] = insert_after("sdy.sharding_constraint", ops[i].results[0], {"sharding": attribute})

    def find_values(place: str) -> list[ir.Value]:
        if place.startswith("@"):
            return [values.get(i, ops[i].results[0]) for i in find(place[1:], None)]
        block = main.regions[0].blocks[0]
        return [block.arguments[i] for i, tensor in enumerate(plan.program.arguments) if matches(place, tensor.path)]

    for place, allows in layout.barriers:
        direction = ir.IntegerAttr.get(ir.IntegerType.get_signless(32), _DIRECTIONS[allows])
        for value in find_values(place):
            insert_after("sdy.propagation_barrier", value, {"allowed_direction": direction})
    for number, places in enumerate(layout.groups):
        for place in places:
            for value in find_values(place):
                _insert_group(value, _GROUPS + number)


def _effective_constraints(layout: Layout, find: Find) -> dict[int, Sharding]:
    """The last constraint that applies at each position."""
    return {i: sharding for pattern, sharding in layout.constraints for i in find(pattern, len(sharding.dims))}


def insert_after(name: str, value: ir.Value, attributes: dict[str, ir.Attribute]) -> ir.Value:
    """Insert an operation after a value; all other users then read its result instead."""
    value = _skip_data_flow_edge(value)
    new = ir.Operation.create(name, [value.type], [value], attributes, loc=value.location, ip=_insertion_point_after(value))
    value.replace_all_uses_except(new.result, new)
    return new.result


def _skip_data_flow_edge(value: ir.Value) -> ir.Value:
    """A value's data-flow edge, if any: the edge must stay next to its operation, or Shardy crashes."""
    edges = (use.owner.operation for use in value.uses if use.owner.operation.name == "sdy.data_flow_edge")
    return next((edge.results[0] for edge in edges), value)


def _insert_group(value: ir.Value, group: int) -> None:
    value = _skip_data_flow_edge(value)
    number = int64(group)
    ir.Operation.create("sdy.sharding_group", [], [value], {"group_id": number}, loc=value.location, ip=_insertion_point_after(value))


def _insertion_point_after(value: ir.Value) -> ir.InsertionPoint:
    if isinstance(value.owner, ir.Block):
        return ir.InsertionPoint.at_block_begin(value.owner)
    return ir.InsertionPoint.after(value.owner.operation)


def barriers_to_reshards(main: ir.Operation) -> None:
    """Replace each barrier by a reshard to its result's sharding, as XLA reshards it before it is read; in place."""
    for op in [candidate for candidate in operations_below(main) if candidate.name == "sdy.propagation_barrier"]:
        rank = ir.RankedTensorType(op.results[0].type).rank
        sharding = ir.Attribute.parse(f"#sdy.sharding<@mesh, [{', '.join(['{}'] * rank)}]>")
        if "sdy.sharding" in op.attributes:
            sharding = sdy.TensorShardingPerValueAttr(op.attributes["sdy.sharding"]).shardings[0]
        place = ir.InsertionPoint(op)
        new = ir.Operation.create("sdy.reshard", [op.results[0].type], [op.operands[0]], {"sharding": sharding}, loc=op.location, ip=place)
        op.results[0].replace_all_uses_with(new.result)
        op.erase()


def insert_constraints(main: ir.Operation, plan: Plan) -> None:
    """Insert the plan's constraints, groups and barriers into the prepared module."""
    if plan.layout.constraints or plan.layout.groups or plan.layout.barriers:
        program = plan.program
        insert_statements(main, list(operations_below(main)), plan, lambda pattern, rank: operations_at(program, pattern, rank))
