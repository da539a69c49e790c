"""A plan given to XLA's partitioner, and its answer read: what the worker process does."""

import copy
import time
from collections.abc import Sequence
from dataclasses import replace

import jaxlib

from workbench.core.program import Step
from workbench.plan.plan import Plan
from workbench.propagation import module_of
from workbench.propagation.module.insert_statements import result_shardings
from workbench.reports.partitioned import GatheredWhole, Partitioned, PartitionedCollective
from workbench.spmd.hlo_module import read_module
from workbench.spmd.locate_xla_collectives import LocatedCollective, find_collectives, operations_named
from workbench.spmd.partitioner_warnings import read_warnings
from workbench.spmd.reduce_scatters import scatter_sums
from workbench.spmd.run_partitioner import PartitionerAnswer, ask

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
    program = replace(plan.program, module=b"", operations=(), step=_NO_STEP, reference=None)
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
    return ask(module_of(plan), plan.mesh.size, open_results, widens=platform == "cpu")


def gathered_whole(words: str) -> tuple[GatheredWhole, ...]:
    """The warnings in XLA's output, each once."""
    warned = read_warnings(words)
    found = (GatheredWhole(next(iter(operations_named(each.op_name)), -1), each.shape, each.before, each.after) for each in warned)
    return tuple(dict.fromkeys(found))
