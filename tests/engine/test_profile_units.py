"""Units are timed by the executor before a run: alone, and together on devices that share cores; nothing is left of it."""

import time
from dataclasses import replace
from types import SimpleNamespace

import jax
import pytest

from tests.engine.test_fleet import CUTS, fleet
from tests.support.fleet_models import programs
from workbench.engine.fleet import profile_units as fleet_rehearsal
from workbench.engine.fleet.model_checkpoint import LOCK
from workbench.engine.fleet.train_fleet import FleetRun, time_fleet
from workbench.errors import FleetError
from workbench.multimodel import ScheduledUnit
from workbench.multimodel.fleet import Fleet, FleetModel

pytestmark = pytest.mark.compile


def test_every_unit_has_its_seconds_and_nothing_is_left_in_the_folder(tmp_path):
    run = FleetRun(fleet("sgd", "momentum", devices=2, folder=tmp_path))
    for job in run.jobs:
        assert len(job.units) == 2 * 3 - 1
        for unit in job.units:
            assert min(unit.seconds, unit.load, unit.store) > 0
            assert min(unit.slowed, unit.pause) >= 0
    assert sorted(each.name for each in tmp_path.iterdir()) == [LOCK, "momentum", "sgd"]
    assert all(each.done == 0 for each in run.model_runs)
    again = FleetRun(fleet("sgd", "momentum", devices=2, folder=tmp_path / "another"))
    assert again.jobs == run.jobs  # known, and not timed once more


def test_units_are_timed_together_though_they_are_compiled_for_one_device(monkeypatch):
    seen = []
    played = fleet_rehearsal._run_models
    monkeypatch.setattr(fleet_rehearsal, "_run_models", lambda cast, *rest: seen.append((len(cast), len(rest[1]))) or played(cast, *rest))
    times = time_fleet(fleet("sgd", "momentum", devices=5, mini_batches=2))
    assert seen == [(1, 1), (1, 1), (2, 2)]  # each alone, then both: no more units run at once than models
    assert [len(job.units) for job in times.jobs] == [5, 5]


def test_data_that_are_not_there_are_told_of_the_model():
    program = programs()["sgd"]

    def nothing(_step):
        raise IndexError

    empty = replace(program, step=replace(program.step, feed=nothing), name="empty")
    fleet_rehearsal._profile_case.cache_clear()  # models like this one may have been rehearsed in an earlier test
    with pytest.raises(FleetError, match=r"The data of model `a` ends at mini-batch 1 of 4\."):
        FleetRun(Fleet((FleetModel("a", empty, 4, cuts=CUTS["sgd"]),), devices=1))


def test_only_units_that_ran_among_enough_others_count_and_the_first_mini_batch_does_not():
    model_run = SimpleNamespace(job=SimpleNamespace(units=(None,)))
    placed = [ScheduledUnit(0, 0, 0, 0.0, 9.0, 0.0), ScheduledUnit(0, 1, 0, 9.0, 11.0, 9.0), ScheduledUnit(0, 2, 0, 11.0, 12.0, 11.0)]
    beside = [ScheduledUnit(1, 0, 1, 0.0, 11.0, 0.0)]
    executor = SimpleNamespace(model_runs=[model_run], placed=[*placed, *beside])
    assert fleet_rehearsal._unit_seconds(executor, 0, 2) == [2.0]
    assert fleet_rehearsal._unit_seconds(executor, 0, 1) == [1.5]


@pytest.mark.parametrize(
    ("samples", "line"),
    [
        ([], (0.0, 0.0)),
        ([(10, 2.0), (10, 4.0)], (3.0, 0.0)),
        ([(10, 2.0), (20, 3.0)], (1.0, 0.1)),
        ([(10, 1.0), (30, 9.0)], (0.0, 0.25)),  # nothing takes less than no time
        ([(10, 4.0), (20, 2.0)], (3.0, 0.0)),
    ],
)
def test_transfers_take_a_while_each_and_a_while_for_each_byte(samples, line):
    assert fleet_rehearsal._fit_line(samples) == pytest.approx(line)


def test_of_many_measurements_the_longest_does_not_count():
    assert fleet_rehearsal._trimmed_mean([1.0, 2.0, 9.0]) == 4.0
    assert fleet_rehearsal._trimmed_mean([1.0, 2.0, 3.0, 90.0]) == 2.0


def test_units_run_first_one_at_a_time_on_each_device_that_takes_part():
    running, most, ran = [0, 0, 0], [0, 0, 0], [0, 0, 0]

    def unit(place: int) -> SimpleNamespace:
        def compiled(_):
            running[place] += 1
            ran[place] += 1
            most[place] = max(most[place], running[place])
            time.sleep(0.01)
            running[place] -= 1

        compiled.input_shardings = (([jax.sharding.SingleDeviceSharding(jax.devices()[place])],), {})
        return SimpleNamespace(unit=SimpleNamespace(specs=[jax.ShapeDtypeStruct((2,), "float32")]), compiled=compiled)

    cuts = [SimpleNamespace(compiled=tuple((unit(place), unit(place)) for place in range(3))) for _ in range(4)]
    fleet_rehearsal._warm_up(cuts, 2)
    assert (most, ran) == ([1, 1, 0], [8, 8, 0])


def test_a_unit_that_reads_a_typed_random_key_runs_first_upon_an_empty_one():
    spec = jax.eval_shape(lambda: jax.random.split(jax.random.key(0), 3))
    assert fleet_rehearsal._zeros(spec).dtype == spec.dtype
    assert fleet_rehearsal._zeros(spec).shape == spec.shape
