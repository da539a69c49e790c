"""A fleet planned for hardware that is not here: seconds of its units from the cost model, and a refusal only where it is to run."""

from types import SimpleNamespace

import jax
import pytest

from tests.support.fleets import perceptron, three_models, times_of
from workbench.documents import parse_fleet
from workbench.engine.fleet.train_fleet import _open_devices
from workbench.errors import DocumentError, FleetError, HardwareError
from workbench.hardware.catalogue import parse_hardware
from workbench.models import build
from workbench.multimodel.fleet import Fleet, FleetModel
from workbench.multimodel.fleet_forecast import count_devices, forecast, plan_times
from workbench.multimodel.fleet_text import simulation_text
from workbench.multimodel.unit_chains import Pass
from workbench.public_plan import Plan

GIB = 1 << 30


@pytest.fixture(scope="module")
def program():
    return build("decoder", preset="llama3-8b", layers=2, batch=1)


def test_a_fleet_for_hardware_has_its_devices_and_the_seconds_of_the_cost_model(program):
    fleet = Fleet((FleetModel("a", program), FleetModel("b", program)), hardware="8 H100")
    seen = forecast(fleet)
    assert (seen.source, seen.devices, fleet.hardware) == ("planned", 2, parse_hardware("8 H100"))
    (unit,) = seen.jobs[0].units
    step = Plan(program, "device:1", hardware="8 H100").report().step_time.total
    assert unit.kind is Pass.FORWARD_LOSS
    assert unit.seconds == pytest.approx(step, rel=0.15)  # of blocks one by one: what is fused over their borders is not


def test_faster_hardware_is_faster_and_a_faster_link_to_the_host_brings_state_sooner(program):
    jobs = {name: forecast(Fleet((FleetModel("a", program),), hardware=name)).jobs[0] for name in ("8 A100-80GB", "8 H100")}
    slow, fast = jobs.values()
    assert slow.mini_batch_seconds > 1.5 * fast.mini_batch_seconds
    chips = [parse_hardware(name).chip for name in jobs]
    assert slow.units[0].load / fast.units[0].load == pytest.approx(chips[1].host_bandwidth / chips[0].host_bandwidth)


def test_a_model_that_is_too_large_for_a_device_is_cut_and_its_units_move_what_they_read_and_change(program):
    seen = forecast(Fleet((FleetModel("a", program),), memory=12 * GIB, hardware="8 H100"))
    assert len(seen.models[0].shards) > 1
    *forward, last, first = seen.jobs[0].units
    host = parse_hardware("8 H100").chip.host_bandwidth
    assert forward[0].store == 0.0
    assert first.store == first.load == pytest.approx(3 * forward[0].load)  # parameters, and two moments of each
    assert forward[0].seconds < last.seconds
    assert last.carry == pytest.approx(program.dims["batch"][0] * 4096 * 4096 * 2 / host)
    state = 3 * 2 * sum(each.elements for each in program.arguments if each.path.startswith("params/"))
    assert first.load + last.load == pytest.approx(state / host, rel=0.01)


def test_the_memory_of_the_hardware_is_the_budget_where_none_is_given(program):
    assert forecast(Fleet((FleetModel("a", program),), hardware="8 H100")).usable == int(parse_hardware("8 H100").chip.memory * 0.85)
    with pytest.raises(FleetError, match="a device has"):
        forecast(Fleet((FleetModel("a", build("decoder", preset="llama3-8b", layers=1, batch=1, vocab=10_000_000)),), hardware="8 H100"))


def test_times_of_other_devices_are_not_taken_for_it():
    fleet = three_models(memory=12 * 1024)
    times = times_of(forecast(fleet))
    assert forecast(fleet, (times,)).source == "timed"
    assert forecast(fleet.updated(hardware="8 H100"), (times,)).source == "planned"
    script = three_models(memory=12 * 1024, hardware=parse_hardware("2 CPU"))
    as_cpu = times.__class__(**{**vars(times), "device_kind": "cpu"})
    assert forecast(script, (as_cpu,)).source == "timed"


def test_it_has_no_more_devices_than_the_hardware():
    with pytest.raises(FleetError) as error:
        three_models(devices=9, hardware="8 H100")
    assert str(error.value) == "The fleet needs 9 devices; 8 H100 has 8.\n  Try: give it 8 · name more hardware."
    assert count_devices(three_models(devices=None, hardware="2 H100"), attached=1) == 2
    with pytest.raises(HardwareError, match="Did you mean"):
        three_models(hardware="8 H1000")


def test_the_simulation_says_what_it_is_from():
    times = plan_times(three_models(hardware="2 nodes of 4 H100, node=200 Gb/s"))
    assert times.planned_for == "2 nodes of 4 H100, node=200 Gb/s"
    printed = simulation_text(times, 2, {"sharded-lrtf": forecast(three_models(hardware="8 H100")).schedule})
    assert "units from the cost model of 2 nodes of 4 H100, node=200 Gb/s" in " ".join(printed.split())
    with pytest.raises(FleetError, match="has no hardware to plan for"):
        plan_times(three_models())


def test_running_it_on_other_devices_is_refused(monkeypatch):
    monkeypatch.setattr(jax, "local_devices", lambda: [SimpleNamespace(device_kind="cpu", platform="cpu", memory_stats=dict)])
    fleet = Fleet((FleetModel("a", perceptron(2)),), hardware="8 H100")
    for train in (True, False):
        with pytest.raises(FleetError) as error:
            _open_devices(fleet, train=train)
    assert str(error.value) == (
        "The fleet is planned for 8 H100; the devices here are `cpu`.\n  Try: omit the hardware to run on these · "
        "run it on that hardware · `workbench fleet simulate` plans it without."
    )
    assert len(_open_devices(fleet.updated(hardware="8 CPU"), train=True)) == 1


def test_a_fleet_file_names_its_hardware():
    text = 'hardware = "8 H100"\n[[models]]\nname = "digits"\nprogram = "mnist"\n'
    assert parse_fleet(text).hardware == parse_hardware("8 H100")
    assert parse_fleet(text, hardware=parse_hardware("4 H200")).hardware.name == "4 H200"
    with pytest.raises(HardwareError, match="1 to 8 H100, not"):
        parse_fleet(text.replace("8 H", "9 H"))
    with pytest.raises(DocumentError, match="hardware"):
        parse_fleet(text.replace('"8 H100"', "8"))
