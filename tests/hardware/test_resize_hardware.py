"""So many devices of one kind, as they are sold."""

import re

import pytest

from workbench.errors import HardwareError
from workbench.hardware.catalogue import default_catalogue, parse_hardware
from workbench.hardware.resize_hardware import resize_hardware


@pytest.mark.parametrize("name", default_catalogue().entries)
@pytest.mark.parametrize("devices", [2, 4, 8, 64, 256])
def test_every_kind_comes_in_powers_of_two(name, devices):
    assert resize_hardware(name, devices).size == devices


@pytest.mark.parametrize(
    ("kind", "devices", "name"),
    [
        ("v5p", 2048, "TPU v5p 8x16x16"),
        ("TPU v5e 2x2", 16, "TPU v5e 4x4"),
        ("v5e", 1024, "4 slices of TPU v5e 16x16"),
        ("TPU v3", 64, "TPU v3 4x8"),
        ("8 H100, eager", 4, "4 H100, eager"),
        ("H100", 24, "3 nodes of 8 H100"),
    ],
)
def test_it_is_joined_as_it_is_sold(kind, devices, name):
    assert resize_hardware(kind, devices).name == name


@pytest.mark.parametrize(
    ("kind", "devices", "text"),
    [
        ("H100", 12, "12 H100 do not fill nodes of 8; 12 % 8 = 4.\n  Try: take 8 or 16 devices."),
        ("TPU v3", 7, "A chip of TPU v3 has 2 devices; 7 devices are not a whole number of chips.\n  Try: take an even number."),
        ("H100", 0, "0 devices cannot hold a plan.\n  Try: write 1 or more devices."),
    ],
)
def test_what_is_not_sold_is_said(kind, devices, text):
    with pytest.raises(HardwareError, match=re.escape(text)):
        resize_hardware(kind, devices)


def test_fewer_devices_leave_out_a_link_that_they_have_not():
    """A question about 64 devices is answered on one node, too, where the link between nodes has another speed."""
    nodes = parse_hardware("8 nodes of 8 H100, node=50 Gb/s, 2 $/h")
    assert [resize_hardware(nodes, count).name for count in (2, 16)] == ["2 H100, 2 $/h", "2 nodes of 8 H100, 2 $/h, node=50 Gb/s"]
    assert resize_hardware(parse_hardware("8 H100, device=300 GB/s"), 2).name == "2 H100, device=300 GB/s"
    with pytest.raises(HardwareError, match="no link `node`"):
        resize_hardware("H100, node=50 Gb/s", 2)
