"""Values in the host's memory: what a checkpoint policy offloads, the buffers a loop stacks it in, and arguments that are only fetched."""

from jax.extend.mlir import ir

from workbench.propagation.structure.program_structure import Structure

PLACING = "annotate_device_placement"
_FRONTEND, _PLACE = "mhlo.frontend_attributes", "_xla_buffer_placement"
_MOVING = frozenset(  # kinds whose result is in the memory of their first operand
    {
        "stablehlo.reshape",
        "stablehlo.transpose",
        "stablehlo.slice",
        "stablehlo.dynamic_slice",
        "sdy.data_flow_edge",
        "sdy.sharding_constraint",
    }
)


def placement_of(op: ir.Operation) -> str:
    """The memory an operation moves its operand to, `pinned_host` or `device`; empty for an operation that computes."""
    if op.name != "stablehlo.custom_call" or ir.StringAttr(op.attributes["call_target_name"]).value != PLACING:
        return ""
    return ir.StringAttr(ir.DictAttr(op.attributes[_FRONTEND])[_PLACE]).value


def mark_host_values(structure: Structure) -> None:
    """Mark values on the host, from each that is moved there on: through operations that slice it, and loops that stack it."""
    if not any(op.placement for op in structure.ops):
        return
    values = structure.values
    before = -1
    while before != (now := sum(value.on_host for value in values)):  # a loop within a loop takes another round
        before = now
        for index, op in enumerate(structure.ops):
            if op.placement:
                values[op.results[0]].on_host = "host" in op.placement
                source = values[op.operands[0]]
                if "host" in op.placement and source.maker < 0 and source.region == 0 and source.reads == 1:
                    source.on_host = True  # an argument that is the host's: `tracing.update_from_host`
            elif op.kind == "stablehlo.dynamic_update_slice":
                values[op.results[0]].on_host = any(values[each].on_host for each in op.operands[:2])
            elif op.kind in _MOVING or op.kind == "stablehlo.optimization_barrier":
                for operand, result in zip(op.operands, op.results, strict=False):
                    values[result].on_host = values[operand].on_host
            elif index in structure.body_of:
                _mark_loop(structure, index)


def _mark_loop(structure: Structure, loop: int) -> None:
    """What a loop returns on the host it also carries there, and starts with there if no one else reads the start."""
    op, body, values = structure.ops[loop], structure.body_of[loop], structure.values
    arguments = [index for index in structure.regions[body].values if values[index].maker < 0]
    returned = next(each for each in reversed(structure.ops) if each.region == body).operands
    for slot, result in enumerate(op.results):
        start = values[op.operands[slot]]
        if values[returned[slot]].on_host or start.on_host:
            values[result].on_host = values[arguments[slot]].on_host = True
            start.on_host = start.on_host or start.reads == 1
