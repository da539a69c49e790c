"""A fleet in a worker process: told as it goes, obedient to commands, its death a message, and its checkpoint good for another try."""

import os
import signal

import jax.numpy as jnp
import numpy as np
import optax
import pytest

import workbench as wb
from workbench.engine import add_model_command, run_fleet, start_fleet
from workbench.engine.fleet.train_fleet import train_fleet
from workbench.errors import EngineError
from workbench.multimodel.fleet import Fleet, FleetModel
from workbench.multimodel.training_events import (
    CommandRefused,
    ModelFailed,
    SchedulePredicted,
    StopModel,
    TrainingDone,
    TrainingEvent,
    UnitDone,
)

pytestmark = [pytest.mark.compile, pytest.mark.worker, pytest.mark.cold]


def line(do=lambda _: None, points: int = 8) -> wb.Program:
    """A line fitted to points; `do` is called with the number of each mini-batch."""

    def loss(params, batch):
        return jnp.square(batch["x"] * params["a"] + params["b"] - batch["y"]).mean()

    def data(step):
        do(step)
        x = np.linspace(0, 1, points, dtype=np.float32) + step / 100
        return {"x": x, "y": 2 * x + 1}

    params = {"a": jnp.zeros(()), "b": jnp.zeros(())}
    return wb.trace_training(loss, params, data(0), optimizer=optax.sgd(0.1), data=data, name="line")


def test_it_tells_schedule_and_units_carries_out_commands_and_ends_as_here():
    steps = 20_000
    fleet = Fleet((FleetModel("stopped", line(), steps), FleetModel("whole", line(), 40)), devices=2)
    events: list[TrainingEvent] = []

    def listen(event):
        events.append(event)
        if isinstance(event, UnitDone) and event.model == "stopped" and event.done == 3:
            handle.send(StopModel("stoped"))
            handle.send(add_model_command(FleetModel("added", line(), 6)))
            handle.send(add_model_command(FleetModel("whole", line(), 6)))
            handle.send(StopModel("stopped"))

    handle = start_fleet(fleet, listen)
    measured = handle.wait()
    kinds = [type(each) for each in events]
    assert events[-1] == TrainingDone(measured)
    schedule = next(each for each in events if isinstance(each, SchedulePredicted))
    assert (schedule.names, schedule.devices, len(schedule.predicted)) == (("stopped", "whole"), 2, steps + 40)
    refused = {each.command.model: each.message for each in events if isinstance(each, CommandRefused)}
    assert refused["stoped"].startswith("There is no model `stoped`; there are")
    assert "`whole`" in refused["whole"]
    assert 3 <= len(measured.losses["stopped"]) < steps
    here = train_fleet(Fleet((FleetModel("whole", line(), 40),), devices=1))
    assert measured.losses["whole"] == here.losses["whole"]
    assert measured.losses["added"] == here.losses["whole"][:6]
    assert kinds.count(UnitDone) == len(measured.schedule.placed)
    handle.send(StopModel("whole"))  # nobody listens any more, and nothing happens


def test_a_death_is_a_message_and_the_next_run_goes_on_from_the_checkpoint(tmp_path):
    here = os.getpid()
    flag = tmp_path / "died"

    def dies_once(step):
        if step == 5 and os.getpid() != here and not flag.exists():
            flag.touch()
            os.kill(os.getpid(), signal.SIGKILL)

    fleet = Fleet((FleetModel("a", line(dies_once), 8),), devices=1, folder=tmp_path / "kept")
    with pytest.raises(EngineError) as caught:
        run_fleet(fleet)
    assert caught.value.message.startswith(
        "Something killed the training of model `a` while training (SIGKILL): Linux does this when memory"
    )
    assert {"run it again to continue from its checkpoint", "train fewer models at once"} < {*caught.value.ways_out}
    measured = run_fleet(fleet)
    assert measured.resumed in (4, 5)  # the fifth may still have been on its way to the host when the sixth was brought in
    assert measured.losses["a"] == train_fleet(fleet.updated(folder=None)).losses["a"]


def test_what_a_users_function_raises_is_a_message_with_its_line():
    def fail(step):
        if step == 2:
            raise ValueError("bad record 7")

    fleet = Fleet((FleetModel("a", line(fail), 4),), devices=1)
    where = r"while reading mini-batch 3 of 4 in `fail` \(test_fleet_worker.py:\d+\): ValueError: bad record 7"
    with pytest.raises(EngineError, match=f"The training of model `a` stopped {where}"):
        train_fleet(fleet)


@pytest.mark.parametrize("double_buffer", [True, False])
def test_a_model_whose_data_fail_leaves_the_others_and_its_checkpoint_whole(tmp_path, double_buffer):
    broken = [True]

    def fail(step):
        if step == 2 and broken:
            raise ValueError("bad record 7")

    models = (FleetModel("a", line(fail), 4), FleetModel("b", line(), 6), FleetModel("c", line(), 6))
    fleet = Fleet(models, devices=2, folder=tmp_path, double_buffer=double_buffer)
    events: list[TrainingEvent] = []
    measured = train_fleet(fleet, events.append)
    assert measured.failed == ("a",)
    assert "mini-batch 3 of 4" in measured.ended["a"]
    assert {name: len(losses) for name, losses in measured.losses.items()} == {"a": 2, "b": 6, "c": 6}
    assert [each.model for each in events if isinstance(each, ModelFailed)] == ["a"]
    broken.clear()
    again = train_fleet(fleet)
    assert again.failed == ()
    assert again.resumed_units == (2, 6, 6)
    assert again.losses == train_fleet(fleet.updated(folder=None)).losses


def test_data_that_fail_at_once_are_told_with_their_model_before_it_trains():
    broken: list[bool] = []

    def fail(_):
        if broken:
            raise ValueError("no disk")

    fleet = Fleet((FleetModel("b", line(), 2), FleetModel("a", line(fail, points=9), 4)), devices=2)
    broken.append(True)
    events: list[TrainingEvent] = []
    with pytest.raises(EngineError, match=r"The training of model `a` stopped while reading mini-batch 1 of 4 in `fail`"):
        train_fleet(fleet, events.append)
    assert not any(isinstance(each, SchedulePredicted) for each in events)
