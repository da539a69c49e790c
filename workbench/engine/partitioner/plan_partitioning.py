"""A plan's partitioning: from the cache on disk where the same plan was partitioned before, else from the warm process, and then cached.

It is only a cache: a file that cannot be read is deleted and made anew.
"""

import json
import os
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any, Protocol

from workbench.core.parse_untrusted import open_plain
from workbench.cost.tpu_kernel_cycles import rates_for
from workbench.engine.compile.compile_cache import cache_folder, hash_key
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
"""The number of cached answers, a few kilobytes each; the least recently used are deleted first."""
_READER = 11  # raised when the question, or what is read of an answer, changes


def partition_plan(plan: Plan, hardware: Hardware | None = None, *, keep: bool = True) -> Partitioned:
    """Run XLA's partitioner on a plan for this hardware, else for the plan's own; an interrupt cancels it.

    Raises `PartitionError` where XLA refuses the plan, or crashes on it.
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
    """Like `partition_plan`, as a future, which is done at once if the answer is cached. `worker`: by default this process's own."""
    target = target_of(plan, hardware or plan.hardware)
    key = _key(plan, target) if keep else ""
    if key and (known := _load(key)) is not None:
        found: Future[Partitioned] = Future()
        found.set_result(known)
        return found
    answer = (worker or shared_worker()).ask(plan, target)
    if key:
        answer.add_done_callback(partial(_store_answer, key))
    return answer


def target_of(plan: Plan, hardware: Hardware | None) -> Hardware | str:
    """Which compiler is asked: the hardware's own, where that is libtpu and is installed; else XLA's generic partitioner, for this
    platform, or for none without hardware."""
    if hardware is not None and asks_libtpu(plan, hardware):
        return hardware
    return hardware.chip.platform if hardware else ""


def _key(plan: Plan, target: Hardware | str) -> str:
    """A hash of what the answer depends on. Layout statements apply by path and dimension name, so these are included."""
    program = plan.program
    names = f"{program.identity} {[str(each) for each in program.arguments]} {program.carried}"
    paths = "\n".join(f"{each.path} {each.source}" for each in program.operations) if plan.layout.constraints else ""
    target_key = target if isinstance(target, str) else _key_of_libtpu(plan, target)
    return hash_key(names, paths, str(plan.mesh), str(plan.layout), target_key, COMPILER, str(_READER))


def _key_of_libtpu(plan: Plan, hardware: Hardware) -> str:
    clock = CLOCKS[hardware.chip.target]
    where = f"{hardware} {hardware.chip.target} {hardware.axes} {plan.axis_assignment}"
    return f"{where} {versions()} {compiler_flags()} {clock} {rates_for(hardware.chip, clock)}"


def _path(key: str) -> Path:
    return cache_folder() / "partitioned" / f"{key}.json"


def _load(key: str) -> Partitioned | None:
    try:
        path = _path(key)
        with open_plain(path) as file:
            found = _parse_partitioned(json.load(file))
    except (FileNotFoundError, RuntimeError):
        return None
    except Exception:  # noqa: BLE001 - with damaged data JSON and the record may raise anything
        with suppress(OSError):
            path.unlink()
        return None
    with suppress(OSError):
        path.touch()
    return found


def _store_answer(key: str, answer: Future[Partitioned]) -> None:
    """Cache an answer; neither a disk that is full or not writable nor an answer that did not come is an error."""
    if answer.cancelled() or answer.exception() is not None:
        return
    with suppress(OSError, RuntimeError):
        path = _path(key)
        path.parent.mkdir(parents=True, exist_ok=True)
        unfinished = path.with_suffix(f".{os.getpid()}")
        unfinished.write_text(json.dumps(asdict(answer.result())), encoding="utf-8")
        unfinished.replace(path)
        _make_room(path.parent)


def _make_room(where: Path) -> None:
    names = os.listdir(where)  # noqa: PTH208 - names alone, thousands of them
    if len(names) > MOST_FILES:
        oldest = sorted(where.iterdir(), key=lambda each: each.stat().st_mtime)
        for each in oldest[: len(names) - MOST_FILES * 9 // 10]:
            each.unlink(missing_ok=True)


def _parse_partitioned(record: dict[str, Any]) -> Partitioned:
    collectives = tuple(PartitionedCollective(**{**each, "axes": tuple(each["axes"])}) for each in record["collectives"])
    gathered = tuple(GatheredWhole(**each) for each in record["gathered_whole"])
    scheduled = record.get("scheduled")
    if scheduled is not None:
        scheduled = Scheduled(**{**scheduled, "memory": CompiledMemory(**scheduled["memory"])})
    return Partitioned(**{**record, "collectives": collectives, "gathered_whole": gathered, "scheduled": scheduled})
