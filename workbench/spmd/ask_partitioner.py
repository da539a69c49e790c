"""A plan given to XLA's partitioner, and its answer read: what the worker process does."""

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
    """What XLA's partitioner makes of a plan, with what the compiler of `platform` (`cpu`, `tpu`, `cuda`; empty for none) surely changes:
    XLA:CPU widens two-byte floats, the others reduce-scatter sums of which each device keeps a part. Only libtpu knows what else XLA:TPU
    does.

    Nothing of the program is called: its StableHLO is enough (`without_functions`). Raises `PartitionError`.
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
    """The plan with only the part of its program that `ask_partitioner` reads, which is data: it can be sent to another process."""
    bare = copy.copy(plan)
    program = replace(plan.program, step=_NO_STEP, reference=None)
    if all(each.is_closed for each in plan.argument_shardings):  # else propagation closes them there
        program = replace(program, module=b"", operations=())
    object.__setattr__(bare, "program", program)  # not by `updated`: the layout was verified before
    return bare


def _return_nothing(*_: object) -> tuple[()]:
    return ()


_NO_STEP = Step(_return_nothing, _return_nothing, _return_nothing)


def _read_answer_collectives(answer: PartitionerAnswer, plan: Plan, platform: str) -> tuple[PartitionedCollective, ...]:
    found: Sequence[LocatedCollective] = find_collectives(read_module(answer.module), plan.mesh)
    if platform != "cpu":
        found = tuple(scatter_sums(found, plan.mesh, in_part=platform in ("tpu", "cuda")))
    return tuple(each.collective for each in found)


def _run_partitioner(plan: Plan, platform: str) -> PartitionerAnswer:
    given = result_shardings(plan)
    open_results = tuple(number not in given for number in range(len(plan.program.results)))
    try:
        return ask(module_of(plan), plan.mesh.size, open_results, widens=platform == "cpu")
    except XlaRefusedError as error:
        raise xla_refusal(error.words, plan.program) from error


def gathered_whole(words: str) -> tuple[GatheredWhole, ...]:
    """The warnings in XLA's output, each once."""
    warned = read_warnings(words)
    found = (GatheredWhole(next(iter(operations_named(each.op_name)), -1), each.shape, each.before, each.after) for each in warned)
    return tuple(dict.fromkeys(found))


# Reduce-scatters: sums of which each device keeps only its part, which XLA:TPU and XLA:GPU form and XLA:CPU does not.
#
# XLA's partitioner all-reduces, and each device slices its part out (`reduce_scatter_creator.cc` joins the two). What is summed over more
# axes than it is split along is scattered along those first, so that the sum along the rest is of the part only.

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


# The error for a plan that XLA's partitioner refuses: where in the user's program, whose bug it is, what to write instead.

_INTERNAL = ("INTERNAL", "RET_CHECK", "Check failed", "UNIMPLEMENTED")
_NAME = re.compile(r'op_name="([^"]*)"|%(wb\d+)')
_MOST_NAMED = 3


class _NamedPlace(NamedTuple):
    path: str
    source: str
    rank: int

    def __str__(self) -> str:
        return f"`{self.path}` ({self.source})" if self.source and self.path else f"`{self.path or self.source}`"


def xla_refusal(text: str, program: Program) -> PartitionError:
    """The error for what XLA's partitioner said; `program` is read for the places of the operations that it names."""
    places = list(dict.fromkeys(_find_places(text, program)))[:_MOST_NAMED]
    where = f" at {', '.join(map(str, places))}" if places else ""
    return PartitionError(f"XLA refuses this plan{where}: {opening_text(text, 300)}", list(_ways_out(text, places)), text)


def _ways_out(text: str, places: Sequence[_NamedPlace]) -> Iterator[str]:
    if place := next((each for each in places if each.path and each.rank > 0), None):
        yield f"keep that value whole, `@{place.path}=[{', '.join('-' * place.rank)}]`"
    yield "revert the layout"
    if any(sign in text for sign in _INTERNAL):
        yield "XLA's own: report it to openxla/xla"


def _find_places(text: str, program: Program) -> Iterator[_NamedPlace]:
    numbers = [number for named, own in _NAME.findall(text) for number in operations_named(named or own)]
    if not numbers:
        return
    module = parse_module(program.lowered)
    with module.context, ir.Location.unknown():
        operations = list(operations_called(module.operation))
        found = (_NamedPlace(*place_of(*operations[number])) for number in numbers if number < len(operations))
        yield from (each for each in found if each.path or each.source)
