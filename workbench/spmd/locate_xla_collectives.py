"""The collectives of a module that XLA's partitioner left, matched to the operations of the program as traced.

Every operation was named `wb<number>` before (`propagation.annotate_lowered_module.module_of`), and XLA keeps names as metadata: an
instruction that the compiler added has the name of the one it was made for, one that stands for several the names of all. A reduction is
named after what it sums; a reshard after the operation that needs it (jax 0.10) or the one that made the value (jax 0.11 on); the other end
is looked for along the operands or users.
"""

import re
from collections.abc import Iterator, Mapping
from typing import NamedTuple

from workbench.core.mesh import Mesh
from workbench.propagation import CALLED, OPERATION
from workbench.reports.collective import KINDS
from workbench.reports.partitioned import PartitionedCollective
from workbench.spmd.device_groups import read_groups, sub_axes_of
from workbench.spmd.hlo_module import Computation, HloInstruction, HloModule, loop_body
from workbench.spmd.hlo_shapes import arrays

_NAMED = re.compile(rf"\b({OPERATION}|{CALLED})(\d+)\b")
_SAME_KIND = {"ragged-all-to-all": "all-to-all", "collective-broadcast": "collective-permute"}
_WITH_OPERANDS = ("all-gather-start", "collective-permute-start")  # whose result also holds the operands, in front
_REDUCTIONS = ("all-reduce", "reduce-scatter")
_GENERATED = "is_spmd_generated"  # from jax 0.11 on: it reshards the value of the instruction it is named after


Users = Mapping[str, list[HloInstruction]]


class LocatedCollective(NamedTuple):
    """A collective and its place: its instruction and which operand it sends, the computation, and the users of each value there.

    `trips` of the loop it stands in; 1 outside of loops.
    """

    collective: PartitionedCollective
    computation: Computation
    users: Users
    instruction: HloInstruction
    number: int
    trips: int = 1


def find_collectives(module: HloModule, mesh: Mesh) -> tuple[LocatedCollective, ...]:
    """All collectives between devices with their places, in program order; one that sends several arrays has an entry for each."""
    users: dict[int, Users] = {}
    found: list[LocatedCollective] = []
    trips = {
        loop_body(each): module.trip_count(each)
        for instructions in module.computations.values()
        for each in instructions.values()
        if each.opcode == "while"
    }
    for computation, instruction, runs, loop, _ in module.visits():
        if (kind := kind_of(instruction.opcode)) is None:
            continue
        axes = sub_axes_of(read_groups(instruction.fields, mesh.size), mesh)
        if axes:
            key = id(computation)
            if key not in users:
                users[key] = users_of(computation)
            sent = _locate_collectives(kind, axes, instruction, runs, computation, users[key])
            found += (each._replace(trips=trips.get(loop, 1)) for each in sent)
    return tuple(found)


def operations_named(op_name: str) -> tuple[int, ...]:
    """The operations of the program that an instruction is named after: for each, the numbers of the calls that lead to it are added.

    >>> operations_named("jit(call)/(wb12:while/wb7)")
    (12, 7)
    >>> operations_named("wc30/jit(call)/wc2/jit(relu)/wb1/max wb5")  # the numbers of calls, and one's own
    (33, 5)
    """
    return tuple(_operations(op_name))


def _operations(op_name: str) -> Iterator[int]:
    calls = 0
    for kind, number in _NAMED.findall(op_name):
        if kind == CALLED:
            calls += int(number)
        else:
            yield calls + int(number)
            calls = 0


def kind_of(opcode: str) -> str | None:
    """The kind of collective that an opcode starts; `None` if it starts none."""
    kind = opcode.removesuffix("-start")
    kind = _SAME_KIND.get(kind, kind)
    return kind if kind in KINDS else None


def _locate_collectives(
    kind: str, axes: tuple[str, ...], instruction: HloInstruction, runs: int, computation: Computation, users: Users
) -> Iterator[LocatedCollective]:
    """Operands are what is sent; for an all-gather, whose result is larger, each entry gets a share of it by its operand."""
    names = operations_named(instruction.op_name)
    results = arrays(instruction.shape)
    if instruction.opcode in _WITH_OPERANDS:
        results = results[len(instruction.operands) :]
    for number, name in enumerate(instruction.operands):
        operand = computation[name]
        result = results[number].bytes if number < len(results) else operand.bytes
        if not (payload := max(operand.bytes, result)):
            continue
        named = names[number] if len(names) == len(instruction.operands) else next(iter(names), -1)
        element = number if len(instruction.operands) > 1 else None
        if kind in _REDUCTIONS or _GENERATED in instruction.fields.frontend_attributes.map:
            made_by, read_by = named, reader_of(users, instruction, element, named)
        else:
            made_by, read_by = maker_of(computation, operand, named), named
        sent = PartitionedCollective(kind, axes, payload, result, runs, made_by, read_by, len(users.get(name, ())) == 1)
        yield LocatedCollective(sent, computation, users, instruction, number)


def maker_of(computation: Computation, value: HloInstruction, reader: int) -> int:
    """The operation that made a value; instructions with the reader's name or none, which the compiler added, are skipped. -1 if
    unknown."""
    seen: set[str] = set()
    while value.name not in seen and value.opcode not in ("parameter", "constant", "partition-id"):
        seen.add(value.name)
        found = next(iter(operations_named(value.op_name)), -1)
        if found not in (-1, reader):
            return found
        if not value.operands:
            return -1
        value = computation[value.operands[0]]
    return -1


def reader_of(users: Users, value: HloInstruction, element: int | None, maker: int) -> int:
    """The first operation that reads a value, or one element of it; instructions with the maker's name or none are skipped. -1 if
    unknown."""
    for user in users.get(value.name, ()):
        if user.opcode in ("tuple", "while") or (element is not None and user.element != element):
            continue
        found = next(iter(operations_named(user.op_name)), -1)
        if found in (-1, maker):
            found = reader_of(users, user, None, maker)
        if found >= 0:
            return found
    return -1


def users_of(computation: Computation) -> Users:
    """The instructions that read each value, each listed once."""
    users: dict[str, list[HloInstruction]] = {}
    for each in computation.values():
        for operand in dict.fromkeys(each.operands):
            users.setdefault(operand, []).append(each)
    return users
