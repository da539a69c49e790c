"""Partition a plan through a disk cache and the warm process."""

import json
import os
from concurrent.futures import Future
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import IO, Protocol

from workbench.cost.tpu_kernel_cycles import rates_for
from workbench.engine.compile.compile_cache import hash_key, load_file, store_file
from workbench.engine.compile.compile_targets import CLOCKS, compiler_flags, versions
from workbench.engine.partitioner.libtpu_client import asks_libtpu
from workbench.engine.partitioner.partitioner_client import shared_worker
from workbench.hardware.hardware import Hardware
from workbench.plan.plan import Plan
from workbench.reports.compiled import CompiledMemory, Scheduled
from workbench.reports.partitioned import GatheredWhole, Partitioned, PartitionedCollective
from workbench.spmd.ask_partitioner import COMPILER


class PartitionService(Protocol):
    """A `WarmWorker`, or one of another process."""

    def ask(self, plan: Plan, target: Hardware | str = "") -> Future[Partitioned]: ...


MOST_FILES = 10_000
"""Maximal number of cached answers, a few kilobytes each; the least recently used are deleted first."""
_READER = 12  # increment if the question changes, or the reading of answers


def partition_plan(plan: Plan, hardware: Hardware | None = None, *, keep: bool = True) -> Partitioned:
    """Run XLA's partitioner on a plan for this hardware, by default the plan's; an interrupt cancels it.

    Raises `PartitionError` if XLA refuses the plan or crashes.
    """
    answer = start_partition(plan, hardware, keep=keep)
    try:
        return answer.result()
    except KeyboardInterrupt:
        shared_worker().cancel(answer)
        raise


def start_partition(
    plan: Plan, hardware: Hardware | None = None, *, keep: bool = True, worker: PartitionService | None = None
) -> Future[Partitioned]:
    """Like `partition_plan`, as a future, already done if cached. `worker`: by default this process's."""
    target = target_of(plan, hardware or plan.hardware)
    key = _key(plan, target) if keep else ""
    if key and (cached := load_file(_file(key), _parse_partitioned)) is not None:
        finished: Future[Partitioned] = Future()
        finished.set_result(cached)
        return finished
    answer = (worker or shared_worker()).ask(plan, target)
    if key:
        answer.add_done_callback(partial(_store_answer, key))
    return answer


def target_of(plan: Plan, hardware: Hardware | None) -> Hardware | str:
    """Return the hardware if libtpu compiles for it and is installed, else the platform of XLA's partitioner.

    The platform is empty without hardware.
    """
    if hardware is not None and asks_libtpu(plan, hardware):
        return hardware
    return hardware.chip.platform if hardware else ""


def _key(plan: Plan, target: Hardware | str) -> str:
    """Hash the inputs of the answer. Layout statements apply by path and dimension name, so these are included."""
    program = plan.program
    names = f"{program.identity} {[str(argument) for argument in program.arguments]} {program.carried}"
    paths = "\n".join(f"{operation.path} {operation.source}" for operation in program.operations) if plan.layout.constraints else ""
    target_key = target if isinstance(target, str) else _key_of_libtpu(plan, target)
    return hash_key(names, paths, str(plan.mesh), str(plan.layout), target_key, COMPILER, str(_READER))


def _key_of_libtpu(plan: Plan, hardware: Hardware) -> str:
    clock = CLOCKS[hardware.chip.target]
    device_key = f"{hardware} {hardware.chip.target} {hardware.axes} {plan.axis_assignment}"
    return f"{device_key} {versions()} {compiler_flags()} {clock} {rates_for(hardware.chip, clock)}"


def _store_answer(key: str, answer: Future[Partitioned]) -> None:
    if not answer.cancelled() and answer.exception() is None:
        store_file(_file(key), json.dumps(asdict(answer.result())).encode(), _make_room)


def _file(key: str) -> str:
    return f"partitioned/{key}.json"


def _make_room(where: Path) -> None:
    names = os.listdir(where)  # noqa: PTH208 - names alone, thousands of them
    if len(names) > MOST_FILES:
        oldest = sorted(where.iterdir(), key=lambda path: path.stat().st_mtime)
        for path in oldest[: len(names) - MOST_FILES * 9 // 10]:
            path.unlink(missing_ok=True)


def _parse_partitioned(file: IO[bytes]) -> Partitioned:
    record = json.load(file)
    collectives = tuple(PartitionedCollective(**{**entry, "axes": tuple(entry["axes"])}) for entry in record["collectives"])
    gathered = tuple(GatheredWhole(**entry) for entry in record["gathered_whole"])
    scheduled = record.get("scheduled")
    if scheduled is not None:
        scheduled = Scheduled(**{**scheduled, "memory": CompiledMemory(**scheduled["memory"])})
    return Partitioned(**{**record, "collectives": collectives, "gathered_whole": gathered, "scheduled": scheduled})
