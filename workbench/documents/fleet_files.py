"""Fleet files (TOML or JSON): models to train together and their devices. A grid expands to one model per combination.

policy = "sharded-lrtf"
memory = "2 GiB"

[[models]]
name = "digits"
program = "mnist"
mini_batches = 50
epochs = 2
arguments = { hidden = 256 }
grid = { learning_rate = [0.1, 0.01], batch = [50, 100] }
"""

import json
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import product
from math import prod
from pathlib import Path
from typing import Any

from workbench.core.parse_untrusted import UnreadableError, parse_json, parse_toml, read_text, verify_length
from workbench.core.program import Program, Reference
from workbench.documents.document_schema import load_schema, schema_problem
from workbench.documents.program_references import (
    is_allowed,
    load_function,
    program_from_reference,
    verify_allowed,
    verify_arguments,
    verify_reference,
)
from workbench.errors import DocumentError, FleetError, WorkbenchError, explain_read_errors, unknown_name
from workbench.multimodel.fleet import Fleet, FleetModel, verify_model_name, verify_options
from workbench.multimodel.unit_chains import verify_names
from workbench.units import parse_bytes

VERSION = 1
MOST_MODELS = 1_000
"""Limit on the models of a fleet file, with grids expanded."""
MOST_TRACED = 32
"""Limit on distinct zoo programs that are not allowed by name, each of which is traced on opening."""
_TRAINING_HINT = "end it with `return wb.trace_training(...)`"
_FORMAT_HINTS = ("write it as docs/many_models.md shows", "name it *.toml or *.json")


def load_fleet(path: str | Path, allow: str | Iterable[str] = (), **changes: Any) -> Fleet:
    """Read a fleet file, as JSON if its suffix is `.json`, else as TOML.

    A relative `folder` is relative to the file. `changes` override fields of the fleet; `allow` is as in `load_plan`.
    Checks that need no import or trace come first. Raises `DocumentError` if the file cannot be read, has an unknown
    field or one of the wrong kind, or names a program that is not allowed or cannot be built; `FleetError` if the
    models cannot be trained together.
    """
    path = Path(path)
    with explain_read_errors(path, DocumentError(f"`{path}` is not a fleet file: it is not text in UTF-8.", _FORMAT_HINTS)):
        text = read_text(path)
    fleet = parse_fleet(text, f"`{path}`", is_json=path.suffix == ".json", allow=allow, **changes)
    return fleet if fleet.folder is None else fleet.updated(folder=path.parent / fleet.folder)


def resolve_fleet(fleet: Fleet | str | Path, allow: str | Iterable[str] = ()) -> Fleet:
    """The fleet, loaded if given as a file. Raises the errors of `load_fleet`."""
    return fleet if isinstance(fleet, Fleet) else load_fleet(fleet, allow)


def parse_fleet(text: str, name: str = "The text", *, is_json: bool = False, allow: str | Iterable[str] = (), **changes: Any) -> Fleet:
    """Parse a fleet file, `name` in errors; other parameters and errors are those of `load_fleet`."""
    document = _parse_document(text, name, is_json=is_json)
    _verify_fields(document, name)
    if problem := _schema_problem(document):
        raise DocumentError(f"{name} is not a valid fleet file: {problem}.", ["fix that entry"])
    _verify_names(document["models"], name)
    options = {**_read_options(document, name), **changes}
    verify_options(options)
    _verify_count(document["models"], name)
    drafts = [draft for entry in document["models"] for draft in _expand_grid(entry, name)]
    for draft in drafts:
        draft.verify(allow)
    _verify_trace_count(drafts, name, allow)
    for draft in drafts:
        draft.verify_function()
    programs: dict[str, Program] = {}
    return Fleet(tuple(draft.model(programs) for draft in drafts), **options)


def _read_options(document: Mapping[str, Any], name: str) -> dict[str, Any]:
    options = {key: value for key, value in document.items() if key not in ("models", "version")}
    if "memory" in options:
        options["memory"] = _parse_memory(options["memory"], name)
    if "folder" in options:
        options["folder"] = Path(options["folder"])
    return options


def _parse_document(text: str, name: str, *, is_json: bool) -> dict[str, Any]:
    verify_length(text, name, "fleet file")
    try:
        document = parse_json(text) if is_json else parse_toml(text)
    except UnreadableError as error:
        raise DocumentError(f"{name} is not {'JSON' if is_json else 'TOML'}: {error}.", _FORMAT_HINTS) from None
    if not isinstance(document, dict):
        raise DocumentError(f"{name} is not a fleet file: it holds no fields.", _FORMAT_HINTS)
    return document


def _verify_fields(document: Mapping[str, Any], name: str) -> None:
    """Report unknown fields with a suggestion, before the schema reports them with less detail."""
    schema = load_schema("fleet")["properties"]
    entries = document.get("models", ())
    fields = schema["models"]["items"]["properties"]
    levels = [(name, document, schema)]
    if isinstance(entries, list):
        levels += [
            (f"{name}, model {_entry_label(index, each)}", each, fields) for index, each in enumerate(entries) if isinstance(each, dict)
        ]
    for error_name, record, fields_by_name in levels:
        for key in record:
            if key not in fields_by_name:
                message, ways_out = unknown_name("field", key, (each for each in fields_by_name if each != "version"))
                raise DocumentError(f"{error_name}: {message}", ways_out)


