"""Orders to a fleet that trains in a worker process: a device leaves and returns, and models are stopped on the way."""

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
from workbench.engine.fleet import train as fleet_engine
from workbench.engine.fleet.commands import Stage, handle_command
from workbench.engine.fleet.train import FleetRun
from workbench.engine.worker.job_payload import adding
from workbench.multimodel.fleet import Fleet, FleetModel
from workbench.multimodel.measured import FleetTimes

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
    units: list[list[float]] = []
    told: dict[str, int] = {}  # each order that was obeyed, and how many units had been told by then
    asked: set[str] = set()
    ends: dict[str, tuple[int, int]] = {}
    schedules: list[dict] = []

    def order_once(what: str, when: bool, **about: object) -> None:
        if when and what not in asked:
            asked.add(what)
            handle.order(order=what.partition(" ")[0], **about)

    def listen(event):
        if event["event"] == "schedule":
            schedules.append(dict(event))
        elif event["event"] == "obeyed":
            told[event["order"]] = len(units)
            if event["order"] == "stop":
                ends[event["model"]] = (event["done"], event["of"])
        elif event["event"] == "unit":
            units.append(event["placed"])
            order_once("leave", len(units) >= 20, device=1)
            order_once("return", len(units) >= told.get("leave", 10**9) + 100, device=1)
            for name in names:
                order_once(f"stop {name}", len(units) >= told.get("return", 10**9) + 100, model=name)

    handle = start_fleet(fleet, listen)
    measured = handle.wait()
    assert longest_absence(measured.schedule.placed, device=1) > 90  # it was asked back a hundred units after it had left
    assert measured.schedule.faults() == []
    for name in names:
        done, of = ends[name]
        assert done <= of < 20_000
        assert len(measured.losses[name]) == of
    times = FleetTimes.of_record(schedules[0]["times"])
    assert times.jobs == measured.jobs[:3]
    assert times.starts == ((0,),) * 3
    assert all(need > 0 for needs in times.needs for need in needs)


class Told:
    """A run that has not begun, and what is answered to orders."""

    def __init__(self) -> None:
        self.events: SimpleQueue[dict] = SimpleQueue()
        self.orders: SimpleQueue[dict] = SimpleQueue()
        stage = Stage(self.events.put)
        self.run = FleetRun(fleet("sgd", devices=2), stage)
        stage({"event": "progress", "stage": "training"})
        threading.Thread(target=handle_command, args=(self.run, self.orders, stage), daemon=True).start()

    def answer(self, **order: object) -> dict:
        self.orders.put(order)
        while (event := self.events.get(timeout=30))["event"] not in ("obeyed", "refused"):
            self.stage = event.get("stage")
        return event


@pytest.fixture(scope="module")
def told() -> Told:
    return Told()


@pytest.mark.parametrize(
    ("order", "message"),
    [
        ({"order": "leave", "device": "0"}, "There is no device '0' in this run.\n  Ways out: they are the numbers 0 to 1."),
        ({"order": "return", "device": None}, "There is no device None in this run.\n  Ways out: they are the numbers 0 to 1."),
        ({"order": "leave", "device": 2}, "There is no device 2 in this run.\n  Ways out: they are the numbers 0 to 1."),
        ({"order": "leave"}, "There is no device None in this run.\n  Ways out: they are the numbers 0 to 1."),
        ({"order": "x"}, "There is no order `x`; there are `add`, `stop`, `leave`, `return`.\n  Ways out: use one of these names."),
    ],
)
def test_an_order_that_cannot_be_is_refused_and_the_next_one_is_obeyed(told, order, message):
    assert told.answer(**order) == {"event": "refused", **order, "message": message}
    assert told.answer(order="return", device=1) == {"event": "obeyed", "order": "return", "device": 1}


def test_a_model_that_cannot_be_added_is_refused_with_the_users_line_and_the_next_order_is_obeyed(told, tmp_path):
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
    answer = told.answer(**adding(FleetModel("new", program, 2)))
    assert (answer["event"], answer["model"]) == ("refused", "new")
    assert "training of model `new` stopped while " in answer["message"]
    assert "in `init` (test_fleet_orders.py:" in answer["message"]
    assert "ValueError: no weights" in answer["message"]
    assert told.stage == "training"
    assert told.answer(order="stop", model="sgd") == {"event": "obeyed", "order": "stop", "model": "sgd", "done": 0, "of": 0}


def test_what_the_compiler_raises_for_a_model_that_is_added_refuses_it(told, monkeypatch):
    def fails(*_):
        raise jax.errors.JaxRuntimeError("INTERNAL: no such instruction")

    monkeypatch.setattr(fleet_engine, "compiled_units", fails)
    answer = told.answer(**adding(FleetModel("new", line(), 2)))
    assert answer["event"] == "refused"
    assert "while compiling 1 unit of `new` for 2 devices" in answer["message"]
    assert "INTERNAL: no such instruction" in answer["message"]
    assert told.answer(order="leave", device=0)["event"] == "obeyed"


def test_an_order_that_meets_with_a_fault_of_our_own_is_refused_too(told, monkeypatch):
    monkeypatch.setattr(told.run.executor, "stop", lambda name: {}[name])
    answer = told.answer(order="stop", model="sgd")
    assert answer["event"] == "refused"
    assert answer["message"].startswith("The order {'order': 'stop', 'model': 'sgd'} could not be carried out: KeyError: 'sgd'")
