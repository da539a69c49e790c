"""Edits as plain JSON values, for a log that is read again after a restart and for a REST API: `parse_edit(edit_record(edit)) == edit`.

{"edit": "shard_dim", "dim": "d_ff", "axes": ["model"]}

`EDIT_FORMS` says how each field is written and read: a mesh, a layout, a pipeline stand as in a plan document. A record may come from
anyone, and is checked as a plan document is: its size, the schema (`edit_record.schema.json`), then each value; a plan in it may only name
programs that a document may name. As in a plan document, the order of a layout's entries counts, and must survive where records are stored.
"""

import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from workbench.core.mesh import Mesh
from workbench.core.offload import Offload
from workbench.core.parse_untrusted import UnreadableError, parse_json
from workbench.core.pipeline_spec import PipelineSpec
from workbench.core.precision import Precision
from workbench.core.program import Program
from workbench.core.remat import Remat
from workbench.core.sharding import Sharding
from workbench.documents.document_schema import schema_problem
from workbench.documents.plan_documents import dump_plan, layout_record, parse_layout, parse_plan
from workbench.documents.program_references import read_allowed
from workbench.errors import DocumentError, WorkbenchError, unknown_name
from workbench.hardware.axis_assignment_text import parse_axis_assignment
from workbench.hardware.catalogue import HARDWARE_FILE_VARIABLE, parse_hardware
from workbench.plan import edits, mesh_edits, propagation_edits
from workbench.plan.edits import Edit
from workbench.plan.plan import Plan

MOST_TEXT = 1 << 18
"""Characters of a record. A plan with a thousand statements has some 60,000."""
MOST_VALUES = 20_000
"""Entries of its lists and objects; the schema checks every one of them."""
MOST_EDITS = 1_000
"""Edits of one record, those of its groups and the groups themselves counted. The longest recipe, ZeRO-3 of AmoebaNet, has 207."""
MOST_GROUPS = 4
"""Groups that lie in each other. A recipe is one."""
MOST_PLANS = 4
"""Plans that one record opens: the program of each is traced when it is read, and only the last one counts."""

_WAY_OUT = 'write it as `edit_record` does: {"edit": "shard_dim", "dim": "d_ff", "axes": ["model"]}'


@dataclass(frozen=True, slots=True)
class OpenablePrograms:
    """The programs that an opened plan may be of besides those of the zoo: those `allow`ed by name, and the `known` one (`parse_plan`)."""

    allow: tuple[str, ...] = ()
    known: Program | None = None


@dataclass(frozen=True, slots=True)
class FieldForm:
    """How a field of an edit is written as JSON values, and read from values that fit the schema."""

    write: Callable[[Any, OpenablePrograms], Any]
    read: Callable[[Any, OpenablePrograms], Any]


@dataclass(frozen=True, slots=True)
class EditForm:
    """The record of one class of edits: `edit`, by which it is recognised, and the fields. One with a default may be left out."""

    name: str
    kind: type[Edit]
    fields: Mapping[str, FieldForm]


def edit_record(edit: Edit, known: Program | None = None) -> dict[str, Any]:
    """The edit as plain JSON values, which `parse_edit` reads; `known` is a program without a reference that it will be given too.

    >>> from workbench.plan.edits import ShardDim
    >>> edit_record(ShardDim("d_ff", ("model",)))
    {'edit': 'shard_dim', 'dim': 'd_ff', 'axes': ['model']}

    Raises `DocumentError` for an edit that could not be read again: of a class that is not of `ALL_EDITS`, too large, with hardware that is
    not in the catalogue, or with a plan that cannot be saved.
    """
    try:
        return _verify_record(_write_edit(edit, OpenablePrograms(known=known)))
    except DocumentError as error:
        message = f"`{str(edit)[:80]}` cannot be recorded, because it could not be read back. {error.message}"
        raise DocumentError(message, error.ways_out) from None


