"""Match the collectives of a partitioned module to the operations of the traced program.

Every operation is named `wb<number>` beforehand (`propagation.annotate_lowered_module.module_of`), and XLA keeps names
as metadata: an instruction added by the compiler has the name of the one it was made for, a merged one the names of
all. A reduction is named after its operand; a reshard after the operation that needs it (jax 0.10), the one that made
the value (jax 0.11 and later), or neither (jax 0.12); the ends that its name does not give are searched along the
operands and users.
"""

import itertools
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
_WITH_OPERANDS = ("all-gather-start", "collective-permute-start")  # the result begins with the operands
_REDUCTIONS = ("all-reduce", "reduce-scatter")
_GENERATED = "is_spmd_generated"  # jax 0.11 and later: a reshard, which is seldom named after its reader


Users = Mapping[str, list[HloInstruction]]


class LocatedCollective(NamedTuple):
    """A collective with its instruction, operand index, computation, users, and the trip count of its loop, or 1."""

    collective: PartitionedCollective
    computation: Computation
    users: Users
    instruction: HloInstruction
    number: int
    trips: int = 1


def find_collectives(module: HloModule, mesh: Mesh) -> tuple[LocatedCollective, ...]:
    """Return all collectives between devices in program order, with an entry for each array of a collective."""
    users: dict[int, Users] = {}
    located: list[LocatedCollective] = []
    trips = {
        loop_body(instruction): module.trip_count(instruction)
        for instructions in module.computations.values()
        for instruction in instructions.values()
        if instruction.opcode == "while"
    }
    for computation, instruction, runs, loop, _ in module.visits():
        if (kind := kind_of(instruction.opcode)) is None:
            continue
        axes = sub_axes_of(read_groups(instruction.fields, mesh.size), mesh)
        if axes:
            key = id(computation)
            if key not in users:
                users[key] = users_of(computation)
            entries = _locate_collectives(module, kind, axes, instruction, runs, computation, users[key])
            located += (entry._replace(trips=trips.get(loop, 1)) for entry in entries)
    return tuple(located)


def operations_named(op_name: str) -> tuple[int, ...]:
    """Return the operations that an instruction is named after; numbers of enclosing calls are added to each.

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
    """Return the kind of collective that an opcode starts, if any."""
    kind = opcode.removesuffix("-start")
    kind = _SAME_KIND.get(kind, kind)
    return kind if kind in KINDS else None


def _locate_collectives(
    module: HloModule, kind: str, axes: tuple[str, ...], instruction: HloInstruction, runs: int, computation: Computation, users: Users
) -> Iterator[LocatedCollective]:
    """Yield one collective per operand; an all-gather's payload is its larger result."""
    names = operations_named(instruction.op_name)
    results = arrays(instruction.shape)
    if instruction.opcode in _WITH_OPERANDS:
        results = results[len(instruction.operands) :]
    for number, name in enumerate(instruction.operands):
        operand = computation[name]
        result = results[number].bytes if number < len(results) else operand.bytes
        if not (payload := max(operand.bytes, result)):
            continue
        operation = names[number] if len(names) == len(instruction.operands) else next(iter(names), -1)
        element = number if len(instruction.operands) > 1 else None
        if kind in _REDUCTIONS:
            maker, reader = operation, reader_of(users, instruction, element, operation)
        elif _GENERATED in instruction.fields.frontend_attributes.map and not _is_named_after_reader(users, instruction, operation):
            reader = reader_of(users, instruction, element, operation)
            reader = reader if reader >= 0 else _reader_in_loop(module, users, instruction)
            maker = operation if operation >= 0 else maker_of(computation, operand, reader)
        else:
            maker, reader = maker_of(computation, operand, operation), operation
        collective = PartitionedCollective(kind, axes, payload, result, runs, maker, reader, len(users.get(name, ())) == 1)
        yield LocatedCollective(collective, computation, users, instruction, number)


def maker_of(computation: Computation, value: HloInstruction, reader: int) -> int:
    """Return the maker of a value, or -1; skips instructions added by the compiler, with the reader's name or none."""
    seen: set[str] = set()
    while value.name not in seen and value.opcode not in ("parameter", "constant", "partition-id"):
        seen.add(value.name)
        operation = next(iter(operations_named(value.op_name)), -1)
        if operation not in (-1, reader):
            return operation
        if not value.operands:
            return -1
        value = computation[value.operands[0]]
    return -1


def reader_of(users: Users, value: HloInstruction, element: int | None, maker: int) -> int:
    """Return the first reader of a value or of one element, or -1; skips instructions with the maker's name or none."""
    for user in users.get(value.name, ()):
        if user.opcode in ("tuple", "while") or (element is not None and user.element != element):
            continue
        operation = next(iter(operations_named(user.op_name)), -1)
        if operation in (-1, maker):
            operation = reader_of(users, user, None, maker)
        if operation >= 0:
            return operation
    return -1


def _is_named_after_reader(users: Users, value: HloInstruction, operation: int) -> bool:
    """Whether the value goes to the operation's own instruction, `wb3.2`, past those that the compiler added."""
    if operation < 0:
        return False
    for user in users.get(value.name, ()):
        if user.name.partition(".")[0] == f"{OPERATION}{operation}":
            return True
        if operations_named(user.op_name)[:1] in ((), (operation,)) and _is_named_after_reader(users, user, operation):
            return True
    return False


def _reader_in_loop(module: HloModule, users: Users, value: HloInstruction) -> int:
    """Return the first reader, or -1, of a value that a loop takes without changing it."""
    tuples = [user for user in users.get(value.name, ()) if user.opcode == "tuple"]
    for place, loop in ((each.operands.index(value.name), user) for each in tuples for user in users.get(each.name, ())):
        if loop.opcode == "while":
            body = users_of(module.computations[loop_body(loop)])
            parts = (part for part in itertools.chain(*body.values()) if part.opcode == "get-tuple-element" and part.element == place)
            found = [max(reader_of(body, part, None, -1), _reader_in_loop(module, body, part)) for part in parts]
            if (reader := next((each for each in found if each >= 0), -1)) >= 0:
                return reader
    return -1


def users_of(computation: Computation) -> Users:
    """Return the instructions that read each value, without duplicates."""
    users: dict[str, list[HloInstruction]] = {}
    for instruction in computation.values():
        for operand in dict.fromkeys(instruction.operands):
            users.setdefault(operand, []).append(instruction)
    return users
