"""Actors of a Ray cluster that answer the questions of a search, as worker processes of this machine do. The one file that imports Ray."""

import socket
import warnings
from collections.abc import Sequence
from typing import Any
from zlib import crc32

from workbench.engine.search.pack_space import pack_space, unpack_evaluator
from workbench.errors import EngineError
from workbench.search.questions import Answer, Question, answer
from workbench.search.search_space import SearchSpace

LOCAL = "local"
PATIENCE = 10.0  # seconds for a cluster to answer
_ACTORS = 4  # where nothing says how many


class _SearchActor:
    """Holds an evaluator on one machine of the cluster."""

    def __init__(self, space: bytes) -> None:
        self._evaluator = unpack_evaluator(space)

    def answer(self, question: Question) -> Answer:
        """The answer to one question."""
        return answer(self._evaluator, question)


class RayWorkers:
    """Answers with actors of a Ray cluster; `close` ends them and, where it was started here, the cluster."""

    def __init__(self, space: SearchSpace, address: str, workers: int | None = None) -> None:
        self._ray = _import_ray()
        content = pack_space(space)
        _connect(self._ray, address)
        count = workers or _count_processors(self._ray)
        actor = self._ray.remote(num_cpus=1)(_SearchActor)
        shared = self._ray.put(content)
        self._actors = [actor.remote(shared) for _ in range(count)]

    def ask(self, questions: Sequence[Question]) -> list[Answer]:
        """The answers, in the order of the questions; what an actor died of is refused."""
        found = [self._actor_of(each).answer.remote(each) for each in questions]
        return [self._get(each, question) for each, question in zip(found, questions, strict=True)]

    def close(self) -> None:
        """End the actors, and leave the cluster."""
        for each in self._actors:
            self._ray.kill(each)
        self._ray.shutdown()

    def _actor_of(self, question: Question) -> Any:
        """Questions that read one traced network go to one actor."""
        return self._actors[crc32(repr(question.trace_key).encode()) % len(self._actors)]

    def _get(self, reference: Any, question: Question) -> Answer:
        try:
            found: Answer = self._ray.get(reference)
        except self._ray.exceptions.RayError as error:
            line = next(iter(str(error).splitlines()), type(error).__name__)
            return EngineError(
                f"The actor that planned {question.candidate} ended: {line[:200]}", ["search again", "search without a cluster"]
            )
        return found


def _import_ray() -> Any:
    try:
        import ray
    except ModuleNotFoundError:
        raise EngineError("A search on a cluster needs Ray, which is not installed.", ['pip install "sharding-workbench[ray]"']) from None
    return ray


def _connect(ray: Any, address: str) -> None:
    """Join the cluster, or start one here. Ray waits for minutes where nobody listens, so that is tried first."""
    ways = ["check the address, ray://HOST:10001 as a rule", "start one here, cluster=local", "search with workers=2 on this machine"]
    if address != LOCAL and not _listens(address):
        raise EngineError(f"No Ray cluster answers at {address}.", ways)
    try:
        with warnings.catch_warnings():  # JAX warns of forks; Ray's own processes are other programs at once
            warnings.filterwarnings("ignore", message="os.fork", category=RuntimeWarning)
            ray.init(address=None if address == LOCAL else address, include_dashboard=False, log_to_driver=False, logging_level="error")
    except Exception as error:  # whatever it raises is said
        line = next(iter(str(error).splitlines()), "")
        raise EngineError(f"The cluster at {address} cannot be joined: {type(error).__name__}: {line[:200]}", ways) from error


def _listens(address: str) -> bool:
    """Whether somebody listens at `ray://HOST:PORT`."""
    host, _, port = address.removeprefix("ray://").rpartition(":")
    try:
        socket.create_connection((host, int(port)), timeout=PATIENCE).close()
    except (OSError, ValueError):
        return False
    return True


def _count_processors(ray: Any) -> int:
    return max(int(ray.cluster_resources().get("CPU", _ACTORS)), 1)
