"""Vectors for general optimizers: each is a candidate of its space, and each candidate has one."""

import random
from functools import cache
from math import log2

import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.search_vectors import CandidateVectors, Column
from workbench.models import build
from workbench.public_plan import Plan
from workbench.search.make_space import make_space
from workbench.search.neighbours import is_of_space
from workbench.search.plan_candidate import PlanCandidate

SPACES = {
    "every choice": ("gpt", "8 H100", {"wide": True, "layouts": "all", "most_examples": 4}),
    "experts": ("mixture", "TPU v5e 2x4", {"wide": True, "most_examples": 4}),
    "several sizes of a cluster": ("gpt", "8 H100", {"devices": (4, 6, 8), "most_examples": 4}),
    "no hardware": ("gpt", None, {"devices": 8, "wide": True, "most_examples": 2}),
    "stages that no schedule is for": ("gpt", "8 H100", {"schedules": ("interleaved",), "most_examples": 2}),
    "no stages": ("two_layer", "TPU v5e 2x4", {}),
}


@cache
def vectors_of(space: str) -> CandidateVectors:
    name, hardware, choices = SPACES[space]
    return CandidateVectors(make_space(Plan(build(name), "", hardware=hardware), **choices))


@cache
def candidates_of(space: str) -> dict[PlanCandidate, None]:
    return dict.fromkeys(vectors_of(space).space.candidates())


@pytest.mark.share(3)
@pytest.mark.compile
@pytest.mark.parametrize("space", SPACES)
@given(data=st.data())
def test_every_vector_is_a_candidate_of_the_space(space, data):
    vectors = vectors_of(space)
    vector = data.draw(st.tuples(*(st.integers(0, each.count - 1) for each in vectors.columns)))
    candidate = vectors.decode(vector)
    assert is_of_space(vectors.space, candidate)
    assert candidate in candidates_of(space)


@pytest.mark.share(3)
@pytest.mark.compile
@pytest.mark.parametrize("space", SPACES)
@given(data=st.data())
def test_every_candidate_has_a_vector(space, data):
    vectors = vectors_of(space)
    candidate = data.draw(st.sampled_from(list(candidates_of(space))))
    vector = vectors.encode(candidate)
    assert vectors.decode(vector) == candidate
    assert all(0 <= number < column.count for number, column in zip(vector, vectors.columns, strict=True))


@pytest.mark.parametrize("space", SPACES)
def test_a_vector_that_is_drawn_has_a_number_for_each_column(space):
    vectors, rng = vectors_of(space), random.Random(0)
    drawn = [vectors.draw(rng) for _ in range(50)]
    assert all(is_of_space(vectors.space, vectors.decode(each)) for each in drawn)
    assert len({*drawn}) > 1


def test_a_mesh_that_does_not_go_gives_way_to_the_nearest():
    vectors = vectors_of("every choice")
    names = [each.name for each in vectors.columns]
    numbers = {"stage": 2, "context": 2, "model": 1}  # 4 x 4 x 2 of 8 devices
    found = vectors.decode([numbers.get(name, 0) for name in names])
    asked = {"stage": 4, "context": 4, "model": 2}
    assert sum(abs(log2(asked[axis] / found.size(axis))) for axis in asked) == 2  # 32 devices are two doublings too many
    assert found.size("data") == 1


def test_words_that_do_not_go_give_way_to_the_next_and_positions_to_the_last():
    words = Column("layout", 3, ("a", "b", "c"), is_ordered=False)
    assert [words.value_of(number, ("a", "c")) for number in range(3)] == ["a", "c", "c"]
    assert [words.value_of(number, ("b",)) for number in range(3)] == ["b"] * 3
    positions = Column("micro_batches", 4)
    assert [positions.value_of(number, (24, 12)) for number in range(4)] == [24, 12, 12, 12]
    assert positions.number_of(12, (24, 12)) == 1


def test_micro_batches_are_counted_by_their_examples_and_the_words_of_every_mesh_by_their_place():
    columns = {each.name: each for each in vectors_of("every choice").columns}
    assert [*columns][:3] == ["stage", "context", "model"]
    assert columns["micro_batches"] == Column("micro_batches", 3)  # of 1, 2 and 4 examples
    assert {*columns["zero"].values} == {"no ZeRO", "zero_1", "zero_2", "zero_3"}
    assert "hardware" not in columns
    assert "hardware" in {each.name for each in vectors_of("several sizes of a cluster").columns}
