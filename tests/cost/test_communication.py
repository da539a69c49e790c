import math
from dataclasses import replace

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from tests.support.example_hardware import list_example_hardware
from workbench.core.mesh import Mesh
from workbench.cost.collective_times import collective_seconds, group_of
from workbench.hardware.axis_assignment_text import parse_axis_assignment
from workbench.hardware.axis_placement import axis_assignment_error
from workbench.hardware.catalogue import load_catalogue, parse_hardware
from workbench.hardware.hardware import AxisTopology, Hardware
from workbench.reports.collective import KINDS

ALL_HARDWARE = list_example_hardware(load_catalogue())
LARGE = 1 << 32
AXES = st.sampled_from([("a",), ("b",), ("a", "b"), ("a", "b", "c")])


def ideal(text: str, shape: AxisTopology | None = None) -> Hardware:
    """As printed by the vendor, without the share that is reached; every dimension of this shape, if one is given."""
    hardware = parse_hardware(text)
    axes = tuple(replace(axis, shape=shape or axis.shape) for axis in hardware.axes)
    return replace(hardware, chip=replace(hardware.chip, efficiency={}), axes=axes)


@st.composite
def cases(draw: st.DrawFn) -> tuple[Mesh, Hardware]:
    hardware = draw(st.sampled_from(ALL_HARDWARE))
    mesh = Mesh(tuple((name, draw(st.sampled_from((1, 2, 3, 4, 8)))) for name in "abc"))
    assume(axis_assignment_error(mesh, hardware) is None)
    return mesh, hardware


def test_the_worked_all_gather_of_the_scaling_book():
    """Part 3: 34 MB over 4 of a TPU v5e 4x4 take 377 us if the 4 were a ring, 560 us as they are, and took 680 us when measured."""
    seconds = [
        collective_seconds("all-gather", ("y",), 34_000_000, Mesh("x:4 y:4"), hardware)
        for hardware in (ideal("TPU v5e 4x4", AxisTopology.RING), ideal("TPU v5e 4x4"), parse_hardware("TPU v5e 4x4"))
    ]
    assert seconds == [pytest.approx(377e-6, rel=0.02), pytest.approx(560e-6, rel=0.02), pytest.approx(680e-6, rel=0.03)]


@pytest.mark.parametrize(
    ("mesh", "kind", "bandwidth"),
    [
        # Part 12: B (D-1) / D W at the slowest level: 514 GB/s in a node of 8, 413 GB/s over 32 nodes
        ("m:8", "all-gather", 450e9 * 8 / 7),
        # (of a ring of all 256, as NCCL has it, 402 GB/s: 255 of 256 parts pass each node's adapters)
        ("d:32 m:8", "all-gather", 400e9 * 256 / 255),
        ("d:32 m:8", "reduce-scatter", 400e9 * 256 / 255),
        ("d:32 m:8", "all-reduce", 400e9 * 256 / 255 / 2),
        # an all-to-all over nodes has no use of the devices inside: 50 GB/s
        ("d:32 m:8", "all-to-all", 50e9 * 32 / 31),
    ],
)
def test_the_worked_bandwidths_of_h100_nodes(mesh, kind, bandwidth):
    payload = 64 * LARGE  # so that latencies do not count
    seconds = collective_seconds(kind, Mesh(mesh).names, payload, Mesh(mesh), ideal("32 nodes of 8 H100"))
    assert payload / seconds == pytest.approx(bandwidth, rel=0.02)


def test_the_measured_bandwidths_of_efa_are_held():
    """TEACHING figure 11, the Ultra-Scale Playbook: bus bandwidth of all-reduces of 256 MB over 1 to 64 nodes of 8 H100, in GB/s; of
    all-gathers 250 over one node and 11 over 64."""
    payload = 256 * 2**20
    for nodes, bandwidth in {1: 436, 2: 362, 4: 160, 8: 99.6, 16: 84.7, 32: 64.9, 64: 32.9}.items():
        hardware = parse_hardware(f"{nodes} nodes of 8 H100 EFA" if nodes > 1 else "8 H100 EFA")
        n = 8 * nodes
        seconds = collective_seconds("all-reduce", ("a",), payload, Mesh(f"a:{n}"), hardware)
        assert 2 * (n - 1) / n * payload / seconds / 1e9 == pytest.approx(bandwidth, rel=0.07)


def test_adapters_are_shared_by_the_devices_of_a_node():
    four, eight = (parse_hardware(f"4 nodes of 8 A100, node={count} x 200 Gb/s") for count in (4, 8))
    one, two = (collective_seconds("all-gather", ("a",), LARGE, Mesh("a:32"), each) for each in (four, eight))
    assert one == pytest.approx(2 * two, rel=0.02)
    assert parse_hardware(str(four)) == four


