"""Many models on shared devices: each ends exactly as it would have alone, within the memory it was given, whatever happens on the way."""

import itertools
import random
import re
import signal
import subprocess
import sys
from pathlib import Path

import jax
import numpy as np
import pytest

from tests.support.fleet_models import alone, alone_in_units, perceptron, programs
from workbench.engine.fleet.device_and_host_arrays import pinned_sharding
from workbench.engine.fleet.train_fleet import FleetRun, train_fleet
from workbench.errors import FleetError, PipelineError
from workbench.multimodel import ALL_POLICIES
from workbench.multimodel.fleet import Fleet, FleetModel
from workbench.multimodel.training_events import CheckpointNotice, SchedulePredicted, TrainingEvent, UnitDone
from workbench.tracing.stage_partition.trace_network import network_of

pytestmark = pytest.mark.compile

CUTS = {"sgd": ("layer_1", "layer_3"), "adam": ("layer_2",), "momentum": ("layer_1", "layer_2"), "masked": ("layer_2", "layer_4")}


def fleet(*names: str, mini_batches: int = 3, **options) -> Fleet:
    chosen = names or tuple(CUTS)
    return Fleet(tuple(FleetModel(name, programs()[name], mini_batches, 2, CUTS[name]) for name in chosen), **options)


def is_as_alone(run: FleetRun, name: str, losses) -> None:
    """Bit for bit what its units give one after the other on one device; and what one compiled step gives, as far as rounding goes."""
    model_run = next(each for each in run.model_runs if each.model.name == name)
    model, program = model_run.model, model_run.model.program
    cuts = tuple(network_of(program).paths[start] for start in model_run.checkpoint_facts["cuts"][1:])
    expected, pieces = alone_in_units(program, cuts, len(losses), model.seed)
    assert list(losses) == expected
    for number, array in pieces.items():
        np.testing.assert_array_equal(model_run.store.get(("piece", number)), array, err_msg=f"{name} {number}")
    whole, parameters = alone(program, len(losses), model.seed)
    np.testing.assert_allclose(losses, whole, rtol=1e-5)
    found = run.parameters(name)
    assert found.keys() == parameters.keys()
    for path, array in parameters.items():
        np.testing.assert_allclose(found[path], array, rtol=1e-4, atol=1e-6, err_msg=f"{name} {path}")


@pytest.mark.share(3)
@pytest.mark.parametrize("devices", [1, 2, 4])
def test_losses_and_parameters_are_bit_for_bit_those_of_each_model_alone(devices):
    run = FleetRun(fleet(devices=devices))
    measured = run.run()
    assert measured.schedule.faults() == []
    for name in CUTS:
        assert len(measured.losses[name]) == 6
        is_as_alone(run, name, measured.losses[name])


def test_eight_models_on_eight_devices():
    small = {name: programs()[name] for name in ("momentum",)}
    models = [FleetModel(f"{name}_{seed}", program, 4, cuts=CUTS[name], seed=seed) for name, program in small.items() for seed in range(8)]
    run = FleetRun(Fleet(tuple(models)))
    measured = run.run()
    assert len(run.devices) == 8
    assert {each.device for each in measured.schedule.placed} == set(range(8))
    for name, losses in measured.losses.items():
        is_as_alone(run, name, losses)


@pytest.mark.parametrize("policy", ALL_POLICIES[1:], ids=lambda each: each.name)
def test_no_policy_changes_a_result(policy):
    run = FleetRun(fleet("sgd", "adam", "momentum", devices=2, policy=policy.name, double_buffer=policy.name != "random"))
    measured = run.run()
    assert measured.schedule.faults() == []
    for name in ("sgd", "adam", "momentum"):
        is_as_alone(run, name, measured.losses[name])


def test_a_budget_cuts_models_into_shards_and_is_never_exceeded():
    model = FleetModel("adam", programs()["adam"], 3)
    whole = FleetRun(Fleet((model,), devices=1, memory=1 << 20))
    state = sum(spec.size * spec.dtype.itemsize for key, spec in _own(whole).items() if key[0] in ("piece", "state"))
    run = FleetRun(Fleet((model, FleetModel("other", perceptron(24, 6, seed=9), 3)), devices=1, memory=int(state * 0.9)))
    measured = run.run()
    assert measured.shards[0] > 1
    assert max(measured.peaks) <= int(state * 0.9)
    is_as_alone(run, "adam", measured.losses["adam"])
    is_as_alone(run, "other", measured.losses["other"])


def _own(run: FleetRun):
    units = run.model_runs[0].units[0]
    return {key: spec for each in units for key, spec in zip(each.unit.reads, each.unit.specs, strict=True)}


