"""Start a process that searches a space of plans."""

from workbench.engine.worker.job_handle import Handle
from workbench.engine.worker.job_payload import WorkerJob
from workbench.engine.worker.worker_process import environment, standby_for
from workbench.plan.plan import Plan
from workbench.search.search_messages import SearchListener
from workbench.search.search_space import SearchSpace

KIND = "search"
_PLANS_ALONE = {"JAX_PLATFORMS": "cpu", "JAX_NUM_CPU_DEVICES": "1"}
"""Planning needs no device, and whoever runs a plan needs the accelerators whole."""


def start_searches(space: SearchSpace, on_event: SearchListener) -> Handle[int]:
    """Start a process for a space, at low priority: `handle.send(AskSearch(request))` asks it, `handle.cancel()` ends it at once.

    `on_event` is called from a thread with `SearchUpdated`, `PlanExplained` and `SearchRefused`, and at last, once, with `SearchClosed`,
    `Failed` or `Cancelled`. The space holds its programs as they were traced, for a program that was sent cannot be traced with another
    remat. Raises `EngineError` if the program's functions cannot be sent.
    """
    return Handle(_search_job(space.start, space), on_event)


def prepare_searches(plan: Plan) -> None:
    """Start a process that waits for a space, so that `start_searches` need not start Python and import JAX. It ends after ten minutes."""
    standby_for(KIND).prepare(environment(_search_job(plan, None)), KIND)


def _search_job(plan: Plan, space: SearchSpace | None) -> WorkerJob:
    return WorkerJob(KIND, "search", plan, {"space": space}, environment=_PLANS_ALONE, behind=True)
