"""An edit read back from its record is the edit; what is no record is refused in words, and nothing is imported for it."""

import json
import sys
from contextlib import suppress
from dataclasses import MISSING, fields

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.plan.test_edits import CASES, LAYOUT
from tests.support.edit_strategies import EDITS, edits_of, groups
from tests.support.malformed_records import JSON, STRANGE, changed_records, unlikely_records
from tests.support.programs import mlp, program
from workbench.core.layout import Layout
from workbench.core.mesh import Mesh
from workbench.core.offload import Offload
from workbench.core.pipeline_spec import PipelineSpec
from workbench.core.precision import Precision
from workbench.core.program import Reference
from workbench.core.remat import Remat
from workbench.core.sharding import Sharding
from workbench.documents import edit_record, parse_edit, program_from_reference
from workbench.documents.document_schema import load_schema
from workbench.documents.edit_records import EDIT_FORMS
from workbench.errors import DocumentError, WorkbenchError
from workbench.hardware.axis_assignment_text import parse_axis_assignment
from workbench.hardware.catalogue import parse_hardware
from workbench.plan.edits import (
    ALL_EDITS,
    Constrain,
    Edit,
    EditGroup,
    OpenPlan,
    Override,
    RenameDim,
    SetAxisAssignment,
    SetHardware,
    SetLayout,
    SetOffload,
    SetPipeline,
    SetPrecision,
    SetRemat,
    ShardDim,
)
from workbench.plan.mesh_edits import AddAxis, RemoveAxis, RenameAxis, ReorderAxes, ResizeAxis, SetMesh
from workbench.plan.propagation_edits import GroupValues, Prioritize, SetBarrier, UngroupValues
from workbench.public_plan import Plan

PLAN = Plan(mlp(), "data:4 model:2", LAYOUT)
ONE_OF_EACH = (
    ShardDim("d_ff", ("model", "data")),
    Override("params/layers/*/w1", Sharding.parse("[-, model? p1] replicated:data")),
    Constrain("mlp/dot_general", None),
    Prioritize("d_ff", 1),
    GroupValues(("layers/0/w1", "@mlp/tanh")),
    UngroupValues(("layers/0/w1", "layers/1/w1")),
    SetBarrier("@mlp/dot_general", "forward"),
    SetLayout(Layout("batch:data; d_ff:model p1; w1=[-, model]; @gpt.py:42=[data, ?]; group[w1, @mlp]; barrier[w2]")),
    SetMesh(Mesh("data:4 model:2")),
    ResizeAxis("model", 4),
    AddAxis("pipe", 2),
    RemoveAxis("model"),
    RenameAxis("model", "tensor"),
    ReorderAxes(("model", "data")),
    RenameDim("d_ff", "hidden"),
    SetRemat(Remat.parse("save:mixed+hidden layers:1/2")),
    SetPrecision(Precision.parse("params=bfloat16,moments=float32")),
    SetOffload(Offload(optimizer_state=True)),
    SetHardware(parse_hardware("32 nodes of 8 H100, node=200 Gb/s")),
    SetAxisAssignment(parse_axis_assignment("data:node+device(2); model:device(4)")),
    SetPipeline(PipelineSpec(2, 4, axis="pipe"), "pipeline of 2 stages"),
    EditGroup("Megatron", (ShardDim("d_ff"), SetPipeline(None), EditGroup("none", ()))),
    OpenPlan(PLAN, "mlp.plan.json"),
)


def read_back(edit: Edit) -> Edit:
    return parse_edit(json.loads(json.dumps(edit_record(edit))), allow="tests")


def outcome(edit: Edit) -> Plan | str:
    """The plan that it makes, or why it makes none."""
    try:
        return PLAN.apply(edit)
    except WorkbenchError as error:
        return str(error)


@pytest.mark.compile
@pytest.mark.parametrize("kind", ALL_EDITS, ids=lambda kind: kind.__name__)
@given(data=st.data())
@settings(max_examples=30)
def test_an_edit_read_back_is_the_edit_and_does_the_same(kind, data):
    edit = data.draw(edits_of(kind))
    read = read_back(edit)
    assert (read, str(read), outcome(read)) == (edit, str(edit), outcome(edit))


@given(groups())
@settings(max_examples=60)
def test_groups_in_groups_read_back_show_the_same_edits(group):
    read = read_back(group)
    assert read == group
    assert [str(each) for each in read.edits] == [str(each) for each in group.edits]


@pytest.mark.parametrize("edit", [case[0] for case in CASES if case[0] != Prioritize("d_ff", -1)], ids=str)
def test_an_edit_read_back_makes_the_same_plan(edit):
    assert outcome(read_back(edit)) == outcome(edit)


