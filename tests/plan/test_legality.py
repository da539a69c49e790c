"""Mesh-TensorFlow's rules M3 to M7, and the examples of its README."""

import itertools

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from tests.support.programs import batch, mlp, parameter, program
from tests.support.strategies import DIMS, meshes
from workbench.core.layout import Layout
from workbench.core.mesh import Mesh
from workbench.core.sharding import Sharding
from workbench.errors import LayoutError
from workbench.plan.layout_legality import illegality_text, layout_errors, verify_layout
from workbench.public_plan import Plan

IMAGES = program(batch("image_batch", batch=100, rows=28, cols=28, channels=3))
PROCESSORS = Mesh("processor_rows:2 processor_cols:4")


def held_by(sharding: Sharding, shape: tuple[int, ...], mesh: Mesh, place: dict[str, int]) -> tuple[range, ...]:
    """The indices a processor holds, counted out by cutting each dimension axis by axis."""
    held = []
    for size, axes in zip(shape, sharding.dims, strict=True):
        indices = np.arange(size)
        for axis in axes or ():
            indices = np.split(indices, mesh[axis])[place[axis]]
        held.append(range(indices[0], indices[-1] + 1))
    return tuple(held)


# The README of mesh-tensorflow, "Example: layouts" (domain notes 1.2).
@pytest.mark.parametrize(
    ("rules", "local_shape"),
    [
        ("", (100, 28, 28, 3)),
        ("batch:processor_cols", (25, 28, 28, 3)),
        ("rows:processor_rows;cols:processor_cols", (100, 14, 7, 3)),
    ],
)
def test_the_readme_layouts_of_mesh_tensorflow_give_its_slices(rules, local_shape):
    plan = Plan(IMAGES, PROCESSORS, rules)
    assert plan.argument_shardings[0].local_shape((100, 28, 28, 3), PROCESSORS) == local_shape


def test_processors_0_3_and_1_3_both_hold_the_last_quarter_of_the_batch():
    sharding = Plan(IMAGES, PROCESSORS, "batch:processor_cols").argument_shardings[0]
    for row in (0, 1):
        held = held_by(sharding, (100, 28, 28, 3), PROCESSORS, {"processor_rows": row, "processor_cols": 3})
        assert held[0] == range(75, 100)
    assert sharding.replicas(PROCESSORS) == 2


def test_processor_0_1_holds_the_upper_half_and_the_second_quarter_of_the_columns():
    sharding = Plan(IMAGES, PROCESSORS, "rows:processor_rows;cols:processor_cols").argument_shardings[0]
    held = held_by(sharding, (100, 28, 28, 3), PROCESSORS, {"processor_rows": 0, "processor_cols": 1})
    assert held == (range(100), range(14), range(7, 14), range(3))


@pytest.mark.parametrize("rules", ["batch:processor_rows;rows:processor_rows", "channels:processor_rows"])
def test_the_illegal_layouts_of_the_readme_are_illegal(rules):
    with pytest.raises(LayoutError):
        Plan(IMAGES, PROCESSORS, rules)


def test_two_dimensions_may_share_an_axis_if_they_never_meet_in_a_tensor():
    apart = program(parameter("w", d_model=8, d_ff=8), parameter("q", d_model=8, heads=8))
    verify_layout(apart, Mesh("model:2"), Layout("d_ff:model; heads:model"))
    with pytest.raises(LayoutError):
        verify_layout(apart, Mesh("model:2"), Layout("d_ff:model; d_model:model"))


def test_an_override_can_part_two_dimensions_that_meet():
    both = program(parameter("w", d_model=8, d_ff=8))
    verify_layout(both, Mesh("model:2"), Layout("d_ff:model; d_model:model; w=[model, -]"))


def test_an_axis_of_one_device_splits_anything():
    verify_layout(IMAGES, Mesh("one:1"), Layout("channels:one"))


@given(meshes(max_axes=2, max_size=6), st.data())
def test_a_layout_is_legal_exactly_if_every_tensor_is_split_evenly_on_distinct_axes(mesh, data):
    sizes = data.draw(st.fixed_dictionaries({dim: st.integers(1, 12) for dim in DIMS}))
    pairs = list(itertools.pairwise(DIMS))
    subject = program(*(parameter(f"{a}_{b}", **{a: sizes[a], b: sizes[b]}) for a, b in pairs))
    assume(mesh.names)
    rules = data.draw(st.dictionaries(st.sampled_from(DIMS), st.sampled_from(mesh.names).map(lambda axis: (axis,)), max_size=4))
    layout = Layout(rules)
    on = {dim: layout.rule(dim) for dim in DIMS}
    distinct = all(not set(on[a]) & set(on[b]) for a, b in pairs)
    even = all(sizes[dim] % mesh[axis] == 0 for dim, (axis,) in layout.rules)
    assert (not list(layout_errors(subject, mesh, layout))) == (distinct and even)


def test_a_drop_is_refused_with_the_reason_before_it_is_made():
    plan = Plan(mlp(), "data:4 model:2", "batch:data; d_ff:model")
    assert illegality_text(plan.program, plan.mesh, plan.layout, "d_ff", ("data",)) is None
    reason = illegality_text(plan.program, plan.mesh, plan.layout, "d_model", ("model",))
    assert reason is not None
    with pytest.raises(LayoutError) as caught:
        plan.updated(layout=plan.layout.with_rule("d_model", ("model",)))
    assert caught.value.message == reason


def test_alike_layers_are_judged_once():
    layers = program(*(parameter(f"layers/{i}/w", d_model=6) for i in range(20)))
    assert len(list(layout_errors(layers, Mesh("model:4"), Layout("d_model:model")))) == 1


@pytest.mark.parametrize(
    ("layout", "meant"),
    [
        ("params/layers[0..1]/w=[-, data]", "params/layers/*/w"),
        ("params/layers[0,1]/w=[-, data]", "params/layers/*/w"),
    ],
)
def test_the_name_of_a_row_that_stands_for_layers_is_refused_with_the_pattern_that_means_it(layout, meant):
    layers = program(parameter("params/layers/0/w", d_model=8, d_ff=8), parameter("params/layers/1/w", d_model=8, d_ff=8))
    with pytest.raises(LayoutError) as caught:
        Plan(layers, "data:4", layout)
    assert caught.value.ways_out == (f"write `{meant}`, which matches all of them",)
    verify_layout(layers, Mesh("data:4"), Layout(f"{meant}=[-, data]"))


def test_a_plan_on_no_mesh_is_said_to_be_on_one_device():
    plan = Plan(mlp(), "")
    assert str(plan).endswith(" on one device: replicated")
