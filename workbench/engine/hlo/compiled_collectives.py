"""Read the collectives of a compiled program in the terms of the plan.

A collective appears in a compiled program as

- one instruction, or a `-start` and a `-done` with other work between them;
- several in one: a tuple of operands, listed as the record's parts, each with the path of its original operation;
- a fusion on a TPU: `all-reduce-scatter`, whose body is an all-reduce and the slice that a device keeps; asynchronous
  ones repeat the same collective, on one channel, in the fusions that start it, overlap with it and await it;
- permutes that are the steps of a decomposed gather or reduce-scatter, which are merged.

A windowed einsum is a gather or reduce-scatter decomposed into pieces that move around a ring while the dots are
computed. An all-gather's permutes forward received values; a reduce-scatter's forward a sum to which each device adds
its dot (Wang et al. 2023, "Overlap communication with dependent computation via decomposition"). The partitioner names
the loops `windowed_dot_general_body_ag` and `_rs`; short ones are unrolled into the surrounding program, where only the
data flow identifies them.
"""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from math import ceil
from typing import NamedTuple

from workbench.core.mesh import Mesh
from workbench.engine.hlo.op_names import SourceLines, is_of_dot, path_of
from workbench.propagation.module.source_location import readable_path
from workbench.reports.compiled import CompiledCollective
from workbench.spmd.device_groups import Groups, axes_of, read_groups
from workbench.spmd.hlo_module import Computation, HloInstruction, HloModule, InstructionVisit, loop_body, parameter_of, root_of
from workbench.spmd.locate_xla_collectives import Users, kind_of, users_of

ReadAxes = Callable[[Groups, Mesh], tuple[str, ...]]

_CHAINED = "chain_id"  # XLA:TPU's mark of a collective spread over fusions


def collectives_of(module: HloModule, mesh: Mesh, read_axes: ReadAxes = axes_of) -> tuple[CompiledCollective, ...]:
    """Return the collectives of a program partitioned over `mesh`, except those within one device.

    `read_axes` names the axes of device groups: whole axes, or sub-axes (`device_groups.sub_axes_of`).
    """
    lines, rings, readers = SourceLines(module), find_windowed_permutes(module), Readers(module)
    collectives: list[CompiledCollective] = []
    pieces: list[tuple[InstructionVisit, WindowedPermute, CompiledCollective]] = []
    for visit in _visit_once_per_channel(module):
        groups = read_groups(visit.instruction.fields, mesh.size)
        if not (axes := read_axes(groups, mesh)):
            continue
        reader = readable_path(readers.path_of(visit.computation, visit.instruction))
        collective = replace(_read_collective(module, visit, lines, axes, max(map(len, groups))), reader=reader)
        if collective.payload and (ring := rings.get(visit.instruction.name)):
            pieces.append((visit, ring, collective))
        elif collective.payload:
            collectives.append(collective)
    return (*collectives, *merge_permutes(pieces))


def _visit_once_per_channel(module: HloModule) -> Iterator[InstructionVisit]:
    """Yield collectives in execution order; an asynchronous one is in several fusions, on one channel."""
    seen: set[int] = set()
    for visit in module.visits():
        instruction = visit.instruction
        if kind_of(instruction.opcode) is None:
            continue
        if _is_chained(instruction) and (channel := instruction.fields.channel_id):
            if channel in seen:
                continue
            seen.add(channel)
        yield visit


def _is_chained(instruction: HloInstruction) -> bool:
    return _CHAINED in instruction.fields.frontend_attributes.map


def _read_collective(
    module: HloModule, visit: InstructionVisit, lines: SourceLines, axes: tuple[str, ...], group_size: int
) -> CompiledCollective:
    """Read one collective; its payload is the larger of operands and result in bytes.

    Operands are counted, because the shape of `-start` opcodes contains operands, results and contexts.
    """
    instruction, computation = visit.instruction, visit.computation
    kind = kind_of(instruction.opcode) or ""
    growth = group_size if kind == "all-gather" else 1
    origin = visit.within or instruction
    sizes = [computation[name].bytes * growth for name in instruction.operands]
    naming = _find_naming_instructions(module, visit)
    paths = tuple(map(path_of, naming))
    located = next((named for named, path in zip(naming, paths, strict=True) if path), None)
    is_combined = len(sizes) > 1
    return CompiledCollective(
        "reduce-scatter" if kind == "all-reduce" and visit.within and _is_sliced(computation, instruction) else kind,
        axes,
        sum(sizes),
        visit.runs,
        path=next(filter(None, paths), ""),
        source=lines.of(located) if located else "",
        name=origin.name,
        overlaps=_is_async(instruction, visit.within),
        parts=tuple(sizes) if is_combined else (),
        part_paths=paths if is_combined else (),
    )


def _is_sliced(computation: Computation, reduction: HloInstruction) -> bool:
    users = [user for user in computation.values() if reduction.name in user.operands]
    return bool(users) and all(_is_slice(computation, user) for user in users)