@pytest.mark.parametrize(("dimensions", "mesh"), [(1, "a:8"), (2, "a:64"), (3, "a:512")])
def test_dimensions_of_a_torus_add_their_bandwidth(dimensions, mesh):
    """Part 3: `V / (W axes)`, W = 180 GB/s both ways of a TPU v5p."""
    seconds = collective_seconds("all-gather", ("a",), LARGE, Mesh(mesh), ideal("TPU v5p 8x8x8"))
    assert LARGE / 180e9 / dimensions == pytest.approx(seconds, rel=0.01)


def test_an_all_to_all_on_a_ring_is_a_quarter_of_the_all_gather_of_the_whole_array():
    hardware, mesh = ideal("TPU v5e 16x16"), Mesh("a:16 b:16")
    gather = collective_seconds("all-gather", ("b",), LARGE, mesh, hardware)
    exchange = collective_seconds("all-to-all", ("b",), LARGE // 16, mesh, hardware)
    assert exchange / gather == pytest.approx(1 / 4, rel=0.01)


def test_no_device_receives_more_than_its_ports_bring():
    """A 2x2 slice: each device has two links and must receive three quarters of the array."""
    seconds = collective_seconds("all-gather", ("a",), LARGE, Mesh("a:4"), ideal("TPU v5e 2x2"))
    assert seconds == pytest.approx(LARGE * 3 / 4 / (2 * 45e9), rel=0.001)


def test_devices_that_stand_apart_share_their_links():
    """`data` is every fourth device of `x`: four groups on each link, and hops of four. The neighbours have a line, `data` a ring."""
    hardware, mesh = ideal("TPU v5e 16x16"), Mesh("data:4 model:4")
    shared = parse_axis_assignment("data:x; model:x")
    near = collective_seconds("all-gather", ("model",), LARGE, mesh, hardware, shared)
    far = collective_seconds("all-gather", ("data",), LARGE, mesh, hardware, shared)
    alone = collective_seconds("all-gather", ("data",), LARGE, mesh, hardware, parse_axis_assignment("data:y; model:x"))
    assert near == pytest.approx(LARGE * 3 / 4 / 45e9, rel=0.001)
    assert alone == pytest.approx(near)
    assert far == pytest.approx(LARGE * 2 / 4 / 45e9 * 4, rel=0.001)


def test_together_two_mesh_axes_of_one_physical_axis_are_one_ring():
    hardware = ideal("TPU v5e 16x16")
    together = collective_seconds("all-reduce", ("a", "b"), LARGE, Mesh("a:4 b:4"), hardware, parse_axis_assignment("a:x; b:x"))
    whole = collective_seconds("all-reduce", ("a",), LARGE, Mesh("a:16"), hardware, parse_axis_assignment("a:x"))
    assert together == whole


def test_what_crosses_slices_is_the_part_that_a_slice_does_not_have():
    """An all-reduce over 2 slices of 256: reduce-scatter inside, all-reduce of a 256th across, all-gather inside."""
    hardware, mesh = ideal("2 slices of TPU v5e 16x16"), Mesh("a:512")
    one = collective_seconds("all-reduce", ("a",), LARGE, Mesh("a:256"), ideal("TPU v5e 16x16"))
    across = 2 * (50e-6 + LARGE / 256 * (1 / 2) / 3.125e9)
    assert collective_seconds("all-reduce", ("a",), LARGE, mesh, hardware) == pytest.approx(one + across, rel=0.001)


def test_a_small_message_waits_for_its_hops():
    hardware = parse_hardware("TPU v5p 8x8x16")
    assert collective_seconds("all-gather", ("a",), 0, Mesh("a:16"), hardware) == pytest.approx(8e-6)  # half a ring of 16
    assert collective_seconds("all-gather", ("a",), 0, Mesh("a:1024"), hardware) == pytest.approx(16e-6)  # 4 + 4 + 8
    assert collective_seconds("all-gather", ("a",), 0, Mesh("a:8"), parse_hardware("8 H100")) == pytest.approx(6.6e-6 + 7 * 0.6e-6)  # LL


def test_a_smaller_group_is_the_inner_part_of_the_axes():
    hardware, mesh = ideal("32 nodes of 8 H100"), Mesh("a:256")
    inside = collective_seconds("all-gather", ("a",), LARGE, mesh, hardware, None, 4)
    assert inside == collective_seconds("all-gather", ("a",), LARGE, Mesh("a:4"), ideal("4 H100"))
    assert collective_seconds("all-gather", ("a",), LARGE, mesh, hardware, None, 256) == collective_seconds(
        "all-gather", ("a",), LARGE, mesh, hardware
    )
    part = group_of(("a",), Mesh("a:16"), ideal("TPU v5e 16x16"), None, 8)
    assert [(each.n, each.shape) for level in part for each in level] == [(8, AxisTopology.LINE)]


@pytest.mark.parametrize("kind", KINDS)
def test_a_mesh_that_does_not_fit_has_a_time_all_the_same(kind):
    fitting = collective_seconds(kind, ("data",), 1 << 20, Mesh("data:256"), parse_hardware("TPU v5e 16x16"))
    too_large = collective_seconds(kind, ("data",), 1 << 20, Mesh("data:7777"), parse_hardware("TPU v5e 16x16"))
    wrong = collective_seconds(kind, ("data",), 1 << 20, Mesh("data:256"), parse_hardware("TPU v5e 16x16"), parse_axis_assignment("data:x"))
    assert 0 < fitting == wrong
    assert 0 < too_large < math.inf


@pytest.mark.compile
@pytest.mark.parametrize("kind", KINDS)
@given(case=cases(), axes=AXES, payloads=st.tuples(st.integers(0, LARGE), st.integers(0, LARGE)))
@settings(max_examples=60, deadline=None)
def test_more_bytes_take_more_time_and_never_less_than_the_latency(kind, case, axes, payloads):
    mesh, hardware = case
    fewer, more = sorted(payloads)
    floor, less, longer = (collective_seconds(kind, axes, payload, mesh, hardware) for payload in (0, fewer, more))
    assert floor <= less <= longer
    if math.prod(mesh[axis] for axis in axes) == 1:
        assert longer == 0
    else:
        share = (
            0.6 / 3.4 if hardware.chip.platform == "cuda" else 1
        )  # NCCL's LL is that much quicker than Simple, which a link's latency is of
        assert floor >= share * min(axis.link.latency for axis in hardware.axes)
        assert fewer == more or less < longer or longer == floor  # a ring over a network takes its overhead however little is sent


@given(case=cases(), axes=AXES, payload=st.integers(0, LARGE))
@settings(max_examples=60, deadline=None)
def test_an_all_reduce_is_a_reduce_scatter_and_an_all_gather(case, axes, payload):
    """Or, between GPUs, quicker: a tree has fewer steps, and one call begins once."""
    mesh, hardware = case
    whole, scatter, gather = (
        collective_seconds(kind, axes, payload, mesh, hardware) for kind in ("all-reduce", "reduce-scatter", "all-gather")
    )
    if hardware.chip.platform == "cuda":
        assert whole <= (scatter + gather) * (1 + 1e-9)
    else:
        assert whole == pytest.approx(scatter + gather)


@pytest.mark.parametrize("text", ["TPU v5p 4x4x4", "TPU v5e 4x4", "2 nodes of 8 H100", "2 slices of TPU v6e 4x4"])
@given(case=st.sampled_from(["all-gather", "all-to-all"]), sizes=st.tuples(st.sampled_from((2, 4)), st.sampled_from((2, 4))))
@settings(max_examples=16, deadline=None)
def test_no_collective_is_faster_than_the_bytes_that_must_leave_a_device(text, case, sizes):
    hardware, mesh = ideal(text), Mesh((("a", sizes[0]), ("b", sizes[1])))
    n = mesh.size
    ports = sum(2 * axis.link.bandwidth if axis.shape is not AxisTopology.SWITCH else axis.link.bandwidth for axis in hardware.axes)
    least = LARGE * (n - 1) / n / ports
    assert collective_seconds(case, ("a", "b"), LARGE, mesh, hardware) >= least


def test_the_time_of_an_all_reduce_hardly_depends_on_how_many_take_part():
    hardware = ideal("128 nodes of 8 H100")
    times = [collective_seconds("all-reduce", ("a",), LARGE, Mesh(f"a:{n}"), hardware) for n in (64, 128, 256, 512, 1024)]
    assert max(times) / min(times) < 1.15
    sides, x = (8, 16, 32, 64), parse_axis_assignment("a:x")
    rings = [collective_seconds("all-reduce", ("a",), LARGE, Mesh(f"a:{n}"), ideal(f"TPU v4 {n}x4x4"), x) for n in sides]
    assert max(rings) / min(rings) < 1.01


def test_ten_thousand_collectives_of_a_step_cost_no_time_to_plan():
    import time

    hardware, mesh = parse_hardware("4 slices of TPU v5p 8x8x16"), Mesh("pipe:4 data:64 model:16")
    start = time.perf_counter()
    for payload in range(10_000):
        collective_seconds("all-reduce", ("data", "model"), payload, mesh, hardware)
    assert time.perf_counter() - start < 0.2  # about 0.02 here
