"""Run XLA's partitioner on a plan and read its collectives; used by the worker process."""

import copy
import re
import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import combinations
from math import prod
from typing import NamedTuple

import jaxlib
from jax.extend.mlir import ir

from workbench.core.mesh import Mesh
from workbench.core.program import Program, Step
from workbench.core.sharding import axis_size
from workbench.errors import PartitionError, opening_text
from workbench.plan.plan import Plan
from workbench.propagation import module_of
from workbench.propagation.module.function_calls import operations_called
from workbench.propagation.module.insert_statements import result_shardings
from workbench.propagation.module.mlir_context import parse_module
from workbench.propagation.prepared_program import place_of
from workbench.reports.partitioned import GatheredWhole, Partitioned, PartitionedCollective
from workbench.spmd.hlo_module import HloInstruction, read_module
from workbench.spmd.locate_xla_collectives import LocatedCollective, Users, find_collectives, operations_named
from workbench.spmd.run_partitioner import PartitionerAnswer, XlaRefusedError, ask, read_warnings

COMPILER = f"XLA of jaxlib {jaxlib.__version__}"


def ask_partitioner(plan: Plan, platform: str = "") -> Partitioned:
    """Partition a plan with XLA, including known changes by the compiler of `platform` (`cpu`, `tpu`, `cuda`).

    XLA:CPU widens two-byte floats; the others reduce-scatter sums of which each device keeps a part. Only libtpu knows
    what else XLA:TPU does. The program's StableHLO suffices; no function of it is called (`without_functions`). Raises
    `PartitionError`.
    """
    start = time.perf_counter()
    answer = _run_partitioner(plan, platform)
    return Partitioned(
        platform,
        plan.mesh.size,
        COMPILER,
        _read_answer_collectives(answer, plan, platform),
        gathered_whole(answer.printed_text),
        time.perf_counter() - start,
        plan.mesh.size,
    )


def without_functions(plan: Plan) -> Plan:
    """Return the plan with only the data that `ask_partitioner` reads, so that it can be sent to another process."""
    data_plan = copy.copy(plan)
    program = replace(plan.program, step=_NO_STEP, reference=None)
    if all(sharding.is_closed for sharding in plan.argument_shardings):  # else `ask_partitioner` closes them by propagation
        program = replace(program, module=b"", operations=())
    object.__setattr__(data_plan, "program", program)  # not by `updated`: the layout is already verified
    return data_plan


def _return_nothing(*_: object) -> tuple[()]:
    return ()


_NO_STEP = Step(_return_nothing, _return_nothing, _return_nothing)


def _read_answer_collectives(answer: PartitionerAnswer, plan: Plan, platform: str) -> tuple[PartitionedCollective, ...]:
    located: Sequence[LocatedCollective] = find_collectives(read_module(answer.module), plan.mesh)
    if platform != "cpu":
        located = tuple(scatter_sums(located, plan.mesh, in_part=platform in ("tpu", "cuda")))
    return tuple(entry.collective for entry in located)


def _run_partitioner(plan: Plan, platform: str) -> PartitionerAnswer:
    result_specs = result_shardings(plan)
    open_results = tuple(number not in result_specs for number in range(len(plan.program.results)))
    try:
        return ask(module_of(plan), plan.mesh.size, open_results, widens=platform == "cpu")
    except XlaRefusedError as error:
        raise partition_error(error.words, plan.program) from error


def gathered_whole(words: str) -> tuple[GatheredWhole, ...]:
    """Return the distinct warnings in XLA's output."""
    warnings = (each for each in read_warnings(words) if "maximal" not in each.after)
    gathers = (
        GatheredWhole(next(iter(operations_named(warning.op_name)), -1), warning.shape, warning.before, warning.after)
        for warning in warnings
    )
    return tuple(dict.fromkeys(gathers))


# Reduce-scatters: sums of which each device keeps only its part. XLA:TPU and XLA:GPU create them, XLA:CPU does not.
#
# XLA's partitioner all-reduces, and each device slices out its part (`reduce_scatter_creator.cc` fuses the two). A sum over more
# axes than it is split along is first scattered along these, so that only the part is summed along the others.

_PASS_THROUGH = ("bitcast", "copy", "reshape", "transpose")


