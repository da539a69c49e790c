"""Options behind hardware, and links that are changed: what is written, what is meant, and that it reads back."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from workbench.core.mesh import Mesh
from workbench.cost.collective_times import collective_seconds
from workbench.documents import dump_plan, parse_plan
from workbench.errors import HardwareError
from workbench.hardware.catalogue import load_catalogue, parse_hardware
from workbench.hardware.hardware_options import set_link
from workbench.models import build
from workbench.public_plan import Plan
from workbench.units import format_dollars, parse_rate, parse_time

NODES = "32 nodes of 8 H100"
BYTES = 1 << 30


def links(text: str) -> dict[str, tuple[float, float]]:
    return {axis.name: (axis.link.bandwidth, axis.link.latency) for axis in parse_hardware(text).axes}


@pytest.mark.parametrize(
    ("text", "name", "changed"),
    [
        (f"{NODES}, node=200 Gb/s", f"{NODES}, node=200 Gb/s", {"node": (25e9, 14e-6)}),
        (f"{NODES},node = 25 GB/s,5 us", f"{NODES}, node=200 Gb/s 5 us", {"node": (25e9, 5e-6)}),
        (f"{NODES}, infiniband=200 Gbps 0.005 ms", f"{NODES}, node=200 Gb/s 5 us", {"node": (25e9, 5e-6)}),
        (f"{NODES}, NODE=800 ns", f"{NODES}, node=0.8 us", {"node": (50e9, 8e-7)}),
        (f"{NODES}, nvlink=400 GB/s", f"{NODES}, device=400 GB/s", {"device": (400e9, 3.4e-6)}),
        (f"{NODES}, node=200 Gb/s, node=5 us", f"{NODES}, node=200 Gb/s 5 us", {"node": (25e9, 5e-6)}),
        (f"{NODES}, node=200 Gb/s, node=100 Gb/s", f"{NODES}, node=100 Gb/s", {"node": (12.5e9, 14e-6)}),
        ("TPU v5p 4x4x8, ici=80 GB/s", "TPU v5p 4x4x8, ici=80 GB/s", dict.fromkeys("xyz", (80e9, 1e-6))),
        ("TPU v5p 4x4x8, ici=80GB/s, x=70GB/s", "TPU v5p 4x4x8, ici=80 GB/s, x=70 GB/s", {"x": (70e9, 1e-6), "y": (80e9, 1e-6)}),
        ("TPU v5p 4x4x8, x=70 GB/s, ici=80 GB/s, x=2 us", "TPU v5p 4x4x8, x=70 GB/s, ici=80 GB/s, x=2 us", {"x": (80e9, 2e-6)}),
        ("4 slices of TPU v5e 4x4, slice=100 Gb/s", "4 slices of TPU v5e 4x4, slice=100 Gb/s", {"slice": (12.5e9, 50e-6)}),
    ],
)
def test_a_link_is_changed_by_its_axis_or_by_its_name(text, name, changed):
    hardware = parse_hardware(text)
    assert hardware.name == name
    assert links(text) == {**links(text.partition(",")[0]), **links(name), **{axis: links(text)[axis] for axis in changed}}
    assert {axis: links(text)[axis] for axis in changed} == changed
    untouched = set(links(text)) - {axis.name for axis in hardware.axes if axis.name in changed or "ici" in text}
    assert all(links(text)[axis] == links(text.partition(",")[0])[axis] for axis in untouched)
    assert parse_hardware(name) == hardware


@given(
    st.lists(
        st.tuples(
            st.sampled_from(["slice", "x", "y", "z", "ici", "dcn"]),
            st.floats(0, 1e300, exclude_min=True) | st.none(),
            st.floats(0, 10) | st.none(),
        ).filter(lambda change: change[1:] != (None, None)),
        max_size=4,
    )
)
def test_changed_links_read_back_exactly(changes):
    hardware = parse_hardware("4 slices of TPU v5p 2x2x4")
    for name, bandwidth, latency in changes:
        hardware = hardware.with_link(name, bandwidth=bandwidth, latency=latency)
    assert parse_hardware(hardware.name) == hardware


def test_a_changed_link_is_a_new_value_and_its_collectives_take_as_long_as_it_is_slow():
    hardware = parse_hardware(NODES)
    slower = hardware.with_link("node", bandwidth=25e9)
    assert hardware == parse_hardware(NODES) != slower
    half, whole = (collective_seconds("all-gather", ("a",), BYTES, Mesh("a:32 b:8"), each) for each in (slower, hardware))
    assert half == pytest.approx(2 * whole, rel=0.05)


def test_the_sides_of_a_torus_work_at_once_however_fast_each_is():
    hardware = parse_hardware("TPU v5p 4x4x4")
    hardly = hardware.with_link("x", bandwidth=90e9 * (1 - 1e-9))
    times = [collective_seconds("all-gather", ("a",), BYTES, Mesh("a:64"), each) for each in (hardware, hardly)]
    assert times[0] == pytest.approx(times[1], rel=1e-6)


def test_a_plan_keeps_the_changed_link_in_its_document():
    plan = Plan(build("two_layer"), "data:4 model:2", "batch:data", hardware="2 nodes of 4 H100, node=200 Gb/s, 5 us")
    assert '"hardware": "2 nodes of 4 H100, node=200 Gb/s 5 us"' in dump_plan(plan)
    assert parse_plan(dump_plan(plan)).hardware == plan.hardware


def test_hardware_without_a_name_keeps_none():
    assert parse_hardware(NODES).renamed("").with_link("node", latency=1e-6).name == ""


def test_a_comma_in_the_name_of_a_kind_of_device_begins_no_option(tmp_path):
    path = tmp_path / "own.toml"
    path.write_text(
        '["Box, large"]\nflops = { bfloat16 = 1e12 }\nmemory = 1e9\nmemory_bandwidth = 1e9\nlinks.a = { bandwidth = 1e9, latency = 0 }\n'
        'links.b = { bandwidth = 1e9, latency = 0 }\nnode = { size = 8, link = "a", network = "b" }\n'
    )
    hardware = parse_hardware("2 nodes of 8 Box, large, node=8 Gb/s", load_catalogue(path))
    assert (hardware.size, hardware.name) == (16, "2 nodes of 8 Box, large, node=8 Gb/s")
    assert parse_hardware(hardware.with_link("node", latency=1e-6).name, load_catalogue(path)).axes[0].link.latency == 1e-6


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            "8 H100, fast",
            "Hardware has no option `fast`; the options after a comma are `node=200 Gb/s` (the speed of a link), "
            "`eager` (eager PyTorch; "
            "or `CUDA graphs`), `no reshard` (option of eager, such as `no prefetch` and `async TP`), `2.5 $/h` (the price of a chip).\n"
            '  Try: write "8 H100".',
        ),
        (
            "32 nodes of 8 H100, nod=200 Gb/s",
            "There is no link `nod` in 32 nodes of 8 H100; there are `node`, `device`, `infiniband`, `nvlink`.\n  Did you mean `node`?",
        ),
        ("8 H100, node=200 Gb/s", "There is no link `node` in 8 H100; there are `device`, `nvlink`.\n  Try: use one of these names."),
        (
            "8 H100, device=200",
            "`device=200` is not a speed of a link: it is a link's name, then what a device sends over it in one "
            "direction, its latency, or "
            'both.\n  Try: write "node=200 Gb/s" · "node=4 x 200 Gb/s" (adapters of a node) · "node=25 GB/s, 5 us".',
        ),
        ("8 H100, device=0 GB/s", "The bandwidth of `device` is 0 B/s; a rate must be more than 0.\n  Try: leave it out."),
    ],
)
def test_an_option_that_cannot_be_is_refused_with_ways_out(text, message):
    with pytest.raises(HardwareError) as error:
        parse_hardware(text)
    assert str(error.value) == message


@pytest.mark.parametrize("text", ["device", "=2 GB/s", "device=", "device=2 s 3 GB/s", "device=fast", "device=-2 GB/s", "device=1.2.3 us"])
def test_what_is_no_speed_is_refused(text):
    with pytest.raises(HardwareError, match="is not a speed of a link"):
        set_link(parse_hardware("8 H100"), text)


@pytest.mark.parametrize("latency", [-1.0, float("inf"), float("nan")])
def test_a_latency_is_a_number_of_seconds_from_0(latency):
    with pytest.raises(HardwareError, match="number of seconds from 0"):
        parse_hardware("8 H100").with_link("device", latency=latency)


@pytest.mark.parametrize(
    ("text", "rate"),
    [("1 GiB/s", 2**30), ("3 Tb/s", 375e9), ("1 Gbit/s", 125e6), ("8 bits/s", 1), ("2 bytes/s", 2), ("1 GB", None), ("", None)],
)
def test_a_rate_is_read_in_bits_or_bytes(text, rate):
    assert parse_rate(text) == rate


def test_a_time_is_read_in_its_unit():
    assert [parse_time(text) for text in ("2 s", "3ms", "4 µs", "5 μs", "6 ns", "7", "us")] == [2, 3e-3, 4e-6, 5e-6, 6e-9, None, None]


@pytest.mark.parametrize(
    ("text", "name", "hourly"),
    [
        ("8 P40, 2.5 $/h", "8 P40, 2.5 $/h", 20.0),
        ("2 nodes of 8 H100,$3/hour", "2 nodes of 8 H100, 3 $/h", 48.0),
        ("2 nodes of 8 H100, node=200 Gb/s, 2.50 usd/h, eager", "2 nodes of 8 H100, eager, 2.5 $/h, node=200 Gb/s", 40.0),
        ("8 H100, 9 $/h, 2 $/h", "8 H100, 2 $/h", 16.0),
        ("TPU v3 4x4, 3 $/h", "TPU v3 4x4, 3 $/h", 48.0),  # 16 chips of two devices each
        ("TPU v3 4x4", "TPU v3 4x4", 32.0),
        ("8 P40", "8 P40", None),
    ],
)
def test_a_chip_has_the_price_that_is_written_else_that_of_the_catalogue(text, name, hourly):
    hardware = parse_hardware(text)
    assert (hardware.name, hardware.hourly_price) == (name, hourly)
    assert parse_hardware(name) == hardware
    assert hardware.with_link("x" if "TPU" in text else "device", latency=1e-6).hourly_price == hourly


@given(st.floats(0, 1e300, exclude_min=True))
def test_a_price_reads_back_exactly(price):
    hardware = parse_hardware("2 nodes of 8 H100, eager, node=200 Gb/s").with_price(price)
    assert parse_hardware(hardware.name) == hardware
    assert hardware.chip.price == price


def test_a_price_that_is_not_known_is_asked_for():
    assert parse_hardware("8 P40, 2.5 $/h").known_hourly_price() == 20
    with pytest.raises(HardwareError) as error:
        parse_hardware("8 P40, eager").known_hourly_price()
    assert str(error.value) == (
        "The hourly cost of 8 P40, eager is unknown: the catalogue has no price for P40.\n"
        '  Try: add the hourly price of a chip, "8 P40, eager, 2.5 $/h" · give P40 a `price` in a hardware file.'
    )


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("8 H100, 0 $/h", "A chip for 0 $/h: a price must be more than 0.\n  Try: leave it out."),
        (
            "8 H100, 2 $ a day",
            '`2 $ a day` is not a price: write US dollars per chip and hour.\n  Try: write "2.5 $/h".',
        ),
    ],
)
def test_what_is_no_price_is_refused(text, message):
    with pytest.raises(HardwareError) as error:
        parse_hardware(text)
    assert str(error.value) == message


def test_a_plan_keeps_the_price_in_its_document_and_its_report_tells_what_steps_cost():
    plan = Plan(build("two_layer"), "data:4", "batch:data", hardware="8 H100, 2.5 $/h")
    assert parse_plan(dump_plan(plan)).hardware == plan.hardware
    report = plan.report()
    price = 20 * report.step_time.total / 3600 * 1000
    text = " ".join(str(report).split())
    assert f"price of 1,000 steps {format_dollars(price)} {format_dollars(price / 1000)} a step; $20.00 per hour at 2.5 $/h a chip" in text
    assert "price of" not in str(plan.updated(hardware="8 P40").report())
