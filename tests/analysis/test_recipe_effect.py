"""What is said of a recipe that makes a plan worse."""

import warnings

import pytest

from tests.support.styles import build_style
from workbench.analysis.analyze import analyze
from workbench.analysis.recipe_effect import RecipeWarning, recipe_drawback
from workbench.models import build
from workbench.public_plan import Plan
from workbench.recipes import find_recipe


def test_a_recipe_that_makes_the_step_longer_warns():
    plan = Plan(build_style("residual_mlp"), "model:4", hardware="4 H100")
    with pytest.warns(
        RecipeWarning, match=r"^Megatron tensor parallel makes the step \d+% longer, .* µs to .* µs; a device holds .* less\."
    ):
        after = plan.recipe("megatron")
    before, longer = analyze(plan), analyze(after)
    assert longer.step_time.total > 1.25 * before.step_time.total
    assert longer.memory.peak < before.memory.peak


def test_a_recipe_that_makes_the_step_shorter_is_silent_and_so_is_one_that_saves_memory():
    plan = Plan(build("gpt", preset="gpt3-small", batch=8, layers=1), "data:8", hardware="8 H100")
    with warnings.catch_warnings():
        warnings.simplefilter("error", RecipeWarning)
        after = plan.recipe("data_parallel")
        assert analyze(after).step_time.total < analyze(plan).step_time.total
        sharded = after.recipe("zero_3")
    assert analyze(sharded).memory.peak < analyze(after).memory.peak


def test_without_hardware_more_work_of_a_device_is_the_drawback():
    program = build_style("residual_mlp")
    split, whole = (analyze(Plan(program, "data:2 model:4", layout)) for layout in ("batch:data; d_ff:model", "batch:data"))
    recipe = find_recipe("megatron")
    assert recipe_drawback(split, whole, recipe).startswith(
        "Megatron tensor parallel makes each device compute 3.5 times as much; a device holds"
    )
    assert recipe_drawback(whole, split, recipe) == ""
    assert recipe_drawback(whole, whole, find_recipe("zero_3")).startswith(
        "ZeRO 3 (fully sharded) saves no memory here: a device still needs"
    )
