"""Runners that use worker processes of the engine, which is imported on the first request."""

from concurrent.futures import Future
from dataclasses import dataclass
from typing import Protocol

from workbench import engine
from workbench.app.runners.job_queue import RUN_LIMIT
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


@dataclass(frozen=True, slots=True)
class WorkerRunner:
    """Runs and compiles in worker processes of the engine, with time limits in seconds."""

    run_limit: float = RUN_LIMIT
    compile_limit: float = RUN_LIMIT

    def start(self, plan: Plan, steps: int, on_event: RunListener) -> RunHandle:
        return engine.start_run(plan, steps, on_event, time_limit=self.run_limit)

    def compile(self, plan: Plan, on_event: RunListener, *, behind: bool = False) -> RunHandle:
        return engine.start_compile(plan, plan.hardware, on_event, self.compile_limit, behind=behind)

    def calibrate(self, plan: Plan, on_event: RunListener) -> RunHandle:
        return engine.start_calibration(plan, on_event, time_limit=self.run_limit)

    def calibrated(self, plan: Plan) -> Hardware | None:
        return engine.kept_calibration(plan.mesh.size)

    def expect(self, plan: Plan) -> None:
        if not self.refuses(plan):
            engine.prepare_compile(plan)

    def refuses(self, plan: Plan) -> str:
        return engine.why_not_compiled(plan)

    def search(self, space: SearchSpace, on_event: SearchListener) -> SearchHandle:
        return engine.start_searches(space, on_event)

    def expect_search(self, plan: Plan) -> None:
        engine.prepare_searches(plan)


class WorkerFleetRunner:
    """Trains and times fleets in worker processes of the engine."""

    def train(self, fleet: Fleet, on_event: TrainingListener) -> FleetHandle:
        return engine.start_fleet(fleet, on_event)

    def time(self, fleet: Fleet, on_event: TrainingListener) -> RunHandle:
        return engine.start_timing(fleet, on_event)

    def add_model_command(self, model: FleetModel) -> AddModel:
        return engine.add_model_command(model)


class Worker(Protocol):
    """A warm process, of this process or of the server (`engine.WarmWorker`)."""

    def ask(self, plan: Plan, target: Hardware | str = "") -> Future[Partitioned]: ...

    def cancel(self, answer: Future[Partitioned]) -> None: ...


@dataclass(frozen=True, slots=True)
class EnginePartitioner:
    """Queries the partitioner for answers that are not cached on disk, by default in this process's worker."""

    worker: Worker | None = None

    def ask(self, plan: Plan, hardware: Hardware | None) -> Future[Partitioned]:
        return engine.start_partition(plan, hardware, worker=self._worker())

    def cancel(self, answer: Future[Partitioned]) -> None:
        self._worker().cancel(answer)

    def _worker(self) -> Worker:
        return engine.shared_worker() if self.worker is None else self.worker
