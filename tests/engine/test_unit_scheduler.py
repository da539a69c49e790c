"""Where it is decided what runs next: within the memory that there is, and to the end of what was begun."""

import threading
import time
from collections.abc import Callable

import jax
import numpy as np
import pytest

from tests.support.fleet_models import programs
from workbench.engine.fleet.device_and_host_arrays import FleetDevice, HostStore
from workbench.engine.fleet.fleet_executor import FleetExecutor
from workbench.engine.fleet.model_run import ModelRun
from workbench.engine.fleet.partitioned_model import CompiledUnit
from workbench.engine.fleet.shard_units import UnitFunction
from workbench.engine.fleet.unit_scheduler import UnitDispatch, UnitScheduler
from workbench.multimodel import Job, Pass, Unit, policy_named
from workbench.multimodel.fleet import FleetModel


def ended(do: Callable[[], object], seconds: float = 5.0) -> list:
    """What `do` gives, if it does so in time: what waits for ever must not stop the other tests."""
    found: list = []
    thread = threading.Thread(target=lambda: found.append(do()), daemon=True)
    thread.start()
    thread.join(seconds)
    return found


def unit(takes: int, needs: int) -> CompiledUnit:
    spec = jax.ShapeDtypeStruct((takes,), np.uint8)
    return CompiledUnit(UnitFunction(0, Pass.FORWARD, (("piece", 0),), (spec,), (), (), lambda *_: ()), None, needs)


def model_run(*units: CompiledUnit) -> ModelRun:
    job = Job("a", tuple(Unit(0, Pass.FORWARD, 1.0) for _ in units))
    return ModelRun(FleetModel("a", programs()["sgd"]), job, lambda _: (), HostStore(None), (units, units), last=job.length)


def device(budget: int | None = 100, number: int = 0) -> FleetDevice:
    return FleetDevice(number, jax.devices()[number], budget)


def running(scheduler: UnitScheduler, on: FleetDevice) -> UnitDispatch:
    """The next unit, with all the memory that it needs."""
    turn = scheduler.next_unit(on)
    assert turn is not None
    scheduler.claim(on, turn.unit.peak_bytes - turn.unit.input_bytes, turn.unit.input_bytes, turn)
    return turn


def desk_of(*model_runs: ModelRun) -> UnitScheduler:
    scheduler = UnitScheduler(policy_named("round-robin"))
    scheduler.model_runs.extend(model_runs)
    return scheduler


@pytest.mark.parametrize(("takes", "comes"), [(63, False), (55, True)])
def test_a_successor_is_brought_in_beside_the_unit_before_it_only_where_both_fit(takes, comes):
    scheduler, here = desk_of(model_run(unit(10, 45), unit(takes, takes))), device()
    turn = running(scheduler, here)
    (found,) = ended(lambda: scheduler.choose_ahead(here, turn, {}))
    assert (found is not None) == comes
    assert here.used_bytes == 45 + takes * comes


def test_a_model_that_is_added_has_its_room_before_the_device_goes_on():
    here = device()
    executor = FleetExecutor([here], policy_named("round-robin"), double_buffer=True)
    scheduler = executor.scheduler
    scheduler.model_runs.append(model_run(unit(10, 45), unit(10, 45)))
    turn = running(scheduler, here)
    entered, leave = threading.Event(), threading.Event()

    def timed():
        with executor.membership.room(0, 85):
            entered.set()
            leave.wait(5)

    thread = threading.Thread(target=timed)
    thread.start()
    while not here.reserved:
        time.sleep(0.001)
    assert ended(lambda: scheduler.choose_ahead(here, turn, {})) == [
        None
    ]  # though it would fit: units without end would leave no room for ever
    with scheduler.changed:
        scheduler.model_runs[0].done = 1
        scheduler.release_unit(here, turn)
    assert entered.wait(5)
    assert here.used_bytes == 85
    leave.set()
    thread.join()
    assert here.used_bytes == 0
    assert scheduler.next_unit(here).index == 1
