"""Edits as JSON values, for the journal and the REST API: `parse_edit(edit_record(edit)) == edit`.

An example is `{"edit": "shard_dim", "dim": "d_ff", "axes": ["model"]}`. `EDIT_FORMS` defines how each field is written
and read; meshes, layouts and pipelines are as in a plan document. A record is untrusted and is validated like a plan
document: size, schema (`edit_record.schema.json`), then values; a plan in it may only name programs that a document may
name. The order of a layout's entries is significant and must be preserved in storage.
"""

import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from workbench.core.mesh import Mesh
from workbench.core.offload import Offload
from workbench.core.parse_untrusted import UnreadableError, parse_json, read_allowed
from workbench.core.pipeline_spec import PipelineSpec
from workbench.core.precision import Precision
from workbench.core.program import Program
from workbench.core.remat import Remat
from workbench.core.sharding import Sharding
from workbench.documents.document_schema import schema_problem
from workbench.documents.plan_documents import dump_plan, layout_record, parse_layout, parse_plan
from workbench.errors import DocumentError, WorkbenchError, unknown_name
from workbench.hardware.axis_assignment_text import parse_axis_assignment
from workbench.hardware.catalogue import HARDWARE_FILE_VARIABLE, parse_hardware
from workbench.plan import edits, mesh_edits, propagation_edits
from workbench.plan.edits import Edit
from workbench.plan.plan import Plan

MOST_TEXT = 1 << 18
"""Limit on the characters of a record. A plan with a thousand statements has about 60,000."""
MOST_VALUES = 20_000
"""Limit on the entries of lists and objects, each of which the schema checks."""
MOST_EDITS = 1_000
"""Limit on the edits of a record, nested edits and groups included. The longest recipe, ZeRO-3 of AmoebaNet, has 207."""
MOST_GROUPS = 4
"""Limit on the nesting depth of groups. A recipe has depth 1."""
MOST_PLANS = 4
"""Limit on the plans that a record opens: each program is traced when read, and only the last plan counts."""

_WAY_OUT = 'write it as `edit_record` does: {"edit": "shard_dim", "dim": "d_ff", "axes": ["model"]}'


@dataclass(frozen=True, slots=True)
class OpenablePrograms:
    """Programs that an opened plan may use besides the zoo: `allow`ed names, and the `known` program (`parse_plan`)."""

    allow: tuple[str, ...] = ()
    known: Program | None = None


@dataclass(frozen=True, slots=True)
class FieldForm:
    """How a field of an edit is written as JSON values, and read from values that fit the schema."""

    write: Callable[[Any, OpenablePrograms], Any]
    read: Callable[[Any, OpenablePrograms], Any]


@dataclass(frozen=True, slots=True)
class EditForm:
    """The record format of an edit class; `name` is its field `edit`. Fields with a default are optional."""

    name: str
    kind: type[Edit]
    fields: Mapping[str, FieldForm]


def edit_record(edit: Edit, known: Program | None = None) -> dict[str, Any]:
    """The edit as JSON values that `parse_edit` reads, given the same `known` program.

    >>> from workbench.plan.edits import ShardDim
    >>> edit_record(ShardDim("d_ff", ("model",)))
    {'edit': 'shard_dim', 'dim': 'd_ff', 'axes': ['model']}

    Raises `DocumentError` if the edit could not be read back: its class is not in `ALL_EDITS`, it is too large, its
    hardware is not in the catalogue, or its plan cannot be saved.
    """
    try:
        return _verify_record(_write_edit(edit, OpenablePrograms(known=known)))
    except DocumentError as error:
        message = f"`{str(edit)[:80]}` cannot be recorded, because it could not be read back. {error.message}"
        raise DocumentError(message, error.ways_out) from None


def parse_edit(record: Any, *, allow: str | Iterable[str] = (), known: Program | None = None) -> Edit:
    """Parse an untrusted record; `allow` and `known` are as in `parse_plan`.

    Raises `DocumentError` for an invalid record or one beyond the limits, errors of its values (such as `LayoutError`),
    and errors of `parse_plan` for a plan that it opens. Whether the edit fits a plan is checked when it is applied.
    """
    return _read_edit(_verify_record(record), OpenablePrograms(read_allowed(allow), known))


