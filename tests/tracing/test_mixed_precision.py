"""A float32 copy of two-byte parameters in the optimizer's state, and the type in which gradients of micro-batches are added up."""

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

import workbench as wb
from workbench.core.tensor import Role
from workbench.tracing.trace_training_step import keep_master


def bytes_of(program, role):
    return sum(each.bytes for each in program.arguments if each.role is role)


def test_a_common_mix_takes_two_two_and_twelve_bytes_a_parameter():
    program = wb.models.build("decoder").variant(precision=wb.Precision.parse("bf16 mixed"))
    count = sum(each.elements for each in program.arguments if each.role is Role.PARAMETER)
    assert bytes_of(program, Role.PARAMETER) == 2 * count
    assert bytes_of(program, Role.OPTIMIZER_STATE) == pytest.approx(12 * count, abs=8)
    assert str(program.precision) == "params=bfloat16,moments=float32,master=float32"
    assert wb.Precision.parse(str(program.precision)) == program.precision


def test_the_copy_moves_by_steps_that_two_bytes_cannot_hold():
    params, gradient = {"w": jnp.ones(4, jnp.bfloat16)}, {"w": jnp.ones(4, jnp.bfloat16)}
    optimizer = keep_master(optax.sgd(1e-3), "float32")
    state = optimizer.init(params)
    for _ in range(20):
        updates, state = optimizer.update(gradient, state, params)
        params = optax.apply_updates(params, updates)
    np.testing.assert_allclose(state["master"]["w"], 0.98, rtol=1e-5)
    assert jnp.all(params["w"] == jnp.bfloat16(0.98))
    plain = optax.apply_updates({"w": jnp.ones(4, jnp.bfloat16)}, jax.tree.map(lambda each: -1e-3 * each, gradient))
    assert jnp.all(plain["w"] == 1)


def test_moments_beside_a_copy_have_the_type_that_is_asked_for():
    program = wb.models.build("decoder").variant(precision=wb.Precision.parse("params=bfloat16,moments=bfloat16,master=float32"))
    types = {(each.path.split("/")[1], each.dtype) for each in program.arguments if each.role is Role.OPTIMIZER_STATE and each.shape}
    assert types == {("master", "float32"), ("moments", "bfloat16")}


def test_the_runtime_counts_no_second_copy():
    def state(precision, runtime):
        program = wb.models.build("decoder", params="bfloat16").variant(precision=wb.Precision.parse(precision))
        return wb.Plan(program, "data:2", "batch:data", hardware=f"2 H100{runtime}").report().memory.by_role[Role.OPTIMIZER_STATE]

    assert state("bf16 mixed", ", Megatron Core") == pytest.approx(state("bf16 mixed", ""), rel=1e-3)
    assert state("moments=float32", ", Megatron Core") == pytest.approx(state("bf16 mixed", ""), rel=1e-3)


def test_sums_of_gradients_in_two_bytes_take_half():
    def gradients(precision):
        program = wb.models.build("decoder", params="bfloat16").variant(precision=wb.Precision.parse(precision))
        plan = wb.Plan(program, "stage:2", "", hardware="2 H100", pipeline="stages:2 micro_batches:4")
        return plan.report().fullest.memory.by_role[Role.GRADIENT]

    assert gradients("sums=bfloat16") == gradients("") // 2
