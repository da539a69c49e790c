"""The collectives of a module that XLA's partitioner left, joined to the operations of the program as traced.

Every operation was named `wb<number>` before (`partition.module_of`), and XLA keeps names as metadata: an instruction of the compiler's own
has the name of what it was made for, one that stands for several the names of all. A reduction is named after what it adds up; what lays a
value out anew after the operation that needs it so (jax 0.10) or that made it (jax 0.11 on), so both are looked for along the operands
and users of the instruction, with the name as the last resort.
"""

import re
from collections.abc import Iterator, Mapping

from workbench.collective import KINDS
from workbench.mesh import Mesh
from workbench.partition import OPERATION
from workbench.partitioned import PartitionedCollective
from workbench.spmd.groups import read_groups, sub_axes_of
from workbench.spmd.module import Computation, HloModule, Instruction
from workbench.spmd.shapes import arrays

_NAMED = re.compile(rf"\b{OPERATION}(\d+)\b")
_CARRIES = (
    "bitcast",
    "copy",
    "reshape",
    "transpose",
    "convert",
    "get-tuple-element",
    "optimization-barrier",
    "slice",
    "pad",
    "concatenate",
)
_ALIKE = {"ragged-all-to-all": "all-to-all", "collective-broadcast": "collective-permute"}
_WITH_OPERANDS = ("all-gather-start", "collective-permute-start")  # whose result holds the operands too, before what was made
_REDUCTIONS = ("all-reduce", "reduce-scatter")


def read_collectives(module: HloModule, mesh: Mesh) -> tuple[PartitionedCollective, ...]:
    """All that go between devices, in the order in which the program has them; of one that sends several arrays an entry each."""
    users: dict[int, Mapping[str, list[Instruction]]] = {}
    found: list[PartitionedCollective] = []
    for computation, instruction, runs, _, _ in module.visits():
        if (kind := _kind(instruction.opcode)) is None:
            continue
        axes = sub_axes_of(read_groups(instruction.fields, mesh.size), mesh)
        if axes:
            key = id(computation)
            if key not in users:
                users[key] = _users(computation)
            found += _read(kind, axes, instruction, runs, computation, users[key])
    return tuple(found)


def operations_named(op_name: str) -> tuple[int, ...]:
    """The operations of the program that an instruction is named after.

    >>> operations_named("jit(call)/(wb12:while/wb7)")
    (12, 7)
    """
    return tuple(map(int, _NAMED.findall(op_name)))


def _kind(opcode: str) -> str | None:
    kind = opcode.removesuffix("-start")
    kind = _ALIKE.get(kind, kind)
    return kind if kind in KINDS else None


def _read(
    kind: str, axes: tuple[str, ...], instruction: Instruction, runs: int, computation: Computation, users: Mapping[str, list[Instruction]]
) -> Iterator[PartitionedCollective]:
    """Operands are what is sent; of an all-gather the result is the larger, and an entry's share of it goes by its operand."""
    names = operations_named(instruction.op_name)
    results = arrays(instruction.shape)
    if instruction.opcode in _WITH_OPERANDS:
        results = results[len(instruction.operands) :]
    for number, name in enumerate(instruction.operands):
        operand = computation[name]
        result = results[number].bytes if number < len(results) else operand.bytes
        payload = max(operand.bytes, result)
        if not payload:
            continue
        made_by = _made_by(computation, operand)
        read_by = _read_by(users, instruction, number if len(instruction.operands) > 1 else None, names)
        if kind in _REDUCTIONS:
            made_by = names[number] if len(names) == len(instruction.operands) else names[0] if names and made_by < 0 else made_by
        elif read_by < 0 and names and names[0] != made_by:
            read_by = names[0]
        frees = len(users.get(name, ())) == 1
        yield PartitionedCollective(kind, axes, payload, result, runs, made_by, read_by, frees)


def _made_by(computation: Computation, value: Instruction) -> int:
    """The operation that made a value, through what only hands it on and the compiler's own moves."""
    seen: set[str] = set()
    while value.name not in seen:
        seen.add(value.name)
        if value.opcode in ("parameter", "constant", "partition-id"):
            return -1
        if value.opcode not in _CARRIES and _kind(value.opcode) is None and (names := operations_named(value.op_name)):
            return names[0]
        if not value.operands:
            return -1
        value = computation[value.operands[0]]
    return -1


def _read_by(users: Mapping[str, list[Instruction]], value: Instruction, element: int | None, names: tuple[int, ...]) -> int:
    """The first operation that does more with a value than hand it on; of a tuple's element alone, if one is given. The slice that a device
    keeps of a sum hands it on: it has the `names` of the collective."""
    for user in users.get(value.name, ()):
        if element is not None and (user.opcode != "get-tuple-element" or user.element != element):
            continue
        if user.opcode in ("tuple", "while"):
            continue
        called = operations_named(user.op_name)
        if user.opcode in _CARRIES or _kind(user.opcode) is not None or (user.opcode == "dynamic-slice" and called == names):
            if (found := _read_by(users, user, None, names)) >= 0:
                return found
        elif called:
            return called[0]
    return -1


def _users(computation: Computation) -> Mapping[str, list[Instruction]]:
    users: dict[str, list[Instruction]] = {}
    for each in computation.values():
        for operand in dict.fromkeys(each.operands):
            users.setdefault(operand, []).append(each)
    return users