def _is_slice(computation: Computation, user: HloInstruction) -> bool:
    if user.opcode in ("bitcast", "reshape", "copy", "get-tuple-element", "convert"):
        return _is_sliced(computation, user)
    return user.opcode == "dynamic-slice"


def _is_async(instruction: HloInstruction, within: HloInstruction | None) -> bool:
    starts = within if within and within.opcode == "async-start" else instruction
    if starts.opcode.endswith("-start"):
        return not starts.backend_config.get("collective_backend_config", {}).get("is_sync")  # XLA:GPU marks starts only by name
    return within is not None and ("async" in within.name or _is_chained(instruction))


def _find_naming_instructions(module: HloModule, visit: InstructionVisit) -> list[HloInstruction]:
    """Return the naming instruction per operand; in a combined collective, the user of the operand's result."""
    instruction, operands = visit.instruction, [_find_operand(module, visit, index) for index in range(len(visit.instruction.operands))]
    if len(operands) == 1:
        candidates = [[instruction, visit.within or instruction, *operands]]
    else:
        users = [user for user in visit.computation.values() if user.opcode == "get-tuple-element" and user.operands == (instruction.name,)]
        named_users = {user.element: user for user in users if user.op_name}
        candidates = [[named_users.get(index, operand), operand, instruction] for index, operand in enumerate(operands)]
    return [next((option for option in options if option.op_name), instruction) for options in candidates]


def _find_operand(module: HloModule, visit: InstructionVisit, index: int) -> HloInstruction:
    operand, within = visit.computation[visit.instruction.operands[index]], visit.within
    if within and within.opcode == "async-start" and operand.opcode == "parameter":
        return module.home_of(within)[within.operands[operand.fields.parameter_number]]
    return operand


# Find the operation that reads the result of a collective.
#
# From JAX 0.11 on, XLA's partitioner names a reshard after the operation that *made* the value, and marks it
# `is_spmd_generated`; earlier versions name the operation that required the new sharding. The reader causes the collective: a gather, a
# window, a dot.

_GENERATED = "is_spmd_generated"
_FORWARDING_OPCODES = (  # forward a value, whatever they are named after
    *("bitcast", "copy", "copy-start", "copy-done", "get-tuple-element", "reshape", "transpose", "convert", "tuple"),
    *("all-gather", "all-gather-start", "all-gather-done", "all-to-all", "all-to-all-start", "all-to-all-done"),
    *("collective-permute", "collective-permute-start", "collective-permute-done"),
)


class Readers:
    """Finds the operations that read the results of a module's collectives."""

    def __init__(self, module: HloModule) -> None:
        self._module = module
        self._users: dict[int, Users] = {}

    def path_of(self, computation: Computation, collective: HloInstruction) -> str:
        """Return the `op_name` of the first operation that does more than forward the value, inside fusions too.

        Empty if the compiler names the collective after that operation itself, or if a loop or the program's end takes
        the value.
        """
        if collective.fields.frontend_attributes.map.get(_GENERATED) != "true" or collective.opcode not in _FORWARDING_OPCODES:
            return ""  # a reduction is named after its operand
        return next((reader.op_name for reader in self._find_readers(computation, collective.name) if reader.op_name), "")

    def _find_readers(self, computation: Computation, name: str) -> Iterator[HloInstruction]:
        for user in self._users_in(computation).get(name, ()):
            if user.opcode in _FORWARDING_OPCODES:
                yield from self._find_readers(computation, user.name)
            elif user.opcode == "fusion":
                yield from self._find_inner_readers(user, user.operands.index(name)) or self._find_readers(computation, user.name)
            elif user.opcode != "while":
                yield user

    def _find_inner_readers(self, fusion: HloInstruction, number: int) -> tuple[HloInstruction, ...]:
        bodies = (self._module.computations[callee] for callee in self._module.callees(fusion))
        parameters = ((body, parameter_of(body, number)) for body in bodies)
        return tuple(reader for body, parameter in parameters if parameter for reader in self._find_readers(body, parameter.name))

    def _users_in(self, computation: Computation) -> Users:
        if id(computation) not in self._users:
            self._users[id(computation)] = users_of(computation)
        return self._users[id(computation)]


_LOOP = re.compile(r"windowed_dot_general_body_(ag|rs)\b")
_KINDS = {"ag": "all-gather", "rs": "reduce-scatter"}
_PERMUTE_OPCODES = ("collective-permute", "collective-permute-start")
_VALUE_PRESERVING = (  # change location or layout of a value, but not its content
    *("bitcast", "copy", "copy-start", "copy-done", "get-tuple-element", "reshape", "transpose", "convert", "slice-start", "slice-done"),
    *("collective-permute-start", "collective-permute-done", "collective-permute", "optimization-barrier"),
)
_ZEROS = ("broadcast", "constant")


class WindowedPermute(NamedTuple):
    """The collective that a permute is a step of: its kind, the ring size, and the trip count of a windowed loop."""

    kind: str
    devices: int
    trips: int | None


