"""What the compiled program really sends: its collectives, in the terms of the plan.

A collective stands in a compiled program as

- one instruction, or a `-start` and a `-done` with other work between them;
- several in one: a tuple of operands, told apart as the record's parts, each with the path of the operation it is from;
- a fusion on a TPU: `all-reduce-scatter`, whose body is an all-reduce and the slice that a device keeps; and asynchronous ones, where the
  same collective stands in the fusions that start it, run beside it and await it, on one channel;
- permutes that are the pieces of a gather or a reduce-scatter: `windowed.py` puts them together.
"""

import re
from collections.abc import Iterator
from dataclasses import replace

from workbench.collective import KINDS
from workbench.compiled import CompiledCollective
from workbench.engine.groups import axes_of, parse_groups
from workbench.engine.hlo import Computation, HloModule, Instruction, Visit, parse_hlo
from workbench.engine.hlo_shapes import arrays, parse_shape
from workbench.engine.readers import Readers
from workbench.engine.source_lines import SourceLines
from workbench.engine.windowed import Window, put_together, windows
from workbench.mesh import Mesh
from workbench.partition.location import readable_path

_OP_NAME = re.compile(r'op_name="([^"]*)"')
_CHANNEL = re.compile(r"channel_id=(\d+)")
_CHAINED = "chain_id="  # XLA:TPU's mark of a collective that is spread over fusions
_SYNCHRONOUS = '"is_sync":true'  # XLA:GPU starts these apart only in name
_ALIKE = {"ragged-all-to-all": "all-to-all", "collective-broadcast": "collective-permute"}


def read_collectives(hlo_text: str, mesh: Mesh) -> tuple[CompiledCollective, ...]:
    """The collectives in `compiled.as_text()` of a program partitioned over `mesh`, those within one device left out."""
    return collectives_of(parse_hlo(hlo_text), SourceLines(hlo_text), mesh)


def collectives_of(module: HloModule, lines: SourceLines, mesh: Mesh) -> tuple[CompiledCollective, ...]:
    """The same of a text that was read before."""
    rings, readers = windows(module), Readers(module)
    found: list[CompiledCollective] = []
    pieces: list[tuple[Visit, Window, CompiledCollective]] = []
    for visit in _once_a_channel(module):
        groups = parse_groups(visit.instruction.attributes, mesh.size)
        if not (axes := axes_of(groups, mesh)):
            continue
        reader = readable_path(readers.path_of(visit.computation, visit.instruction))
        each = replace(_collective(visit, lines, axes, max(map(len, groups))), reader=reader)
        if each.payload and (ring := rings.get(visit.instruction.name)):
            pieces.append((visit, ring, each))
        elif each.payload:
            found.append(each)
    return (*found, *put_together(pieces))


def kind_of(opcode: str) -> str | None:
    """The kind of collective an opcode starts; `None` if it starts none."""
    kind = opcode.removesuffix("-start")
    kind = _ALIKE.get(kind, kind)
    return kind if kind in KINDS else None


def _once_a_channel(module: HloModule) -> Iterator[Visit]:
    """Collectives as they run. An asynchronous one stands in all the fusions it runs beside, in loops too, on one channel."""
    seen: set[str] = set()
    for visit in module.visits():
        attributes = visit.instruction.attributes
        if kind_of(visit.instruction.opcode) is None:
            continue
        if _CHAINED in attributes and (channel := _CHANNEL.search(attributes)):
            if channel[1] in seen:
                continue
            seen.add(channel[1])
        yield visit


def _collective(visit: Visit, lines: SourceLines, axes: tuple[str, ...], group_size: int) -> CompiledCollective:
    """Bytes are of the larger of operand and result: only a gather's result is larger.

    Operands are counted and not the shape of the instruction, which for `-start` forms holds operands, results and contexts.
    """
    instruction, computation = visit.instruction, visit.computation
    kind = kind_of(instruction.opcode) or ""
    grown = group_size if kind == "all-gather" else 1
    origin = visit.within or instruction
    sizes = [_size(computation, name) * grown for name in instruction.operands]
    texts = [_attributes(computation, instruction, index, origin) for index in range(len(sizes))]
    paths = tuple(readable_path(found[1]) if (found := _OP_NAME.search(text)) else "" for text in texts)
    named = next((text for text, path in zip(texts, paths, strict=True) if path), "")
    several = len(sizes) > 1
    return CompiledCollective(
        "reduce-scatter" if kind == "all-reduce" and visit.within and _is_sliced(computation, instruction) else kind,
        axes,
        sum(sizes),
        visit.runs,
        path=next(filter(None, paths), ""),
        source=lines.of(named),
        name=origin.name,
        overlaps=_overlaps(instruction, visit.within),
        parts=tuple(sizes) if several else (),
        part_paths=paths if several else (),
    )


def _size(computation: Computation, name: str) -> int:
    return sum(array.bytes for array in arrays(parse_shape(computation[name].shape))) if name in computation else 0


def _is_sliced(computation: Computation, reduction: Instruction) -> bool:
    """A fusion's body in which each device keeps its slice of the sum alone."""
    users = [each for each in computation.values() if reduction.name in each.operands]
    return bool(users) and all(_slices(computation, each) for each in users)


def _slices(computation: Computation, user: Instruction) -> bool:
    if user.opcode in ("bitcast", "reshape", "copy", "get-tuple-element", "convert"):
        return _is_sliced(computation, user)
    return user.opcode == "dynamic-slice"


def _overlaps(instruction: Instruction, within: Instruction | None) -> bool:
    apart = instruction.opcode.endswith("-start") and _SYNCHRONOUS not in instruction.attributes
    wrapped = within is not None and (within.opcode == "async-start" or "async" in within.name or "chain_id" in instruction.attributes)
    return apart or wrapped


def _attributes(computation: Computation, instruction: Instruction, index: int, origin: Instruction) -> str:
    """The text that names where one operand's collective is from: of a combined one the user of its own result knows best."""
    operand = [computation[name] for name in instruction.operands[index : index + 1] if name in computation]
    if len(instruction.operands) > 1:
        users = (each for each in computation.values() if each.opcode == "get-tuple-element" and each.operands == (instruction.name,))
        candidates = [*(each for each in users if each.element == index), *operand, instruction]
    else:
        candidates = [instruction, origin, *operand]
    return next((each.attributes for each in candidates if _OP_NAME.search(each.attributes)), instruction.attributes)
