"""The collectives of a module that XLA's partitioner left, joined to the operations of the program as traced.

Every operation was named `wb<number>` before (`partition.module_of`), and XLA keeps names as metadata: an instruction of the compiler's own
has the name of what it was made for, one that stands for several the names of all. A reduction is named after what it adds up; what lays a
value out anew after the operation that needs it so (jax 0.10) or that made it (jax 0.11 on); the other end is looked for along the
operands or users.
"""

import re
from collections.abc import Iterator, Mapping
from typing import NamedTuple

from workbench.core.mesh import Mesh
from workbench.propagation import CALLED, OPERATION
from workbench.reports.collective import KINDS
from workbench.reports.partitioned import PartitionedCollective
from workbench.spmd.groups import read_groups, sub_axes_of
from workbench.spmd.module import Computation, HloInstruction, HloModule
from workbench.spmd.shapes import arrays

_NAMED = re.compile(rf"\b({OPERATION}|{CALLED})(\d+)\b")
_SAME_KIND = {"ragged-all-to-all": "all-to-all", "collective-broadcast": "collective-permute"}
_WITH_OPERANDS = ("all-gather-start", "collective-permute-start")  # whose result holds the operands too, before what was made
_REDUCTIONS = ("all-reduce", "reduce-scatter")
_GENERATED = "is_spmd_generated"  # from jax 0.11 on: it lays out anew what it is named after


Users = Mapping[str, list[HloInstruction]]


class LocatedCollective(NamedTuple):
    """A collective, and where it stands: its instruction and which operand it sends, the computation, and the users of each value there.

    `trips` of the loop it stands in; 1 outside of loops.
    """

    collective: PartitionedCollective
    computation: Computation
    users: Users
    instruction: HloInstruction
    number: int
    trips: int = 1


def read_collectives(module: HloModule, mesh: Mesh) -> tuple[PartitionedCollective, ...]:
    """All that go between devices, in the order in which the program has them; of one that sends several arrays an entry each."""
    return tuple(each.collective for each in find_collectives(module, mesh))


def find_collectives(module: HloModule, mesh: Mesh) -> tuple[LocatedCollective, ...]:
    """The same, with where they stand."""
    users: dict[int, Users] = {}
    found: list[LocatedCollective] = []
    trips = {
        module.body(each): module.trip_count(each)
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
    """The operations of the program that an instruction is named after: of each, the calls that lead to it add to its number.

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
    """The kind of collective an opcode starts; `None` if it starts none."""
    kind = opcode.removesuffix("-start")
    kind = _SAME_KIND.get(kind, kind)
    return kind if kind in KINDS else None


def _locate_collectives(
    kind: str, axes: tuple[str, ...], instruction: HloInstruction, runs: int, computation: Computation, users: Users
) -> Iterator[LocatedCollective]:
    """Operands are what is sent; of an all-gather the result is the larger, and an entry's share of it goes by its operand."""
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
    """The operation that made a value: what the compiler put between it and its reader has the reader's name, or none. -1 if unknown."""
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
    """The first operation that reads a value, or one element of it; what has the maker's name or none is looked through. -1 if unknown."""
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
    """The instructions that read each value, each once."""
    users: dict[str, list[HloInstruction]] = {}
    for each in computation.values():
        for operand in dict.fromkeys(each.operands):
            users.setdefault(operand, []).append(each)
    return users
