"""A plan has one figure for one thing: on the board in every tab, in the answers, in the pictures' texts and in the report."""

from functools import cache

import pytest

from tests.support.choosing import parametrize_drawn
from tests.support.shown_figures import disagreements, shown_figures
from workbench.core.pipeline_spec import PipelineSpec, micro_batch_counts
from workbench.core.program import Program
from workbench.errors import PipelineError, RecipeError
from workbench.models import ALL_MODELS, build
from workbench.public_plan import Plan
from workbench.recipes import find_recipe

RECIPES = ("", "data_parallel", "megatron", "sequence_parallel", "zero_1", "zero_3")
PIPELINES = (
    "",
    "schedule:gpipe",
    "schedule:1f1b remat:never",
    "schedule:1f1b remat:first_1",
    "schedule:interleaved chunks:2",
    "schedule:zero_bubble",
    "schedule:zb_v chunks:2 remat:never",
    "schedule:gpipe engine:spmd",
)
UNSTAGED = ("decoder_prefill", "decoder_decode", "mixture_prefill", "mixture_decode", "einsum")  # no cache is carried, no batch divided
CASES = [
    (model.name, recipe, pipeline)
    for model in ALL_MODELS
    for recipe in RECIPES
    for pipeline in (PIPELINES[:1] if model.name in (*UNSTAGED, "amoebanet") else PIPELINES)
]
SLOW = [("amoebanet", recipe, pipeline) for recipe in RECIPES for pipeline in PIPELINES[1:]]
"""A minute for one of them."""


def pytest_generate_tests(metafunc):
    parametrize_drawn(metafunc, "drawn", CASES, lambda case: case, ids=lambda case: " ".join(filter(None, case)), share=28)


@cache
def _program(model: str, pipelined: bool) -> Program:
    cells = {"cells": 6 if pipelined else 3} if model == "amoebanet" else {}
    return build(model, **({} if model == "einsum" else {"batch": 8}), **cells)


def _plan(model: str, recipe: str, pipeline: str) -> Plan:
    """The recipe where it applies, else the plan as it is; in as many micro-batches as the batch allows, at most four."""
    program = _program(model, bool(pipeline))
    spec = None
    if pipeline:
        counts = [count for count in micro_batch_counts(program) if count <= 4]
        spec = PipelineSpec.parse(f"stages:2 micro_batches:{max(counts)} {pipeline}")
    plan = Plan(program, "stage:2 data:2 model:2" if spec else "data:4 model:2", hardware="TPU v5e 2x4", pipeline=spec)
    try:
        return plan.apply(find_recipe(recipe).edit(plan)) if recipe else plan
    except RecipeError:
        return plan


@pytest.mark.compile
def test_no_two_figures_for_one_thing(drawn):
    verify_figures(_plan(*drawn))


@pytest.mark.compile
@pytest.mark.nightly
@pytest.mark.parametrize("case", SLOW, ids=" ".join)
def test_no_two_figures_for_one_thing_of_a_deep_network(case):
    verify_figures(_plan(*case))


def verify_figures(plan):
    if plan.pipeline is not None:
        try:
            _ = plan.report().stages
        except PipelineError as error:
            pytest.skip(error.message)
    found = shown_figures(plan)
    assert not disagreements(found)
    assert min(len(found[what]) for what in ("step",)) > 4