def find_windowed_permutes(module: HloModule) -> Mapping[str, WindowedPermute]:
    """Return the facts about each permute of a windowed einsum, by the permute's name.

    Permutes requested by the program (`ppermute`) and those that reshard an array are not included.
    """
    loops = (inner for instructions in module.computations.values() for inner in instructions.values() if inner.opcode == "while")
    trips = {loop_body(inner): module.trip_count(inner) for inner in loops}
    permutes: dict[str, WindowedPermute] = {}
    for name, computation in module.computations.items():
        loop = _LOOP.search(name)
        for instruction in computation.values():
            if instruction.opcode in _PERMUTE_OPCODES and is_of_dot(instruction) and (devices := _ring_size(instruction)):
                kind = _KINDS[loop[1]] if loop else _infer_kind(module, computation, instruction)
                permutes[instruction.name] = WindowedPermute(kind, devices, trips.get(name, 1) if loop else None)
    return permutes


def merge_permutes(pieces: Sequence[tuple[InstructionVisit, WindowedPermute, CompiledCollective]]) -> Iterator[CompiledCollective]:
    """Merge the permutes of one einsum into one record.

    `payload`: of the whole collective; `count`: executions of the einsum; `pieces`: permutes per execution. A ring of n
    takes n - 1 permutes in one direction, up to n + 1 in both.
    """
    groups: dict[tuple[object, ...], list[tuple[InstructionVisit, WindowedPermute, CompiledCollective]]] = {}
    loops = {(permute.axes, permute.path, permute.payload) for _, window, permute in pieces if window.trips is not None}
    for visit, window, permute in pieces:
        if window.trips is None and (permute.axes, permute.path, permute.payload) in loops:
            continue  # starts or ends a loop's ring
        groups.setdefault((window.kind, window.devices, permute.axes, permute.path, permute.payload), []).append((visit, window, permute))
    for members in groups.values():
        looped = [member for member in members if member[1].trips is not None]
        runs = _count_loop_runs(looped) if looped else _count_unrolled_runs(members)
        _, window, first = members[0]
        permutes = sum(permute.count for _, _, permute in members)
        payload = first.payload * window.devices
        yield replace(first, payload=payload, count=runs, part_of=window.kind, pieces=round(permutes / runs))


def _count_loop_runs(members: Sequence[tuple[InstructionVisit, WindowedPermute, CompiledCollective]]) -> int:
    loops = {visit.loop: permute.count // (window.trips or 1) for visit, window, permute in members}
    return max(sum(loops.values()), 1)


def _count_unrolled_runs(members: Sequence[tuple[InstructionVisit, WindowedPermute, CompiledCollective]]) -> int:
    counts: dict[int, list[int]] = {}
    for visit, _, permute in members:
        counts.setdefault(id(visit.computation), []).append(permute.count)
    devices = members[0][1].devices
    return sum(runs[0] * ceil(len(runs) / (devices + 1)) for runs in counts.values())


def _ring_size(permute: HloInstruction) -> int:
    """Return the ring size if the pairs form equal rings over all devices (a transposition's do not), else 0."""
    target = {pair.source: pair.target for pair in permute.fields.source_target_pairs}
    if set(target) != set(target.values()):
        return 0
    lengths = {_cycle_length(target, start) for start in target}
    return lengths.pop() if len(lengths) == 1 and lengths != {1} else 0


def _cycle_length(target: Mapping[int, int], start: int) -> int:
    length, current = 1, target[start]
    while current != start:
        length, current = length + 1, target[current]
    return length


def _infer_kind(module: HloModule, computation: Computation, permute: HloInstruction) -> str:
    """Infer the collective: a reduce-scatter's permute sends zeros, or a permute's result plus a dot."""
    source = _find_source(module, computation, permute)
    return (
        "reduce-scatter"
        if source is not None and (source.opcode in _ZEROS or _has_received_operand(module, computation, source))
        else "all-gather"
    )


def _find_source(module: HloModule, computation: Computation, permute: HloInstruction) -> HloInstruction | None:
    """Return the maker of a permute's operand, through copies, permutes and once a loop's back edge, if any."""
    current, seen = permute, {permute.name}
    while True:
        following = _follow_operand(computation, current)
        if following is None or following.name in seen or following.opcode == "parameter":
            return None
        if module.printed_opcode(following) not in _VALUE_PRESERVING:
            return following
        seen.add(following.name)
        current = following


def _follow_operand(computation: Computation, instruction: HloInstruction) -> HloInstruction | None:
    operand = computation[instruction.operands[0]] if instruction.operands else None
    if operand is not None and operand.opcode == "parameter" and instruction.opcode == "get-tuple-element":
        root = root_of(computation)
        is_loop = root is not None and root.opcode == "tuple" and root.shape == operand.shape
        return computation[root.operands[instruction.element]] if root and is_loop else operand
    return operand


def _has_received_operand(module: HloModule, computation: Computation, source: HloInstruction) -> bool:
    for name in source.operands:
        current = computation[name]
        while "permute" not in current.opcode and current.operands and module.printed_opcode(current) in _VALUE_PRESERVING:
            current = computation[current.operands[0]]
        if "collective-permute" in current.opcode:
            return True
    return False
