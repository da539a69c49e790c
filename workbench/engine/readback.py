"""What the compiled program really sends: its collectives, in the terms of the plan."""

import re
from collections.abc import Mapping

from workbench.compiled import CompiledCollective
from workbench.engine.groups import axes_of, parse_groups
from workbench.engine.hlo import Computation, Instruction, parse_hlo, shape_bytes
from workbench.mesh import Mesh
from workbench.report import KINDS

_OP_NAME = re.compile(r'op_name="([^"]*)"')


def read_collectives(hlo_text: str, mesh: Mesh) -> tuple[CompiledCollective, ...]:
    """The collectives in `compiled.as_text()` of a program partitioned over `mesh`, in program order; those within one device left out."""
    found = []
    for computation, instruction, count in parse_hlo(hlo_text).executed():
        kind = instruction.opcode.removesuffix("-start")
        if kind in KINDS:
            groups = parse_groups(instruction.attributes, mesh.size)
            if axes := axes_of(groups, mesh):
                path = _OP_NAME.search(instruction.attributes)
                payload = _payload(kind, computation, instruction, max(map(len, groups)))
                found.append(CompiledCollective(kind, axes, payload, count, path[1] if path else instruction.name))
    return tuple(found)


def _payload(kind: str, computation: Computation, instruction: Instruction, group_size: int) -> int:
    """Bytes of the larger of operand and result: only a gather's result is larger, `group_size` times.

    Operands are counted and not the shape of the instruction, which for `-start` forms holds operands, results and contexts.
    """
    operands = sum(shape_bytes(computation[name].shape) for name in instruction.operands if name in computation)
    return operands * group_size if kind == "all-gather" else operands


def totals(collectives: tuple[CompiledCollective, ...]) -> Mapping[tuple[tuple[str, ...], str], int]:
    """Payload bytes per device and step by (mesh axes, kind), as `Measurement.compiled` holds them."""
    sums: dict[tuple[tuple[str, ...], str], int] = {}
    for each in collectives:
        sums[each.axes, each.kind] = sums.get((each.axes, each.kind), 0) + each.total_payload
    return sums
