"""Fleet files: what they say is the fleet, and what is wrong with one is said in its own names."""

import json
import re
from pathlib import Path

import pytest

from workbench.core.program import Reference
from workbench.documents import fleet_files, load_fleet, parse_fleet
from workbench.errors import DocumentError, FleetError, WorkbenchError

WHOLE = """
policy = "round-robin"
memory = "1.5 MiB"
devices = 2
buffer = 0.1
double_buffer = false
spill = "disk"
folder = "kept"

[[models]]
name = "narrow"
program = "tests.support.importable:regression"
mini_batches = 5
epochs = 2
seed = 3
stop_below = 0.01
arguments = { width = 8 }

[[models]]
name = "wide"
program = "mnist"
grid = { learning_rate = [0.1, 0.01], batch = [20, 40] }
"""


@pytest.fixture(scope="module")
def fleet():
    return parse_fleet(WHOLE, allow="tests.support.importable")


def test_every_field_is_read(fleet):
    assert (fleet.policy, fleet.memory, fleet.devices) == ("round-robin", 3 << 19, 2)
    assert (fleet.buffer, fleet.double_buffer, fleet.spill, fleet.folder) == (0.1, False, "disk", Path("kept"))
    narrow = fleet.models[0]
    assert (narrow.name, narrow.mini_batches, narrow.epochs, narrow.seed, narrow.stop_below) == ("narrow", 5, 2, 3, 0.01)
    assert narrow.program.dims["d_ff"] == (8,)


def test_a_grid_is_one_model_a_combination(fleet):
    assert [each.name for each in fleet.models[1:]] == [
        f"wide-learning_rate={rate}-batch={batch}" for rate in (0.1, 0.01) for batch in (20, 40)
    ]
    assert [each.program.dims["batch"] for each in fleet.models[1:]] == [(20,), (40,), (20,), (40,)]
    assert len({each.program.fingerprint for each in fleet.models}) == 5


def test_a_file_may_be_json_and_its_folder_lies_beside_it(tmp_path):
    model = {"name": "a", "program": "tests.support.importable:regression"}
    path = tmp_path / "fleet.json"
    path.write_text(json.dumps({"version": 1, "folder": "kept", "memory": 4096, "models": [model]}))
    fleet = load_fleet(path, allow="tests.support.importable")
    assert (fleet.folder, fleet.memory, fleet.models[0].mini_batches) == (tmp_path / "kept", 4096, 10)


ONE = '[[models]]\nname = "a"\nprogram = "mnist"\n'


@pytest.mark.parametrize(
    ("text", "message", "way_out"),
    [
        ("polcy = 'random'\n" + ONE, "The text: There is no field `polcy`", "Did you mean `policy`?"),
        (ONE + "minibatches = 3", "The text, model `a`: There is no field `minibatches`", "Did you mean `mini_batches`?"),
        (ONE + "epochs = 0", "at `models[0].epochs`, 0 is less than the minimum of 1", "fix that entry"),
        (ONE + "epochs = '3'", "at `models[0].epochs`, '3' is not of type 'integer'", "fix that entry"),
        ("devices = 2", "'models' is a required property", "fix that entry"),
        (ONE.replace("name", "# name"), "at `models[0]`, 'name' is a required property", "fix that entry"),
        ("memory = 'lots'\n" + ONE, 'The text: "lots" is not an amount of memory.', '"512 MiB" or a whole number of bytes'),
        (ONE + ONE, "The text: 2 models are named `a`.", "give one model a `grid` instead"),
        ("policy = 'longest'\n" + ONE, "There is no policy `longest`", "use one of these names"),
        (ONE.replace("mnist", "mnits"), "The text, model `a`: There is no model `mnits`", "Did you mean `mnist`?"),
        (ONE.replace("mnist", "no_such:build"), "model `a` names the program `no_such:build`, which is not in the zoo", "--allow no_such"),
        ("memory = 1.0\n" + ONE, "The text: 1 without a unit is not an amount of memory.", 'write "2 GiB"'),
        ("memory = 2.5\n" + ONE, "The text: 2.5 without a unit is not an amount of memory.", 'write "2 GiB"'),
        (f"memory = '{'9' * 400} GiB'\n" + ONE, "not an amount of memory", 'write "2 GiB"'),
        ("memory = 2305843009213693952\n" + ONE, "A memory budget of 2.00 EiB exceeds that of every device.", 'write "2 GiB"'),
        (ONE + f"arguments.{'a.' * 40}b = 1", "line 4 has more than 16 dotted names", "docs/many_models.md"),
        (ONE + "seed = " + "9" * 60, "a whole number has more than 40 digits", "docs/many_models.md"),
        (ONE + "stop_below = nan", "nan is not a valid number", "docs/many_models.md"),
        (ONE + "seed = 1.0", "Model `a`: `seed` is 1.0; it should be a whole number of 64 bits.", "leave it out"),
        (ONE + "grid = { batch = [1979-05-27] }", "is of type date; write it as text", "docs/many_models.md"),
        (ONE + "mini_batches = 1000000000", "`a` has 1 x 1,000,000,000); it may have 1,000,000.", "fewer mini-batches"),
        (
            ONE + f"grid = {{ batch = {[*range(1, 101)]}, hidden = {[*range(1, 101)]} }}",
            "The text yields 10,000 models (`a` alone 100 x 100 = 10,000); a fleet has at most 1,000.",
            "leave values out of a grid",
        ),
        (
            ONE.replace("mnist", "two_layer"),
            "model `a`: `two_layer()` is a function, not a training step",
            "use a model with a training step",
        ),
        (ONE + "grid = { rate = [1] }", "model `a-rate=1`: Model `mnist`: There is no argument `rate`", "learning_rate"),
        (
            ONE + "arguments = { batch = 2 }\ngrid = { batch = [2] }",
            "model `a`: `batch` is in both `arguments` and `grid`.",
            "leave it out",
        ),
        ("models = [", "The text is not TOML: ", "docs/many_models.md"),
    ],
)
def test_what_is_wrong_is_said_in_the_names_of_the_file(text, message, way_out):
    with pytest.raises((DocumentError, FleetError)) as caught:
        parse_fleet(text)
    assert re.search(re.escape(message), caught.value.message), caught.value.message
    assert way_out in str(caught.value)


