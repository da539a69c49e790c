"""The partitioner's client for a board: the engine, which is imported when the first board asks."""

from concurrent.futures import Future
from dataclasses import dataclass
from typing import Protocol

from workbench.hardware.hardware import Hardware
from workbench.plan.plan import Plan
from workbench.reports.partitioned import Partitioned


class Worker(Protocol):
    """A warm process, this one's or that of the server (`engine.WarmWorker`)."""

    def ask(self, plan: Plan, target: Hardware | str = "") -> Future[Partitioned]: ...

    def cancel(self, answer: Future[Partitioned]) -> None: ...


@dataclass(frozen=True, slots=True)
class EnginePartitioner:
    """Asks where the disk has no cached answer; by default with this process's own worker."""

    worker: Worker | None = None

    def ask(self, plan: Plan, hardware: Hardware | None) -> Future[Partitioned]:
        from workbench.engine import start_partition

        answer: Future[Partitioned] = start_partition(plan, hardware, worker=self._worker())
        return answer

    def cancel(self, answer: Future[Partitioned]) -> None:
        self._worker().cancel(answer)

    def _worker(self) -> Worker:
        if self.worker is not None:
            return self.worker
        from workbench.engine import shared_worker

        own: Worker = shared_worker()
        return own
