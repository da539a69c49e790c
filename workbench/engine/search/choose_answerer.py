"""Choose the answerer of a search: this process, worker processes, or a Ray cluster."""

import os
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import Any

from workbench.core.child_process import raise_niceness
from workbench.core.operating_system import CAN_START
from workbench.engine.cluster.ray_cluster import describe_ray_error, join_cluster
from workbench.engine.search.worker_pool import ProcessWorker, WorkerEnded, WorkerPool, pack_space, unpack_evaluator
from workbench.errors import EngineError
from workbench.search.best_first import IN_FLIGHT
from workbench.search.evaluator import Evaluator
from workbench.search.worker_questions import Answer, Answerer, InProcess, Question, answer
from workbench.tracing.jax_backends import force_cpu_backend


def open_answerer(evaluator: Evaluator, workers: int | None = None, cluster: str | None = None) -> Answerer:
    """Return an answerer for a search of the evaluator's space, to be closed afterwards.

    `workers`: processes of this machine, by default one per processor; 0 is this process alone. `cluster`: address of a
    Ray cluster, `ray://HOST:PORT`, or `local` for one started here, with `workers` actors. At most `IN_FLIGHT` are
    started, because a search asks no more concurrent questions.

    Raises `EngineError` for a number that is too low, an unreachable cluster, and programs that cannot be sent.
    """
    if workers is not None and workers < (0 if cluster is None else 1):
        ways = ["use 0 to plan in this process, or more"] if cluster is None else ["give 1 or more", "search without a cluster"]
        raise EngineError(f"{workers} workers{'' if cluster is None else ' on a cluster'} cannot plan.", ways)
    if cluster is not None:
        return open_ray_pool(evaluator, cluster, workers)
    count = min(count_processors() if workers is None else workers, IN_FLIGHT)
    return WorkerPool(evaluator, count, partial(ProcessWorker, pack_space(evaluator.space))) if count else InProcess(evaluator)


def count_processors() -> int:
    """Return the number of processors for worker processes; 0 if no such process can be started."""
    if not CAN_START:
        return 0
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


# Actors of a Ray cluster that answer the questions of a search, like worker processes.

TIME_LIMIT = 600.0  # seconds for one answer
_NICENESS = 5  # yields to other work on the machine
_WAYS = ("check the address, ray://HOST:10001 as a rule", "start one here, cluster=local", "search with workers=2 on this machine")


def open_ray_pool(evaluator: Evaluator, address: str, workers: int | None = None) -> WorkerPool:
    """Return a pool of actors, by default one per processor of the cluster.

    Closing it ends them, and a cluster started here. Raises `EngineError` if Ray is not installed or no cluster
    answers.
    """
    content = pack_space(evaluator.space)
    ray = join_cluster(address, workers, _WAYS)
    count = min(workers or max(int(ray.cluster_resources().get("CPU", 1)), 1), IN_FLIGHT)
    make_worker = partial(_ActorWorker, ray, ray.put(content))
    return WorkerPool(evaluator, count, make_worker, error_without=partial(_no_actor_error, address), on_close=ray.shutdown)


class _SearchActor:
    """Evaluator on one machine of the cluster, with JAX on the CPU only and at low priority."""

    def __init__(self, space: bytes) -> None:
        raise_niceness(_NICENESS)
        force_cpu_backend()
        self._evaluator = unpack_evaluator(space)

    def pid(self) -> int:
        return os.getpid()

    def answer(self, question: Question) -> Answer:
        return answer(self._evaluator, question)


class _ActorWorker:
    """An actor as a worker of the pool."""

    noun = "actor"

    def __init__(self, ray: Any, space: Any) -> None:
        self._ray = ray
        self._actor = ray.remote(num_cpus=1)(_SearchActor).remote(space)
        self.pid = 0

    @property
    def is_gone(self) -> bool:
        """Always `False`, because Ray only reports this when asked something."""
        return False

    def wait_until_ready(self) -> None:
        """Wait until the cluster has a processor for the actor, without limit. Raises `WorkerEnded`."""
        self.pid = self._get(self._actor.pid.remote, None)

    def ask(self, question: Question) -> Answer:
        """Return the answer; raises `WorkerEnded` if the actor dies first or needs more than `TIME_LIMIT`."""
        result: Answer = self._get(partial(self._actor.answer.remote, question), TIME_LIMIT)
        return result

    def kill(self) -> None:
        with suppress(Exception):  # the cluster may already have ended
            self._ray.kill(self._actor)

    def close(self) -> None:
        self.kill()

    def _get(self, call: Callable[[], Any], limit: float | None) -> Any:
        try:
            return self._ray.get(call(), timeout=limit)
        except Exception as error:  # errors of Ray and of a lost connection
            raise WorkerEnded(f"with {describe_ray_error(error)}") from error


def _no_actor_error(address: str, how: str) -> EngineError:
    ways = ["install the same versions of sharding-workbench, JAX and Python on the cluster's machines", *_WAYS[2:]]
    return EngineError(f"No actor started on the cluster at {address}; the last one ended {how}.", ways)
