"""Windowed einsums: the compiler decomposes a gather or a reduce-scatter and moves its pieces around a ring while it computes the dots.

An all-gather's permutes pass on what they received; a reduce-scatter's pass on a sum to which each device adds its own dot (Wang et al.
2023, "Overlap communication with dependent computation via decomposition"). The partitioner names the loops it makes
`windowed_dot_general_body_ag` and `_rs`; short ones are unrolled into the program around them, where only the data flow identifies them.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from math import ceil
from typing import NamedTuple

from workbench.engine.hlo.op_names import is_of_dot
from workbench.reports.compiled import CompiledCollective
from workbench.spmd.hlo_module import Computation, HloInstruction, HloModule, InstructionVisit, loop_body, root_of

_LOOP = re.compile(r"windowed_dot_general_body_(ag|rs)\b")
_KINDS = {"ag": "all-gather", "rs": "reduce-scatter"}
_PERMUTE_OPCODES = ("collective-permute", "collective-permute-start")
_VALUE_PRESERVING = (  # these change where a value is or its layout, not its content
    *("bitcast", "copy", "copy-start", "copy-done", "get-tuple-element", "reshape", "transpose", "convert", "slice-start", "slice-done"),
    *("collective-permute-start", "collective-permute-done", "collective-permute", "optimization-barrier"),
)
_ZEROS = ("broadcast", "constant")


class WindowedPermute(NamedTuple):
    """What a permute is a step of: the kind of collective, the size of the ring, and the loop's trip count if it is in a windowed loop."""

    kind: str
    devices: int
    trips: int | None


def find_windowed_permutes(module: HloModule) -> Mapping[str, WindowedPermute]:
    """For each permute that is a step of a windowed einsum, its facts by the permute's name.

    A permute that the program itself asked for (`ppermute`), or that reshards an array, is not included.
    """
    loops = (each for instructions in module.computations.values() for each in instructions.values() if each.opcode == "while")
    trips = {loop_body(each): module.trip_count(each) for each in loops}
    found: dict[str, WindowedPermute] = {}
    for name, computation in module.computations.items():
        loop = _LOOP.search(name)
        for each in computation.values():
            if each.opcode in _PERMUTE_OPCODES and is_of_dot(each) and (devices := _ring_size(each)):
                kind = _KINDS[loop[1]] if loop else _infer_kind(module, computation, each)
                found[each.name] = WindowedPermute(kind, devices, trips.get(name, 1) if loop else None)
    return found


def merge_permutes(pieces: Sequence[tuple[InstructionVisit, WindowedPermute, CompiledCollective]]) -> Iterator[CompiledCollective]:
    """Merge the permutes of one einsum into one record: `payload` is that of the whole collective, `count` how often the einsum runs,
    `pieces` how many permutes each time. A ring of n takes n - 1 permutes in one direction, up to n + 1 in both."""
    groups: dict[tuple[object, ...], list[tuple[InstructionVisit, WindowedPermute, CompiledCollective]]] = {}
    loops = {(each.axes, each.path, each.payload) for _, window, each in pieces if window.trips is not None}
    for visit, window, each in pieces:
        if window.trips is None and (each.axes, each.path, each.payload) in loops:
            continue  # starts or ends a loop's ring
        groups.setdefault((window.kind, window.devices, each.axes, each.path, each.payload), []).append((visit, window, each))
    for members in groups.values():
        looped = [member for member in members if member[1].trips is not None]
        runs = _count_loop_runs(looped) if looped else _count_unrolled_runs(members)
        _, window, first = members[0]
        permutes = sum(each.count for _, _, each in members)
        payload = first.payload * window.devices
        yield replace(first, payload=payload, count=runs, part_of=window.kind, pieces=round(permutes / runs))


def _count_loop_runs(members: Sequence[tuple[InstructionVisit, WindowedPermute, CompiledCollective]]) -> int:
    loops = {visit.loop: each.count // (window.trips or 1) for visit, window, each in members}
    return max(sum(loops.values()), 1)


def _count_unrolled_runs(members: Sequence[tuple[InstructionVisit, WindowedPermute, CompiledCollective]]) -> int:
    counts: dict[int, list[int]] = {}
    for visit, _, each in members:
        counts.setdefault(id(visit.computation), []).append(each.count)
    devices = members[0][1].devices
    return sum(each[0] * ceil(len(each) / (devices + 1)) for each in counts.values())


def _ring_size(permute: HloInstruction) -> int:
    """Devices of each ring, if the pairs form rings of one length that leave no device out (a transposition's do not); else 0."""
    target = {each.source: each.target for each in permute.fields.source_target_pairs}
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
    """A reduce-scatter's permute sends a partial sum: zeros to begin with, or what was made from another permute's result and a dot."""
    source = _find_source(module, computation, permute)
    return (
        "reduce-scatter"
        if source is not None and (_is_zeros(source) or _has_received_operand(module, computation, source))
        else "all-gather"
    )


def _find_source(module: HloModule, computation: Computation, permute: HloInstruction) -> HloInstruction | None:
    """The instruction that made the value a permute sends, copies and other permutes skipped; around a loop's back edge once. `None` for a
    parameter."""
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


def _is_zeros(source: HloInstruction) -> bool:
    return source.opcode in _ZEROS


def _has_received_operand(module: HloModule, computation: Computation, source: HloInstruction) -> bool:
    """Whether an operation reads what a permute received, copies skipped."""
    for name in source.operands:
        current = computation[name]
        while "permute" not in current.opcode and current.operands and module.printed_opcode(current) in _VALUE_PRESERVING:
            current = computation[current.operands[0]]
        if "collective-permute" in current.opcode:
            return True
    return False
