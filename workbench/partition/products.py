"""Matrix products as XLA's partitioner takes them apart, where Shardy would send something else.

XLA does not weigh what to send (`dot_handler.cc`). Operands that are both split alike along what is summed are multiplied part by part and
the result is reduced, however small they are beside it: the gradient of a large weight from a small batch, say. And an operand whose own
dimension the result keeps split stays where it is; the other one is gathered, however large: a weight that lies split over the axis of the
batch (fully sharded data parallel). Both are written into the module before Shardy inserts its reshards.
"""

from collections.abc import Sequence

from jax.extend.mlir import ir

from workbench.partition.attributes import Dims
from workbench.partition.attributes import read_shardings as read_anew
from workbench.partition.context import producer
from workbench.partition.factors import Rule, rule_of

_SHARDING = "sdy.sharding"


class _Reader:
    """Shardings, each attribute read once: MLIR keeps one of a kind."""

    def __init__(self, main: ir.Operation) -> None:
        self._arguments = ir.ArrayAttr(main.attributes["arg_attrs"])
        self._read: dict[ir.Attribute, tuple[Dims, ...]] = {}

    def read(self, attribute: ir.Attribute) -> tuple[Dims, ...]:
        if attribute not in self._read:
            self._read[attribute] = read_anew(attribute)
        return self._read[attribute]

    def dims_of(self, value: ir.Value) -> Dims:
        """How propagation has a value lie; no dimensions where it says nothing."""
        owner = producer(value)
        if owner is not None and owner.name == "sdy.reshard":
            return self.read(owner.attributes["sharding"])[0]
        if owner is not None:
            is_told = _SHARDING in owner.attributes
            return self.read(owner.attributes[_SHARDING])[ir.OpResult(value).result_number] if is_told else ()
        number, parent = ir.BlockArgument(value).arg_number, value.owner.owner.operation
        if parent.name == "func.func":
            entries = ir.DictAttr(self._arguments[number])
            return self.read(entries[_SHARDING])[0] if _SHARDING in entries else ()
        is_told = parent.name == "stablehlo.while" and _SHARDING in parent.attributes
        return self.read(parent.attributes[_SHARDING])[number] if is_told else ()


def plan_products(main: ir.Operation, ops: Sequence[ir.Operation]) -> None:
    """Insert the reshards that XLA takes for granted around products."""
    reader = _Reader(main)
    products = [op for op in ops if op.name == "stablehlo.dot_general" and _SHARDING in op.attributes]
    for op in products:
        if (rule := rule_of(op)) is None:
            continue
        operands, result = [reader.dims_of(value) for value in op.operands], reader.read(op.attributes[_SHARDING])[0]
        summed = [_summed(dims, mapping, rule) for dims, mapping in zip(operands, rule.operands, strict=True)]
        if summed[0] and summed[0] == summed[1]:
            if any(axis in summed[0] for dim in result for axis in dim):
                _reshard_behind(op, _without(result, summed[0]))
            continue
        for mine, other in ((0, 1), (1, 0)):
            kept = _kept(operands[mine], rule.operands[mine], result, rule)
            if any(axis in kept for dim in operands[other] for axis in dim) and not _shared(kept, operands, rule):
                _reshard_before(op, other, _without(operands[other], kept))


def _summed(dims: Dims, mapping: Sequence[tuple[str, ...]], rule: Rule) -> tuple[str, ...]:
    """The axes that split the dimensions of an operand that are summed."""
    return tuple(axis for dim, factors in zip(dims, mapping, strict=False) if set(factors) & set(rule.reduction) for axis in dim)


def _kept(dims: Dims, mapping: Sequence[tuple[str, ...]], result: Dims, rule: Rule) -> tuple[str, ...]:
    """The axes of an operand's own dimensions that split them in the result too, in the same way."""
    lies = {factors: axes for factors, axes in zip(rule.results[0], result, strict=True) if factors}
    both = [axes for axes, factors in zip(dims, mapping, strict=False) if axes and lies.get(factors) == axes]
    return tuple(axis for axes in both for axis in axes)


def _shared(axes: Sequence[str], operands: Sequence[Dims], rule: Rule) -> bool:
    """Whether an axis splits a dimension that both operands have and the result keeps: a batch, which takes no communication."""
    by_factor = [dict(zip(mapping, dims, strict=False)) for mapping, dims in zip(rule.operands, operands, strict=True)]
    return any(set(split) & set(axes) for factors, split in by_factor[0].items() if factors and by_factor[1].get(factors) == split)


def _without(dims: Dims, axes: Sequence[str]) -> Dims:
    return tuple(tuple(axis for axis in dim if axis not in axes) for dim in dims)


def _reshard_behind(op: ir.Operation, dims: Dims) -> None:
    """Make a product's result lie so, and reshard it behind to what it was to be."""
    wanted = str(op.attributes[_SHARDING]).partition("[")[2].removesuffix("]>")  # <@mesh, [...]>
    op.attributes[_SHARDING] = ir.Attribute.parse(f"#sdy.sharding_per_value<[{_text(dims)}]>")
    value = op.results[0]
    reshard = _reshard(value, wanted, op)
    reshard.move_after(op)
    value.replace_all_uses_except(reshard.results[0], reshard)


def _reshard_before(op: ir.Operation, operand: int, dims: Dims) -> None:
    op.operands[operand] = _reshard(op.operands[operand], _text(dims), op).results[0]


def _reshard(value: ir.Value, lies: str, place: ir.Operation) -> ir.Operation:
    attributes = {"sharding": ir.Attribute.parse(f"#sdy.sharding{lies}")}
    return ir.Operation.create("sdy.reshard", [value.type], [value], attributes, loc=place.location, ip=ir.InsertionPoint(place))


def _text(dims: Dims) -> str:
    """As Shardy writes it; a sub-axis `x:(2)4` as `"x":(2)4`."""
    axes = (", ".join(f'"{axis}"' if ":" not in axis else '"{}":{}'.format(*axis.split(":")) for axis in dim) for dim in dims)
    return f"<@mesh, [{', '.join('{' + each + '}' for each in axes)}]>"