def _write_edit(edit: Edit, programs: OpenablePrograms) -> dict[str, Any]:
    form = _BY_KIND.get(type(edit))
    if form is None:
        raise DocumentError(
            f"An edit of type `{type(edit).__name__}` cannot be recorded: its class is not in `ALL_EDITS`.",
            ["record the resulting plan, `OpenPlan(plan, source)`"],
        )
    return {"edit": form.name, **{name: field.write(getattr(edit, name), programs) for name, field in form.fields.items()}}


def _read_edit(record: Mapping[str, Any], programs: OpenablePrograms) -> Edit:
    form = _BY_NAME[record["edit"]]
    return form.kind(**{name: field.read(record[name], programs) for name, field in form.fields.items() if name in record})


def _unchanged(value: Any, _: OpenablePrograms) -> Any:
    return value


def _nullable_form(write: Callable[[Any], Any], read: Callable[[Any], Any], *ways_out: str) -> FieldForm:
    """The form of an optional value written as in a plan document; values that would not round-trip are rejected."""

    def write_verified(value: Any, _: OpenablePrograms) -> Any:
        if value is None:
            return None
        written = write(value)
        try:
            is_same = read(written) == value
        except WorkbenchError as error:
            raise DocumentError(error.message, ways_out or error.ways_out) from None
        if not is_same:
            raise DocumentError(f"`{str(value)[:80]}` would be read back differently.", ways_out or ["change its names"])
        return written

    return FieldForm(write_verified, lambda written, _: None if written is None else read(written))


def _read_plan(document: Any, programs: OpenablePrograms) -> Plan:
    return parse_plan(json.dumps(document, ensure_ascii=False), "The plan of the edit", programs.allow, programs.known)


_TEXT = FieldForm(_unchanged, _unchanged)
_NUMBER = FieldForm(_unchanged, lambda number, _: int(number))  # JSON accepts 4.0 as an integer
_NAMES = FieldForm(lambda names, _: list(names), lambda names, _: tuple(names))
_MESH = _nullable_form(lambda mesh: [list(axis) for axis in mesh.axes], lambda axes: Mesh(tuple((name, size) for name, size in axes)))
_LAYOUT = _nullable_form(layout_record, parse_layout)
_SHARDING = _nullable_form(str, Sharding.parse)
_HARDWARE = _nullable_form(
    lambda hardware: hardware.name,
    parse_hardware,
    f"set {HARDWARE_FILE_VARIABLE} to the file that describes it",
    "plan for hardware of the catalogue (`workbench hardware` lists it)",
)
_PLAN = FieldForm(lambda plan, programs: json.loads(dump_plan(plan, programs.known)), _read_plan)
_EDITS = FieldForm(
    lambda group, programs: [_write_edit(edit, programs) for edit in group],
    lambda records, programs: tuple(_read_edit(record, programs) for record in records),
)

