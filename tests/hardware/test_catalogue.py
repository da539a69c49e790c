import os
import tomllib
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.example_hardware import list_example_hardware
from workbench.errors import HardwareError
from workbench.hardware.catalogue import (
    HARDWARE_FILE_VARIABLE,
    Catalogue,
    default_catalogue,
    load_catalogue,
    machines,
    parse_hardware,
)
from workbench.hardware.catalogue_entry import SHIPPED_FILE, Torus
from workbench.hardware.hardware import AxisTopology
from workbench.hardware.hardware_text import catalogue_text, hardware_text

ENTRIES = tuple(load_catalogue().entries.values())
TABLES = tomllib.loads(SHIPPED_FILE.read_text(encoding="utf-8"))
OWN = """
["Grid One"]
flops = { bfloat16 = 100e12 }
memory = 16e9
memory_bandwidth = 1e12
price = 0.5
torus = { rank = 1, side = 64, chips = 64, ring_side = 64, link = "wire", slices = "net" }
links.wire = { bandwidth = 10e9, latency = 2e-6 }
links.net = { bandwidth = 1e9, latency = 50e-6 }
sources.flops = "a data sheet"

["H100"]
flops = { bfloat16 = 1.0 }
memory = 1
memory_bandwidth = 1
node = { size = 2, link = "nvlink", network = "net" }
links.nvlink = { bandwidth = 1, latency = 1 }
links.net = { bandwidth = 1, latency = 1 }
"""


@pytest.mark.parametrize("entry", ENTRIES, ids=lambda entry: entry.name)
def test_every_number_has_a_source(entry):
    table = TABLES[entry.name]
    unsourced = ("aliases", "target", "devices", "array_tile", "sources", "links", "node", "matmul_tile")  # tiles: one for all TPUs
    unsourced = (*unsourced, "calibrated", "shares_of")  # these are sources themselves
    assert {name for name in table if name not in unsourced} | set(table["links"]) <= set(table["sources"])
    assert all(source.strip() for source in table["sources"].values())
    assert set(table["sources"]) <= {*table, *table["links"]}


MEASURED_GPUS = ("A100-40GB", "A100-80GB", "A800", "H100", "H100 EFA", "H200", "H800", "B200")
"""With shares that were fitted on measured runs, their own or those of a relative."""


@pytest.mark.parametrize("entry", ENTRIES, ids=lambda entry: entry.name)
def test_a_chip_that_no_run_was_fitted_on_has_the_shares_of_one_that_was(entry):
    chip = entry.chip
    assert not (chip.calibrated and chip.shares_of)
    assert bool(chip.calibrated or chip.shares_of) == (chip.platform == "tpu" or entry.name in MEASURED_GPUS)
    if chip.shares_of:
        relative = default_catalogue()[chip.shares_of].chip
        fitted = ("sustained",) if chip.platform == "tpu" else ("matmul", "memory", "transfer")
        assert relative.calibrated
        assert [chip.efficiency.get(name) for name in fitted] == [relative.efficiency.get(name) for name in fitted]


@pytest.mark.parametrize(("name", "sibling", "other"), [("H800", "H100", "float64"), ("A800", "A100-80GB", "")])
def test_a_chip_with_slower_links_is_its_sibling_in_all_else(name, sibling, other):
    slow, fast = load_catalogue()[name], load_catalogue()[sibling]
    rates = [{**entry.chip.flops, other: 0} for entry in (slow, fast)]
    same = [(entry.chip.memory, entry.chip.memory_bandwidth, entry.chip.vector_flops, entry.chip.matmul_tile) for entry in (slow, fast)]
    assert rates[0] == rates[1]
    assert same[0] == same[1]
    assert (slow.chip.shares_of, slow.links[0].bandwidth, slow.links[1]) == (sibling, 200e9, fast.links[1])


