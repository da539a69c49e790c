"""Read the collectives that a compiled program sends, in the terms of the plan.

A collective appears in a compiled program as

- one instruction, or a `-start` and a `-done` with other work between them;
- several in one: a tuple of operands, listed as the record's parts, each with the path of the operation it comes from;
- a fusion on a TPU: `all-reduce-scatter`, whose body is an all-reduce and the slice that a device keeps; and asynchronous ones, where the
  same collective is in the fusions that start it, run beside it and await it, on one channel;
- permutes that are the steps of a decomposed gather or reduce-scatter: `windowed_einsums.py` merges them.
"""

from collections.abc import Callable, Iterator
from dataclasses import replace

from workbench.core.mesh import Mesh
from workbench.engine.hlo.op_names import SourceLines, path_of
from workbench.engine.hlo.windowed_einsums import WindowedPermute, find_windowed_permutes, merge_permutes
from workbench.propagation.module.source_location import readable_path
from workbench.reports.compiled import CompiledCollective
from workbench.spmd.device_groups import Groups, axes_of, read_groups
from workbench.spmd.hlo_module import Computation, HloInstruction, HloModule, InstructionVisit, parameter_of
from workbench.spmd.locate_xla_collectives import Users, kind_of, users_of

ReadAxes = Callable[[Groups, Mesh], tuple[str, ...]]

_CHAINED = "chain_id"  # XLA:TPU's mark of a collective that is spread over fusions


def collectives_of(module: HloModule, mesh: Mesh, read_axes: ReadAxes = axes_of) -> tuple[CompiledCollective, ...]:
    """The collectives of a program partitioned over `mesh`, without those within one device. `read_axes` names the axes of device groups:
    whole ones, or sub-axes (`device_groups.sub_axes_of`)."""
    lines, rings, readers = SourceLines(module), find_windowed_permutes(module), Readers(module)
    found: list[CompiledCollective] = []
    pieces: list[tuple[InstructionVisit, WindowedPermute, CompiledCollective]] = []
    for visit in _visit_once_per_channel(module):
        groups = read_groups(visit.instruction.fields, mesh.size)
        if not (axes := read_axes(groups, mesh)):
            continue
        reader = readable_path(readers.path_of(visit.computation, visit.instruction))
        each = replace(_read_collective(module, visit, lines, axes, max(map(len, groups))), reader=reader)
        if each.payload and (ring := rings.get(visit.instruction.name)):
            pieces.append((visit, ring, each))
        elif each.payload:
            found.append(each)
    return (*found, *merge_permutes(pieces))


def _visit_once_per_channel(module: HloModule) -> Iterator[InstructionVisit]:
    """Collectives in execution order. An asynchronous one appears in all the fusions it runs beside, in loops too, on one channel, and is
    visited once."""
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
    """Read one collective; the payload in bytes is that of the larger of operand and result: only a gather's result is larger.

    Operands are counted and not the shape of the instruction, which for `-start` forms holds operands, results and contexts.
    """
    instruction, computation = visit.instruction, visit.computation
    kind = kind_of(instruction.opcode) or ""
    grown = group_size if kind == "all-gather" else 1
    origin = visit.within or instruction
    sizes = [computation[name].bytes * grown for name in instruction.operands]
    naming = _find_naming_instructions(module, visit)
    paths = tuple(map(path_of, naming))
    telling = next((each for each, path in zip(naming, paths, strict=True) if path), None)
    several = len(sizes) > 1
    return CompiledCollective(
        "reduce-scatter" if kind == "all-reduce" and visit.within and _is_sliced(computation, instruction) else kind,
        axes,
        sum(sizes),
        visit.runs,
        path=next(filter(None, paths), ""),
        source=lines.of(telling) if telling else "",
        name=origin.name,
        overlaps=_is_async(instruction, visit.within),
        parts=tuple(sizes) if several else (),
        part_paths=paths if several else (),
    )


def _is_sliced(computation: Computation, reduction: HloInstruction) -> bool:
    """Whether a fusion's body keeps only each device's slice of the sum."""
    users = [each for each in computation.values() if reduction.name in each.operands]
    return bool(users) and all(_is_slice(computation, each) for each in users)