def scatter_sums(found: Sequence[LocatedCollective], mesh: Mesh, *, in_part: bool) -> Iterator[LocatedCollective]:
    """Turn such sums into reduce-scatters; `in_part`: also if only some of the axes split the sum."""
    for located in found:
        yield from _scatter_sum(located, mesh, in_part=in_part)


def _scatter_sum(found: LocatedCollective, mesh: Mesh, *, in_part: bool) -> Iterator[LocatedCollective]:
    collective = found.collective
    parts = _count_parts(found)
    scatter_axes = _axes_of_size(collective.axes, parts, mesh) if parts > 1 else ()
    if not scatter_axes or (len(scatter_axes) < len(collective.axes) and not in_part):
        yield found
        return
    part = collective.payload // parts
    yield found._replace(collective=replace(collective, kind="reduce-scatter", axes=scatter_axes, result=part))
    if rest := tuple(axis for axis in collective.axes if axis not in scatter_axes):
        yield found._replace(collective=replace(collective, axes=rest, payload=part, result=part, frees_operand=True))


def _count_parts(found: LocatedCollective) -> int:
    """Return the number of parts of a sum, of which a device keeps one; 1 if any reader reads more than a part."""
    instruction = found.instruction
    if found.collective.kind != "all-reduce" or len(instruction.operands) > 1:
        return 1
    slice_sizes = {reader.bytes if reader is not None else 0 for reader in _slice_readers(found.users, instruction)}
    size = slice_sizes.pop() if len(slice_sizes) == 1 else 0
    return found.collective.payload // size if size and found.collective.payload % size == 0 else 1


def _slice_readers(users: Users, value: HloInstruction) -> Iterator[HloInstruction | None]:
    for user in users.get(value.name, ()):
        if user.opcode in _PASS_THROUGH:
            yield from _slice_readers(users, user)
        else:
            yield user if user.opcode == "dynamic-slice" and user.operands[0] == value.name else None
    if value.is_root:
        yield None


def _axes_of_size(axes: tuple[str, ...], parts: int, mesh: Mesh) -> tuple[str, ...]:
    choices = (subset for count in range(1, len(axes) + 1) for subset in combinations(axes, count))
    return next((subset for subset in choices if prod(axis_size(axis, mesh) for axis in subset) == parts), ())


# The error for a plan that XLA's partitioner refuses: location in the user's program, origin of the bug, suggested edits.

_INTERNAL = ("INTERNAL", "RET_CHECK", "Check failed", "UNIMPLEMENTED")
_NAME = re.compile(r'op_name="([^"]*)"|%(wb\d+)')
_MOST_NAMED = 3


class _NamedPlace(NamedTuple):
    path: str
    source: str
    rank: int

    def __str__(self) -> str:
        return f"`{self.path}` ({self.source})" if self.source and self.path else f"`{self.path or self.source}`"


def partition_error(text: str, program: Program) -> PartitionError:
    """Build the error for a refusal by XLA's partitioner, with the locations in `program` of the operations it names."""
    places = list(dict.fromkeys(_find_places(text, program)))[:_MOST_NAMED]
    where = f" at {', '.join(map(str, places))}" if places else ""
    return PartitionError(f"XLA refuses this plan{where}: {opening_text(text, 300)}", list(_ways_out(text, places)), text)


def _ways_out(text: str, places: Sequence[_NamedPlace]) -> Iterator[str]:
    if place := next((candidate for candidate in places if candidate.path and candidate.rank > 0), None):
        yield f"keep that value whole, `@{place.path}=[{', '.join('-' * place.rank)}]`"
    yield "revert the layout"
    if any(sign in text for sign in _INTERNAL):
        yield "report it to openxla/xla"


def _find_places(text: str, program: Program) -> Iterator[_NamedPlace]:
    numbers = [number for scope, label in _NAME.findall(text) for number in operations_named(scope or label)]
    if not numbers:
        return
    module = parse_module(program.lowered)
    with module.context, ir.Location.unknown():
        operations = list(operations_called(module.operation))
        places = (_NamedPlace(*place_of(*operations[number])) for number in numbers if number < len(operations))
        yield from (place for place in places if place.path or place.source)