@pytest.mark.parametrize("entry", ENTRIES, ids=lambda entry: entry.name)
def test_the_numbers_of_a_device_are_plausible(entry):
    chip = entry.chip
    assert chip.peak("bfloat16") >= chip.peak("float32")
    assert chip.peak("int8") >= chip.peak("bfloat16")
    assert 1e9 < chip.memory_bandwidth < chip.peak("bfloat16")
    assert 4 < chip.peak("bfloat16") / chip.memory_bandwidth < 600  # FLOP a byte at which the two take as long
    assert 1e9 < chip.memory < 1e12
    assert chip.vector_flops < chip.peak("bfloat16")
    fast, *slower = [link.bandwidth for link in entry.links]
    assert all(fast >= each for each in slower)
    assert all(0 < link.latency < 1e-3 for link in entry.links)
    # What is read ahead comes from the chip, and some of what is counted as moved stays there; peaks of vector units are derived.
    most = {"operands": 4, "memory": 2, "vector": 2}
    assert all(0 < share <= most.get(work, 1) for work, share in chip.efficiency.items())


@pytest.mark.parametrize("hardware", list_example_hardware(load_catalogue()), ids=str)
def test_hardware_reads_back_from_its_name(hardware):
    assert parse_hardware(hardware.name) == hardware
    assert parse_hardware(f"  {hardware.name.lower()} ".replace(" ", "  ")) == hardware


def test_the_table_of_examples_has_every_entry():
    assert {hardware.chip.name for hardware in list_example_hardware(load_catalogue())} == set(TABLES)


@pytest.mark.parametrize(
    ("text", "axes"),
    [
        ("TPU v5p 8x8x16", [("x", 8, "ring"), ("y", 8, "ring"), ("z", 16, "ring")]),
        ("TPU v5p 2x2x4", [("x", 2, "line"), ("y", 2, "line"), ("z", 4, "line")]),  # no whole cube, no optical switch
        ("TPU v4 4x4x4", [("x", 4, "ring"), ("y", 4, "ring"), ("z", 4, "ring")]),
        ("TPU v5e 8x16", [("x", 8, "line"), ("y", 16, "ring")]),
        ("TPU v6e 16x16", [("x", 16, "ring"), ("y", 16, "ring")]),
        ("TPU v3 32x32", [("x", 32, "ring"), ("y", 32, "ring"), ("core", 2, "line")]),
        ("v3 4x4", [("x", 4, "line"), ("y", 4, "line"), ("core", 2, "line")]),
        ("tpu7x 2x2x1", [("x", 2, "line"), ("y", 2, "line"), ("z", 1, "line"), ("core", 2, "line")]),
        ("4 slices of TPU v5e 16x16", [("slice", 4, "switch"), ("x", 16, "ring"), ("y", 16, "ring")]),
        ("32 nodes of 8 H100", [("node", 32, "switch"), ("device", 8, "switch")]),
        ("1 node of 8 H100", [("device", 8, "switch")]),
        ("8 a100", [("device", 8, "switch")]),
    ],
)
def test_what_a_person_writes_becomes_physical_axes(text, axes):
    assert [(axis.name, axis.size, str(axis.shape)) for axis in parse_hardware(text).axes] == axes


