"""Fleet files: which models to train together, on what, in TOML or JSON. A grid stands for one model a combination.

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
import tomllib
from collections.abc import Iterator, Mapping
from functools import cache
from itertools import product
from pathlib import Path
from typing import Any

from workbench.documents.programs import program_from_reference
from workbench.errors import DocumentError, FleetError, WorkbenchError, unknown_name
from workbench.multimodel.fleet import Fleet, FleetModel
from workbench.program import Program, Reference
from workbench.units import parse_bytes

VERSION = 1
_SCHEMA = Path(__file__).with_name("fleet.schema.json")
_FORMS = ("write it as README.md shows", "name it *.toml or *.json")


def load_fleet(path: str | Path) -> Fleet:
    """Read a fleet file, JSON if its name ends so, else TOML. A relative `folder` lies beside it.

    Raises `DocumentError` for a file that cannot be read, has a field that is not there or of the wrong kind, or names a program that
    cannot be built; `FleetError` for models that cannot be trained together.
    """
    path = Path(path)
    try:
        text = path.read_text(encoding="utf-8")
    except OSError as error:
        raise DocumentError(f"`{path}` cannot be read: {error.strerror or error}.", ["check the path"]) from None
    except UnicodeDecodeError:
        raise DocumentError(f"`{path}` is no fleet file: it is not text in UTF-8.", _FORMS) from None
    fleet = parse_fleet(text, f"`{path}`", is_json=path.suffix == ".json")
    return fleet if fleet.folder is None else fleet.updated(folder=path.parent / fleet.folder)


def parse_fleet(text: str, name: str = "The text", *, is_json: bool = False) -> Fleet:
    """The fleet of a text; `name` is what errors call it. Raises what `load_fleet` does."""
    document = _parsed(text, name, is_json=is_json)
    _verify_fields(document, name)
    if problem := _schema_problem(document):
        raise DocumentError(f"{name} is no valid fleet file: {problem}.", ["mend that entry"])
    _verify_names(document["models"], name)
    models = tuple(model for entry in document["models"] for model in _models(entry, name))
    options = {key: value for key, value in document.items() if key not in ("models", "version")}
    if "memory" in options:
        options["memory"] = _memory(options["memory"], name)
    if "folder" in options:
        options["folder"] = Path(options["folder"])
    return Fleet(models, **options)


def _parsed(text: str, name: str, *, is_json: bool) -> dict[str, Any]:
    try:
        document = json.loads(text) if is_json else tomllib.loads(text)
    except (ValueError, RecursionError) as error:
        raise DocumentError(f"{name} is not {'JSON' if is_json else 'TOML'}: {error}.", _FORMS) from None
    if not isinstance(document, dict):
        raise DocumentError(f"{name} is no fleet file: it holds no fields.", _FORMS)
    return document


def _verify_fields(document: Mapping[str, Any], name: str) -> None:
    """A field that is not there is told with the nearest one that is, before the schema says less of it."""
    schema = json.loads(_SCHEMA.read_text(encoding="utf-8"))["properties"]
    entries = document.get("models", ())
    fields = schema["models"]["items"]["properties"]
    levels = [(name, document, schema)]
    if isinstance(entries, list):
        levels += [(f"{name}, model {_called(place, each)}", each, fields) for place, each in enumerate(entries) if isinstance(each, dict)]
    for whose, record, known in levels:
        for key in record:
            if key not in known:
                message, ways_out = unknown_name("field", key, (each for each in known if each != "version"))
                raise DocumentError(f"{whose}: {message}", ways_out)


def _called(place: int, entry: Mapping[str, Any]) -> str:
    return f"`{entry['name']}`" if isinstance(entry.get("name"), str) else str(place + 1)


def _schema_problem(document: Mapping[str, Any]) -> str | None:
    """Where a document departs from the schema, and how."""
    from jsonschema.exceptions import best_match

    error = best_match(_validator().iter_errors(document))
    if error is None:
        return None
    text: str = error.message
    return f"at `{error.json_path.removeprefix('$.')}`, {text if len(text) <= 200 else f'{text[:120]} … {text[-60:]}'}"


@cache
def _validator() -> Any:
    from jsonschema import Draft202012Validator

    return Draft202012Validator(json.loads(_SCHEMA.read_text(encoding="utf-8")))


def _verify_names(entries: list[dict[str, Any]], name: str) -> None:
    names = [each["name"] for each in entries]
    if twice := next((each for each in names if names.count(each) > 1), None):
        raise FleetError(
            f"{name}: {names.count(twice)} models are named `{twice}`.",
            [f"name the second one `{twice}_2`, say", "give one model a `grid` instead"],
        )


def _memory(value: str | int, name: str) -> int:
    found = value if isinstance(value, int) else parse_bytes(value)
    if found is None:
        raise DocumentError(f'{name}: "{value}" is no amount of memory.', ['write "2 GiB", "512 MiB" or a number of bytes'])
    return found


def _models(entry: Mapping[str, Any], name: str) -> Iterator[FleetModel]:
    """One model, or one a combination of its grid, the last argument varying fastest."""
    grid: Mapping[str, list[Any]] = entry.get("grid", {})
    given: Mapping[str, Any] = entry.get("arguments", {})
    if twice := next((each for each in grid if each in given), None):
        raise DocumentError(
            f"{name}, model `{entry['name']}`: `{twice}` stands in `arguments` and in `grid`.", ["leave it out of `arguments`"]
        )
    options = {key: value for key, value in entry.items() if key not in ("name", "program", "arguments", "grid", "cuts")}
    for values in product(*grid.values()):
        chosen = dict(zip(grid, values, strict=True))
        called = "-".join([entry["name"], *(f"{key}={_shown(value)}" for key, value in chosen.items())])
        program = _program(Reference(entry["program"], {**given, **chosen}), f"{name}, model `{called}`")
        yield FleetModel(called, program, cuts=tuple(entry.get("cuts", ())), **options)


def _shown(value: object) -> str:
    return value if isinstance(value, str) else json.dumps(value)


def _program(reference: Reference, whose: str) -> Program:
    try:
        program = program_from_reference(reference)
    except WorkbenchError as error:
        raise DocumentError(f"{whose}: {error.message}", error.ways_out) from None
    if program.step.training is None:
        raise DocumentError(
            f"{whose}: `{reference}` is a function and no training step: it has no loss and no optimiser.",
            ["end it with `return wb.trace_training(...)`"],
        )
    return program
