"""The space of a search: what it counts is what it lists, and what it lists is legal by its numbers."""

from dataclasses import replace
from functools import cache
from math import prod
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from workbench.core.pipeline_spec import MOST_TASKS, PipelineSpec
from workbench.models import build
from workbench.public_plan import Plan
from workbench.search.make_space import make_space
from workbench.search.neighbours import is_of_space
from workbench.search.plan_candidate import NO_ZERO, WHOLE
from workbench.search.search_space import ZEROS, SearchSpace

NAMES = ("gpipe", "1f1b", "interleaved", "zero_bubble", "zb_v", "breadth_first")


@cache
def gpt_space() -> SearchSpace:
    return make_space(Plan(build("gpt"), "", hardware="TPU v5e 2x4"), layouts=("replicated", "megatron"))


@st.composite
def choices(draw: st.DrawFn) -> dict[str, Any]:
    """Choices of a space; nothing of them is planned."""
    blocks = draw(st.integers(1, 26))
    return {
        "hardware": tuple(
            ("", size) for size in draw(st.lists(st.sampled_from((1, 2, 6, 8, 16, 48)), min_size=1, max_size=2, unique=True))
        ),
        "zeros": draw(st.sampled_from(((NO_ZERO,), ZEROS))),
        "remats": draw(st.sampled_from((("none",), ("none", "full")))),
        "schedules": tuple(draw(st.lists(st.sampled_from(NAMES), max_size=3, unique=True))),
        "batch": draw(st.sampled_from((1, 6, 16, 96, 4096))),
        "blocks": blocks,
        "layers": draw(st.integers(1, blocks)),
        "most_examples": draw(st.integers(1, 16)),
        "most_stages": draw(st.integers(1, 64)),
    }


def test_a_space_says_what_is_to_choose_from():
    space = replace(gpt_space(), hardware=(("", 1),), most_examples=1)
    assert space.describe().startswith("all meshes of 1 device over ")
    assert "; micro-batches of 1 example a replica; " in space.describe()
    several = replace(space, hardware=(("", 64), ("", 1024), ("", 2048)), most_examples=4).describe()
    assert several.startswith("all meshes of 64, 1,024 or 2,048 devices over ")
    assert "; micro-batches of 1 to 4 examples a replica; " in several


@settings(max_examples=60)
@given(chosen=choices())
def test_a_space_has_as_many_candidates_as_it_lists(chosen):
    space = replace(gpt_space(), **chosen)
    candidates = list(space.candidates())
    assert len(candidates) == len({*candidates}) == space.size
    assert f"{space.size:,} combinations" in space.describe()


@settings(max_examples=60)
@given(chosen=choices())
def test_what_a_space_lists_is_legal_by_its_numbers(chosen):
    space = replace(gpt_space(), **chosen)
    for each in space.candidates():
        stages, examples = each.size("stage"), space.batch // each.size("data")
        assert prod(size for _, size in each.mesh) in {size for _, size in space.hardware}
        assert space.batch % (each.size("data") * each.micro_batches) == 0
        assert examples // each.micro_batches <= space.most_examples
        assert stages * each.chunks <= max(space.blocks, 1)
        assert each.zero == NO_ZERO or each.size("data") > 1
        assert (each.schedule == WHOLE) == (stages == 1 and each.micro_batches == 1)
        if each.schedule != WHOLE:
            assert PipelineSpec(stages, each.micro_batches, each.schedule, each.chunks).virtual_stages * each.micro_batches <= MOST_TASKS
        assert is_of_space(space, each)


def test_a_schedule_with_too_many_tasks_does_not_take_its_neighbours_away():
    space = replace(gpt_space(), batch=1536, blocks=99, layers=96, schedules=("1f1b", "interleaved"), hardware=(("", 2048),))
    core = next(each for each in space.cores() if each.size("stage") == 32 and each.size("data") == 2)
    names = {(each.schedule, each.chunks) for each in space.schedules_of(core, 768)}
    assert names == {("1f1b", 1)}
    assert {(each.schedule, each.chunks) for each in space.schedules_of(core, 96)} == {("1f1b", 1), ("interleaved", 3)}


@pytest.mark.parametrize("name", ["zero", "remat", "schedule", "micro_batches", "mesh", "layout"])
def test_a_candidate_describes_each_decision(name):
    candidate = next(each for each in gpt_space().candidates() if each.size("stage") > 1 and each.zero != NO_ZERO)
    assert candidate.describe(name) in str(candidate)
