"""The zoo as the pages have it, which cannot import it."""

import json
from pathlib import Path

import pytest

from workbench.documents import parse_plan
from workbench.errors import HardwareError, MeshError
from workbench.hardware.catalogue import parse_hardware
from workbench.models.registry import ALL_MODELS
from workbench.team.access import MissingError
from workbench.team.pages import gallery_pages
from workbench.team.pages.gallery_pages import ZOO_MODELS, zoo_choices, zoo_document

LIST = Path(gallery_pages.__file__).with_name("zoo_models.json")


def test_the_models_of_the_form_are_the_zoo(pytestconfig):
    models = [{"name": each.name, "about": each.about, "presets": list(each.presets)} for each in ALL_MODELS]
    listed = "[\n" + ",\n".join(f" {json.dumps(each)}" for each in models) + "\n]\n"
    if pytestconfig.getoption("--update-golden"):
        LIST.write_text(listed, encoding="utf-8")
    assert LIST.read_text(encoding="utf-8") == listed, "the zoo has changed: run pytest --update-golden"
    assert [each["name"] for each in ZOO_MODELS] == [each.name for each in ALL_MODELS]


def test_a_choice_is_a_plan_document():
    values = [value for value, _ in zoo_choices()]
    assert len(values) == len(set(values)) > 60
    plan = parse_plan(zoo_document({"program": "gpt tiny", "devices": "4"}))
    assert (plan.name, str(plan.mesh), plan.hardware) == ("gpt tiny", "data:4", None)
    on_hardware = parse_plan(zoo_document({"program": "gpt tiny", "devices": " 2 x p5.48xlarge "}))
    assert (str(on_hardware.mesh), on_hardware.hardware) == ("data:16", parse_hardware("2 x p5.48xlarge"))


@pytest.mark.parametrize(
    ("program", "devices", "error"),
    [
        ("two_layer", "8 H1OO", HardwareError),
        ("two_layer", "", HardwareError),
        ("two_layer", "0", MeshError),
        ("two_layer", "9" * 5000, MeshError),
        ('gpt", "x": "', "8", MissingError),
        ("os:system", "8", MissingError),
    ],
)
def test_another_model_and_impossible_devices_are_refused(program, devices, error):
    with pytest.raises(error):
        zoo_document({"program": program, "devices": devices})
