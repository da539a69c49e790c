"""Translates shardings in the traced function (`with_sharding_constraint`, `shard_map`) to the plan's one mesh.

The function's meshes are merged into one declaration, `@mesh`: the axes a plan's mesh must have. Constraints over no
axes (JAX puts them on random keys) have no effect and are dropped. An operation that runs on one device, such as a
print, keeps the mesh of that device, as XLA requires.
"""

import re

from jax.extend.mlir import ir

from workbench.core.mesh import Mesh
from workbench.errors import PartitionError
from workbench.propagation.module.function_calls import functions_of
from workbench.propagation.module.mlir_context import MESH_AXIS, declare_mesh, declared_axes, parse_module
from workbench.propagation.module.operation_kinds import operations_below
from workbench.propagation.module.source_location import source_of

_SYMBOL = re.compile(r"(<@|<mesh = @)([\w.]+)")
_MESH_WORDS = ("sdy", "replica_group_mesh_axes")  # in attributes that name a mesh; the latter from JAX 0.11.1 on
_AXIS_OF_PMAP = "_internal_pmap_axis_name"  # jax/_src/pmap.py


def merge_meshes(module: ir.Operation) -> None:
    """Merge the function's meshes into one mesh, `@mesh`, and refer everything to it; in place."""
    axes: dict[str, str] = {}
    names: dict[str, bool] = {}  # each mesh symbol, and whether it has axes
    for op in _declared(module):
        if _is_single_device(op):
            continue
        mesh_axes = MESH_AXIS.findall(str(op.attributes["mesh"]))
        names[ir.StringAttr(op.attributes["sym_name"]).value] = bool(mesh_axes)
        axes |= dict(mesh_axes)
        op.erase()
    declare_mesh(module, ", ".join(f'"{name}"={size}' for name, size in axes.items()))
    if names:
        _rename_meshes(module, names)


def drop_single_devices(module: ir.Operation) -> None:
    """Drop shardings to a single device, in place: they do not propagate, and a plan uses all devices."""
    names = {ir.StringAttr(op.attributes["sym_name"]).value for op in _declared(module) if _is_single_device(op)}
    if not names:
        return
    for op in (op for function in functions_of(module).values() for op in operations_below(function)):
        if any(f"@{name}," in str(op.attributes[_SHARDING]) for name in names if _SHARDING in op.attributes):
            del op.attributes[_SHARDING]
    for op in _declared(module):
        if _is_single_device(op):
            op.erase()


def _declared(module: ir.Operation) -> list[ir.Operation]:
    return [item.operation for item in module.regions[0].blocks[0].operations if item.operation.name == "sdy.mesh"]


def _is_single_device(mesh: ir.Operation) -> bool:
    return "device_ids=" in str(mesh.attributes["mesh"]) and not MESH_AXIS.search(str(mesh.attributes["mesh"]))


_SHARDING = "sdy.sharding"


def _rename_meshes(parent: ir.Operation, meshes: dict[str, bool]) -> None:
    for region in parent.regions:
        for block in region.blocks:
            for item in list(block.operations):
                op = item.operation
                _rename_meshes(op, meshes)
                for key in list(op.attributes):
                    text = str(op.attributes[key])
                    used = {name for _, name in _SYMBOL.findall(text)} & set(meshes) if any(word in text for word in _MESH_WORDS) else set()
                    if used:
                        op.attributes[key] = ir.Attribute.parse(_SYMBOL.sub(r"\1mesh", text))
                    if used and op.name == "sdy.sharding_constraint" and not any(meshes[name] for name in used):
                        op.results[0].replace_all_uses_with(op.operands[0])
                        op.erase()
                        break


def verify_source_axes(module: ir.Operation, mesh: Mesh, *, is_manual: bool) -> None:
    """Raise `PartitionError` if the function uses mesh axes that the plan's mesh lacks or has in another size."""
    known = ", ".join(f"`{name}`" for name in mesh.names)
    for name, size in declared_axes(module).items():
        if name == _AXIS_OF_PMAP:
            raise PartitionError(
                f"The function calls `jax.pmap`{_place_of_map(module)}, which maps over {size} devices of its own and names no axis of the "
                "plan's mesh.",
                [
                    f"use `jax.jit` on the whole batch instead; the plan shards it, `batch:{mesh.names[0]}`, and sums its gradients",
                    f'or `jax.shard_map(f, mesh=mesh, in_specs=P("{mesh.names[0]}"), out_specs=P("{mesh.names[0]}"))`',
                ],
            )
        if name not in mesh:
            raise PartitionError(
                f"The function itself shards values over mesh axis `{name}`; the mesh of the plan has {known}.",
                [f"add an axis `{name}` to the mesh", "remove the constraint from the function"],
            )
    for name, size in declared_axes(module).items():
        if is_manual and mesh[name] != size:
            raise PartitionError(
                f"The function has a shard_map over mesh axis `{name}` of size {size}; the plan's mesh has `{name}:{mesh[name]}`.",
                [f"make `{name}` {size}", "trace the function again with the plan's mesh"],
            )


def _place_of_map(module: ir.Operation) -> str:
    """The user's line of the first mapped region, in parentheses."""
    regions = (op for function in functions_of(module).values() for op in operations_below(function) if op.name == "sdy.manual_computation")
    source = next(filter(None, (source_of(op.location) for op in regions)), "")
    return f" ({source})" if source else ""


def find_partial_permutation(lowered: bytes, devices: int) -> str | None:
    """The user's line, or an empty text, of the first permutation (`ppermute`) whose pairs name fewer than `devices` devices."""
    module = parse_module(lowered)
    for op in (op for function in functions_of(module.operation).values() for op in operations_below(function)):
        if op.name == "stablehlo.collective_permute":
            pairs = ir.DenseIntElementsAttr(op.attributes["source_target_pairs"])
            if len(set(pairs)) < devices:
                return source_of(op.location)
    return None
