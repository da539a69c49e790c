"""`open_answerer`: this process, worker processes, or a Ray cluster, whichever a search asks for."""

import os

from workbench.engine.search.worker_pool import WorkerPool
from workbench.errors import EngineError
from workbench.search.evaluator import Evaluator
from workbench.search.questions import Answerer, InProcess


def open_answerer(evaluator: Evaluator, workers: int | None = None, cluster: str | None = None) -> Answerer:
    """Who answers the questions of a search of the evaluator's space; close it afterwards.

    `workers` processes of this machine, one for each processor if not said; 0 is this process alone. `cluster`: the address of a Ray
    cluster, `ray://HOST:PORT`, or `local` for one that is started here. Raises `EngineError` for a number below 0, a cluster that does not
    answer, and programs that cannot be sent.
    """
    if cluster is not None:
        from workbench.engine.search.ray_workers import RayWorkers

        return RayWorkers(evaluator.space, cluster, workers)
    count = count_processors() if workers is None else workers
    if count < 0:
        raise EngineError(f"{count} workers cannot plan anything.", ["give 0, to plan in this process, or more"])
    return WorkerPool(evaluator, count) if count else InProcess(evaluator)


def count_processors() -> int:
    """The processors that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
