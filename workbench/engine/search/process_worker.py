"""A worker process of a search, as its pool holds it."""

import pickle
import signal

from workbench.core.public_error_text import last_line, process_end_text, strip_folders
from workbench.engine.partitioner.partitioner_connection import WarmProcess, WarmProcessEnded
from workbench.engine.search.worker_pool import WorkerEnded
from workbench.search.questions import Answer, Question

MODULE = "workbench.engine.search.search_process"
TIME_LIMIT = 600.0  # seconds for one answer


class ProcessWorker:
    """One process of this machine, with the space that `pack_space` made."""

    noun = "process"

    def __init__(self, space: bytes) -> None:
        self._space = space
        self._process = WarmProcess(MODULE)

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def is_gone(self) -> bool:
        return self._process.is_gone

    def wait_until_ready(self) -> None:
        """Until JAX is imported and the space is there. Raises `WorkerEnded`."""
        try:
            self._process.wait_until_ready()
            self._process.ask(self._space, TIME_LIMIT)
        except (WarmProcessEnded, TimeoutError) as error:
            raise WorkerEnded(_describe_end(error)) from None

    def ask(self, question: Question) -> Answer:
        """The answer. Raises `WorkerEnded` where the process dies first or needs more than `TIME_LIMIT`."""
        try:
            found: Answer = self._process.ask(pickle.dumps(question), TIME_LIMIT)[1]
        except (WarmProcessEnded, TimeoutError) as error:
            raise WorkerEnded(_describe_end(error)) from None
        return found

    def kill(self) -> None:
        self._process.kill()

    def close(self) -> None:
        self._process.close()


def _describe_end(error: WarmProcessEnded | TimeoutError) -> str:
    if isinstance(error, TimeoutError):
        return f"because it took more than {TIME_LIMIT:.0f} s"
    how = process_end_text(error.status)
    if error.status == -signal.SIGKILL:
        return f"{how}: Linux does so when memory runs out, and a person can by hand"
    words = strip_folders(last_line(error.last_words)).rstrip(".")
    return f"{how}. Its last words: {words}" if words else how