@pytest.mark.parametrize(
    ("text", "changes"),
    [
        ("policy = 'longest'\n" + ONE, {}),
        (ONE, {"policy": "longest"}),
        (ONE, {"devices": 0}),
        (ONE, {"devices": "2"}),
        (ONE, {"memory": "2 GiB"}),
        ("memory = 'lots'\n" + ONE, {}),
        ("memory = 0\n" + ONE, {}),
        ("spill = 'disk'\n" + ONE, {}),
        (ONE + ONE.replace('"a"', '"b/c"'), {}),
        (ONE + ONE.replace('"a"', '"b"').replace("mnist", "mnits"), {}),
        (ONE + ONE.replace('"a"', '"b"') + "arguments = { rate = 1 }", {}),
        (ONE + ONE.replace('"a"', '"b"').replace("mnist", "tests.support.importable:regression") + "arguments = { rate = 1 }", {}),
    ],
)
def test_what_needs_no_tracing_is_refused_before_any_model_is_traced(text, changes, monkeypatch):
    monkeypatch.setattr(fleet_files, "program_from_reference", lambda reference: pytest.fail(f"traced {reference}"))
    with pytest.raises((DocumentError, FleetError)):
        parse_fleet(text, allow="tests.support.importable", **changes)


def test_many_programs_to_trace_have_to_be_allowed_and_alike_ones_are_traced_once(monkeypatch):
    text = ONE + f"grid = {{ batch = {[*range(1001, 1041)]} }}"
    with pytest.raises(DocumentError) as caught:
        parse_fleet(text)
    assert str(caught.value) == (
        "The text asks for 40 programs of the zoo that are traced one by one, which takes long; a document may ask for 32 unless it is "
        "allowed more.\n  Try: leave values out of a grid · if you want to wait, add `--allow mnist` to the command · "
        'or load it with `allow="mnist"`.'
    )
    traced = []
    program = fleet_files.program_from_reference(Reference("mnist", {}))
    monkeypatch.setattr(fleet_files, "program_from_reference", lambda reference: traced.append(reference) or program)
    assert len(parse_fleet(text, allow="mnist").models) == len(traced) == 40
    alike = "".join(ONE.replace('"a"', f'"a{place}"') for place in range(50))
    assert len(parse_fleet(alike).models) == 50
    assert len(traced) == 41


def test_what_is_asked_for_besides_goes_before_the_file():
    text = "spill = 'disk'\npolicy = 'random'\n" + ONE.replace("mnist", "tests.support.importable:regression")
    fleet = parse_fleet(text, allow="tests.support.importable", folder=Path("/kept"), policy="shortest")
    assert (fleet.spill, fleet.folder, fleet.policy) == ("disk", Path("/kept"), "shortest")


def test_a_file_that_cannot_be_read_is_said(tmp_path):
    with pytest.raises(WorkbenchError, match=r"nowhere\.toml` cannot be read: No such file or directory"):
        load_fleet(tmp_path / "nowhere.toml")
    broken = tmp_path / "fleet.json"
    broken.write_text("[]")
    with pytest.raises(DocumentError, match="is not a fleet file: it holds no fields"):
        load_fleet(broken)
    broken.write_bytes(b"\xff")
    with pytest.raises(DocumentError, match="it is not text in UTF-8"):
        load_fleet(broken)
