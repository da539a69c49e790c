"""What a training fleet is told meanwhile, and what it tells."""

from collections.abc import Mapping
from queue import SimpleQueue
from typing import Any, Protocol

from workbench.engine.fleet.executor import FleetExecutor, Listener
from workbench.engine.worker.failures import in_user_terms
from workbench.engine.worker.job_payload import unpack_model
from workbench.errors import EngineError, WorkbenchError
from workbench.multimodel.fleet import Fleet, FleetModel

Orders = SimpleQueue[dict[str, Any]]


class RunningFleet(Protocol):
    """A fleet that runs (`train.FleetRun`), as far as orders need it."""

    executor: FleetExecutor

    def add(self, model: FleetModel) -> None:
        """One more model; raises `WorkbenchError` where it cannot be trained with the others."""
        ...


class Stage:
    """Hears of everything, and knows at which stage it was: it outlives the failure that it explains."""

    def __init__(self, tell: Listener) -> None:
        self.tell, self.name = tell, "starting"

    def __call__(self, event: dict[str, Any]) -> None:
        self.name = event.get("stage", self.name)
        self.tell(event)


def handle_command(run: RunningFleet, orders: Orders, stage: Stage) -> None:
    """Each order as it comes, to the end of the process: whatever one of them meets with, it is answered, and the next one is read."""
    while True:
        order = orders.get()
        about = {key: value for key, value in order.items() if key != "parcel"}
        try:
            answer = {"event": "obeyed", **about, **_obeyed(run, order, stage)}
        except Exception as error:  # noqa: BLE001 - whatever a user's function or XLA raises is told, in the answer
            answer = {"event": "refused", **about, "message": str(_refusal(error, about))}
        stage(answer)


def _obeyed(run: RunningFleet, order: dict[str, Any], stage: Stage) -> Mapping[str, int]:
    """What is told of it besides: how far the model is that it was about."""
    if order.get("order") == "add":
        model = unpack_model(order.get("parcel", ""))
        _add(run, model, stage)
        return run.executor.progress_of(model.name)
    run.executor.handle_command(order)
    return run.executor.progress_of(order["model"]) if order["order"] == "stop" else {}


def _add(run: RunningFleet, model: FleetModel, stage: Stage) -> None:
    before = stage.name
    try:
        run.add(model)
    except Exception as error:
        refusal = in_user_terms(error, Fleet((model,)), stage.name)
        stage({"event": "progress", "stage": before, "fraction": 0.0, "model": ""})  # the others are there still
        raise refusal from error


def _refusal(error: Exception, order: Mapping[str, Any]) -> WorkbenchError:
    if isinstance(error, WorkbenchError):
        return error
    return EngineError(f"The order {dict(order)} could not be carried out: {type(error).__name__}: {error}", ["write it otherwise"])
