import json
from functools import reduce
from itertools import permutations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support.example_hardware import list_example_hardware
from tests.support.importable import regression
from tests.support.programs import mlp
from tests.support.strategies import layouts
from workbench.core.precision import Precision
from workbench.core.program import Reference
from workbench.core.remat import Remat
from workbench.documents import dump_plan, load_plan, parse_plan, program_from_reference, save_plan
from workbench.documents.plan_documents import layout_record, parse_layout
from workbench.errors import DocumentError
from workbench.hardware.catalogue import HARDWARE_FILE_VARIABLE
from workbench.hardware.catalogue_entry import SHIPPED_FILE
from workbench.models import build
from workbench.plan.edits import RenameDim, SetPrecision, SetRemat
from workbench.public_plan import Plan

LAYOUTS = (
    "",
    "batch:data; d_ff:model",
    "d_ff:model+data",
    "batch:data; params/layers/0/w1=[model, -]; layers/*/w2=[-, -]",
    "batch:data; @mlp/dot_general=[data, ?]; @dot_general=[-, model]",
    "batch:data; d_ff:model p1; layers/0/w1=[?, model?] replicated:data; group[layers/0/w1, layers/1/w1]; "
    "barrier[@mlp/dot_general] allows:forward",
)


@pytest.mark.parametrize("layout", LAYOUTS)
def test_a_plan_read_back_is_the_plan(layout):
    plan = Plan(mlp(), "data:4 model:2", layout, name="my plan")
    read = parse_plan(dump_plan(plan), allow="tests")
    assert read == plan
    assert (read.name, str(read.layout)) == ("my plan", str(plan.layout))
    assert dump_plan(read) == dump_plan(plan)


@given(layouts())
def test_a_layout_read_back_from_its_record_is_the_layout(layout):
    assert parse_layout(json.loads(json.dumps(layout_record(layout)))) == layout


@given(
    st.lists(
        st.tuples(st.sampled_from(("batch", "d_ff", "d_model", "ff", "d2")), st.sampled_from(("ff", "d_ff", "d2", "batch"))), max_size=4
    )
)
@settings(max_examples=60)
def test_a_plan_with_renamed_dimensions_read_back_is_the_plan(renames):
    plan = Plan(mlp(), "data:4 model:2", "batch:data")
    for old, new in renames:
        clash = any({old, new} <= {*tensor.dims} for tensor in plan.program.arguments)
        if old in plan.program.dims and not clash and (old == new or new not in dict(plan.layout.rules)):
            plan = plan.apply(RenameDim(old, new))
    assert parse_plan(dump_plan(plan), allow="tests") == plan


@pytest.mark.parametrize("swap", list(permutations(("batch", "d_ff", "d_model")))[1:])
def test_dimensions_can_change_names_among_themselves(swap):
    program = mlp().rename(dict(zip(("batch", "d_ff", "d_model"), swap, strict=True)))
    plan = Plan(program, "data:4")
    assert parse_plan(dump_plan(plan), allow="tests") == plan


@pytest.mark.parametrize("axis_assignment", [None, "data:{1}; model:{0}", "model:{0}; data:{0}+{1}(2)"])
@pytest.mark.parametrize("hardware", list_example_hardware(), ids=str)
def test_hardware_and_wiring_are_saved_by_name(hardware, axis_assignment):
    names = [axis.name for axis in hardware.axes]
    axis_assignment = axis_assignment and axis_assignment.format(names[0], names[-1])
    plan = Plan(mlp(), "data:4 model:2", "batch:data", hardware=hardware, axis_assignment=axis_assignment)
    document = json.loads(dump_plan(plan))
    assert document["hardware"] == hardware.name
    assert document.get("axis_assignment") == axis_assignment
    assert parse_plan(dump_plan(plan), allow="tests") == plan
    assert "hardware" not in dump_plan(Plan(mlp(), "data:4"))


