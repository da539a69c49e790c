"""Nine rows on eight devices: padding is told, and reductions over it are right when they run."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from workbench.engine.spmd.compiled_step import compile_step
from workbench.engine.spmd.device_mesh import host_value
from workbench.plan.edits import ShardDim
from workbench.plan.mesh_edits import ResizeAxis
from workbench.public_plan import Plan
from workbench.tracing import trace

X = np.random.default_rng(0).normal(size=(9, 4)).astype(np.float32) - 3.0  # all below zero: padding with zeros would be the maximum


def reductions(x):
    rows = jnp.sin(x)
    return rows.mean(0), rows.max(0), jax.nn.softmax(rows, axis=0), jnp.cumsum(rows, 0), rows.T @ rows


@pytest.fixture(scope="module")
def plan():
    program = trace(reductions, jax.ShapeDtypeStruct(X.shape, X.dtype), dims={"x": "row column"}, name="uneven")
    return Plan(program, "m:8", "@sin=[m, -]")


def test_masked_reductions_over_nine_rows_on_eight_devices_are_those_of_one_device(plan):
    step = compile_step(plan)
    arguments = [jax.device_put(X, step.shardings[0])]
    for ours, expected in zip(step.call(*arguments), reductions(X), strict=True):
        np.testing.assert_allclose(host_value(ours), expected, rtol=1e-5, atol=1e-6)


def test_the_waste_of_nine_rows_on_eight_devices_is_told_with_the_sizes_that_divide(plan):
    padding = next(each for each in plan.report().padding if each.path == "sin")
    assert (padding.part, padding.slots, padding.idle, padding.nearest) == (2, 16, 3, (8, 16))
    assert padding.bytes == 2 * 4 * 4
    assert padding.share == pytest.approx(7 / 16)
    assert "8 parts of 2, 16 slots for 9, 3 of them empty" in padding.arithmetic
    assert padding.way_out == "8 or 16 divide by 8"
    assert "row=9" in str(plan.report())


def test_products_spend_work_on_padding(plan):
    worked = [each for each in plan.report().padding if each.flops]
    assert all(0 < each.wasted_flops < each.flops for each in worked)


def test_suggested_mesh_sizes_leave_nothing_padded(plan):
    (note,) = [each for each in plan.report().diagnostics if each.kind == "padding"]
    assert "44% of its 32 B on each device are padding" in note.message
    assert ResizeAxis("m", 9) in note.edits
    for edit in note.edits:
        assert not [each for each in plan.apply(edit).report().padding if each.path == "sin"], edit


def test_what_divides_has_no_padding(plan):
    even = plan.updated(layout="@sin=[-, m]", mesh="m:4")
    assert even.report().padding == ()
    assert ShardDim("row") not in [edit for note in even.report().diagnostics for edit in note.edits]
