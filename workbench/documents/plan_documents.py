"""Plan documents: JSON with a version and a schema, one statement per line so that two plans diff well. `parse_plan(dump_plan(p)) == p`."""

import json
from collections.abc import Callable, Iterable, Mapping
from os import PathLike
from pathlib import Path
from typing import Any

from workbench.core.installation import upgrade_advice
from workbench.core.layout import Layout
from workbench.core.layout_text import axes_text
from workbench.core.mesh import Mesh
from workbench.core.offload import ALL_ON_DEVICE, Offload
from workbench.core.parse_untrusted import UnreadableError, parse_json, read_text, verify_length
from workbench.core.pipeline_spec import read_pipeline
from workbench.core.precision import AS_WRITTEN, Precision
from workbench.core.program import Program, Reference
from workbench.core.remat import AS_TRACED, Remat
from workbench.core.sharding import Sharding
from workbench.documents.document_schema import schema_problem
from workbench.documents.durable_files import explain_write_errors, lock_folder, replace_file
from workbench.documents.program_references import program_from_reference, read_allowed, verify_allowed, verify_reference
from workbench.errors import DocumentError, HardwareError, wrong_type
from workbench.hardware.axis_assignment_text import AxisAssignment, parse_axis_assignment
from workbench.hardware.catalogue import HARDWARE_FILE_VARIABLE, parse_hardware
from workbench.hardware.hardware import Hardware
from workbench.plan.plan import Plan

FORMAT = "sharding-workbench.plan"
VERSION = 1


def dump_plan(plan: Plan, known: Program | None = None) -> str:
    """The plan document. Raises `DocumentError` if the program has no reference, or one from which it could not be built again.

    If `parse_plan` will be given the `known` program, a program without a reference is accepted if it is that one, with any remat,
    precision and offload.
    """
    reference = (known and known_reference(plan.program, known)) or _require_reference(plan)
    renamed = {traced: now for traced, now in plan.program.renamed.items() if traced != now}
    document = {
        "format": FORMAT,
        "version": VERSION,
        "name": plan.name,
        "program": {"target": reference.target, "arguments": dict(reference.arguments)},
        **({"dims": renamed} if renamed else {}),
        **({"remat": str(plan.program.remat)} if plan.program.remat != AS_TRACED else {}),
        **({"precision": str(plan.program.precision)} if plan.program.precision != AS_WRITTEN else {}),
        **({"offload": str(plan.program.offload)} if plan.program.offload != ALL_ON_DEVICE else {}),
        "mesh": [list(axis) for axis in plan.mesh.axes],
        "layout": layout_record(plan.layout),
        **({"hardware": _hardware_name(plan.hardware)} if plan.hardware else {}),
        **({"axis_assignment": str(plan.axis_assignment)} if plan.axis_assignment and plan.axis_assignment.routes else {}),
        **({"pipeline": str(plan.pipeline)} if plan.pipeline else {}),
    }
    if problem := _schema_problem(document):
        raise DocumentError(
            f"`{plan.name[:80]}` cannot be saved, because it could not be reopened: {problem}.",
            ["give it another name, or other arguments"],
        )
    return _pretty_json(document) + "\n"


def parse_plan(
    text: str,
    name: str = "The text",
    allow: str | Iterable[str] = (),
    known: Program | None = None,
    build: Callable[[Reference], Program] = program_from_reference,
) -> Plan:
    """The plan of a document; `name` is what errors call it. `allow` are modules whose programs it may name besides those of the zoo and
    those that were built in this process (`read_allowed`), and `known` a program without a reference that it may be of (`dump_plan`).
    `build` may keep what it has built, for those who read many plans. All that can be checked without the program is checked before it is
    imported.

    Raises `DocumentError` if the text is no plan document, is of a newer version or names a program that is not allowed or cannot be built,
    `RematError`, `PrecisionError` or `OffloadError` if it does not fit what it is traced with, and `MeshError` or `LayoutError` if the plan
    is illegal.
    """
    document = _parse_document(text, name)
    mesh, layout = Mesh(tuple((axis, size) for axis, size in document["mesh"])), parse_layout(document["layout"])
    hardware_fields, pipeline = _parse_hardware_fields(document, name), read_pipeline(document.get("pipeline"))
    remat, precision = Remat.parse(document.get("remat", "")), Precision.parse(document.get("precision", ""))
    offload = Offload.parse(document.get("offload", ""))
    reference = Reference(document["program"]["target"], document["program"].get("arguments", {}))
    if is_known_reference(reference):
        program = known_program(reference, known, name).variant(remat=remat, precision=precision, offload=offload)
    else:
        verify_allowed(reference, name, allow)
        program = build(reference).variant(remat=remat, precision=precision, offload=offload)
    if renamed := names_from_trace(program, document.get("dims", {})):
        program = program.rename(renamed)
    return Plan(program, mesh, layout, document["name"], *hardware_fields, pipeline)


