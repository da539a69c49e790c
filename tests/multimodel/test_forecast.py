"""What a fleet would take: on how many devices, from which times, and what is kept of its programs."""

import gc
import weakref
from dataclasses import replace

import jax
import pytest

from tests.support.fleets import perceptron, three_models, times_of
from workbench.engine.fleet.train_fleet import _find_attached_devices
from workbench.engine.worker.job_payload import WorkerJob
from workbench.errors import FleetError
from workbench.multimodel.fleet import Fleet, FleetModel
from workbench.multimodel.fleet_forecast import count_devices, forecast
from workbench.multimodel.unit_estimates import layers_of


@pytest.fixture(scope="module")
def program():
    return perceptron(2)


@pytest.mark.parametrize(("models", "asked", "attached", "devices"), [(3, None, 16, 3), (12, None, 16, 12), (3, None, 1, 1), (3, 2, 16, 2)])
def test_the_plan_the_run_and_its_worker_have_one_number_of_devices(program, monkeypatch, models, asked, attached, devices):
    fleet = Fleet(tuple(FleetModel(f"m{i}", program) for i in range(models)), devices=asked)
    monkeypatch.setattr(jax, "local_devices", lambda: list(range(attached)))
    assert len(_find_attached_devices(fleet)) == devices
    assert count_devices(fleet, attached) == forecast(fleet, attached=attached).devices == devices
    assert WorkerJob("fleet", "training", fleet, {}).devices == count_devices(fleet)


def test_more_devices_than_are_attached_are_refused(program, monkeypatch):
    monkeypatch.setattr(jax, "local_devices", lambda: [0])
    with pytest.raises(FleetError, match="The fleet needs 2 devices; 1 are attached"):
        _find_attached_devices(Fleet((FleetModel("a", program),), devices=2))


def test_times_know_of_what_they_are():
    fleet = three_models(memory=12 * 1024)
    times = times_of(forecast(fleet))
    told = times.for_models(fleet.models)
    assert told.for_models(fleet.models[:1]) == told
    first, deep = fleet.models[0], fleet.models[2]
    assert told.of(replace(first, seed=3, mini_batches=2)).job.name == "a"
    assert told.of(replace(first, program=deep.program)) is None
    assert told.of(replace(deep, cuts=("layer_5",))).cuts == ()
    assert times.of(replace(first, program=deep.program)).cuts is None  # nothing was told
    assert told.of(replace(first, name="new")) is None


def test_times_of_a_longer_program_that_nothing_was_told_of_are_no_times_of_a_shorter_one():
    fleet = three_models(memory=12 * 1024)
    times = times_of(forecast(fleet))
    short = fleet.updated(models=(replace(fleet.models[2], program=perceptron(2)),))
    assert forecast(short, (times,)).source == "estimated"


def test_layers_are_kept_no_longer_than_their_program():
    class Given:
        """Stands for a person's arrays."""

    program = perceptron(3)
    given = Given()
    program = replace(program, step=replace(program.step, given=(given,)))
    assert layers_of(program) == layers_of(program)
    kept = weakref.ref(given)
    del program, given
    gc.collect()
    assert kept() is None
