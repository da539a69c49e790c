"""Plan documents: versioned JSON, one statement per line for readable diffs. `parse_plan(dump_plan(p)) == p`."""

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
from workbench.core.parse_untrusted import UnreadableError, parse_json, read_allowed, read_text, verify_length
from workbench.core.pipeline_spec import read_pipeline
from workbench.core.precision import AS_WRITTEN, Precision
from workbench.core.program import Program, Reference
from workbench.core.remat import AS_TRACED, Remat
from workbench.core.sharding import Sharding
from workbench.documents.document_schema import schema_problem
from workbench.documents.durable_files import explain_write_errors, lock_folder, replace_file
from workbench.documents.program_references import program_from_reference, verify_allowed, verify_reference
from workbench.errors import DocumentError, HardwareError, explain_read_errors, wrong_type
from workbench.hardware.axis_assignment_text import AxisAssignment, parse_axis_assignment
from workbench.hardware.catalogue import HARDWARE_FILE_VARIABLE, parse_hardware
from workbench.hardware.hardware import Hardware
from workbench.plan.plan import Plan

FORMAT = "sharding-workbench.plan"
VERSION = 1


def dump_plan(plan: Plan, known: Program | None = None) -> str:
    """The plan document. Raises `DocumentError` if the program cannot be rebuilt from its reference.

    A program without a reference is accepted if it is `known`, up to remat, precision and offload; `parse_plan` then
    needs the same `known`.
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
            f"`{plan.name[:80]}` cannot be saved because it could not be reopened: {problem}.", ["give it another name, or other arguments"]
        )
    return _pretty_json(document) + "\n"


def parse_plan(
    text: str,
    name: str = "The text",
    allow: str | Iterable[str] = (),
    known: Program | None = None,
    build: Callable[[Reference], Program] = program_from_reference,
) -> Plan:
    """Parse a plan document, `name` in errors; checks that do not need the program come before its import.

    `allow` lists modules whose programs it may name, besides the zoo and programs built in this process
    (`read_allowed`). `known` is a program without a reference that it may use (`dump_plan`). `build` may cache
    programs. Raises `DocumentError` if the text is not a plan document, has a newer version, or names a program that is
    not allowed or cannot be built; `RematError`, `PrecisionError` or `OffloadError` for settings that do not fit the
    program; `MeshError` or `LayoutError` if the plan is illegal.
    """
    document = _parse_document(text, name)
    mesh, layout = Mesh(tuple((axis, size) for axis, size in document["mesh"])), parse_layout(document["layout"])
    hardware_fields, pipeline = _parse_hardware_fields(document, name), read_pipeline(document.get("pipeline"))
    remat, precision = Remat.parse(document.get("remat", "")), Precision.parse(document.get("precision", ""))
    offload = Offload.parse(document.get("offload", ""))
    reference = Reference(document["program"]["target"], document["program"].get("arguments", {}))
    if reference.target.startswith(_MARK):
        program = known_program(reference, known, name).variant(remat=remat, precision=precision, offload=offload)
    else:
        verify_allowed(reference, name, allow)
        program = build(reference).variant(remat=remat, precision=precision, offload=offload)
    if renamed := renames_from_current(program, document.get("dims", {})):
        program = program.rename(renamed)
    return Plan(program, mesh, layout, document["name"], *hardware_fields, pipeline)


def save_plan(plan: Plan, path: str | Path, verify: Callable[[], None] = lambda: None) -> None:
    """Write the document atomically. `verify` may veto by raising, while other writers of the folder are locked out."""
    path, text = _as_path(path), dump_plan(plan)
    with explain_write_errors(path, DocumentError), lock_folder(path):
        verify()
        replace_file(path, text.encode())


def load_plan(path: str | Path, allow: str | Iterable[str] = ()) -> Plan:
    """Read a plan document; `allow="mine"` lets it import the module `mine`. Raises the errors of `parse_plan`."""
    allow = read_allowed(allow)
    with explain_read_errors(path, _not_json_error(f"`{path}`", "it is not text in UTF-8")):
        text = read_text(_as_path(path))
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
        raise DocumentError(f"`{plan.name}` cannot be saved because it could not be reopened. {error.message}", error.ways_out) from None
    return reference


def _hardware_name(hardware: Hardware) -> str:
    """The catalogue name of the hardware. Raises `DocumentError` if it is not in the catalogue."""
    try:
        is_in_catalogue = parse_hardware(hardware.name) == hardware
    except HardwareError:
        is_in_catalogue = False
    if not is_in_catalogue:
        raise DocumentError(
            f"A plan for `{hardware}` cannot be saved: a plan document names its hardware, but this hardware is not in the catalogue.",
            [
                f"set {HARDWARE_FILE_VARIABLE} to the file that describes it",
                "plan for hardware of the catalogue (`workbench hardware` lists it)",
            ],
        )
    return hardware.name


def _parse_hardware_fields(document: Mapping[str, Any], name: str) -> tuple[Hardware | None, AxisAssignment | None]:
    hardware, axis_assignment = document.get("hardware"), document.get("axis_assignment", document.get("wiring"))
    try:
        return hardware and parse_hardware(hardware), axis_assignment and parse_axis_assignment(axis_assignment)
    except HardwareError as error:
        raise DocumentError(f"{name} has hardware that cannot be used. {error.message}", error.ways_out) from None


def layout_record(layout: Layout) -> dict[str, Any]:
    """The layout as JSON values, one entry per statement."""
    return {
        "rules": {dim: axes_text(axes, layout.priority(dim)) for dim, axes in layout.rules},
        **({"overrides": {pattern: str(sharding) for pattern, sharding in layout.overrides}} if layout.overrides else {}),
        **({"constraints": {pattern: str(sharding) for pattern, sharding in layout.constraints}} if layout.constraints else {}),
        **({"groups": [list(places) for places in layout.groups]} if layout.groups else {}),
        **({"barriers": dict(layout.barriers)} if layout.barriers else {}),
        **({"turns": dict(layout.turns)} if layout.turns else {}),
    }


def parse_layout(record: Mapping[str, Any]) -> Layout:
    """The inverse of `layout_record`; kinds of statements missing in older documents are empty."""
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
    problem = schema_problem("plan", document)
    return problem and f"at `{problem[0]}`, {problem[1]}"


def _not_json_error(name: str, reason: str) -> DocumentError:
    return DocumentError(f"{name} is not JSON: {reason}.", ["choose a *.plan.json that `workbench` or `plan.save` wrote"])


def _pretty_json(value: object, indent: str = "") -> str:
    """JSON with one entry per line, except for lists of plain values (`["data", 4]`)."""
    inner = indent + "  "
    if isinstance(value, Mapping) and value:
        entries = [f"{json.dumps(key, ensure_ascii=False)}: {_pretty_json(entry, inner)}" for key, entry in value.items()]
    elif isinstance(value, list | tuple) and any(isinstance(entry, list | tuple | Mapping) for entry in value):
        entries = [_pretty_json(entry, inner) for entry in value]
    else:
        return json.dumps(value, ensure_ascii=False)
    opening, closing = "{}" if isinstance(value, Mapping) else "[]"
    return f"{opening}\n{inner}" + f",\n{inner}".join(entries) + f"\n{indent}{closing}"


# Programs without a reference, traced from functions of a running process, are named by fingerprint in the board's history.
#
# Such a document can only be read by a process that serves the same program again, and is rejected
# if the program has changed.

_MARK = "#"


def known_reference(program: Program, known: Program) -> Reference | None:
    """A reference by fingerprint if `program` is `known` up to remat and precision, and has no reference."""
    is_same = program.fingerprint == known.fingerprint or (program.retrace is not None and program.retrace is known.retrace)
    return Reference(_MARK + known.fingerprint) if is_same and program.reference is None else None


def known_program(reference: Reference, known: Program | None, name: str) -> Program:
    """The `known` program. Raises `DocumentError` if the document, named `name` in errors, is for another one."""
    if known is None or reference.target != _MARK + known.fingerprint:
        raise DocumentError(
            f"{name} is for a program traced in another process without a reference, not for the program here.",
            ["serve that program again", 'trace it with `reference=wb.Reference("my_module:build")` to open its plans anywhere'],
        )
    return known


def renames_from_current(program: Program, renamed: Mapping[str, str]) -> Mapping[str, str]:
    """The renames from current names that yield `renamed`, from names of the trace."""
    traced_names = program.renamed or program.dims
    renamed = {name if name in traced_names else program.former_dims.get(name, name): present for name, present in renamed.items()}
    now = {traced: present for traced, present in program.renamed.items() if traced in renamed}
    return {now.get(traced, traced): name for traced, name in renamed.items() if now.get(traced, traced) != name}
