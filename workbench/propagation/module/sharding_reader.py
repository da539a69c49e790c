"""The shardings of values after propagation, read before communication is explicit."""

from jax.extend.mlir import ir

from workbench.propagation.module.mlir_context import producer
from workbench.propagation.module.shardy_attributes import Dims, read_shardings

_SHARDING = "sdy.sharding"


class ShardingReader:
    """Reads shardings, each attribute once: MLIR shares equal ones."""

    def __init__(self, main: ir.Operation) -> None:
        self._arguments = ir.ArrayAttr(main.attributes["arg_attrs"])
        self._known: dict[ir.Attribute, tuple[Dims, ...]] = {}

    def read_attribute(self, attribute: ir.Attribute) -> tuple[Dims, ...]:
        if attribute not in self._known:
            self._known[attribute] = read_shardings(attribute)
        return self._known[attribute]

    def dims_of(self, value: ir.Value) -> Dims:
        """The sharding that propagation gave a value; no dimensions where it has none."""
        owner = producer(value)
        if owner is not None and owner.name == "sdy.reshard":
            return self.read_attribute(owner.attributes["sharding"])[0]
        if owner is not None:
            is_given = _SHARDING in owner.attributes
            return self.read_attribute(owner.attributes[_SHARDING])[ir.OpResult(value).result_number] if is_given else ()
        number, parent = ir.BlockArgument(value).arg_number, value.owner.owner.operation
        if parent.name == "func.func":
            entries = ir.DictAttr(self._arguments[number])
            return self.read_attribute(entries[_SHARDING])[0] if _SHARDING in entries else ()
        is_given = parent.name == "stablehlo.while" and _SHARDING in parent.attributes
        return self.read_attribute(parent.attributes[_SHARDING])[number] if is_given else ()
