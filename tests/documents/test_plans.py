import json
from itertools import permutations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.importable import regression
from tests.programs import mlp
from workbench.documents import dump_plan, load_plan, parse_plan, program_from_reference, save_plan
from workbench.edits import RenameDim
from workbench.plan import Plan
from workbench.program import Reference

LAYOUTS = (
    "",
    "batch:data; d_ff:model",
    "d_ff:model+data",
    "batch:data; params/layers/0/w1=[model, -]; layers/*/w2=[-, -]",
    "batch:data; @mlp/dot_general=[data, ?]; @dot_general=[-, model]",
)


@pytest.mark.parametrize("layout", LAYOUTS)
def test_a_plan_read_back_is_the_plan(layout):
    plan = Plan(mlp(), "data:4 model:2", layout, name="my plan")
    read = parse_plan(dump_plan(plan))
    assert read == plan
    assert (read.name, str(read.layout)) == ("my plan", str(plan.layout))
    assert dump_plan(read) == dump_plan(plan)


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
    assert parse_plan(dump_plan(plan)) == plan


@pytest.mark.parametrize("swap", list(permutations(("batch", "d_ff", "d_model")))[1:])
def test_dimensions_can_change_names_among_themselves(swap):
    program = mlp().rename(dict(zip(("batch", "d_ff", "d_model"), swap, strict=True)))
    plan = Plan(program, "data:4")
    assert parse_plan(dump_plan(plan)) == plan


def test_a_model_of_the_zoo_is_named_with_its_arguments():
    plan = Plan(program_from_reference(Reference("two_layer", {"batch": 64})), "data:4 model:2", "batch:data")
    assert json.loads(dump_plan(plan))["program"] == {"target": "two_layer", "arguments": {"batch": 64}}
    assert parse_plan(dump_plan(plan)) == plan


def test_a_function_is_named_by_its_module_and_called_with_its_arguments():
    program = program_from_reference(Reference("tests.importable:regression", {"width": 32}))
    assert program == regression(width=32) != regression()
    assert program.reference == Reference("tests.importable:regression", {"width": 32})


def test_the_document_has_one_statement_a_line(golden):
    plan = Plan(mlp(), "data:4 model:2", LAYOUTS[3] + "; @mlp/dot_general=[data, ?]").apply(RenameDim("d_ff", "hidden"))
    golden("plan.json", dump_plan(plan).rstrip("\n"))


def test_a_saved_plan_is_loaded_again_and_leaves_nothing_else_behind(tmp_path):
    path = tmp_path / "mlp.plan.json"
    plan = Plan(mlp(), "data:4", "batch:data")
    save_plan(Plan(mlp(), "data:2"), path)
    plan.save(path)
    assert load_plan(path) == plan
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
