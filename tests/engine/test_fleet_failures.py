"""A device that fails loses what it was doing, whatever that was, and the others do it again; a run says when it cannot go on."""

import threading

import jax
import pytest

from tests.engine.test_fleet import fleet, is_as_alone
from tests.engine.test_unit_scheduler import ended
from tests.engine.test_worker import wait_until
from workbench.engine.fleet.train_fleet import FleetRun

pytestmark = pytest.mark.compile

GONE = jax.errors.JaxRuntimeError("INTERNAL: the device fell off the bus")


@pytest.mark.parametrize("double_buffer", [False, True], ids=["for the next unit", "for the unit after this one"])
def test_a_device_that_fails_while_state_is_brought_in_leaves_its_model_to_the_others(monkeypatch, double_buffer):
    names = ("sgd", "adam", "momentum")  # one more than devices: what comes after a unit is another model's
    run = FleetRun(fleet(*names, devices=2, double_buffer=double_buffer, policy="round-robin"))
    copy_in, failed = run.devices[1].copy_in, []

    def fails(*given):
        if run.executor.placed and not failed:
            failed.append(threading.current_thread().name)
            raise GONE
        return copy_in(*given)

    monkeypatch.setattr(run.devices[1], "copy_in", fails)
    (measured,) = ended(run.run, 30)
    assert failed == ["device 1"]
    assert measured.schedule.faults() == []
    for name in names:
        is_as_alone(run, name, measured.losses[name])


def test_a_device_that_fails_in_the_last_unit_of_all_leaves_it_to_one_that_had_nothing_left_to_do(monkeypatch):
    run = FleetRun(fleet("sgd", devices=2))
    compute, failed = run.executor._compute, []

    def fails(turn):
        if turn.index + 1 == run.model_runs[0].last and not failed:
            mine = threading.current_thread()
            (other,) = (each for each in run.executor._threads.values() if each is not mine)
            failed.append(mine.name)
            wait_until(lambda: other.ident is not None)  # it may not have been started yet
            other.join(timeout=0.5)
            raise GONE
        return compute(turn)

    monkeypatch.setattr(run.executor, "_compute", fails)
    (measured,) = ended(run.run, 30)
    assert len(failed) == 1
    is_as_alone(run, "sgd", measured.losses["sgd"])


@pytest.mark.parametrize("double_buffer", [False, True])
@pytest.mark.parametrize("key", ["piece", "value"])
def test_a_device_that_fails_while_results_are_taken_back_leaves_their_unit_to_the_others(monkeypatch, double_buffer, key):
    run = FleetRun(fleet("sgd", "momentum", devices=2, double_buffer=double_buffer))
    failed = []

    def failing(put):
        def fails(arrays):
            if any(each[0] == key for each in arrays) and len(run.executor.placed) > 3 and not failed:
                failed.append(True)
                raise GONE
            put(arrays)

        return fails

    for each in run.model_runs:
        monkeypatch.setattr(each.store, "put", failing(each.store.put))
    (measured,) = ended(run.run, 30)
    assert failed
    assert sum(each.available for each in run.devices) == 1
    assert measured.schedule.faults() == []
    assert any(each.lost for each in measured.schedule.placed)
    for name in ("sgd", "momentum"):
        is_as_alone(run, name, measured.losses[name])


def test_a_device_that_leaves_and_fails_while_its_last_results_are_taken_back_leaves_their_unit_to_the_others(monkeypatch):
    run = FleetRun(fleet("momentum", devices=2))
    store = run.model_runs[0].store
    put, failed = store.put, []

    def fails(arrays):
        if len(run.executor.placed) > 3 and not failed:
            number = run.executor.placed[-1].device
            failed.append(number)
            run.executor.membership.leave(number)
            run.executor._threads[number].join(timeout=0.3)
            raise GONE
        put(arrays)

    monkeypatch.setattr(store, "put", fails)
    (measured,) = ended(run.run, 30)
    assert {each.device for each in measured.schedule.placed if each.unit > 5} == {0, 1} - {*failed}
    is_as_alone(run, "momentum", measured.losses["momentum"])
