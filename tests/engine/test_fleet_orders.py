"""Orders to a fleet that trains in a worker process: a device leaves and returns, and models are stopped on the way."""

from itertools import pairwise

from tests.engine.test_fleet_worker import line
from workbench.engine import start_fleet
from workbench.multimodel.fleet import Fleet, FleetModel
from workbench.multimodel.measured import FleetTimes


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
