"""Carry out and answer the commands to a training fleet."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Protocol, assert_never

from workbench.engine.fleet.fleet_executor import FleetExecutor
from workbench.engine.worker.failure_messages import in_user_terms
from workbench.engine.worker.job_payload import unpack_model
from workbench.errors import EngineError, WorkbenchError
from workbench.multimodel import training_events
from workbench.multimodel.fleet import Fleet, FleetModel
from workbench.reports.run_events import Progress


class RunningFleet(Protocol):
    """The part of a running fleet (`train_fleet.FleetRun`) that commands need."""

    executor: FleetExecutor

    def add(self, model: FleetModel) -> None:
        """Add one more model; raises `WorkbenchError` if it cannot be trained with the others."""
        ...


class Stage:
    """Forwards every event and remembers the current stage, which explains failures."""

    def __init__(self, tell: training_events.TrainingListener) -> None:
        self.tell, self.name = tell, "starting"

    def __call__(self, event: training_events.TrainingEvent) -> None:
        if isinstance(event, Progress):
            self.name = event.stage
        self.tell(event)


def handle_commands(run: RunningFleet, commands: training_events.CommandQueue, stage: Stage) -> None:
    """Carry out commands until the process ends; each one is answered, whatever error it raises."""
    while True:
        command = commands.get()
        about = replace(command, payload=b"") if isinstance(command, training_events.AddModel) else command
        answer: training_events.CommandDone | training_events.CommandRefused
        try:
            answer = training_events.CommandDone(about, **_carry_out(run, command, stage))
        except Exception as error:  # noqa: BLE001 - any error of a user's function or XLA goes into the answer
            answer = training_events.CommandRefused(about, str(_refusal(error, about)))
        stage(answer)


def _carry_out(run: RunningFleet, command: training_events.FleetCommand, stage: Stage) -> Mapping[str, int]:
    membership = run.executor.membership
    match command:
        case training_events.AddModel(payload=payload):
            model = unpack_model(payload)
            _add(run, model, stage)
            return membership.progress_of(model.name)
        case training_events.StopModel(model=name):
            membership.stop(name)
            return membership.progress_of(name)
        case training_events.RemoveDevice(device=number):
            membership.leave(number)
        case training_events.ReturnDevice(device=number):
            membership.return_device(number)
        case _:
            assert_never(command)
    return {}


def _add(run: RunningFleet, model: FleetModel, stage: Stage) -> None:
    before = stage.name
    try:
        run.add(model)
    except Exception as error:
        refusal = in_user_terms(error, Fleet((model,)), stage.name)
        stage(Progress(before))  # the other models continue
        raise refusal from error


def _refusal(error: Exception, command: training_events.FleetCommand) -> WorkbenchError:
    if isinstance(error, WorkbenchError):
        return error
    return EngineError(f"The command {command} could not be carried out: {type(error).__name__}: {error}", ["write it otherwise"])