def parse_edit(record: Any, *, allow: str | Iterable[str] = (), known: Program | None = None) -> Edit:
    """The edit of a record, JSON values that may come from anyone; `allow` and `known` are those of `parse_plan`.

    Raises `DocumentError` if it is no record or beyond the limits, the errors of the values in it (`LayoutError` for a sharding, say), and
    those of `parse_plan` for a plan that it opens. Whether the edit fits a plan is known once it is applied.
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


def _noun(write: Callable[[Any], Any], read: Callable[[Any], Any], *ways_out: str) -> FieldForm:
    """The form of a value that stands as in a plan document, or of `None`. One that would not be read as it is is not written."""

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


def _write_plan(plan: Plan, programs: OpenablePrograms) -> Any:
    return json.loads(dump_plan(plan, programs.known))


def _read_plan(document: Any, programs: OpenablePrograms) -> Plan:
    return parse_plan(json.dumps(document, ensure_ascii=False), "The plan of the edit", programs.allow, programs.known)


def _write_edits(group: Iterable[Edit], programs: OpenablePrograms) -> list[Any]:
    return [_write_edit(each, programs) for each in group]


def _read_edits(records: Iterable[Mapping[str, Any]], programs: OpenablePrograms) -> tuple[Edit, ...]:
    return tuple(_read_edit(each, programs) for each in records)


_TEXT = FieldForm(_unchanged, _unchanged)
_NUMBER = FieldForm(_unchanged, lambda number, _: int(number))  # in JSON 4.0 is a whole number
_NAMES = FieldForm(lambda names, _: list(names), lambda names, _: tuple(names))
_MESH = _noun(lambda mesh: [list(axis) for axis in mesh.axes], lambda axes: Mesh(tuple((name, size) for name, size in axes)))
_LAYOUT = _noun(layout_record, parse_layout)
_SHARDING = _noun(str, Sharding.parse)
_HARDWARE = _noun(
    lambda hardware: hardware.name,
    parse_hardware,
    f"set {HARDWARE_FILE_VARIABLE} to the file that describes it",
    "plan for hardware of the catalogue (`workbench hardware` lists it)",
)
_PLAN = FieldForm(_write_plan, _read_plan)
_EDITS = FieldForm(_write_edits, _read_edits)

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
    EditForm("set_remat", edits.SetRemat, {"remat": _noun(str, Remat.parse)}),
    EditForm("set_precision", edits.SetPrecision, {"precision": _noun(str, Precision.parse)}),
    EditForm("set_offload", edits.SetOffload, {"offload": _noun(str, Offload.parse)}),
    EditForm("set_hardware", edits.SetHardware, {"hardware": _HARDWARE}),
    EditForm("set_axis_assignment", edits.SetAxisAssignment, {"axis_assignment": _noun(str, parse_axis_assignment)}),
    EditForm("set_pipeline", edits.SetPipeline, {"pipeline": _noun(str, PipelineSpec.parse), "about": _TEXT}),
    EditForm("edit_group", edits.EditGroup, {"name": _TEXT, "edits": _EDITS}),
    EditForm("open_plan", edits.OpenPlan, {"plan": _PLAN, "source": _TEXT}),
)
_BY_NAME = {form.name: form for form in EDIT_FORMS}
_BY_KIND: Mapping[type, EditForm] = {form.kind: form for form in EDIT_FORMS}


def _verify_record(record: Any) -> dict[str, Any]:
    """The record as plain values, checked from the outside in: JSON within the limits, edits that exist, the schema."""
    values = _plain_values(record)
    if not isinstance(values, dict) or "edit" not in values:
        raise DocumentError('The edit is not a valid record: it does not say which "edit" it is.', [_WAY_OUT])
    _verify_edits(values)
    if problem := schema_problem("edit_record", values):
        raise DocumentError(f"The edit is not a valid record: at `{problem[0]}`, {problem[1]}.", ["fix that entry"])
    return values


def _plain_values(record: Any) -> Any:
    """JSON values within the limits; raises `DocumentError` for anything else."""
    try:
        text = json.dumps(record, ensure_ascii=False)
        values = parse_json(text) if len(text) <= MOST_TEXT else None
    except RecursionError:
        raise DocumentError("The edit is not a valid record: its lists and tables are nested too deep.", [_WAY_OUT]) from None
    except UnreadableError as error:
        raise DocumentError(f"The edit is not a valid record: {error}.", [_WAY_OUT]) from None
    except (TypeError, ValueError):  # what is no JSON value, contains itself, or is a number that Python refuses to print
        raise DocumentError("The edit is not a valid record: it cannot be written as JSON.", [_WAY_OUT]) from None
    for size, most, unit in ((len(text), MOST_TEXT, "characters"), (_count_values(values), MOST_VALUES, "entries")):
        if size > most:
            raise DocumentError(f"The edit has {size:,} {unit}; the limit is {most:,}.", ["split it into several edits"])
    return values


def _count_values(values: Any) -> int:
    inner = values.values() if isinstance(values, dict) else values if isinstance(values, list) else ()
    return 1 + sum(map(_count_values, inner))


def _verify_edits(root: Any) -> None:
    """Check that all edits of the record exist, and the limits on their number, on groups in groups and on plans."""
    level, found = [root], []
    for _ in range(MOST_GROUPS + 1):
        found += level
        level = [inner for each in level for inner in _inner_records(each)]
    if level:
        raise DocumentError(f"The edit has groups of edits nested more than {MOST_GROUPS} levels deep.", ["merge the groups"])
    if len(found) > MOST_EDITS:
        raise DocumentError(
            f"The edit is a group of {len(found):,} edits; the limit is {MOST_EDITS:,}.", ["split them into several groups"]
        )
    names = [each["edit"] for each in found if isinstance(each, dict) and isinstance(each.get("edit"), str)]
    if (unknown := next((name for name in names if name not in _BY_NAME), None)) is not None:
        raise DocumentError(*unknown_name("edit", unknown, _BY_NAME))
    if (plans := names.count("open_plan")) > MOST_PLANS:
        raise DocumentError(f"The edit opens {plans} plans; the limit is {MOST_PLANS}.", ["open only the last plan"])


def _inner_records(record: Any) -> list[Any]:
    """The edits of a group, of which nothing is checked yet."""
    inner = record.get("edits") if isinstance(record, dict) and record.get("edit") == "edit_group" else None
    return inner if isinstance(inner, list) else []