@pytest.mark.compile
@pytest.mark.parametrize("edit", [SetRemat(Remat("full")), SetPrecision(Precision("bfloat16")), SetOffload(Offload(True))], ids=str)
def test_an_edit_read_back_traces_the_program_alike(edit):
    plan = Plan(program_from_reference(Reference("tests.support.layered:stack", {"layers": 1})), "data:4", "batch:data")
    assert plan.apply(read_back(edit)) == plan.apply(edit) != plan
    opened = OpenPlan(plan.apply(edit), "a file")
    assert read_back(opened) == opened


def test_each_edit_has_a_record_a_definition_in_the_schema_and_is_tried_here():
    assert tuple(form.kind for form in EDIT_FORMS) == ALL_EDITS
    assert tuple(type(edit) for edit in ONE_OF_EACH) == ALL_EDITS
    assert {*EDITS, EditGroup} == {*ALL_EDITS}
    schema = load_schema("edit_record")
    names = [form.name for form in EDIT_FORMS]
    assert schema["properties"]["edit"]["enum"] == names
    assert [each["then"]["$ref"] for each in schema["allOf"]] == [f"#/$defs/{name}" for name in names]
    assert [each["if"]["properties"]["edit"]["const"] for each in schema["allOf"]] == names


@pytest.mark.parametrize("form", EDIT_FORMS, ids=lambda form: form.name)
def test_a_record_has_the_fields_of_its_edit_and_may_leave_out_those_with_a_default(form):
    definition = load_schema("edit_record")["$defs"][form.name]
    assert [*form.fields] == [each.name for each in fields(form.kind)]
    assert [*definition["properties"]] == ["edit", *form.fields]
    assert definition["properties"]["edit"] == {"const": form.name}
    assert definition["required"] == ["edit", *(each.name for each in fields(form.kind) if each.default is MISSING)]
    assert not definition["additionalProperties"]


def test_the_schema_has_the_mesh_and_the_layout_of_plan_documents():
    definitions = load_schema("edit_record")["$defs"]
    assert {name: definitions[name] for name in ("mesh", "layout")} == {
        name: load_schema("plan")["properties"][name] for name in ("mesh", "layout")
    }


def test_what_is_left_out_has_its_default():
    assert parse_edit({"edit": "shard_dim", "dim": "d_ff"}) == ShardDim("d_ff")
    assert parse_edit({"edit": "set_barrier", "place": "w1"}) == SetBarrier("w1")
    assert str(parse_edit({"edit": "set_pipeline", "pipeline": None})) == "pipeline none"
    assert type(parse_edit({"edit": "resize_axis", "axis": "model", "size": 4.0}).size) is int


def test_the_records_are_as_they_were(golden):
    """A log that was written by an earlier version is read by this one."""
    golden("edit_records.jsonl", "\n".join(json.dumps(edit_record(edit), ensure_ascii=False) for edit in ONE_OF_EACH))


def test_a_record_is_not_changed_when_it_is_read():
    records = [edit_record(edit) for edit in ONE_OF_EACH]
    again = json.loads(json.dumps(records))
    assert [edit_record(parse_edit(record, allow="tests")) for record in records] == again
    assert records == again


def test_a_plan_of_a_program_that_only_this_process_has_is_read_with_that_program():
    known = program(*mlp().arguments, name="of this notebook")
    edit = OpenPlan(Plan(known, "data:4", "batch:data"), "a link")
    record = edit_record(edit, known)
    assert parse_edit(record, known=known) == edit
    with pytest.raises(DocumentError, match=r"The plan of the edit is for a program traced in another process"):
        parse_edit(record)
    with pytest.raises(DocumentError) as caught:
        edit_record(edit)
    assert caught.value.message == (
        "`open a link` cannot be recorded, because it could not be read back. `of this notebook` cannot be saved: a "
        "plan document contains no code, and this program has no reference."
    )


RECORDS = tuple(edit_record(edit) for edit in ONE_OF_EACH)
FIELDS = {form.name: tuple(form.fields) for form in EDIT_FORMS}


def verify_harmless(record):
    """A record is read and applied, or refused with an error for people, and no library is imported for it."""
    before = set(sys.modules)
    edit = None
    with suppress(WorkbenchError):
        edit = parse_edit(record)
    if edit is not None:
        assert read_back(edit) == edit
        outcome(edit)
    new = {name.partition(".")[0] for name in sys.modules.keys() - before}
    assert new <= {name.partition(".")[0] for name in before}


@pytest.mark.compile
@given(changed_records(RECORDS))
@settings(max_examples=800)
def test_a_changed_record_is_read_or_refused(record):
    verify_harmless(record)


@pytest.mark.compile
@given(unlikely_records(FIELDS))
@settings(max_examples=700)
def test_an_unlikely_record_is_read_or_refused(record):
    verify_harmless(record)


@given(JSON | STRANGE)
@settings(max_examples=500)
def test_what_is_no_record_is_refused(value):
    with pytest.raises(DocumentError):
        parse_edit(value)
