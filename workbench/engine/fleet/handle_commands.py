"""Commands that a training fleet receives while it runs, each carried out and answered."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Protocol, assert_never

from workbench.engine.fleet.fleet_executor import FleetExecutor
from workbench.engine.worker.failure_messages import in_user_terms
from workbench.engine.worker.job_payload import unpack_model
from workbench.errors import EngineError, WorkbenchError
from workbench.multimodel.fleet import Fleet, FleetModel
from workbench.multimodel.training_events import (
    AddModel,
    CommandDone,
    CommandQueue,
    CommandRefused,
    FleetCommand,
    RemoveDevice,
    ReturnDevice,
    StopModel,
    TrainingEvent,
    TrainingListener,
)
from workbench.reports.run_events import Progress


class RunningFleet(Protocol):
    """A running fleet (`train.FleetRun`), as far as commands need it."""

    executor: FleetExecutor

    def add(self, model: FleetModel) -> None:
        """Add one more model; raises `WorkbenchError` where it cannot be trained with the others."""
        ...


class Stage:
    """Receives every event and remembers the current stage, so that a failure can be explained by the stage it happened in."""

    def __init__(self, tell: TrainingListener) -> None:
        self.tell, self.name = tell, "starting"

    def __call__(self, event: TrainingEvent) -> None:
        if isinstance(event, Progress):
            self.name = event.stage
        self.tell(event)


def handle_commands(run: RunningFleet, commands: CommandQueue, stage: Stage) -> None:
    """Carry out commands until the process ends: each one is answered, whatever error it raises, and the next one is read."""
    while True:
        command = commands.get()
        about = replace(command, payload="") if isinstance(command, AddModel) else command
        answer: CommandDone | CommandRefused
        try:
            answer = CommandDone(about, **_carry_out(run, command, stage))
        except Exception as error:  # noqa: BLE001 - whatever a user's function or XLA raises goes into the answer
            answer = CommandRefused(about, str(_refusal(error, about)))
        stage(answer)


def _carry_out(run: RunningFleet, command: FleetCommand, stage: Stage) -> Mapping[str, int]:
    """Carry out a command; the result is how far the model it concerns is."""
    membership = run.executor.membership
    match command:
        case AddModel(payload=payload):
            model = unpack_model(payload)
            _add(run, model, stage)
            return membership.progress_of(model.name)
        case StopModel(model=name):
            membership.stop(name)
            return membership.progress_of(name)
        case RemoveDevice(device=number):
            membership.leave(number)
        case ReturnDevice(device=number):
            membership.come_back(number)
        case _:
            assert_never(command)
    return {}


def _add(run: RunningFleet, model: FleetModel, stage: Stage) -> None:
    before = stage.name
    try:
        run.add(model)
    except Exception as error:
        refusal = in_user_terms(error, Fleet((model,)), stage.name)
        stage(Progress(before))  # the others still exist
        raise refusal from error


def _refusal(error: Exception, command: FleetCommand) -> WorkbenchError:
    if isinstance(error, WorkbenchError):
        return error
    return EngineError(f"The command {command} could not be carried out: {type(error).__name__}: {error}", ["write it otherwise"])