def test_two_devices_of_a_chip_share_what_the_chip_has():
    core = parse_hardware("TPU v3 32x32")
    assert core.size == 2048
    assert core.chip.peak("bfloat16") == 123e12 / 2
    assert core.axes[0].link.bandwidth == 82e9 / 2


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("64 H100", "8 nodes of 8 H100"),
        ("144 GB200, eager", "2 nodes of 72 GB200, eager"),
        ("36 GB200", "36 GB200"),
        ("8 RTX 4090", "8 RTX 4090"),
        ("1 nodes of 8 H100", "8 H100"),
    ],
)
def test_devices_that_fill_nodes_are_nodes(text, name):
    assert parse_hardware(text).name == name


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            "TPU v5x 4x4",
            "There is no hardware `TPU v5x`; there are `TPU v2`, `TPU v3`, `TPU v4`, `TPU v5e`, `TPU v5p`, `TPU v6e`, `TPU v7`, "
            "`P40`, `P100`, `V100-16GB`, `V100-32GB`, `T4`, `A100-40GB`, "
            "`A100-80GB`, `L4`, `H100`, `H100 EFA`, `H100-500W`, `H200`, `B200` and more.\n  Did you mean `TPU v5p`?",
        ),
        (
            "TPU v5p 8x8",
            '`TPU v5p 8x8` has 2 sides; a slice of TPU v5p is a 3-dimensional torus.\n  Try: write "TPU v5p 4x4x4" for 64 chips.',
        ),
        (
            "TPU v5e 32x32",
            '`TPU v5e 32x32` is 32 x 32 = 1,024 chips; a pod of TPU v5e is 16x16 at most.\n  Try: write "4 slices of TPU v5e 16x16".',
        ),
        (
            "TPU v5p 30x30x30",
            "`TPU v5p 30x30x30` is 30 x 30 x 30 = 27,000 chips; a pod of TPU v5p is 8,960 chips at most.\n"
            '  Try: write "4 slices of TPU v5p 15x15x30".',
        ),
        ("12 H100", 'A node has 1 to 8 H100, not 12.\n  Try: write "2 nodes of 8 H100".'),
        ("2 nodes of 16 H100", 'A node has 1 to 8 H100, not 16.\n  Try: write "2 nodes of 8 H100".'),
        ("8 TPU v5e", 'TPU v5e has a torus; give its sides in chips.\n  Try: write "TPU v5e 2x4".'),
        ("H100 4x4", 'H100 has nodes, not a torus.\n  Try: write "8 H100" · "4 nodes of 8 H100".'),
        ("TPU v5e", '`TPU v5e` is a kind of device; the number of devices is missing.\n  Try: write "TPU v5e 4x4".'),
        ("TPU v5e 2x", '`2x` is not a size of a TPU v5e slice or node.\n  Try: write "TPU v5e 4x4".'),
        ("TPU v5e 0x4", "`TPU v5e 0x4` has a side of 0 chips.\n  Try: each side is at least 1 chip."),
        ("0 nodes of 8 H100", "At least one node is required.\n  Try: omit `0 nodes of`."),
    ],
)
def test_hardware_that_does_not_exist_is_told_with_ways_out(text, message):
    with pytest.raises(HardwareError) as error:
        parse_hardware(text)
    assert str(error.value) == message


@given(
    st.text(max_size=40) | st.sampled_from(["8 H100", "TPU v5p ", "slices of", " nodes of 8 "]).flatmap(lambda a: st.text().map(a.__add__))
)
def test_any_text_is_hardware_or_a_hardware_error(text):
    try:
        hardware = parse_hardware(text)
    except HardwareError:
        return
    assert parse_hardware(hardware.name) == hardware


def test_an_own_file_adds_entries_and_replaces_those_of_the_same_name(tmp_path, monkeypatch):
    path = tmp_path / "own.toml"
    path.write_text(OWN)
    catalogue = load_catalogue(path)
    assert set(catalogue.entries) == {*TABLES, "Grid One"}
    own = parse_hardware("Grid One 64", catalogue)
    assert (own.size, own.axes[0].shape, own.chip.vector_flops) == (64, AxisTopology.RING, float("inf"))
    assert own.hourly_price == 32
    assert catalogue["H100"].chip.price is None
    assert catalogue["H100"].chip.memory == 1
    with pytest.raises(HardwareError, match="no hardware `Grid One`"):
        parse_hardware("Grid One 64")
    monkeypatch.setenv(HARDWARE_FILE_VARIABLE, str(path))
    assert parse_hardware("2 slices of grid one 8").size == 16
    assert default_catalogue() == catalogue


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("[", "is not TOML"),
        ("['X']\nflops = {}", "`X` in the hardware file .* cannot be used: it has no `links`"),
        (OWN.replace("bfloat16 = 100e12", ""), "`flops` needs a rate above 0"),
        (OWN.replace("bandwidth = 10e9", "bandwidth = 0"), "`bandwidth` is 0; a rate must be more than 0"),
        (OWN.replace("rank = 1", "rang = 1"), "rang"),
        (OWN.replace("price = 0.5", "price = -1"), "`price` is -1; give dollars per hour above 0, or omit it"),
        (OWN.replace('link = "wire"', 'link = "wier"'), "it has no `wier`"),
        ("x = 1", "cannot be used"),
        (OWN.replace("rank = 1", "rank = 1000000000"), "`rank` is 1000000000; it is a whole number from 1 to 3"),
        (OWN.replace("side = 64", "side = 99999999999"), "`side` is 99999999999; it is a whole number from 1 to 10,000,000"),
        (OWN.replace("chips = 64", "chips = 1.5"), "`chips` is 1.5; it is a whole number"),
        (OWN.replace("size = 2", "size = 0"), "`size` is 0; it is a whole number"),
        (OWN.replace("price = 0.5", "devices = 0"), "`devices` is 0; it is a whole number"),
        (OWN.replace("memory = 16e9", "memory = nan"), "nan is not a valid number"),
        (OWN.replace("memory = 16e9", "memory = inf"), "cannot be used: cannot convert float infinity to integer"),
        (OWN.replace("memory = 16e9", "memory = 2021-01-01"), "is of type date; write it as text"),
        ("x = " + "[" * 5000 + "]" * 5000, "nested more than 16 levels deep"),
        ("[" + ".".join("a" * 100_000) + "]", "line 1 has more than 16 dotted names"),
        ("x = " + "9" * 5000, "a whole number has more than 40 digits"),
        ("x = [" + "1," * 200_000 + "]", "has more than 100,000 entries"),
        ("".join(f"[t{n}]\n" for n in range(60_000)), "has more than 100,000 entries"),
        ("x = '" + "a" * (1 << 20) + "'", "is not a hardware file: it has more than 1,048,576 characters"),
    ],
)
def test_an_own_file_that_is_wrong_says_where(tmp_path, text, says):
    path = tmp_path / "own.toml"
    path.write_text(text)
    with pytest.raises(HardwareError, match=says):
        load_catalogue(path)


