"""Run, compile and search in worker processes of the engine, which is imported on the first request."""

from dataclasses import dataclass

from workbench.hardware.hardware import Hardware
from workbench.plan.plan import Plan
from workbench.reports.run_events import RunListener
from workbench.search.search_messages import SearchListener
from workbench.search.search_space import SearchSpace
from workbench.widgets.run.runner import RunHandle, SearchHandle

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
