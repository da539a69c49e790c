"""Matrix products as XLA's partitioner takes them apart, where Shardy would send something else.

XLA does not weigh what to send (`dot_handler.cc`). Operands that are both split alike along what is summed are multiplied part by part and
the result is reduced, however small they are beside it: the gradient of a large weight from a small batch, say. And an operand whose own
dimension the result keeps split stays where it is; the other one is gathered, however large: a weight that lies split over the axis of the
batch (fully sharded data parallel). Both are written into the module before Shardy inserts its reshards.
"""

from collections.abc import Sequence

from jax.extend.mlir import ir

from workbench.mesh import Mesh
from workbench.partition.attributes import Dims
from workbench.partition.hlo_form import ORDER
from workbench.partition.kernels import PRODUCTS
from workbench.partition.operations import manual_axes
from workbench.partition.prepare import ID
from workbench.partition.product_notes import APART, LIES, written
from workbench.partition.product_ways import ProductFacts, is_apart, nearest
from workbench.partition.sharding_reader import ShardingReader, sharding_text
from workbench.partition.structure import Structure

_SHARDING = "sdy.sharding"
_KEPT = (_SHARDING, "precision_config", ID, ORDER)


def plan_products(main: ir.Operation, ops: Sequence[ir.Operation], structure: Structure, mesh: Mesh) -> None:
    """Insert the reshards that XLA takes for granted around products, and mark those that it takes apart in another way than Shardy."""
    reader = ShardingReader(main)
    is_manual = "sdy.manual_computation" in structure.kinds
    for op in ops:
        if op.name not in PRODUCTS or ID not in op.attributes or (facts := structure.products.get(op.attributes[ID].value)) is None:
            continue
        lies = tuple(map(reader.dims_of, (*op.operands, op.results[0])))
        if not any(map(any, lies)):
            continue
        placed = tuple(each or ((),) * len(shape) for each, shape in zip(lies, facts.shapes, strict=True))
        if is_apart(facts, placed, mesh) and not (is_manual and manual_axes(op)) and not _leaves_sums(op):
            _set_apart(op)
        elif facts.is_dot and _SHARDING in op.attributes:
            _insert(op, facts, placed)


def _leaves_sums(op: ir.Operation) -> bool:
    return _SHARDING in op.attributes and "unreduced" in str(op.attributes[_SHARDING])


def _insert(op: ir.Operation, facts: ProductFacts, lies: Sequence[Dims]) -> None:
    near = nearest(facts.mapping, lies)
    if near.result != lies[-1]:
        _reshard_behind(op, near.result)
    for number, (before, after) in enumerate(zip(lies, near[:-1], strict=False)):
        if before != after:
            _reshard_before(op, number, after)
            op.attributes[LIES] = ir.StringAttr.get(written(tuple(lies)))


def _set_apart(op: ir.Operation) -> None:
    """A call in its place: Shardy knows nothing of it and leaves it alone. What it sends is its own then (`product_notes`)."""
    kept = {name: op.attributes[name] for name in _KEPT if name in op.attributes}
    attributes = {**kept, APART: ir.UnitAttr.get(), "call_target_name": ir.StringAttr.get("product")}
    types, point = [op.results[0].type], ir.InsertionPoint(op)
    call = ir.Operation.create("stablehlo.custom_call", types, list(op.operands), attributes, loc=op.location, ip=point)
    op.results[0].replace_all_uses_with(call.results[0])
    op.erase()


def _reshard_behind(op: ir.Operation, dims: Dims) -> None:
    """Make a product's result lie so, and reshard it behind to what it was to be."""
    wanted = str(op.attributes[_SHARDING]).partition("[")[2].removesuffix("]>")  # <@mesh, [...]>
    op.attributes[_SHARDING] = ir.Attribute.parse(f"#sdy.sharding_per_value<[{sharding_text(dims)}]>")
    value = op.results[0]
    reshard = _reshard(value, wanted, op)
    reshard.move_after(op)
    value.replace_all_uses_except(reshard.results[0], reshard)


def _reshard_before(op: ir.Operation, operand: int, dims: Dims) -> None:
    op.operands[operand] = _reshard(op.operands[operand], sharding_text(dims), op).results[0]


def _reshard(value: ir.Value, lies: str, place: ir.Operation) -> ir.Operation:
    attributes = {"sharding": ir.Attribute.parse(f"#sdy.sharding{lies}")}
    return ir.Operation.create("sdy.reshard", [value.type], [value], attributes, loc=place.location, ip=ir.InsertionPoint(place))