def save_plan(plan: Plan, path: str | Path, verify: Callable[[], None] = lambda: None) -> None:
    """Write the document atomically. `verify` may refuse by raising: nobody else saves a plan in that folder meanwhile."""
    path, text = _as_path(path), dump_plan(plan)
    with explain_write_errors(path, DocumentError), lock_folder(path):
        verify()
        replace_file(path, text.encode())


def load_plan(path: str | Path, allow: str | Iterable[str] = ()) -> Plan:
    """Read a plan document; `allow="mine"` lets it name programs of the module `mine`, which is then imported.

    Errors are those of `parse_plan`, and `DocumentError` if the file cannot be read.
    """
    allow = read_allowed(allow)
    try:
        text = read_text(_as_path(path))
    except OSError as error:
        raise DocumentError(f"`{path}` cannot be read: {error.strerror or error}.", ["check the path"]) from None
    except UnicodeDecodeError:
        raise _not_json_error(f"`{path}`", "it is not text in UTF-8") from None
    return parse_plan(text, f"`{path}`", allow)


def _as_path(path: Any) -> Path:
    if not isinstance(path, str | PathLike):
        raise DocumentError(wrong_type("path", path, "the path of a file"), ['write "mine.plan.json"'])
    return Path(path)


def _require_reference(plan: Plan) -> Reference:
    reference = plan.program.reference
    if reference is None:
        raise DocumentError(
            f"`{plan.name}` cannot be saved: a plan document contains no code, and this program has no reference.",
            [
                "put the code that builds it into an importable function, `def build() -> wb.Program` in my_module.py",
                'trace with `reference=wb.Reference("my_module:build")`',
                "start from a model of the zoo",
            ],
        )
    try:
        json.dumps(dict(reference.arguments), allow_nan=False)
    except (TypeError, ValueError) as error:
        raise DocumentError(
            f"`{plan.name}` cannot be saved: the arguments of `{reference.target}` are not JSON values ({error}).",
            ["pass only numbers, strings, booleans and lists of these"],
        ) from None
    try:
        verify_reference(reference)
    except DocumentError as error:
        raise DocumentError(f"`{plan.name}` cannot be saved, because it could not be reopened. {error.message}", error.ways_out) from None
    return reference


def _hardware_name(hardware: Hardware) -> str:
    """The name that the catalogue reads; hardware that was measured, or is in a file that is not read automatically, has none."""
    try:
        known = parse_hardware(hardware.name) == hardware
    except HardwareError:
        known = False
    if not known:
        raise DocumentError(
            f"A plan for `{hardware}` cannot be saved: a plan document names its hardware, but this hardware is not in the catalogue.",
            [
                f"set {HARDWARE_FILE_VARIABLE} to the file that describes it",
                "plan for hardware of the catalogue (`workbench hardware` lists it)",
            ],
        )
    return hardware.name


def _parse_hardware_fields(document: Mapping[str, Any], name: str) -> tuple[Hardware | None, AxisAssignment | None]:
    """The hardware and the axis assignment of a document."""
    hardware, axis_assignment = document.get("hardware"), document.get("axis_assignment", document.get("wiring"))
    try:
        return hardware and parse_hardware(hardware), axis_assignment and parse_axis_assignment(axis_assignment)
    except HardwareError as error:
        raise DocumentError(f"{name} has hardware that cannot be used. {error.message}", error.ways_out) from None


def layout_record(layout: Layout) -> dict[str, Any]:
    """The layout as plain values, one entry a statement."""
    return {
        "rules": {dim: axes_text(axes, layout.priority(dim)) for dim, axes in layout.rules},
        **({"overrides": {pattern: str(sharding) for pattern, sharding in layout.overrides}} if layout.overrides else {}),
        **({"constraints": {pattern: str(sharding) for pattern, sharding in layout.constraints}} if layout.constraints else {}),
        **({"groups": [list(places) for places in layout.groups]} if layout.groups else {}),
        **({"barriers": dict(layout.barriers)} if layout.barriers else {}),
        **({"turns": dict(layout.turns)} if layout.turns else {}),
    }


