"""Rates of the attached devices: never absurd, whatever else the machine does."""

import os
import subprocess
import sys

import jax
import pytest

from workbench.cli.main import main
from workbench.documents import hardware_entry
from workbench.engine import attached_hardware, calibrate, kept_calibration
from workbench.engine.spmd.calibrate import _enough_turns, _seconds_per_turn
from workbench.engine.spmd.kept_calibration import store_calibration
from workbench.hardware.catalogue import load_catalogue, parse_hardware
from workbench.models import build
from workbench.public_plan import Plan
from workbench.reports.run_events import CalibrationDone, Progress

pytestmark = [pytest.mark.compile, pytest.mark.worker]


def test_starting_the_program_is_left_out():
    assert _seconds_per_turn((lambda turns: 0.5e-3 + turns * 1e-4), 64) == pytest.approx(1e-4)


def test_a_difference_lost_in_noise_gives_the_whole_time():
    assert _seconds_per_turn((lambda _: 2e-3), 64) == pytest.approx(2e-3 / 64)
    assert _seconds_per_turn((lambda turns: 2e-3 if turns < 64 else 1e-3), 64) == pytest.approx(1e-3 / 64)


def test_one_disturbed_run_does_not_count():
    disturbed = iter([*[1.0] * 4, *[0.0] * 100])
    assert _seconds_per_turn((lambda turns: turns * 1e-4 + next(disturbed)), 16) == pytest.approx(1e-4)


@pytest.mark.parametrize("turn", [1e-7, 1e-5, 1e-2])
def test_turns_grow_until_the_clock_can_tell(turn):
    turns = _enough_turns(lambda turns: turns * turn)
    assert turns * turn >= 4e-3 or turns == 4096
    assert turns == 4 or turns / 4 * turn < 4e-3


def test_the_devices_are_calibrated_together():
    hardware = calibrate(tuple(jax.devices()))
    chip, link = hardware.chip, hardware.axes[0].link
    assert hardware.name == "cpu x 8, calibrated"
    assert 1e8 < chip.peak("float32") < 1e13
    assert 1e6 < chip.vector_flops < 1e12
    assert 1e7 < chip.memory_bandwidth < 1e12
    assert 1e6 < link.bandwidth < 1e12
    assert 0 < link.latency < 1
    assert 0 < chip.launch < 1e-2
    assert chip.memory > 1 << 20
    assert chip.target == "cpu"


def test_one_device_alone_has_no_links_to_wait_for():
    hardware = calibrate(tuple(jax.devices()[:1]))
    assert (hardware.axes[0].link.latency, hardware.axes[0].link.bandwidth) == (0, float("inf"))


@pytest.mark.parametrize("count", [1, 8])
def test_what_was_measured_is_an_entry_of_a_hardware_file(tmp_path, count):
    hardware = calibrate(tuple(jax.devices()[:count]))
    path = tmp_path / "mine.toml"
    path.write_text(hardware_entry(hardware, 'The "old" box'), encoding="utf-8")
    read = parse_hardware('4 the "old" box', load_catalogue(path))
    assert (read.size, read.chip.memory, read.chip.target) == (4, hardware.chip.memory, "cpu")
    assert read.chip.calibrated == "measured by `workbench calibrate`"
    for rate in ("memory_bandwidth", "vector_flops", "launch"):
        assert getattr(read.chip, rate) == pytest.approx(getattr(hardware.chip, rate), rel=1e-3)
    assert read.chip.peak("bfloat16") == pytest.approx(hardware.chip.peak("bfloat16"), rel=1e-3)
    assert read.axes[-1].link.latency == pytest.approx(hardware.axes[-1].link.latency, rel=1e-3)


def test_the_command_prints_an_entry(tmp_path):
    command = [sys.executable, "-m", "workbench.cli", "calibrate", "--devices", "2", "--name", "Box"]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=300)
    path = tmp_path / "box.toml"
    path.write_text(done.stdout, encoding="utf-8")
    assert "2 × cpu busy at once" in done.stdout
    assert str(parse_hardware("2 box", load_catalogue(path))) == "2 Box"


def test_the_attached_devices_are_measured_in_a_worker_once_and_kept(monkeypatch, tmp_path):
    monkeypatch.setenv("WORKBENCH_CACHE", str(tmp_path))
    plan = Plan(build("two_layer"), "data:2", "batch:data")
    assert kept_calibration(2) is None
    heard = []
    found = attached_hardware(plan, heard.append)
    assert found.name == "cpu x 2, calibrated"
    assert heard[-2:] == [Progress("calibrating", 0.5), CalibrationDone(found)]
    kept = kept_calibration(2)
    assert attached_hardware(plan) == kept
    assert (kept.name, kept.size, kept.chip.target) == (found.name, 2, "cpu")
    assert kept.chip.peak("float32") == pytest.approx(found.chip.peak("float32"), rel=1e-3)
    seconds = [plan.updated(hardware=each).report().seconds for each in (found, kept)]
    assert seconds[0] == pytest.approx(seconds[1], rel=1e-2)
    assert "not calibrated" not in str(plan.updated(hardware=kept).report())
    assert kept_calibration(4) is None


def test_a_report_without_hardware_is_of_the_attached_devices_once_they_are_measured(monkeypatch, tmp_path, capsys):
    monkeypatch.setenv("WORKBENCH_CACHE", str(tmp_path))
    command = ["report", "--model", "two_layer", "--mesh", "data:1", "--planned"]
    assert main(command) == 0
    assert "Step times need hardware: add --hardware attached" in capsys.readouterr().err
    store_calibration(1, calibrate(tuple(jax.devices()[:1])))
    texts = []
    for options in ([], ["--hardware", "attached"]):
        assert main([*command, *options]) == 0
        texts.append(capsys.readouterr().out)
    assert "on cpu x 1, calibrated" in texts[0]
    assert texts[0] == texts[1]


def test_a_calibration_that_is_old_or_damaged_is_none(monkeypatch, tmp_path):
    monkeypatch.setenv("WORKBENCH_CACHE", str(tmp_path))
    store_calibration(1, calibrate(tuple(jax.devices()[:1])))
    (path,) = (tmp_path / "calibrated").iterdir()
    assert kept_calibration(1).name == "cpu x 1, calibrated"
    os.utime(path, (0, 0))
    assert kept_calibration(1) is None
    for text in ("", "# cpu, 1\n[", "# cpu, 1\n", "\x00"):
        path.write_text(text)
        assert kept_calibration(1) is None
