"""The models of the zoo, for the form that begins with one: the server itself cannot import them. They are in `zoo_models.json`,
which the test of this module holds against the registry, and writes anew with `--update-golden`."""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class ZooModel:
    """A model by its name, what it is, and its presets."""

    name: str
    about: str
    presets: tuple[str, ...] = ()


ZOO_MODELS = tuple(
    ZooModel(each["name"], each["about"], tuple(each["presets"]))
    for each in json.loads(Path(__file__).with_name("zoo_models.json").read_text(encoding="utf-8"))
)


def zoo_choices() -> Iterator[tuple[str, str]]:
    """The choices of the form: a plan's name and program as its document has them, and what people read."""
    for model in ZOO_MODELS:
        yield _begun(model.name), f"{model.name}: {model.about}"
        for preset in model.presets:
            yield _begun(model.name, preset), f"{model.name}, preset {preset}"


def zoo_document(begun: str, devices: str) -> str:
    """The document of a choice, on so many devices along one mesh axis."""
    ends = '{"format": "sharding-workbench.plan", "version": 1, ', f', "mesh": [["data", {devices}]], "layout": {{"rules": {{}}}}}}'
    return begun.join(ends)


def _begun(target: str, preset: str = "") -> str:
    program = {"target": target, "arguments": {"preset": preset} if preset else {}}
    return json.dumps({"name": f"{target} {preset}".strip(), "program": program})[1:-1]
