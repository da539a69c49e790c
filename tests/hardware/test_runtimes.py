"""Runtimes as options of hardware: what is written is read back, and what cannot be is refused."""

import pytest

from workbench.errors import HardwareError
from workbench.hardware.catalogue import parse_hardware
from workbench.hardware.runtime import SWITCHES, XLA, find_runtime, load_runtimes

RUNTIMES = tuple(load_runtimes())


def test_xla_is_the_default_and_is_not_written():
    hardware = parse_hardware("8 H100")
    assert hardware.runtime == XLA
    assert hardware.with_runtime("eager").with_runtime("XLA") == hardware


@pytest.mark.parametrize("name", RUNTIMES)
def test_every_runtime_is_read_back(name):
    hardware = parse_hardware(f"2 nodes of 8 H100, {name.upper()}")
    assert hardware.runtime == find_runtime(name)
    assert parse_hardware(str(hardware)) == hardware
    assert find_runtime(name).source or name == XLA.name


@pytest.mark.parametrize("switch", SWITCHES)
def test_every_switch_is_read_back_and_changes_the_runtime(switch):
    plain, changed = parse_hardware("8 H100, eager"), parse_hardware(f"8 H100, eager, {switch}, device=400 GB/s")
    assert parse_hardware(str(changed)) == changed
    assert str(changed) == f"8 H100, eager, {switch}, device=400 GB/s"
    assert changed.runtime != plain.runtime


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("TPU v5e 2x4, eager", "TPU v5e runs XLA programs only; `eager` is a runtime for GPUs.\n  Try: leave it out."),
        ("8 H100, no reshard", '`no reshard` is an option of a runtime other than XLA.\n  Try: write "8 H100, eager, no reshard".'),
    ],
)
def test_a_runtime_that_cannot_be_is_refused(text, message):
    with pytest.raises(HardwareError) as caught:
        parse_hardware(text)
    assert str(caught.value) == message
