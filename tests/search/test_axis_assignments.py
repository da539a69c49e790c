"""Axes on links as a choice of the search: distinct places, legal plans, and bounds that stay below the truth."""

from contextlib import suppress
from functools import cache

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support.search_bounds import verify_bounds
from workbench.core.mesh import Mesh
from workbench.errors import WorkbenchError
from workbench.hardware.axis_assignment_text import parse_axis_assignment
from workbench.hardware.axis_placement import physical_spans
from workbench.hardware.catalogue import parse_hardware
from workbench.models import build
from workbench.public_plan import Plan
from workbench.search.evaluator import Evaluator
from workbench.search.explain import list_counterfactuals
from workbench.search.make_space import make_space
from workbench.search.run_search import run_search
from workbench.search.search_space import SearchSpace, list_axis_assignments

HARDWARE = ("TPU v5e 4x4", "TPU v5p 2x4x4", "4 nodes of 8 H100", "8 H100")


@given(st.data())
def test_every_assignment_is_another_place(data):
    hardware = parse_hardware(data.draw(st.sampled_from(HARDWARE)))
    stage, model = data.draw(st.sampled_from((1, 2, 4))), data.draw(st.sampled_from((1, 2)))
    mesh = (("stage", stage), ("data", hardware.size // stage // model), ("model", model))
    large = Mesh(tuple(axis for axis in mesh if axis[1] > 1))
    texts = list_axis_assignments(mesh, hardware)
    places = [str(sorted(physical_spans(large, hardware, parse_axis_assignment(text)).items())) for text in texts]
    assert len({*places, str(sorted(physical_spans(large, hardware).items()))}) == len(texts) + 1


def test_the_nearer_axis_may_be_any():
    found = list_axis_assignments((("stage", 4), ("data", 2), ("model", 4)), parse_hardware("4 nodes of 8 H100"))
    assert any(text.endswith("stage:device") for text in found)
    assert any(text.endswith("data:device") for text in found)


@cache
def wide_space(hardware: str) -> tuple[SearchSpace, Evaluator, tuple]:
    plan = Plan(build("gpt"), "", hardware=hardware)
    space = make_space(plan, axis_assignments=True, most_examples=4, schedules=("1f1b", "interleaved"), remats=("none",))
    return space, Evaluator(space), tuple(each for each in space.candidates() if each.axis_assignment)


@pytest.mark.parametrize("hardware", ["TPU v5e 4x4", "2 nodes of 8 H100"])
@settings(max_examples=6)
@given(data=st.data())
def test_bounds_hold_wherever_the_axes_lie(hardware, data):
    _, evaluator, candidates = wide_space(hardware)
    candidate = data.draw(st.sampled_from(candidates))
    verify_bounds(evaluator, candidate)
    with suppress(WorkbenchError):
        assert str(evaluator.plan(candidate).axis_assignment) == candidate.axis_assignment


def test_a_search_over_the_links_is_never_worse_and_says_what_others_would_do():
    plan = Plan(build("two_layer"), "", hardware="2 nodes of 4 A100")
    best = {}
    for wide in (False, True):
        space = make_space(plan, axis_assignments=wide)
        evaluator = Evaluator(space)
        *_, last = run_search(space, within=600, evaluator=evaluator)
        assert last.is_complete
        best[wide] = last.best[1].seconds
    assert best[True] <= best[False]
    assert "every order of its axes on the links" in space.describe()
    candidate = next(each for each in space.candidates() if each.axis_assignment)
    others = [each.candidate for each in list_counterfactuals(evaluator, candidate) if each.decision == "mesh"]
    assert any(each.mesh == candidate.mesh and not each.axis_assignment for each in others)