def test_a_layer_that_does_not_fit_is_named_with_its_sizes():
    with pytest.raises(FleetError, match=r"Layer `layer_0` alone takes .* of parameters, gradients and optimizer state"):
        FleetRun(Fleet((FleetModel("sgd", programs()["sgd"]),), devices=1, memory=2000))


def test_a_model_stops_early_and_the_rest_are_whole():
    models = [FleetModel(name, programs()[name], 6, cuts=CUTS[name], stop_below=below) for name, below in (("sgd", 1e9), ("adam", None))]
    run = FleetRun(Fleet(tuple(models), devices=1))
    measured = run.run()
    assert len(measured.losses["sgd"]) == 1
    is_as_alone(run, "sgd", measured.losses["sgd"])
    is_as_alone(run, "adam", measured.losses["adam"])


def test_a_model_is_stopped_by_hand():
    run = FleetRun(fleet("sgd", "adam", devices=1, mini_batches=10))

    def listen(event):
        if isinstance(event, UnitDone) and event.done >= 5 and event.model == "sgd":
            run.executor.membership.stop("sgd")

    run._tell = run.executor._tell = listen
    measured = run.run()
    assert 1 <= len(measured.losses["sgd"]) < 20
    is_as_alone(run, "sgd", measured.losses["sgd"])
    assert len(measured.losses["adam"]) == 20
    with pytest.raises(FleetError, match="There is no model `sdg`; there are"):
        run.executor.membership.stop("sdg")


def test_a_model_that_is_added_while_others_train_ends_as_it_would_alone():
    run = FleetRun(fleet("sgd", devices=2, mini_batches=10))
    events: list[TrainingEvent] = []

    def listen(event):
        events.append(event)
        if isinstance(event, UnitDone) and event.done == 3 and event.model == "sgd":
            run.add(FleetModel("adam", programs()["adam"], 3, cuts=CUTS["adam"], seed=5))

    run._tell = run.executor._tell = listen
    measured = run.run()
    assert measured.names == ("sgd", "adam")
    assert measured.schedule.faults() == []
    first = min(each.start for each in measured.predicted.placed if each.model == 1)
    assert 0 < run.model_runs[1].arrival_time <= first  # predicted from when it came
    assert [each.names for each in events if isinstance(each, SchedulePredicted)][:2] == [("sgd",), ("sgd", "adam")]
    assert {each.device for each in measured.schedule.placed} == {0, 1}
    for name in ("sgd", "adam"):
        is_as_alone(run, name, measured.losses[name])
    with pytest.raises(FleetError, match="Model `late` was added too late"):
        run.add(FleetModel("late", programs()["sgd"], 3, cuts=CUTS["sgd"]))
    with pytest.raises(FleetError, match="adam"):
        run.add(FleetModel("adam", programs()["sgd"]))


def test_a_device_that_fails_in_mid_unit_loses_that_unit_and_another_repeats_it(monkeypatch):
    run = FleetRun(fleet("sgd", "adam", "momentum", devices=3))
    compute, numbers = run.executor._compute, itertools.count()

    def fails_once(turn):
        results = compute(turn)
        if next(numbers) == 7:
            raise jax.errors.JaxRuntimeError("INTERNAL: the device fell off the bus")
        return results

    monkeypatch.setattr(run.executor, "_compute", fails_once)
    measured = run.run()
    lost = [each for each in measured.schedule.placed if each.lost]
    assert len(lost) == 1
    assert {each.device for each in measured.schedule.placed if each.start > lost[0].end} <= {0, 1, 2} - {lost[0].device}
    assert measured.schedule.faults() == []
    for name in ("sgd", "adam", "momentum"):
        is_as_alone(run, name, measured.losses[name])


def test_without_a_device_the_run_says_so(monkeypatch):
    run = FleetRun(fleet("sgd", devices=1))
    monkeypatch.setattr(run.executor, "_compute", lambda _: (_ for _ in ()).throw(jax.errors.JaxRuntimeError("INTERNAL: gone")))
    with pytest.raises(FleetError, match="The last device failed: INTERNAL: gone"):
        run.run()


@pytest.mark.parametrize("spill", ["host", "disk"])
def test_a_run_goes_on_where_the_checkpoint_is(tmp_path, spill):
    first = FleetRun(fleet("sgd", "masked", devices=2, folder=tmp_path, spill=spill))
    first.executor._tell = lambda event: (event.done == 7 and first.executor.membership.leave(0)) or first.executor.membership.leave(1)
    with pytest.raises(FleetError, match="No device is left"):
        first.run()
    second = FleetRun(fleet("sgd", "masked", devices=1, folder=tmp_path, spill=spill))
    assert any(each.done for each in second.model_runs)
    measured = second.run()
    for name in ("sgd", "masked"):
        assert len(measured.losses[name]) == 6
        is_as_alone(second, name, measured.losses[name])
    if spill == "disk":
        assert not any(each.store._arrays for each in second.model_runs)


