"""What is said, whole, of a record that is none, and of an edit that can have none; no module is imported for either."""

import json
import sys
from functools import reduce

import pytest

from tests.plan.test_edits import LAYOUT
from tests.support.programs import mlp
from workbench.core.layout import Layout
from workbench.documents import edit_record, parse_edit
from workbench.documents.edit_records import MOST_EDITS, MOST_GROUPS, MOST_PLANS, MOST_TEXT, MOST_VALUES
from workbench.errors import DocumentError, LayoutError, MeshError, PipelineError, WorkbenchError
from workbench.hardware.catalogue import parse_hardware
from workbench.plan.edits import EditGroup, OpenPlan, SetHardware, SetLayout
from workbench.plan.mesh_edits import ResizeAxis
from workbench.public_plan import Plan
from workbench.session.journal_content import RecordedEdit

PLAN = Plan(mlp(), "data:4 model:2", LAYOUT)
SHARD = {"edit": "shard_dim", "dim": "d_ff", "axes": ["model"]}
OPEN = edit_record(OpenPlan(PLAN, "mlp.plan.json"))


def opening(**changes) -> dict:
    return {**OPEN, "plan": {**OPEN["plan"], **changes}}


def grouping(*edits) -> dict:
    return {"edit": "edit_group", "name": "Megatron", "edits": [*edits]}


NAMES = (
    "there are `shard_dim`, `override`, `constrain`, `prioritize`, `group_values`, `ungroup_values`, `set_barrier`, `set_layout`, "
    "`set_mesh`, `resize_axis`, `add_axis`, `remove_axis`, `rename_axis`, `reorder_axes`, `rename_dim`, `set_remat`, `set_precision`, "
    "`set_offload`, `set_hardware`, `set_axis_assignment` and more."
)
WRITE = '\n  Try: write it as `edit_record` does: {"edit": "shard_dim", "dim": "d_ff", "axes": ["model"]}.'
MEND = "\n  Try: fix that entry."
SEVERAL = "\n  Try: split it into several edits."
RING: dict = grouping()
RING["edits"].append(RING)
WRONG = [
    (None, DocumentError, 'The edit is not a valid record: it does not say which "edit" it is.' + WRITE),
    ([SHARD], DocumentError, 'The edit is not a valid record: it does not say which "edit" it is.' + WRITE),
    ({"verb": "shard_dim"}, DocumentError, 'The edit is not a valid record: it does not say which "edit" it is.' + WRITE),
    ({"edit": {"shard_dim"}}, DocumentError, "The edit is not a valid record: it cannot be written as JSON." + WRITE),
    ({**SHARD, "dim": 10**5000}, DocumentError, "The edit is not a valid record: it cannot be written as JSON." + WRITE),
    (RING, DocumentError, "The edit is not a valid record: it cannot be written as JSON." + WRITE),
    ({**SHARD, "dim": 10**50}, DocumentError, "The edit is not a valid record: a whole number has more than 40 digits." + WRITE),
    ({**SHARD, "dim": float("nan")}, DocumentError, "The edit is not a valid record: NaN is not a valid number." + WRITE),
    ({**SHARD, "dim": "\ud800"}, DocumentError, "The edit is not a valid record: '\\ud800' contains half a character." + WRITE),
    ({**SHARD, 1: 2, "1": 3}, DocumentError, 'The edit is not a valid record: "1" occurs twice in one object.' + WRITE),
    (
        {**SHARD, "axes": json.loads("[" * 17 + "]" * 17)},
        DocumentError,
        "The edit is not a valid record: its lists and tables are nested more than 16 levels deep." + WRITE,
    ),
    (
        {**SHARD, "axes": json.loads("[" * 900 + "]" * 900)},
        DocumentError,
        "The edit is not a valid record: its lists and tables are nested more than 16 levels deep." + WRITE,
    ),
    ({**SHARD, "dim": "x" * MOST_TEXT}, DocumentError, "The edit has 262,195 characters; the limit is 262,144." + SEVERAL),
    ({**SHARD, "axes": ["x"] * MOST_VALUES}, DocumentError, "The edit has 20,004 entries; the limit is 20,000." + SEVERAL),
    ({"edit": "shard_dims"}, DocumentError, f"There is no edit `shard_dims`; {NAMES}\n  Did you mean `shard_dim`?"),
    (grouping(SHARD, {"edit": "os.system"}), DocumentError, f"There is no edit `os.system`; {NAMES}\n  Try: use one of these names."),
    (
        {"edit": 3},
        DocumentError,
        "The edit is not a valid record: at `$.edit`, 3 is not one of ['shard_dim', 'override', 'constrain', 'prioritize', 'group_values', "
        "'ungroup_values', 'set_barrier', 's … axis_assignment', 'set_pipeline', 'edit_group', 'open_plan']." + MEND,
    ),
    ({"edit": "shard_dim"}, DocumentError, "The edit is not a valid record: at `$`, 'dim' is a required property." + MEND),
    (
        {**SHARD, "colour": 1},
        DocumentError,
        "The edit is not a valid record: at `$`, Additional properties are not allowed ('colour' was unexpected)." + MEND,
    ),
    ({**SHARD, "axes": "model"}, DocumentError, "The edit is not a valid record: at `$.axes`, 'model' is not of type 'array'." + MEND),
    (
        grouping(SHARD, {**SHARD, "axes": [1]}),
        DocumentError,
        "The edit is not a valid record: at `$.edits[1].axes[0]`, 1 is not of type 'string'." + MEND,
    ),
    (
        {"edit": "set_barrier", "place": "w1", "allows": "sideways"},
        DocumentError,
        "The edit is not a valid record: at `$.allows`, 'sideways' is not one of ['none', 'forward', 'backward', None]." + MEND,
    ),
    (
        reduce(lambda inner, _: grouping(inner), range(MOST_GROUPS + 1), SHARD),
        DocumentError,
        "The edit has groups of edits nested more than 4 levels deep.\n  Try: merge the groups.",
    ),
    (
        grouping(*[SHARD] * MOST_EDITS),
        DocumentError,
        "The edit is a group of 1,001 edits; the limit is 1,000.\n  Try: split them into several groups.",
    ),
    (grouping(*[OPEN] * (MOST_PLANS + 1)), DocumentError, "The edit opens 5 plans; the limit is 4.\n  Try: open only the last plan."),
    (
        {"edit": "override", "pattern": "w1", "sharding": "[data"},
        LayoutError,
        '`[data` is not a sharding.\n  Try: write "[data, -, model]", one entry per dimension.',
    ),
    (
        {"edit": "set_mesh", "mesh": [["data", 2], ["data", 4]]},
        MeshError,
        "The mesh has two axes named `data`.\n  Try: give each axis its own name.",
    ),
    (
        {"edit": "set_pipeline", "pipeline": "stages:2"},
        PipelineError,
        'The pipeline lacks `micro_batches`.\n  Try: write it as "stages:4 micro_batches:16 schedule:1f1b".',
    ),
    (
        {**OPEN, "plan": {}},
        DocumentError,
        'The plan of the edit is JSON, but not a plan document: it lacks "format": "sharding-workbench.plan".'
        "\n  Try: choose a *.plan.json that `workbench` or `plan.save` wrote.",
    ),
    (
        opening(mesh=[["data", 0]]),
        DocumentError,
        "The plan of the edit is not a valid plan document: at `$.mesh[0][1]`, 0 is less than the minimum of 1."
        "\n  Try: fix that entry · save the plan again.",
    ),
]