def _entry_label(index: int, entry: Mapping[str, Any]) -> str:
    return f"`{entry['name']}`" if isinstance(entry.get("name"), str) else str(index + 1)


def _schema_problem(document: Mapping[str, Any]) -> str | None:
    problem = schema_problem("fleet", document)
    return problem and f"at `{problem[0].removeprefix('$.')}`, {problem[1]}"


def _verify_names(entries: list[dict[str, Any]], name: str) -> None:
    try:
        verify_names([entry["name"] for entry in entries])
    except FleetError as error:
        raise FleetError(f"{name}: {error.message}", [*error.ways_out, "give one model a `grid` instead"]) from None


def _verify_count(entries: list[dict[str, Any]], name: str) -> None:
    """Check that the grids expand to at most `MOST_MODELS` models, before expanding them."""
    counts = [prod(len(values) for values in entry.get("grid", {}).values()) for entry in entries]
    if sum(counts) > MOST_MODELS:
        entry, count = max(zip(entries, counts, strict=True), key=lambda pair: pair[1])
        sizes = " x ".join(str(len(values)) for values in entry.get("grid", {}).values())
        of_one = f" (`{entry['name']}` alone {sizes} = {count:,})" if count > 1 else ""
        raise FleetError(
            f"{name} yields {sum(counts):,} models{of_one}; a fleet has at most {MOST_MODELS:,}.", ["leave values out of a grid"]
        )


def _parse_memory(value: str | float, name: str) -> int:
    """The number of bytes. The schema accepts 1.0 as an integer, but a float without a unit is rejected as ambiguous."""
    count = value if isinstance(value, int) else parse_bytes(value) if isinstance(value, str) else None
    if count is None:
        shown = f'"{value[:80]}"' if isinstance(value, str) else f"{value:g} without a unit"
        raise DocumentError(f"{name}: {shown} is not an amount of memory.", ['write "2 GiB", "512 MiB" or a whole number of bytes'])
    return count


@dataclass(frozen=True)
class _ModelDraft:
    """A model before tracing; `error_name` identifies it in errors."""

    name: str
    reference: Reference
    options: Mapping[str, Any]
    error_name: str

    def verify(self, allow: str | Iterable[str]) -> None:
        verify_model_name(self.name)
        if ":" not in self.reference.target:
            with self._naming_errors():
                verify_reference(self.reference)
        verify_allowed(self.reference, self.error_name, allow)

    def verify_function(self) -> None:
        if ":" in self.reference.target:
            with self._naming_errors():
                verify_arguments(self.reference, load_function(self.reference))

    def model(self, programs: dict[str, Program]) -> FleetModel:
        """The model; equal references share a program through `programs`."""
        with self._naming_errors():
            program = programs.get(str(self.reference)) or program_from_reference(self.reference)
        programs[str(self.reference)] = program
        if program.step.training is None:
            raise DocumentError(
                f"{self.error_name}: `{self.reference}` is a function, not a training step: it has no loss and no optimizer.",
                [_TRAINING_HINT if ":" in self.reference.target else "use a model with a training step, such as `gpt` or `mnist`"],
            )
        return FleetModel(self.name, program, **self.options)

    @contextmanager
    def _naming_errors(self) -> Iterator[None]:
        try:
            yield
        except WorkbenchError as error:
            raise DocumentError(f"{self.error_name}: {error.message}", error.ways_out) from None


def _verify_trace_count(drafts: list[_ModelDraft], name: str, allow: str | Iterable[str]) -> None:
    """Raises `DocumentError` if more than `MOST_TRACED` zoo programs would be traced without permission."""
    traced = {str(item.reference): item.reference for item in drafts if ":" not in item.reference.target}
    targets = [item.target for item in traced.values() if not is_allowed(item, allow)]
    if len(targets) > MOST_TRACED:
        most = max(set(targets), key=targets.count)
        raise DocumentError(
            f"{name} asks for {len(targets):,} programs of the zoo that are traced one by one, which takes long; a document may ask "
            f"for {MOST_TRACED} unless it is allowed more.",
            [
                "leave values out of a grid",
                f"if you want to wait, add `--allow {most}` to the command",
                f'or load it with `allow="{most}"`',
            ],
        )


def _expand_grid(entry: Mapping[str, Any], name: str) -> Iterator[_ModelDraft]:
    """One model per combination of the grid, the last argument varying fastest."""
    grid: Mapping[str, list[Any]] = entry.get("grid", {})
    arguments: Mapping[str, Any] = entry.get("arguments", {})
    if repeated := next((argument for argument in grid if argument in arguments), None):
        raise DocumentError(
            f"{name}, model `{entry['name']}`: `{repeated}` is in both `arguments` and `grid`.", ["leave it out of `arguments`"]
        )
    options = {key: value for key, value in entry.items() if key not in ("name", "program", "arguments", "grid", "cuts")}
    options["cuts"] = tuple(entry.get("cuts", ()))
    for values in product(*grid.values()):
        chosen = dict(zip(grid, values, strict=True))
        model_name = "-".join([entry["name"], *(f"{key}={_value_text(value)}" for key, value in chosen.items())])
        yield _ModelDraft(model_name, Reference(entry["program"], {**arguments, **chosen}), options, f"{name}, model `{model_name}`")


def _value_text(value: object) -> str:
    return value if isinstance(value, str) else json.dumps(value)
