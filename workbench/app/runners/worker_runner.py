"""Run, compile and search, train and time fleets, and ask XLA's partitioner in worker processes of the engine, which is imported on the
first request."""

from concurrent.futures import Future
from dataclasses import dataclass
from typing import Protocol

from workbench.hardware.hardware import Hardware
from workbench.multimodel.fleet import Fleet, FleetModel
from workbench.multimodel.training_events import AddModel, TrainingListener
from workbench.plan.plan import Plan
from workbench.reports.partitioned import Partitioned
from workbench.reports.run_events import RunListener
from workbench.search.search_messages import SearchListener
from workbench.search.search_space import SearchSpace
from workbench.widgets.fleet.fleet_jobs import FleetHandle
from workbench.widgets.run.runner_protocol import RunHandle, SearchHandle

RUN_LIMIT = COMPILE_LIMIT = 1800.0  # seconds, from the start of the worker process on


@dataclass(frozen=True, slots=True)
class WorkerRunner:
    """Runs and compiles in worker processes, through the engine, each for so many seconds at most."""

    run_limit: float = RUN_LIMIT
    compile_limit: float = COMPILE_LIMIT

    def start(self, plan: Plan, steps: int, on_event: RunListener) -> RunHandle:
        from workbench.engine import start_run

        handle: RunHandle = start_run(plan, steps, on_event, time_limit=self.run_limit)
        return handle

    def compile(self, plan: Plan, on_event: RunListener, *, behind: bool = False) -> RunHandle:
        from workbench.engine import start_compile

        handle: RunHandle = start_compile(plan, plan.hardware, on_event, self.compile_limit, behind=behind)
        return handle

    def calibrate(self, plan: Plan, on_event: RunListener) -> RunHandle:
        from workbench.engine import start_calibration

        handle: RunHandle = start_calibration(plan, on_event, time_limit=self.run_limit)
        return handle

    def calibrated(self, plan: Plan) -> Hardware | None:
        from workbench.engine import kept_calibration

        return kept_calibration(plan.mesh.size)

    def expect(self, plan: Plan) -> None:
        from workbench.engine import prepare_compile

        if not self.refuses(plan):
            prepare_compile(plan)

    def refuses(self, plan: Plan) -> str:
        from workbench.engine import why_not_compiled

        return why_not_compiled(plan)

    def search(self, space: SearchSpace, on_event: SearchListener) -> SearchHandle:
        from workbench.engine import start_searches

        handle: SearchHandle = start_searches(space, on_event)
        return handle

    def expect_search(self, plan: Plan) -> None:
        from workbench.engine import prepare_searches

        prepare_searches(plan)


# Train and time fleets in worker processes of the engine, which is imported on the first request.


class WorkerFleetRunner:
    """In worker processes, through the engine."""

    def train(self, fleet: Fleet, on_event: TrainingListener) -> FleetHandle:
        from workbench.engine import start_fleet

        handle: FleetHandle = start_fleet(fleet, on_event)
        return handle

    def time(self, fleet: Fleet, on_event: TrainingListener) -> RunHandle:
        from workbench.engine import start_timing

        handle: RunHandle = start_timing(fleet, on_event)
        return handle

    def add_model_command(self, model: FleetModel) -> AddModel:
        from workbench.engine import add_model_command

        return add_model_command(model)


# The partitioner's client for a board: the engine, which is imported when the first board asks.


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
