"""`open_answerer`: this process, worker processes, or a Ray cluster, whichever a search asks for."""

import os
from functools import partial

from workbench.engine.search.pack_space import pack_space
from workbench.engine.search.process_worker import ProcessWorker
from workbench.engine.search.worker_pool import WorkerPool
from workbench.errors import EngineError
from workbench.search.best_first import IN_FLIGHT
from workbench.search.evaluator import Evaluator
from workbench.search.questions import Answerer, InProcess


def open_answerer(evaluator: Evaluator, workers: int | None = None, cluster: str | None = None) -> Answerer:
    """Who answers the questions of a search of the evaluator's space; close it afterwards.

    `workers` processes of this machine, one for each processor if not said; 0 is this process alone. `cluster`: the address of a Ray
    cluster, `ray://HOST:PORT`, or `local` for one that is started here, for so many actors. `IN_FLIGHT` are started at most: a search asks
    no more questions at a time. Raises `EngineError` for a number that is too low, a cluster that does not answer, and programs that cannot
    be sent.
    """
    if workers is not None and workers < (0 if cluster is None else 1):
        ways = ["give 0, to plan in this process, or more"] if cluster is None else ["give 1 or more", "search without a cluster"]
        raise EngineError(f"{workers} workers{'' if cluster is None else ' on a cluster'} cannot plan anything.", ways)
    if cluster is not None:
        from workbench.engine.search.ray_workers import open_ray_pool

        return open_ray_pool(evaluator, cluster, workers)
    count = min(count_processors() if workers is None else workers, IN_FLIGHT)
    return WorkerPool(evaluator, count, partial(ProcessWorker, pack_space(evaluator.space))) if count else InProcess(evaluator)


def count_processors() -> int:
    """The processors that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