EDIT_FORMS = (
    EditForm("shard_dim", edits.ShardDim, {"dim": _TEXT, "axes": _NAMES}),
    EditForm("override", edits.Override, {"pattern": _TEXT, "sharding": _SHARDING}),
    EditForm("constrain", edits.Constrain, {"pattern": _TEXT, "sharding": _SHARDING}),
    EditForm("prioritize", propagation_edits.Prioritize, {"dim": _TEXT, "priority": _NUMBER}),
    EditForm("group_values", propagation_edits.GroupValues, {"places": _NAMES}),
    EditForm("ungroup_values", propagation_edits.UngroupValues, {"places": _NAMES}),
    EditForm("set_barrier", propagation_edits.SetBarrier, {"place": _TEXT, "allows": _TEXT}),
    EditForm("set_layout", edits.SetLayout, {"layout": _LAYOUT}),
    EditForm("set_mesh", mesh_edits.SetMesh, {"mesh": _MESH}),
    EditForm("resize_axis", mesh_edits.ResizeAxis, {"axis": _TEXT, "size": _NUMBER}),
    EditForm("add_axis", mesh_edits.AddAxis, {"axis": _TEXT, "size": _NUMBER}),
    EditForm("remove_axis", mesh_edits.RemoveAxis, {"axis": _TEXT}),
    EditForm("rename_axis", mesh_edits.RenameAxis, {"axis": _TEXT, "name": _TEXT}),
    EditForm("reorder_axes", mesh_edits.ReorderAxes, {"names": _NAMES}),
    EditForm("rename_dim", edits.RenameDim, {"dim": _TEXT, "name": _TEXT}),
    EditForm("set_remat", edits.SetRemat, {"remat": _nullable_form(str, Remat.parse)}),
    EditForm("set_precision", edits.SetPrecision, {"precision": _nullable_form(str, Precision.parse)}),
    EditForm("set_offload", edits.SetOffload, {"offload": _nullable_form(str, Offload.parse)}),
    EditForm("set_hardware", edits.SetHardware, {"hardware": _HARDWARE}),
    EditForm("set_axis_assignment", edits.SetAxisAssignment, {"axis_assignment": _nullable_form(str, parse_axis_assignment)}),
    EditForm("set_pipeline", edits.SetPipeline, {"pipeline": _nullable_form(str, PipelineSpec.parse), "about": _TEXT}),
    EditForm("edit_group", edits.EditGroup, {"name": _TEXT, "edits": _EDITS}),
    EditForm("open_plan", edits.OpenPlan, {"plan": _PLAN, "source": _TEXT}),
)
_BY_NAME = {form.name: form for form in EDIT_FORMS}
_BY_KIND: Mapping[type, EditForm] = {form.kind: form for form in EDIT_FORMS}


def _verify_record(record: Any) -> dict[str, Any]:
    values = _plain_values(record)
    if not isinstance(values, dict) or "edit" not in values:
        raise DocumentError('The edit is not a valid record: it does not say which "edit" it is.', [_WAY_OUT])
    _verify_edits(values)
    if problem := schema_problem("edit_record", values):
        raise DocumentError(f"The edit is not a valid record: at `{problem[0]}`, {problem[1]}.", ["fix that entry"])
    return values


def _plain_values(record: Any) -> Any:
    try:
        text = json.dumps(record, ensure_ascii=False)
        values = parse_json(text) if len(text) <= MOST_TEXT else None
    except RecursionError:
        raise DocumentError("The edit is not a valid record: its lists and tables are nested too deep.", [_WAY_OUT]) from None
    except UnreadableError as error:
        raise DocumentError(f"The edit is not a valid record: {error}.", [_WAY_OUT]) from None
    except (TypeError, ValueError):  # not JSON, a cycle, or a number that Python refuses to print
        raise DocumentError("The edit is not a valid record: it cannot be written as JSON.", [_WAY_OUT]) from None
    for size, most, unit in ((len(text), MOST_TEXT, "characters"), (_count_values(values), MOST_VALUES, "entries")):
        if size > most:
            raise DocumentError(f"The edit has {size:,} {unit}; the limit is {most:,}.", ["split it into several edits"])
    return values


def _count_values(values: Any) -> int:
    inner = values.values() if isinstance(values, dict) else values if isinstance(values, list) else ()
    return 1 + sum(map(_count_values, inner))


def _verify_edits(root: Any) -> None:
    level, records = [root], []
    for _ in range(MOST_GROUPS + 1):
        records += level
        level = [inner for record in level for inner in _inner_records(record)]
    if level:
        raise DocumentError(f"The edit has groups of edits nested more than {MOST_GROUPS} levels deep.", ["merge the groups"])
    if len(records) > MOST_EDITS:
        raise DocumentError(
            f"The edit is a group of {len(records):,} edits; the limit is {MOST_EDITS:,}.", ["split them into several groups"]
        )
    names = [record["edit"] for record in records if isinstance(record, dict) and isinstance(record.get("edit"), str)]
    if (unknown := next((name for name in names if name not in _BY_NAME), None)) is not None:
        raise DocumentError(*unknown_name("edit", unknown, _BY_NAME))
    if (plans := names.count("open_plan")) > MOST_PLANS:
        raise DocumentError(f"The edit opens {plans} plans; the limit is {MOST_PLANS}.", ["open only the last plan"])


def _inner_records(record: Any) -> list[Any]:
    inner = record.get("edits") if isinstance(record, dict) and record.get("edit") == "edit_group" else None
    return inner if isinstance(inner, list) else []
