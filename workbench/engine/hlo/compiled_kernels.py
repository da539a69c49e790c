"""Operations of a compiled program that take time, with the compiler's estimate if there is one (a TPU's cycles)."""

from collections.abc import Iterator

from workbench.engine.hlo.op_names import SourceLines, path_of
from workbench.reports.compiled import CompiledKernel
from workbench.spmd.hlo_flops import flops_of, is_dot
from workbench.spmd.hlo_module import (
    MOVES,
    SLICES,
    WRAPPERS,
    Computation,
    HloInstruction,
    HloModule,
    InstructionVisit,
    body_of,
    instructions_within,
    parameter_of,
    root_of,
    updated_bytes,
)
from workbench.spmd.hlo_shapes import DEVICE_MEMORY, Array
from workbench.spmd.locate_xla_collectives import kind_of

_UNTIMED_OPCODES = (  # these name, hold or order values; control flow takes the time of its callees
    *("parameter", "constant", "tuple", "get-tuple-element", "bitcast", "while", "conditional", "call", "after-all", "add-dependency"),
    *("partition-id", "replica-id", "optimization-barrier", "domain", "rng-get-and-update-state"),
)
_UNTIMED_CALLS = ("AllocateBuffer", "ConcatBitcast", "AsyncCollectiveStart", "AsyncCollectiveDone")


def kernels_of(module: HloModule, clock: float | None) -> tuple[CompiledKernel, ...]:
    """Return one record per instruction, without scalar arithmetic (loop counters, addresses) and collectives.

    `clock` in Hz converts the compiler's cycles to seconds. Copies between the device's memories that overlap with
    other work are of kind `prefetch` and have no time. `bytes` are in the device's main memory; on-chip memory is not
    counted.
    """
    lines = SourceLines(module)
    return tuple(_read_kernel(module, visit, lines, clock) for visit in visit_kernels(module))


def visit_kernels(module: HloModule) -> Iterator[InstructionVisit]:
    """Yield the instructions of the records of `kernels_of`."""
    return (visit for visit in module.visits() if visit.within is None and _is_work(module, visit))


def _is_work(module: HloModule, visit: InstructionVisit) -> bool:
    instruction = visit.instruction
    opcode = instruction.opcode
    if opcode in _UNTIMED_OPCODES or opcode.endswith(("-done", "-update")) or kind_of(opcode) is not None:
        return False
    if instruction.fields.custom_call_target in _UNTIMED_CALLS:
        return False
    if opcode in WRAPPERS and _only_communicates(module, instruction):
        return False
    return any(array.size > 1 for array in _list_arrays(visit.computation, instruction))


def _only_communicates(module: HloModule, fusion: HloInstruction) -> bool:
    inside = [instruction for name in module.callees(fusion) for instruction in module.computations[name].values()]
    communicates = any(kind_of(instruction.opcode) or "AsyncCollective" in instruction.fields.custom_call_target for instruction in inside)
    return communicates and not any(is_dot(instruction) for instruction in inside)


def _list_arrays(computation: Computation, instruction: HloInstruction) -> Iterator[Array]:
    yield from instruction.arrays
    for name in instruction.operands:
        yield from computation[name].arrays


def _read_kernel(module: HloModule, visit: InstructionVisit, lines: SourceLines, clock: float | None) -> CompiledKernel:
    instruction = visit.instruction
    cycles = instruction.backend_config.get("window_config", {}).get("estimated_cycles")
    kind = module.printed_opcode(instruction)
    is_move = kind in MOVES
    return CompiledKernel(
        name=instruction.name,
        kind="prefetch" if is_move else kind,
        count=visit.runs,
        path=path_of(instruction),
        source=lines.of(instruction),
        seconds=int(cycles) / clock if cycles and clock and not is_move else None,
        flops=_count_flops(module, visit),
        bytes=_count_bytes(module, visit),
    )


def _count_flops(module: HloModule, visit: InstructionVisit) -> int:
    if visit.instruction.opcode not in WRAPPERS:
        return flops_of(visit.computation, [visit.instruction])
    return sum(flops_of(computation, [instruction]) for computation, instruction in instructions_within(module, visit.instruction))


def _count_bytes(module: HloModule, visit: InstructionVisit) -> int:
    """Bytes read and written in main memory; of an array that is sliced or updated in place, only the slice."""
    instruction, computation = visit.instruction, visit.computation
    if module.printed_opcode(instruction) in MOVES:  # the shape contains source and destination
        return max((array.bytes for array in instruction.arrays if array.space == DEVICE_MEMORY), default=0)
    body = body_of(module, instruction)
    read = sum(
        _count_read_bytes(body, position, array) if body else array.bytes
        for position, name in enumerate(instruction.operands)
        for array in computation[name].arrays
        if array.space == DEVICE_MEMORY
    )
    return read + _count_written_bytes(body, instruction)


def _count_read_bytes(body: Computation, position: int, array: Array) -> int:
    parameter = parameter_of(body, position)
    if parameter is None:
        return array.bytes
    users = _find_users(body, parameter)
    if users and all(user.opcode in SLICES for user in users):
        return sum(user.bytes for user in users)
    if users and all(user.opcode == "dynamic-update-slice" and user.operands[0] == parameter.name for user in users):
        return 0
    return array.bytes


def _find_users(body: Computation, value: HloInstruction) -> list[HloInstruction]:
    """Return the readers of a value, through bitcasts."""
    users = [user for user in body.values() if value.name in user.operands]
    return [reader for user in users for reader in (_find_users(body, user) if user.opcode == "bitcast" else [user])]


def _count_written_bytes(body: Computation | None, instruction: HloInstruction) -> int:
    results = instruction.arrays
    root = root_of(body) if body else None
    if body is None or root is None:
        return sum(result.bytes for result in results if result.space == DEVICE_MEMORY)
    sources = [body[name] for name in root.operands] if root.opcode == "tuple" else [root]
    return sum(
        updated_bytes(body, source) or array.bytes for array, source in zip(results, sources, strict=False) if array.space == DEVICE_MEMORY
    )
