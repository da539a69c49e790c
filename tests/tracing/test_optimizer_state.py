"""Names of the optimizer's state: a parameter's dimensions where it has them, inferred where it is factored, none for placeholders."""

from dataclasses import replace
from functools import partial

import jax
import jax.numpy as jnp
import optax
import optax.contrib
import pytest

from workbench.core.tensor import Role
from workbench.models import gpt
from workbench.models.decoder import decoder, decoder_weights
from workbench.models.decoder.decoder_config import PRESETS as DECODERS
from workbench.models.gpt_config import PRESETS as GPTS
from workbench.public_plan import Plan
from workbench.recipes import list_recipes
from workbench.tracing import trace_training

S = jax.ShapeDtypeStruct
FACTORED = optax.adafactor(1e-3, min_dim_size_to_factor=8)
MATRICES = {"in": "d_model d_ff", "out": "d_ff d_model"}


def residual_blocks(params, x):
    def block(x, weights):
        return x + jnp.tanh(x * weights["scale"] @ weights["in"]) @ weights["out"], None

    if isinstance(params["layers"], dict):
        return jax.lax.scan(block, x, params["layers"])[0].sum()
    for weights in params["layers"]:
        x, _ = block(x, weights)
    return x.sum()


def program_of(optimizer, *, scan=False, **names):
    """Two blocks of a normalisation's scale and two matrices, 16 wide, 32 inside."""
    stack, words, at = ((2,), "layers ", "layers") if scan else ((), "", "layers/*")
    block = {"scale": S((*stack, 16), "float32"), "in": S((*stack, 16, 32), "float32"), "out": S((*stack, 32, 16), "float32")}
    given = names or {f"{at}/{path}": words + text for path, text in {"scale": "d_model", **MATRICES}.items()}
    params = {"layers": block if scan else [block, block]}
    return trace_training(residual_blocks, params, S((8, 16), "float32"), optimizer=optimizer, dims={"batch": "batch ...", **given})


def state_of(program):
    """What a block's state is named, by the part of its path behind the layer's number."""
    return {
        each.path.removeprefix("opt_state/0/").replace("layers/1/", "").replace("layers/", ""): each.dims
        for each in program.arguments
        if each.role is Role.OPTIMIZER_STATE and "layers/0" not in each.path
    }


@pytest.mark.parametrize("scan", [True, False], ids=["scanned", "unrolled"])
def test_factored_rows_and_columns_are_named_and_placeholders_are_not(scan):
    named, stack = state_of(program_of(FACTORED, scan=scan)), ("layers",) if scan else ()
    assert named["v_row/in"] == named["v_row/out"] == (*stack, "d_model")  # the smaller of the two
    assert named["v_col/in"] == named["v_col/out"] == (*stack, "d_ff")
    assert named["v/scale"] == (*stack, "d_model")
    placeholders = [named[path] for path in ("v_row/scale", "v_col/scale", "v/in", "v/out")]
    assert all(dim.startswith("d1") for (dim,) in placeholders)


def test_a_pattern_of_any_rank_does_not_name_a_column_after_the_rows():
    named = state_of(program_of(FACTORED, **{"in": "d_model ...", "out": "... d_model"}))
    assert named["v_row/in"] == named["v_row/out"] == ("d_model",)
    assert named["v_col/in"] == named["v_col/out"] == ("d_ff",)


def test_state_can_be_named_by_its_own_path():
    named = state_of(program_of(FACTORED, **MATRICES, **{"v_col/layers/*/in": "hidden", "opt_state/0/v/layers/*/out": "nothing"}))
    assert (named["v_col/in"], named["v/out"]) == (("hidden",), ("nothing",))


OPTIMIZERS = {
    "adafactor": FACTORED,
    "adafactor with momentum": optax.adafactor(1e-3, min_dim_size_to_factor=8, momentum=0.9),
    "adamw": optax.adamw(1e-3),
    "lion": optax.lion(1e-3),
    "sm3": optax.sm3(1e-3),
    "novograd": optax.novograd(1e-3),
    "muon": optax.contrib.muon(1e-3),
    "galore": optax.contrib.galore(1e-3, rank=4),
    "lbfgs": optax.scale_by_lbfgs(),
    "hyperparameters": optax.inject_hyperparams(optax.adam)(learning_rate=1e-3),
    "several steps": optax.MultiSteps(FACTORED, 4).gradient_transformation(),
    "masked": optax.masked(FACTORED, lambda params: jax.tree.map(lambda each: each.ndim > 1, params)),
    "two": optax.multi_transform(
        {"factored": FACTORED, "adam": optax.adam(1e-3)},
        lambda params: jax.tree.map(lambda each: "factored" if each.shape[-1] == 32 else "adam", params),
    ),
}


@pytest.mark.compile
@pytest.mark.parametrize("scan", [True, False], ids=["scanned", "unrolled"])
@pytest.mark.parametrize("optimizer", OPTIMIZERS.values(), ids=list(OPTIMIZERS))
def test_a_name_of_a_parameter_has_one_size_whatever_the_optimizer_keeps(optimizer, scan):
    program = program_of(optimizer, scan=scan)
    of_parameters = {dim for each in program.arguments if each.role is Role.PARAMETER for dim in each.dims}
    assert of_parameters == {"d_model", "d_ff"} | ({"layers"} if scan else set())
    assert {dim: sizes for dim, sizes in program.dims.items() if dim in of_parameters and len(sizes) > 1} == {}


def zoo_program(model, scan):
    """A tiny model of the zoo, two layers, trained by Adafactor with its usual threshold: its matrices are too small to be factored."""
    module, config = {"gpt": (gpt, GPTS), "decoder": (decoder, DECODERS)}[model]
    config = replace(config["tiny"], layers=2)
    names = (gpt if model == "gpt" else decoder_weights).dims(config, scan=scan)
    params = jax.eval_shape(partial((gpt if model == "gpt" else decoder_weights).init, config=config, scan=scan), jax.random.key(0))
    tokens = S((config.batch, config.seq), "int32")
    batch = {"tokens": tokens, "targets": tokens}
    names |= dict.fromkeys(("batch/tokens", "batch/targets"), "batch seq")
    return trace_training(module.make_loss(config), params, batch, optimizer=optax.adafactor(1e-3), dims=names)


@pytest.mark.compile
@pytest.mark.parametrize("scan", [True, False], ids=["scanned", "unrolled"])
@pytest.mark.parametrize("model", ["gpt", "decoder"])
def test_every_recipe_of_a_transformer_takes_adafactor(model, scan):
    plan = Plan(zoo_program(model, scan), "data:4 model:2")
    applying = {row.name for row in list_recipes(plan) if row.applies}
    assert applying == {"data_parallel", "megatron", "sequence_parallel", "zero_1", "zero_2", "zero_3", "two_dimensional"}
    assert plan.recipe("two_dimensional").report().flops.per_device < plan.report().flops.per_device
