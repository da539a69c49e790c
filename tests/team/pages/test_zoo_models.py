"""The zoo as the pages have it, which cannot import it."""

from workbench.documents import parse_plan
from workbench.models.registry import ALL_MODELS
from workbench.team.pages.zoo_models import ZOO_MODELS, zoo_choices, zoo_document


def test_the_models_of_the_form_are_the_zoo():
    shown = [(each.name, each.about, each.presets) for each in ZOO_MODELS]
    assert shown == [(each.name, each.about, tuple(each.presets)) for each in ALL_MODELS]


def test_a_choice_is_a_plan_document():
    values = [value for value, _ in zoo_choices()]
    assert len(values) == len(set(values)) > 60
    tiny = next(value for value in values if '"gpt tiny"' in value)
    plan = parse_plan(zoo_document(tiny, "4"))
    assert (plan.name, str(plan.mesh)) == ("gpt tiny", "data:4")