def test_a_damaged_checkpoint_is_told_and_the_run_ends_with_the_same_parameters(tmp_path, monkeypatch):
    with monkeypatch.context() as patched:
        patched.setattr(
            "workbench.engine.fleet.model_checkpoint.this_boot", lambda: None
        )  # then every commit is brought to the disk at once
        train_fleet(fleet("momentum", devices=1, folder=tmp_path))
    arrays = max((tmp_path / "momentum").glob("*.arrays"), key=lambda each: int(each.stem))
    whole = arrays.read_bytes()
    arrays.write_bytes(whole[:-1] + bytes([whole[-1] ^ 1]))
    told: list[TrainingEvent] = []
    again = FleetRun(fleet("momentum", devices=1, folder=tmp_path), told.append)
    notice = (
        f"The newest checkpoint in {tmp_path / 'momentum'} is damaged: an array in `{arrays.name}` is corrupt: its "
        "checksum differs. It continues from the previous checkpoint, which is undamaged."
    )
    assert [each for each in told if isinstance(each, CheckpointNotice)] == [CheckpointNotice("momentum", notice)]
    assert 0 < again.model_runs[0].done < again.model_runs[0].last
    is_as_alone(again, "momentum", again.run().losses["momentum"])


@pytest.mark.parametrize("folder", [False, True], ids=["host", "checkpoint"])
def test_pinned_memory_changes_no_result(monkeypatch, tmp_path, folder):
    place = jax.sharding.SingleDeviceSharding(jax.devices()[0], memory_kind="pinned_host")
    monkeypatch.setattr("workbench.engine.fleet.train_fleet.pinned_sharding", lambda _: place)
    run = FleetRun(fleet("sgd", "momentum", devices=2, folder=tmp_path if folder else None))
    measured = run.run()
    assert {run.model_runs[0].store.get(("piece", 0)).sharding.memory_kind} == {"pinned_host"}
    for name in ("sgd", "momentum"):
        is_as_alone(run, name, measured.losses[name])
    if folder:
        again = FleetRun(fleet("sgd", "momentum", devices=2, folder=tmp_path))
        is_as_alone(again, "sgd", again.model_runs[0].losses)


def test_the_hosts_own_devices_need_no_pinned_memory():
    assert pinned_sharding(jax.devices()[0]) is None


KILLED = """
import os, signal, sys, threading, time
from pathlib import Path
import jax
jax.config.update("jax_num_cpu_devices", 2)
jax.config.update("jax_disable_most_optimizations", True)  # as here: how a sum is rounded is up to LLVM
from tests.engine.test_fleet import fleet
from workbench.engine.fleet.train_fleet import FleetRun
from workbench.multimodel.training_events import UnitDone

folder, units, rest = Path(sys.argv[1]), int(sys.argv[2]), float(sys.argv[3])
told, reached = [], threading.Event()

def tell(event):
    if isinstance(event, UnitDone):
        os.write(1, f"{event.model} {event.done}\\n".encode())  # whole, though two threads tell
        told.append(event)
        if len(told) == units:
            reached.set()

def kill():
    reached.wait()
    time.sleep(rest)
    os.kill(os.getpid(), signal.SIGKILL)

threading.Thread(target=kill, daemon=True).start()
FleetRun(fleet("sgd", "adam", mini_batches=20, devices=2, folder=folder), tell).run()
"""


@pytest.mark.share(3)
@pytest.mark.parametrize("moment", [1, 2])
def test_a_killed_run_loses_no_unit_that_was_told_and_ends_with_the_same_parameters(tmp_path, moment):
    draw = random.Random(moment)
    command = [sys.executable, "-c", KILLED, str(tmp_path), str(draw.randrange(5, 60)), str(draw.random() / 50)]
    killed = subprocess.run(command, check=False, stdout=subprocess.PIPE, text=True, cwd=Path.cwd())
    assert killed.returncode == -signal.SIGKILL
    told = dict(line.split() for line in killed.stdout.splitlines())  # the last of each model
    run = FleetRun(fleet("sgd", "adam", mini_batches=20, devices=2, folder=tmp_path))
    begun = {each.model.name: each.done for each in run.model_runs}
    assert told
    for name, done in told.items():
        assert begun[name] >= int(done)
    assert 0 < sum(begun.values()) < sum(each.last for each in run.model_runs)
    measured = run.run()
    for name in ("sgd", "adam"):
        is_as_alone(run, name, measured.losses[name])