def test_an_own_file_is_a_regular_file(tmp_path):
    os.mkfifo(pipe := tmp_path / "own.toml")
    for path in (pipe, Path("/dev/zero")):
        with pytest.raises(HardwareError, match="cannot be read: it is a pipe, a device or a socket; only regular files are read"):
            load_catalogue(path)
    with pytest.raises(HardwareError, match="cannot be read: Is a directory"):
        load_catalogue(tmp_path)


def test_an_own_file_that_is_not_there_says_so():
    with pytest.raises(HardwareError, match="cannot be read"):
        load_catalogue("no such file.toml")


@pytest.mark.parametrize("entry", ENTRIES, ids=lambda entry: entry.name)
def test_the_listing_tells_each_kind_and_each_source(entry):
    catalogue = Catalogue({entry.name: entry})
    assert f" {entry.name} " in catalogue_text(catalogue)
    told = " ".join(hardware_text(entry.example, catalogue).split())
    assert told.startswith(f"{entry.example}: ")
    assert "assumed" in told or isinstance(entry.network, Torus)
    for source in entry.chip.sources.values():
        assert source.split()[0] in told
    assert hardware_text(entry.name, catalogue).startswith(f"{entry.name}, one JAX device")


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("8 RTX 4090", "8 RTX 4090"),
        ("4 nodes of 8 rtx 3090", "4 nodes of 8 RTX 3090"),
        ("8 A100-40GB PCIe", "8 A100-40GB PCIe"),
        ("8 x p5.48xlarge", "8 nodes of 8 H100 EFA"),
        ("8 p5.48xlarge", "8 nodes of 8 H100 EFA"),
        ("a3-megagpu-8g", "8 H100"),
        ("2 x A3-MegaGPU-8g, eager", "2 nodes of 8 H100, eager"),
        ("ct5p-hightpu-4t", "TPU v5p 2x2x1"),
        ("1 x g5.xlarge", "1 A10G"),
    ],
)
def test_machines_and_cards_are_known_by_the_names_people_use(text, name):
    assert parse_hardware(text).name == name


@pytest.mark.parametrize("machine", machines().items(), ids=lambda each: each[0])
def test_each_machine_is_hardware_of_the_catalogue(machine):
    name, hardware = machine
    assert parse_hardware(name) == parse_hardware(hardware)


def test_machines_of_tpus_are_joined_as_a_shape_that_has_to_be_said():
    with pytest.raises(HardwareError) as caught:
        parse_hardware("4 x ct5p-hightpu-4t")
    assert caught.value.message == "4 `ct5p-hightpu-4t` could mean slices of several shapes."
    assert caught.value.ways_out == ('write "4 slices of TPU v5p 2x2x1"',)


def test_a_card_without_a_count_is_a_kind():
    for name in ("RTX 4090", "A100-40GB PCIe"):
        with pytest.raises(HardwareError, match=f"`{name}` is a kind of device; the number of devices"):
            parse_hardware(name)
