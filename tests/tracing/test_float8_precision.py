"""`float8` as a precision of any plan: which products it is for, that they are those of a model's own argument, and what a report says."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import workbench as wb
from workbench.core.precision import Precision
from workbench.errors import PrecisionError
from workbench.models.registry import build

FLOAT8 = Precision.parse("float8")


def products_of(program):
    """The scopes of the products of the forward pass, in float8 and not."""
    forward = [each.path.split("/")[:-1] for each in program.operations if each.kind == "dot_general" and not each.path.startswith("grad/")]
    scaled = ["/".join(path[:-1]) for path in forward if path[-1:] == ["scaled_product"]]
    return scaled, ["/".join(path) for path in forward if path[-1:] != ["scaled_product"]]


def layers_loss(params, x):
    """A projection, two layers with a router, a head: as unmarked code has them."""
    x = x @ params["first"]
    for weights in params["layers"]:
        with jax.named_scope("router"):
            chosen = jax.lax.top_k(jax.nn.softmax(x @ weights["router"]), 2)[0].sum(-1, keepdims=True)
        with jax.named_scope("up"):
            x = x + chosen * jnp.tanh(x @ weights["up"])
    with jax.named_scope("head"):
        return jnp.square(x @ params["head"]).mean()


def specs(width=32, layers=2):
    def weight(*shape):
        return jax.ShapeDtypeStruct(shape, "float32")

    block = {"router": weight(width, 16), "up": weight(width, width)}
    return {"first": weight(16, width), "layers": [block] * layers, "head": weight(width, 16)}


def trace_layers(**sizes):
    return wb.trace_training(layers_loss, specs(**sizes), jax.ShapeDtypeStruct((16, 16), "float32"), optimizer="sgd")


def test_without_layers_all_but_the_first_the_last_and_routers_are_in_float8():
    scaled, left = products_of(trace_layers().variant(precision=FLOAT8))
    assert scaled == ["up", "up"]
    assert sorted(left) == ["", "head", "router", "router"]


def test_widths_that_the_units_do_not_multiply_are_refused():
    with pytest.raises(PrecisionError) as caught:
        trace_layers(width=24).variant(precision=FLOAT8)
    assert caught.value.message == "`layers_loss` has no weight product in its layers that can be computed in float8."
    assert "use widths that are multiples of 16" in caught.value.ways_out


@pytest.mark.parametrize("model", ["gpt", "decoder", "mixture", "t5"])
def test_products_of_weights_in_layers_are_in_float8_and_attention_and_heads_are_not(model):
    scaled, left = products_of(build(model).variant(precision=FLOAT8))
    assert scaled
    assert any("head" in path or "logits" in path for path in left)
    assert not any("scores" in path or "router" in path or "mix" in path.split("/") for path in scaled)


@pytest.mark.parametrize("scaling", ["tensorwise", "rowwise"])
def test_the_edit_computes_what_the_argument_of_the_decoder_does(scaling):
    sizes = {"d_model": 32, "d_ff": 64, "layers": 2}
    by_argument = build("decoder", **sizes, float8=scaling)
    by_edit = build("decoder", **sizes).variant(precision=Precision(products=scaling))
    arguments = by_argument.step.initialize(jax.random.key(0), by_argument.step.given), by_argument.step.feed(0)
    results = [jax.jit(program.step.call)(*arguments[0], *arguments[1]) for program in (by_argument, by_edit)]
    for ours, theirs in zip(*results, strict=True):
        np.testing.assert_allclose(np.asarray(ours, np.float32), np.asarray(theirs, np.float32), rtol=2e-2, atol=1e-6)


def test_the_report_names_what_is_left_and_a_chip_without_units():
    program = build("decoder", preset="llama3-8b", layers=16).variant(precision=FLOAT8)
    plans = {chip: wb.Plan(program, "data:8", "batch:data", hardware=f"8 {chip}") for chip in ("H100", "A100")}
    reports = {chip: plan.report() for chip, plan in plans.items()}
    row = next(line for line in str(reports["H100"]).splitlines() if "products in float8" in line)
    assert "4 of 7" in row
    assert "head" in str(reports["H100"])
    assert "A100-80GB has no units for float8" in " ".join(str(reports["A100"]).split())
    plain = plans["H100"].updated(program=program.variant(precision=Precision())).report()
    assert reports["H100"].step_time.arithmetic < 0.75 * plain.step_time.arithmetic


def test_a_plan_in_float8_is_written_and_read():
    plan = wb.Plan(build("decoder"), "data:8", "batch:data")
    edited = plan.updated(program=plan.program.variant(precision=Precision.parse("bf16 mixed, float8 rowwise")))
    assert Precision.parse(str(edited.program.precision)) == edited.program.precision
    assert "float8 rowwise" in str(edited)


def test_a_function_without_a_gradient_has_products_in_float8():
    def apply(params, x):
        return jax.lax.scan(lambda x, w: (jnp.tanh(x @ w), None), x, params)[0]

    program = wb.trace(apply, jax.ShapeDtypeStruct((4, 32, 32), "float32"), jax.ShapeDtypeStruct((16, 32), "float32"))
    assert products_of(program.variant(precision=FLOAT8))[0]