def test_a_checkpoint_of_something_else_is_refused_before_anything_is_compiled(tmp_path):
    train_fleet(fleet("sgd", devices=1, mini_batches=1, folder=tmp_path))
    first, told = FleetModel("first", programs()["momentum"], 1), []

    def refused(message: str, model: FleetModel) -> None:
        with pytest.raises(FleetError, match=message):
            FleetRun(Fleet((first, model), devices=1, folder=tmp_path), told.append)
        assert not any(each.stage.startswith("compiling") for each in told)

    same = FleetModel("sgd", programs()["sgd"], 1, 2, CUTS["sgd"])
    refused("belongs to another program or partition", FleetModel("sgd", programs()["adam"], 1, cuts=("layer_1",)))
    refused("belongs to another program or partition", FleetModel("sgd", programs()["sgd"], 1, cuts=("layer_2",)))
    arrays = max((tmp_path / "sgd").glob("*.arrays"), key=lambda each: int(each.stem))
    whole = arrays.read_bytes()
    arrays.write_bytes(whole[:-1])
    refused("every earlier checkpoint is damaged: `.*arrays` ends within an array", same)
    arrays.write_bytes(whole[:3])
    refused("every earlier checkpoint is damaged: `.*arrays` has no array at the expected position", same)
    for name in ("latest", "position", "previous"):
        (tmp_path / "sgd" / f"{name}.json").write_text("{")
    refused("every earlier checkpoint is damaged: `latest.json` is corrupt; `position.json` is", same)


@pytest.mark.parametrize("moment", ["between mini-batches", "within the mini-batch"])
def test_what_its_loss_has_stopped_stays_stopped_unless_that_is_asked_for_otherwise(tmp_path, moment):
    def early(below: float, *more: FleetModel) -> Fleet:
        return Fleet((FleetModel("sgd", programs()["sgd"], 6, cuts=CUTS["sgd"], stop_below=below), *more), devices=1, folder=tmp_path)

    run = FleetRun(early(1e9))
    if moment == "within the mini-batch":  # killed after the loss was known
        run.executor._tell = lambda event: event.loss is not None and run.executor.membership.leave(0)
        with pytest.raises(FleetError, match="No device is left"):
            run.run()
    else:
        run.run()
    told: list[TrainingEvent] = []
    again = FleetRun(early(1e9, FleetModel("adam", programs()["adam"], 2, cuts=CUTS["adam"])), told.append)
    measured = again.run()
    length = len(again.model_runs[0].job.units)
    assert len(measured.losses["sgd"]) == 1
    assert measured.ended["sgd"].endswith("is below its stop_below of 1e+09")
    planned = [each for each in measured.predicted.placed if each.model == 0]
    assert len(planned) == length - again.model_runs[0].resumed_units
    assert measured.resumed == again.model_runs[0].resumed_units
    schedule = next(each for each in told if isinstance(each, SchedulePredicted))
    assert schedule.unit_counts == (length, again.model_runs[1].job.length)
    is_as_alone(again, "sgd", measured.losses["sgd"])
    on = FleetRun(early(1e-9))
    assert len(on.run().losses["sgd"]) == 6


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: train_fleet(fleet("sgd", mini_batches=30, devices=1)), "The data of model `sgd` ends at mini-batch 41 of 60."),
        (lambda: FleetRun(fleet("sgd", devices=9)), "The fleet needs 9 devices; 8 are attached."),
        (lambda: fleet("sgd", "sgd"), "2 models are named `sgd`."),
        (lambda: fleet("sgd", policy="longest"), "There is no policy `longest`"),
        (lambda: fleet("sgd", buffer=1.5), "A buffer of 1.5 is not a share of device memory."),
        (lambda: fleet("sgd", spill="tape"), "State cannot be spilled to `tape`."),
        (lambda: fleet("sgd", spill="disk"), "State cannot be spilled to `disk` without a folder."),
        (lambda: FleetModel("a/b", programs()["sgd"]), "`a/b` is not a valid model name"),
        (lambda: FleetModel("a", programs()["sgd"], 0), "`mini_batches` of model `a` is 0; it should be a whole number from 1."),
        (lambda: Fleet(()), "The fleet has no models."),
    ],
)
def test_what_cannot_be_is_said_before_or_when_it_shows(make, message):
    with pytest.raises(FleetError, match=re.escape(message)):
        make()


def test_a_cut_that_is_not_there_is_said():
    with pytest.raises(PipelineError, match="There is no block `layer_9`"):
        FleetRun(Fleet((FleetModel("sgd", programs()["sgd"], cuts=("layer_9",)),), devices=1))
