"""One MLIR context with every dialect JAX lowers to, and modules in and out of bytes."""

import functools
import io
import re

import jax
from jax.extend.mlir import ir, passmanager

from workbench.propagation.module.operation_kinds import operations_below

MESH_AXIS = re.compile(r'"([^"]+)"=(\d+)')
"""An axis in the text of a mesh's attribute: its name and its size."""


@functools.cache
def context() -> ir.Context:
    """The context of a trivial lowering: it has all dialects registered, by public means, and no device is used."""
    module = jax.jit(lambda: 0).trace().lower(lowering_platforms=("tpu",)).compiler_ir("stablehlo")
    return module.context


def parse_module(module: bytes) -> ir.Module:
    return ir.Module.parse(module, context())


def module_bytes(module: ir.Module | ir.Operation) -> bytes:
    buffer = io.BytesIO()
    module.operation.write_bytecode(buffer)
    return buffer.getvalue()


def run_passes(operation: ir.Operation, passes: str) -> None:
    """Run a comma-separated pipeline on a module, without verifying between the passes (three times as fast)."""
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
    """The declaration of the module's one mesh, `@mesh`; made without axes if there is none."""
    body = module.regions[0].blocks[0]
    for each in body.operations:
        if each.operation.name == "sdy.mesh" and ir.StringAttr(each.operation.attributes["sym_name"]).value == "mesh":
            return each.operation
    declaration = ir.Operation.parse("sdy.mesh @mesh = <[]>")
    body.append(declaration)
    declaration.move_before(body.operations[0].operation)
    return declaration


def declared_axes(module: ir.Operation) -> dict[str, int]:
    """The axes of `@mesh` with their sizes, in order."""
    return {name: int(size) for name, size in MESH_AXIS.findall(str(declared_mesh(module).attributes["mesh"]))}


def declare_mesh(module: ir.Operation, axes: str) -> None:
    """Give the module's one mesh these axes: `"data"=4, "model"=2`."""
    declared_mesh(module).attributes["mesh"] = ir.Attribute.parse(f"#sdy.mesh<[{axes}]>")


def producer(value: ir.Value) -> ir.Operation | None:
    """The operation that makes a value; `None` for a block argument."""
    owner = value.owner
    return None if isinstance(owner, ir.Block) else owner.operation


def constant_value(value: ir.Value) -> int | None:
    """The whole number that a value is always, if it is constant; `None` if it is computed, or not a single number."""
    owner = producer(value)
    if owner is None or owner.name not in ("stablehlo.constant", "sdy.constant"):
        return None
    elements = owner.attributes["value"]
    return int(elements[0]) if isinstance(elements, ir.DenseIntElementsAttr) and len(elements) == 1 else None


def shape_of(value: ir.Value) -> tuple[int, ...]:
    """The sizes of an array's dimensions, over all devices."""
    return tuple(ir.RankedTensorType(value.type).shape)


def is_zero(value: ir.Value) -> bool:
    """Whether all elements of a value are the constant zero."""
    maker = producer(value)
    while maker is not None and maker.name in ("stablehlo.broadcast_in_dim", "stablehlo.reshape"):
        maker = producer(maker.operands[0])
    if maker is None or maker.name not in ("stablehlo.constant", "sdy.constant"):
        return False
    elements = maker.attributes["value"]
    return isinstance(elements, ir.DenseElementsAttr) and elements.is_splat and not float(elements.get_splat_value().value)


def int64(number: int) -> ir.IntegerAttr:
    """A whole number as an attribute."""
    return ir.IntegerAttr.get(ir.IntegerType.get_signless(64), number)


# Numbers on operations, in program order: Shardy's passes keep attributes they do not know.


def number_operations(parent: ir.Operation, attribute: str) -> None:
    """Give each operation below `parent` its number, from 0."""
    integer = ir.IntegerType.get_signless(32)
    for number, op in enumerate(operations_below(parent)):
        op.attributes[attribute] = ir.IntegerAttr.get(integer, number)
