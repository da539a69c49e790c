"""Frozen weights: no gradient, no optimizer state, also with stages; low-rank adapters of them."""

import jax
import jax.numpy as jnp
import pytest

import workbench as wb
from workbench.core.tensor import Role
from workbench.errors import TraceError
from workbench.models.registry import build
from workbench.tracing import trace_training

WIDTH, RANK, LAYERS = 32, 2, 2
ADAPTERS = LAYERS * 2 * WIDTH * RANK  # numbers in the adapters


def init(key):
    def layer(key):
        base, down, up = (jax.random.normal(each, (WIDTH, WIDTH)) for each in jax.random.split(key, 3))
        return {"base": (8 * base).astype("int8"), "lora": {"a": down[:, :RANK] / 6, "b": up[:RANK]}}

    return [layer(each) for each in jax.random.split(key, LAYERS)]


def loss(params, batch):
    x = batch["x"]
    for number, weights in enumerate(params):
        with jax.named_scope(str(number)):
            x = jnp.tanh(x @ weights["base"].astype("float32") / 48 + (x @ weights["lora"]["a"]) @ weights["lora"]["b"])
    return jnp.square(x - batch["y"]).mean()


def program(**options):
    spec = jax.ShapeDtypeStruct((8, WIDTH), "float32")
    options = {"trained": "lora/*", **options}
    return trace_training(
        loss, jax.eval_shape(init, jax.random.key(0)), {"x": spec, "y": spec}, optimizer="adamw 1e-2", init=init, **options
    )


def test_only_trained_weights_have_state_and_are_returned():
    traced = program()
    roles = [each.role for each in traced.arguments]
    assert roles.count(Role.PARAMETER) == 3 * LAYERS
    assert sum(each.elements for each in traced.arguments if each.role is Role.OPTIMIZER_STATE) == 2 * ADAPTERS + 1
    assert {traced.arguments[argument].path for _, argument in traced.carried if roles[argument] is Role.PARAMETER} == {
        f"params/{layer}/lora/{name}" for layer in range(LAYERS) for name in "ab"
    }


def test_the_backward_pass_makes_no_gradient_of_a_frozen_weight():
    """Forward and input gradient of the second base, forward alone of the first; all three products of adapters."""
    base, small = 2 * 8 * WIDTH * WIDTH, 2 * 8 * WIDTH * RANK
    flops = wb.Plan(program(), "data:1", "").report().flops.unique
    assert flops == pytest.approx((2 * LAYERS - 1) * base + (2 * 3 * LAYERS - 1) * small)


def test_a_stage_keeps_gradients_and_state_of_its_adapters_alone():
    plan = wb.Plan(program(), "stage:2", "", pipeline="stages:2 micro_batches:2 schedule:1f1b")
    memory = plan.report().memory.by_role
    assert memory[Role.PARAMETER] == WIDTH * WIDTH + 4 * ADAPTERS // 2
    assert memory[Role.GRADIENT] == 4 * ADAPTERS // 2
    assert memory[Role.OPTIMIZER_STATE] == 2 * 4 * ADAPTERS // 2


@pytest.mark.compile
@pytest.mark.parametrize("schedule", ["1f1b", pytest.param("zero_bubble", marks=pytest.mark.nightly)])
def test_stages_with_frozen_weights_run_as_the_step_without_stages(schedule):
    from workbench.engine.mpmd.against_sequential import largest_error
    from workbench.engine.mpmd.mpmd_step import compile_mpmd

    plan = wb.Plan(program(), "stage:2", "", pipeline=f"stages:2 micro_batches:2 schedule:{schedule}")
    assert largest_error(compile_mpmd(plan)) < 1e-6


def test_patterns_that_match_no_weight_are_refused():
    with pytest.raises(TraceError, match="`trained` is `lora`, which matches none of the 6 parameters"):
        program(trained="lora")


@pytest.mark.parametrize(("base", "bits"), [("", 32), ("int8", 8), ("int4", 4)])
def test_adapters_of_a_decoder_are_all_that_it_trains(base, bits):
    traced = build("decoder", lora_rank=4, base=base)
    trained = [traced.arguments[argument] for _, argument in traced.carried if traced.arguments[argument].role is Role.PARAMETER]
    assert {each.path.rpartition("/")[2] for each in trained} == {f"{name}_{end}" for name in ("wqkv", "wo", "w1", "w2") for end in "ab"}
    held = next(each for each in traced.arguments if "mlp/w1" in each.path and "scale" not in each.path)
    assert held.bytes * 8 == held.elements * bits


@pytest.mark.nightly
@pytest.mark.compile
def test_stages_of_a_decoder_with_adapters_of_quantized_weights_run_as_the_step_without_stages():
    from workbench.engine.mpmd.against_sequential import largest_error
    from workbench.engine.mpmd.mpmd_step import compile_mpmd

    sizes = {"d_model": 16, "d_ff": 32, "kv_heads": 2, "q_per_kv": 1, "vocab": 32, "seq": 8, "batch": 4}
    traced = build("decoder", lora_rank=2, base="int8", lookup="gather", **sizes)
    plan = wb.Plan(traced, "stage:2", "", pipeline="stages:2 micro_batches:2 schedule:1f1b")
    assert largest_error(compile_mpmd(plan)) < 1e-4
