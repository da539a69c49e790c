"""Reduce-scatters: sums of which each device keeps only its part, which XLA:TPU and XLA:GPU form and XLA:CPU does not.

XLA's partitioner all-reduces, and each device slices its part out (`reduce_scatter_creator.cc` joins the two). What is summed over more
axes than it is split along is scattered along those first, so that the sum along the rest is of the part only.
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import combinations
from math import prod

from workbench.core.mesh import Mesh
from workbench.core.sharding import axis_size
from workbench.reports.partitioned import PartitionedCollective
from workbench.spmd.hlo_instruction import HloInstruction
from workbench.spmd.locate_xla_collectives import LocatedCollective, Users

_PASS_THROUGH = ("bitcast", "copy", "reshape", "transpose")


def scatter_sums(found: Sequence[LocatedCollective], mesh: Mesh, *, in_part: bool) -> Iterator[LocatedCollective]:
    """The collectives with such sums as reduce-scatters; `in_part`: also where only some of the axes split the sum."""
    for each in found:
        yield from _scatter_sum(each, mesh, in_part=in_part)


def _scatter_sum(found: LocatedCollective, mesh: Mesh, *, in_part: bool) -> Iterator[LocatedCollective]:
    sent = found.collective
    parts = _count_parts(found)
    along = _axes_of_size(sent.axes, parts, mesh) if parts > 1 else ()
    if not along or (len(along) < len(sent.axes) and not in_part):
        yield found
        return
    part = sent.payload // parts
    yield found._replace(collective=replace(sent, kind="reduce-scatter", axes=along, result=part))
    if rest := tuple(axis for axis in sent.axes if axis not in along):
        yield found._replace(collective=_reduce_part(sent, rest, part))


def _reduce_part(sent: PartitionedCollective, axes: tuple[str, ...], part: int) -> PartitionedCollective:
    return replace(sent, axes=axes, payload=part, result=part, frees_operand=True)


def _count_parts(found: LocatedCollective) -> int:
    """The number of parts of a sum, of which a device keeps one; 1 if anything reads more than that."""
    instruction = found.instruction
    if found.collective.kind != "all-reduce" or len(instruction.operands) > 1:
        return 1
    slice_sizes = {each.bytes if each is not None else 0 for each in _slice_readers(found.users, instruction)}
    size = slice_sizes.pop() if len(slice_sizes) == 1 else 0
    return found.collective.payload // size if size and found.collective.payload % size == 0 else 1


def _slice_readers(users: Users, value: HloInstruction) -> Iterator[HloInstruction | None]:
    """The slices that read a value; `None` for a reader that is none."""
    for user in users.get(value.name, ()):
        if user.opcode in _PASS_THROUGH:
            yield from _slice_readers(users, user)
        else:
            yield user if user.opcode == "dynamic-slice" and user.operands[0] == value.name else None
    if value.is_root:
        yield None


def _axes_of_size(axes: tuple[str, ...], parts: int, mesh: Mesh) -> tuple[str, ...]:
    """The fewest of these axes that make `parts` parts; none if no choice does."""
    chosen = (some for count in range(1, len(axes) + 1) for some in combinations(axes, count))
    return next((some for some in chosen if prod(axis_size(axis, mesh) for axis in some) == parts), ())
