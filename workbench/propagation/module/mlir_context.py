"""One MLIR context with every dialect JAX lowers to, bytecode of modules, and small readers of values and meshes."""

import functools
import io
import re

import jax
from jax.extend.mlir import ir, passmanager

from workbench.propagation.module.operation_kinds import operations_below

MESH_AXIS = re.compile(r'"([^"]+)"=(\d+)')
"""Matches an axis in the text of a mesh attribute: its name and its size."""


@functools.cache
def context() -> ir.Context:
    """The context of a trivial lowering: a public way to get all dialects registered, without using a device."""
    module = jax.jit(lambda: 0).trace().lower(lowering_platforms=("tpu",)).compiler_ir("stablehlo")
    return module.context


def parse_module(module: bytes) -> ir.Module:
    return ir.Module.parse(module, context())


def module_bytes(module: ir.Module | ir.Operation) -> bytes:
    buffer = io.BytesIO()
    module.operation.write_bytecode(buffer)
    return buffer.getvalue()


def run_passes(operation: ir.Operation, passes: str) -> None:
    """Run a comma-separated pipeline on a module, without verifying between passes (three times as fast)."""
    with operation.context:
        manager = passmanager.PassManager.parse(f"any({passes})")
        manager.enable_verifier(False)
        manager.run(operation)


def main_function(module: ir.Operation) -> ir.Operation:
    """`func.func @main`."""
    for op in module.regions[0].blocks[0].operations:
        if op.operation.name == "func.func" and ir.StringAttr(op.operation.attributes["sym_name"]).value == "main":
            return op.operation
    raise LookupError("the module has no main function")


def declared_mesh(module: ir.Operation) -> ir.Operation:
    """The declaration of the module's one mesh, `@mesh`; created without axes if there is none."""
    body = module.regions[0].blocks[0]
    for item in body.operations:
        if item.operation.name == "sdy.mesh" and ir.StringAttr(item.operation.attributes["sym_name"]).value == "mesh":
            return item.operation
    declaration = ir.Operation.parse("sdy.mesh @mesh = <[]>")
    body.append(declaration)
    declaration.move_before(body.operations[0].operation)
    return declaration


def declared_axes(module: ir.Operation) -> dict[str, int]:
    """The axes of `@mesh` with their sizes, in order."""
    return {name: int(size) for name, size in MESH_AXIS.findall(str(declared_mesh(module).attributes["mesh"]))}


def declare_mesh(module: ir.Operation, axes: str) -> None:
    """Give the module's one mesh these axes, as in `"data"=4, "model"=2`."""
    declared_mesh(module).attributes["mesh"] = ir.Attribute.parse(f"#sdy.mesh<[{axes}]>")


def producer(value: ir.Value) -> ir.Operation | None:
    """The operation that makes a value; `None` for a block argument."""
    owner = value.owner
    return None if isinstance(owner, ir.Block) else owner.operation


def constant_value(value: ir.Value) -> int | None:
    """The integer that a value is a constant of; `None` if it is computed or not a single number."""
    owner = producer(value)
    if owner is None or owner.name not in ("stablehlo.constant", "sdy.constant"):
        return None
    elements = owner.attributes["value"]
    return int(elements[0]) if isinstance(elements, ir.DenseIntElementsAttr) and len(elements) == 1 else None


def shape_of(value: ir.Value) -> tuple[int, ...]:
    """The global shape of an array."""
    return tuple(ir.RankedTensorType(value.type).shape)


def read_dims(text: str, name: str) -> tuple[int, ...]:
    """The dimensions of this name in a printed attribute; none if it is absent."""
    inside = text.partition(f"{name} = [")[2].partition("]")[0]
    return tuple(int(word) for word in inside.split(",") if word.strip())


def is_zero(value: ir.Value) -> bool:
    """Return whether all elements of a value are the constant zero."""
    maker = producer(value)
    while maker is not None and maker.name in ("stablehlo.broadcast_in_dim", "stablehlo.reshape"):
        maker = producer(maker.operands[0])
    if maker is None or maker.name not in ("stablehlo.constant", "sdy.constant"):
        return False
    elements = maker.attributes["value"]
    return isinstance(elements, ir.DenseElementsAttr) and elements.is_splat and not float(elements.get_splat_value().value)


def int64(number: int) -> ir.IntegerAttr:
    return ir.IntegerAttr.get(ir.IntegerType.get_signless(64), number)


# Operations carry their number as an attribute: Shardy's passes keep unknown attributes.


def number_operations(parent: ir.Operation, attribute: str) -> None:
    """Number the operations below `parent` from 0, in program order."""
    integer = ir.IntegerType.get_signless(32)
    for number, op in enumerate(operations_below(parent)):
        op.attributes[attribute] = ir.IntegerAttr.get(integer, number)
