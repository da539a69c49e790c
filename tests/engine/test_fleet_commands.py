"""Commands to a fleet that trains in a worker process: a device leaves and returns, and models are stopped on the way."""

import threading
from itertools import pairwise
from queue import SimpleQueue

import jax
import jax.numpy as jnp
import optax
import pytest

import workbench as wb
from tests.engine.test_fleet import fleet
from tests.engine.test_fleet_worker import line
from tests.support.fleet_models import batches
from workbench.engine import start_fleet
from workbench.engine.fleet import train_fleet as fleet_engine
from workbench.engine.fleet.handle_commands import Stage, handle_commands
from workbench.engine.fleet.train_fleet import FleetRun
from workbench.engine.worker.job_payload import add_model_command
from workbench.multimodel.fleet import Fleet, FleetModel
from workbench.multimodel.training_events import (
    AddModel,
    CommandDone,
    CommandRefused,
    FleetCommand,
    RemoveDevice,
    ReturnDevice,
    SchedulePredicted,
    StopModel,
    TrainingEvent,
    UnitDone,
)
from workbench.reports.run_events import Progress

pytestmark = [pytest.mark.compile, pytest.mark.worker]


def longest_absence(placed, device: int) -> int:
    """Units of others between two of the device that follow each other."""
    order = [each.device == device for each in sorted(placed, key=lambda each: each.start)]
    places = [place for place, here in enumerate(order) if here]
    return max(after - before - 1 for before, after in pairwise(places))


def test_a_device_leaves_and_returns_in_a_worker_and_stopped_models_end_at_a_mini_batch():
    names = ("a", "b", "c")
    program = line()
    fleet = Fleet(tuple(FleetModel(name, program, 20_000) for name in names), devices=2)
    units: list[UnitDone] = []
    done: dict[FleetCommand, int] = {}  # each command that was carried out, and how many units had been told by then
    asked: set[FleetCommand] = set()
    ends: dict[str, tuple[int, int]] = {}
    schedules: list[SchedulePredicted] = []

    def send_once(command: FleetCommand, when: bool) -> None:
        if when and command not in asked:
            asked.add(command)
            handle.send(command)

    def listen(event):
        match event:
            case SchedulePredicted():
                schedules.append(event)
            case CommandDone(command=command):
                done[command] = len(units)
                if isinstance(command, StopModel):
                    ends[command.model] = (event.done, event.of)
            case UnitDone():
                units.append(event)
                send_once(RemoveDevice(1), len(units) >= 20)
                send_once(ReturnDevice(1), len(units) >= done.get(RemoveDevice(1), 10**9) + 100)
                for name in names:
                    send_once(StopModel(name), len(units) >= done.get(ReturnDevice(1), 10**9) + 100)

    handle = start_fleet(fleet, listen)
    measured = handle.wait()
    assert longest_absence(measured.schedule.placed, device=1) > 90  # it was asked back a hundred units after it had left
    assert measured.schedule.faults() == []
    for name in names:
        done, of = ends[name]
        assert done <= of < 20_000
        assert len(measured.losses[name]) == of
    times = schedules[0].times
    assert times.jobs == measured.jobs[:3]
    assert times.starts == ((0,),) * 3
    assert all(need > 0 for needs in times.needs for need in needs)


class Told:
    """A run that has not begun, and what is answered to commands."""

    def __init__(self) -> None:
        self.events: SimpleQueue[TrainingEvent] = SimpleQueue()
        self.commands: SimpleQueue[FleetCommand] = SimpleQueue()
        stage = Stage(self.events.put)
        self.run = FleetRun(fleet("sgd", devices=2), stage)
        stage(Progress("training"))
        threading.Thread(target=handle_commands, args=(self.run, self.commands, stage), daemon=True).start()

    def answer(self, command: FleetCommand) -> CommandDone | CommandRefused:
        self.commands.put(command)
        while not isinstance(event := self.events.get(timeout=30), CommandDone | CommandRefused):
            self.stage = getattr(event, "stage", None)
        return event


@pytest.fixture(scope="module")
def told() -> Told:
    return Told()


@pytest.mark.parametrize(
    ("command", "message"),
    [
        (RemoveDevice("0"), "There is no device '0' in this run.\n  Try: they are the numbers 0 to 1."),
        (ReturnDevice(None), "There is no device None in this run.\n  Try: they are the numbers 0 to 1."),
        (RemoveDevice(2), "There is no device 2 in this run.\n  Try: they are the numbers 0 to 1."),
        (StopModel("sdg"), "There is no model `sdg`; there are `sgd`.\n  Did you mean `sgd`?"),
    ],
)
def test_a_command_that_cannot_be_is_refused_and_the_next_one_is_carried_out(told, command, message):
    assert told.answer(command) == CommandRefused(command, message)
    assert told.answer(ReturnDevice(1)) == CommandDone(ReturnDevice(1))


def test_a_model_that_cannot_be_added_is_refused_with_the_users_line_and_the_next_command_is_carried_out(told, tmp_path):
    broken = tmp_path / "broken"

    def init(key):
        if broken.exists():
            raise ValueError("no weights")
        return {"w": jax.random.normal(key, (4, 4))}

    def loss(params, batch):
        return jnp.square(batch["x"] @ params["w"] - batch["y"]).mean()

    data = batches(4, 0)
    program = wb.trace_training(loss, init(jax.random.key(0)), data(0), optimizer=optax.sgd(0.1), init=init, data=data, name="square")
    broken.touch()
    answer = told.answer(add_model_command(FleetModel("new", program, 2)))
    assert isinstance(answer, CommandRefused)
    assert answer.command == AddModel("new")
    assert "training of model `new` stopped while " in answer.message
    assert "in `init` (test_fleet_commands.py:" in answer.message
    assert "ValueError: no weights" in answer.message
    assert told.stage == "training"
    assert told.answer(StopModel("sgd")) == CommandDone(StopModel("sgd"), 0, 0)


def test_what_the_compiler_raises_for_a_model_that_is_added_refuses_it(told, monkeypatch):
    def fails(*_):
        raise jax.errors.JaxRuntimeError("INTERNAL: no such instruction")

    monkeypatch.setattr(fleet_engine, "compile_units", fails)
    answer = told.answer(add_model_command(FleetModel("new", line(), 2)))
    assert isinstance(answer, CommandRefused)
    assert "while compiling 1 unit of `new` for 2 devices" in answer.message
    assert "INTERNAL: no such instruction" in answer.message
    assert told.answer(RemoveDevice(0)) == CommandDone(RemoveDevice(0))


def test_a_command_that_meets_with_a_fault_of_our_own_is_refused_too(told, monkeypatch):
    monkeypatch.setattr(told.run.executor.membership, "stop", lambda name: {}[name])
    answer = told.answer(StopModel("sgd"))
    assert isinstance(answer, CommandRefused)
    assert answer.message.startswith("The command StopModel(model='sgd') could not be carried out: KeyError: 'sgd'")
