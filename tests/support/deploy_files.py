"""The container files of `docs/deploy`, read; no engine of containers is asked."""

import json
import shlex
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import yaml
from jsonschema import Draft7Validator, Draft201909Validator

ROOT = Path(__file__).parents[2]
DEPLOY = ROOT / "docs" / "deploy"
SCHEMAS = ROOT / "tests" / "team" / "deploy" / "schemas"


class Instruction(NamedTuple):
    """One of a Dockerfile, with its lines joined, and the stage that it is in, counted from 0; -1 before the first."""

    name: str
    text: str
    stage: int

    def words(self) -> list[str]:
        """What stands after the flags; of the JSON form its entries."""
        return json.loads(self.text) if self.text.startswith("[") else [each for each in self.text.split() if not each.startswith("--")]

    def flags(self) -> dict[str, str]:
        found = (each[2:].partition("=") for each in shlex.split(self.text, posix=False) if each.startswith("--"))
        return {name: value for name, _, value in found}


@cache
def dockerfile() -> tuple[Instruction, ...]:
    """The instructions of the Dockerfile."""
    lines = [line for line in (DEPLOY / "Dockerfile").read_text().splitlines() if line.strip() and not line.startswith("#")]
    text = "\n".join(lines).replace("\\\n", " ")
    found, stage = [], -1
    for line in text.splitlines():
        name, _, rest = line.strip().partition(" ")
        stage += name == "FROM"
        found.append(Instruction(name, " ".join(rest.split()), stage))
    return tuple(found)


def instructions_of(target: str) -> Iterator[Instruction]:
    """Those of a stage, after those of the stages that it begins with."""
    stages = {each.words()[-1]: each for each in dockerfile() if each.name == "FROM" and "AS" in each.words()}
    base = stages[target].words()[0]
    if base in stages and base != target:
        yield from instructions_of(base)
    yield from (each for each in dockerfile() if each.stage == stages[target].stage)


@cache
def compose() -> Mapping[str, Any]:
    return yaml.safe_load((DEPLOY / "compose.yaml").read_text())


@cache
def manifests() -> tuple[Mapping[str, Any], ...]:
    """What the kustomization lists, each object as its file has it."""
    folder = DEPLOY / "kubernetes"
    files = yaml.safe_load((folder / "kustomization.yaml").read_text())["resources"]
    return tuple(each for name in files for each in yaml.safe_load_all((folder / name).read_text()))


def manifest(kind: str, name: str = "workbench") -> Any:
    """The one object of a kind and a name."""
    (found,) = [each for each in manifests() if (each["kind"], each["metadata"]["name"]) == (kind, name)]
    return found


def compose_flaws(document: Any) -> list[str]:
    """What the compose specification has against it."""
    return _flaws(Draft201909Validator(_schema("compose-spec")), document)


def kubernetes_flaws(document: Any) -> list[str]:
    """What the description of the cluster's API has against an object; fields that it does not know are among that."""
    schema = _schema("kubernetes")
    place = schema["kinds"].get(f"{document['apiVersion']}/{document['kind']}")
    if place is None:
        return [f"{document['apiVersion']} {document['kind']} is none of {', '.join(schema['kinds'])}"]
    return _flaws(Draft7Validator({"$ref": place, "$defs": schema["$defs"]}), document)


def _flaws(validator: Any, document: Any) -> list[str]:
    return [f"{error.json_path}: {error.message}" for error in validator.iter_errors(document)]


@cache
def _schema(name: str) -> Any:
    return json.loads((SCHEMAS / f"{name}.json").read_text())