@pytest.mark.parametrize(("record", "kind", "message"), WRONG, ids=[message[:60] for *_, message in WRONG])
def test_what_is_wrong_with_a_record_is_said_in_words(record, kind, message):
    with pytest.raises(WorkbenchError) as caught:
        parse_edit(record)
    assert (type(caught.value), str(caught.value)) == (kind, message)


def test_an_edit_with_a_plan_imports_what_was_allowed_and_nothing_else(tmp_path, monkeypatch):
    module = f"of_nobody_{tmp_path.name}".replace("-", "_")
    (tmp_path / f"{module}.py").write_text("from tests.support.importable import mlp as build\n")
    monkeypatch.syspath_prepend(tmp_path)
    record = grouping(SHARD, opening(program={"target": f"{module}:build"}))
    with pytest.raises(DocumentError) as caught:
        parse_edit(record)
    assert str(caught.value) == (
        f"The plan of the edit names the program `{module}:build`, which is not in the zoo and not allowed here: it was not opened, and "
        "nothing was imported.\n"
        f"  Try: if you trust the code of `{module}`, add `--allow {module}` to the command · or load it with "
        f'`allow="{module}"` · or set WORKBENCH_ALLOW={module} where JupyterLab is started.'
    )
    assert module not in sys.modules
    assert parse_edit(record, allow=module).edits[1].plan.program == mlp()
    assert module in sys.modules


UNWRITABLE = [
    (
        RecordedEdit("d_ff → model", PLAN),
        "`d_ff → model` cannot be recorded, because it could not be read back. An edit of type `RecordedEdit` cannot "
        "be recorded: its class "
        "is not in `ALL_EDITS`.\n  Try: record the resulting plan, `OpenPlan(plan, source)`.",
    ),
    (
        EditGroup("Megatron", (ResizeAxis("model", 0),)),
        "`Megatron (1 edit)` cannot be recorded, because it could not be read back. The edit is not a valid record: "
        "at `$.edits[0].size`, 0 "
        "is less than the minimum of 1." + MEND,
    ),
    (
        SetLayout(Layout((("d_ff", ("data+model",)),))),
        "`layout d_ff:data+model` cannot be recorded, because it could not be read back. `d_ff:data+model` would be read back differently."
        "\n  Try: change its names.",
    ),
    (
        SetHardware(parse_hardware("8 H100").renamed("12 H100")),
        "`hardware 12 H100` cannot be recorded, because it could not be read back. A node has 1 to 8 H100, not 12."
        "\n  Try: set WORKBENCH_HARDWARE to the file that describes it · plan for hardware of the catalogue (`workbench hardware` "
        "lists it).",
    ),
]


@pytest.mark.parametrize(("edit", "message"), UNWRITABLE, ids=[str(edit) for edit, _ in UNWRITABLE])
def test_an_edit_that_could_not_be_read_again_is_not_written(edit, message):
    with pytest.raises(DocumentError) as caught:
        edit_record(edit)
    assert str(caught.value) == message