def test_hardware_that_is_not_in_the_catalogue_is_a_document_error(tmp_path, monkeypatch):
    plan = Plan(mlp(), "data:4", hardware="8 H100")
    text = dump_plan(plan)
    with pytest.raises(DocumentError, match=r"has hardware that cannot be used\. There is no hardware `H1000`"):
        parse_plan(text.replace("8 H100", "8 H1000"))
    with pytest.raises(DocumentError, match="is not a part of an axis assignment"):
        parse_plan(text.replace('"8 H100"', '"8 H100", "axis_assignment": "data"'))
    measured = plan.hardware.renamed("cpu x 8, as measured")
    with pytest.raises(DocumentError, match="this hardware is not in the catalogue"):
        dump_plan(plan.updated(hardware=measured))
    own = SHIPPED_FILE.read_text(encoding="utf-8").replace('["H100"', '["H1000"')
    (tmp_path / "own.toml").write_text(own, encoding="utf-8")
    monkeypatch.setenv(HARDWARE_FILE_VARIABLE, str(tmp_path / "own.toml"))
    assert parse_plan(text.replace("8 H100", "8 H1000")).hardware.size == 8


@pytest.mark.compile
@pytest.mark.parametrize(("remat", "precision"), [("full", ""), ("save:mixed+hidden", "bfloat16"), ("", "params=bfloat16,moments=float32")])
def test_remat_and_precision_are_saved_as_text(remat, precision):
    program = program_from_reference(Reference("tests.support.layered:stack")).rename({"d_in": "width"})
    edits = [SetRemat(Remat.parse(remat)), SetPrecision(Precision.parse(precision))]
    plan = reduce(Plan.apply, edits, Plan(program, "data:4", "batch:data"))
    document = json.loads(dump_plan(plan))
    assert (document.get("remat", ""), document.get("precision", "")) == (remat, precision)
    assert parse_plan(dump_plan(plan), allow="tests") == plan


def test_a_model_of_the_zoo_is_named_with_its_arguments():
    plan = Plan(program_from_reference(Reference("two_layer", {"batch": 64})), "data:4 model:2", "batch:data")
    assert json.loads(dump_plan(plan))["program"] == {"target": "two_layer", "arguments": {"batch": 64}}
    assert parse_plan(dump_plan(plan), allow="tests") == plan


def test_a_function_is_named_by_its_module_and_called_with_its_arguments():
    program = program_from_reference(Reference("tests.support.importable:regression", {"width": 32}))
    assert program == regression(width=32) != regression()
    assert program.reference == Reference("tests.support.importable:regression", {"width": 32})


def test_the_document_has_one_statement_a_line(golden):
    plan = Plan(mlp(), "data:4 model:2", LAYOUTS[3] + "; @mlp/dot_general=[data, ?]").apply(RenameDim("d_ff", "hidden"))
    golden("plan.json", dump_plan(plan).rstrip("\n"))


def test_a_saved_plan_is_loaded_again_and_leaves_nothing_else_behind(tmp_path):
    path = tmp_path / "mlp.plan.json"
    plan = Plan(mlp(), "data:4", "batch:data")
    save_plan(Plan(mlp(), "data:2"), path)
    plan.save(path)
    assert load_plan(path, allow="tests") == plan
    assert list(tmp_path.iterdir()) == [path]


def test_a_plan_that_cannot_be_saved_leaves_the_old_file_as_it_was(tmp_path):
    path = tmp_path / "mlp.plan.json"
    path.write_text("old")
    unsaved = Plan(mlp().rename({}), "data:2")
    object.__setattr__(unsaved.program, "reference", Reference("mlp", {"key": object()}))
    with pytest.raises(Exception, match="not JSON values"):
        save_plan(unsaved, path)
    assert path.read_text() == "old"
    assert list(tmp_path.iterdir()) == [path]


def test_the_former_name_of_an_axis_assignment_is_read():
    """As it stands in documents that were written before."""
    plan = Plan(mlp(), "data:4 model:2", hardware="TPU v5e 4x2", axis_assignment="data:x; model:y")
    assert parse_plan(dump_plan(plan).replace('"axis_assignment"', '"wiring"'), allow="tests") == plan


def test_former_names_of_the_dimensions_of_a_model_are_read():
    """In a layout that is written anew, and in a document with its renamed dimensions."""
    program = build("decoder", preset="tiny")
    with pytest.warns(FutureWarning, match="`queries` is now called `q_per_kv`"):
        plan = Plan(program, "model:2", "queries:model")
    assert str(plan.layout) == "q_per_kv:model"
    renamed = Plan(program.rename({"qkv": "three"}), "model:2", "q_per_kv:model")
    with pytest.warns(FutureWarning, match="`queries` is now called"):
        assert parse_plan(dump_plan(renamed).replace('"qkv"', '"shares"').replace("q_per_kv", "queries")) == renamed