def parse_layout(record: Mapping[str, Any]) -> Layout:
    """The inverse of `layout_record`; kinds that an older document does not know are empty."""
    return Layout(
        record.get("rules", {}),
        _parse_shardings(record.get("overrides", {})),
        _parse_shardings(record.get("constraints", {})),
        groups=tuple(map(tuple, record.get("groups", ()))),
        barriers=tuple(record.get("barriers", {}).items()),
        turns=tuple(record.get("turns", {}).items()),
    )


def _parse_shardings(entries: Mapping[str, str]) -> tuple[tuple[str, Sharding], ...]:
    return tuple((pattern, Sharding.parse(text)) for pattern, text in entries.items())


def _parse_document(text: str, name: str) -> dict[str, Any]:
    """The document as plain values, checked from the outside in: JSON, a plan, a version we know, the schema."""
    verify_length(text, name, "plan document")
    try:
        document = parse_json(text)
    except UnreadableError as error:
        raise _not_json_error(name, str(error)) from None
    if not isinstance(document, dict) or document.get("format") != FORMAT:
        raise DocumentError(
            f'{name} is JSON, but not a plan document: it lacks "format": "{FORMAT}".',
            ["choose a *.plan.json that `workbench` or `plan.save` wrote"],
        )
    version = document.get("version")
    if isinstance(version, int) and version > VERSION:
        raise DocumentError(
            f"{name} is a plan document of version {version}; this workbench reads up to version {VERSION}.",
            [f"install a newer workbench: {upgrade_advice()}"],
        )
    _verify_schema(document, name)
    return document


def _verify_schema(document: dict[str, Any], name: str) -> None:
    if problem := _schema_problem(document):
        raise DocumentError(f"{name} is not a valid plan document: {problem}.", ["fix that entry", "save the plan again"])


def _schema_problem(document: Mapping[str, Any]) -> str | None:
    """The first departure of a document from the schema, in words."""
    problem = schema_problem("plan", document)
    return problem and f"at `{problem[0]}`, {problem[1]}"


def _not_json_error(name: str, reason: str) -> DocumentError:
    return DocumentError(f"{name} is not JSON: {reason}.", ["choose a *.plan.json that `workbench` or `plan.save` wrote"])


def _pretty_json(value: object, indent: str = "") -> str:
    """JSON with one entry per line, but lists of plain values (`["data", 4]`) on one."""
    inner = indent + "  "
    if isinstance(value, Mapping) and value:
        entries = [f"{json.dumps(key, ensure_ascii=False)}: {_pretty_json(each, inner)}" for key, each in value.items()]
    elif isinstance(value, list | tuple) and any(isinstance(each, list | tuple | Mapping) for each in value):
        entries = [_pretty_json(each, inner) for each in value]
    else:
        return json.dumps(value, ensure_ascii=False)
    opening, closing = "{}" if isinstance(value, Mapping) else "[]"
    return f"{opening}\n{inner}" + f",\n{inner}".join(entries) + f"\n{indent}{closing}"


# A program that no document can name, traced from functions of a running process: the history of its board names it by its fingerprint.
#
# Such a document is of use only to a process that has that program already: it is read with the program that is served again, and refused
# if that has changed.

_MARK = "#"


def known_reference(program: Program, known: Program) -> Reference | None:
    """The reference in a document if `program` is the `known` one, with any remat and precision; `None` if it is not, or has a name."""
    same = program.fingerprint == known.fingerprint or (program.retrace is not None and program.retrace is known.retrace)
    return Reference(_MARK + known.fingerprint) if same and program.reference is None else None


def is_known_reference(reference: Reference) -> bool:
    """Whether a document names its program in this way."""
    return reference.target.startswith(_MARK)


def known_program(reference: Reference, known: Program | None, name: str) -> Program:
    """The `known` program; raises `DocumentError` if the document is not of that. `name` is what errors call the document."""
    if known is None or reference.target != _MARK + known.fingerprint:
        raise DocumentError(
            f"{name} is of a program traced in another process without a reference; it is not the program here.",
            [
                "serve that program again",
                'trace it with `reference=wb.Reference("my_module:build")` to open its plans anywhere',
            ],
        )
    return known


def names_from_trace(program: Program, renamed: Mapping[str, str]) -> Mapping[str, str]:
    """The renames, by the names of the trace, that give `renamed`; some dimensions may have been renamed before."""
    traced_names = program.renamed or program.dims
    renamed = {name if name in traced_names else program.former_dims.get(name, name): present for name, present in renamed.items()}
    now = {traced: present for traced, present in program.renamed.items() if traced in renamed}
    return {now.get(traced, traced): name for traced, name in renamed.items() if now.get(traced, traced) != name}