def _is_slice(computation: Computation, user: HloInstruction) -> bool:
    if user.opcode in ("bitcast", "reshape", "copy", "get-tuple-element", "convert"):
        return _is_sliced(computation, user)
    return user.opcode == "dynamic-slice"


def _is_async(instruction: HloInstruction, within: HloInstruction | None) -> bool:
    starts = within if within and within.opcode == "async-start" else instruction
    if starts.opcode.endswith("-start"):
        return not starts.backend_config.get("collective_backend_config", {}).get("is_sync")  # XLA:GPU marks their starts only by name
    return within is not None and ("async" in within.name or _is_chained(instruction))


def _find_naming_instructions(module: HloModule, visit: InstructionVisit) -> list[HloInstruction]:
    """For each operand the instruction that names the origin of its collective: of a combined collective, the user of the operand's own
    result."""
    instruction, operands = visit.instruction, [_find_operand(module, visit, index) for index in range(len(visit.instruction.operands))]
    if len(operands) == 1:
        candidates = [[instruction, visit.within or instruction, *operands]]
    else:
        users = [each for each in visit.computation.values() if each.opcode == "get-tuple-element" and each.operands == (instruction.name,)]
        takers = {each.element: each for each in users if each.op_name}
        candidates = [[takers.get(index, operand), operand, instruction] for index, operand in enumerate(operands)]
    return [next((each for each in several if each.op_name), instruction) for several in candidates]


def _find_operand(module: HloModule, visit: InstructionVisit, index: int) -> HloInstruction:
    """The instruction that makes an operand, found outside of the computation of an asynchronous call."""
    operand, within = visit.computation[visit.instruction.operands[index]], visit.within
    if within and within.opcode == "async-start" and operand.opcode == "parameter":
        return module.home_of(within)[within.operands[operand.fields.parameter_number]]
    return operand


# Find the operation that reads the value a collective produces.
#
# From JAX 0.11 on XLA's partitioner names a collective that reshards a value after the operation that *made* the value, and marks it
# `is_spmd_generated`; before, after the operation that required the new sharding. The reader is the cause of the collective: a gather, a
# window, a dot.

_GENERATED = "is_spmd_generated"
_FORWARDING_OPCODES = (  # these forward a value, whatever they are named after
    *("bitcast", "copy", "copy-start", "copy-done", "get-tuple-element", "reshape", "transpose", "convert", "tuple"),
    *("all-gather", "all-gather-start", "all-gather-done", "all-to-all", "all-to-all-start", "all-to-all-done"),
    *("collective-permute", "collective-permute-start", "collective-permute-done"),
)


class Readers:
    """Finds, for the collectives of one module, the operations that read the values they produce."""

    def __init__(self, module: HloModule) -> None:
        self._module = module
        self._users: dict[int, Users] = {}

    def path_of(self, computation: Computation, collective: HloInstruction) -> str:
        """The `op_name` of the first operation that does more with the value than forward it, inside of fusions too; empty where the
        compiler names the collective after that itself, or where a loop or the program's end takes the value."""
        if collective.fields.frontend_attributes.map.get(_GENERATED) != "true" or collective.opcode not in _FORWARDING_OPCODES:
            return ""  # a reduction is named after what it adds up
        return next((each.op_name for each in self._find_readers(computation, collective.name) if each.op_name), "")

    def _find_readers(self, computation: Computation, name: str) -> Iterator[HloInstruction]:
        for user in self._users_in(computation).get(name, ()):
            if user.opcode in _FORWARDING_OPCODES:
                yield from self._find_readers(computation, user.name)
            elif user.opcode == "fusion":
                yield from self._find_inner_readers(user, user.operands.index(name)) or self._find_readers(computation, user.name)
            elif user.opcode != "while":
                yield user

    def _find_inner_readers(self, fusion: HloInstruction, number: int) -> tuple[HloInstruction, ...]:
        """The readers of a fusion's operand inside of it; none where it only forwards the value."""
        bodies = (self._module.computations[callee] for callee in self._module.callees(fusion))
        parameters = ((body, parameter_of(body, number)) for body in bodies)
        return tuple(each for body, parameter in parameters if parameter for each in self._find_readers(body, parameter.name))

    def _users_in(self, computation: Computation) -> Users:
        if id(computation) not in self._users:
            self._users[id(computation)] = users_of(computation)
        return self._users[id(computation)]
