"""Every size and choice of a preset is an argument of its model, and what cannot be is refused in its own names."""

import math
from dataclasses import asdict, fields

import jax
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from workbench.core.tensor import Role
from workbench.documents import dump_plan, parse_plan
from workbench.errors import DocumentError
from workbench.models import ALL_MODELS, DecoderConfig, MixtureConfig, build, choose_config, decoder_stage, mixture_stage
from workbench.models.config_fields import argument_words
from workbench.models.decoder import decoder_weights
from workbench.models.registry import verify_model, verify_quick
from workbench.public_plan import Plan

WITH_PRESETS = [pytest.param(model, id=model.name) for model in ALL_MODELS if model.config]
LLAMA3_8B = {"d_model": 4096, "layers": 32, "kv_heads": 8, "q_per_kv": 4, "d_head": 128, "d_ff": 14336, "vocab": 128256}


@pytest.mark.parametrize("model", WITH_PRESETS)
def test_every_field_of_a_configuration_is_an_argument_and_every_preset_can_be_written_out(model):
    assert {each.name for each in fields(model.config)} <= set(model.arguments)
    for preset, config in model.presets.items():
        given = {name: value for name, value in asdict(config).items() if value is not None}
        verify_model(model.name, given)
        assert choose_config(model.name, **{**given, "preset": preset}) == config


def test_a_program_has_the_widths_that_were_given():
    program = build("decoder", **LLAMA3_8B, batch=8, seq=8192, fused="attention loss", recompute="attention", compute="bfloat16")
    assert {name: program.dims[name] for name in LLAMA3_8B} == {name: (size,) for name, size in LLAMA3_8B.items()}
    assert program.name == "decoder"
    held = sum(math.prod(each.shape) for each in program.arguments if each.role is Role.PARAMETER)
    assert held == choose_config("decoder", preset="llama3-8b").parameters == 8_030_261_248


@pytest.mark.compile
@pytest.mark.parametrize(
    ("model", "changes", "dims"),
    [
        (
            "gpt",
            {"d_model": 32, "heads": 2, "d_head": 16, "vocab": 300},
            {"d_model": (32,), "heads": (2,), "d_head": (16,), "vocab": (300,)},
        ),
        ("mixture", {"experts": 4, "d_expert": 48, "dense": 0, "d_shared": 0}, {"experts": (4,), "d_expert": (48,)}),
        ("t5", {"target_seq": 8, "d_ff": 48}, {"target_seq": (8,), "d_ff": (48,)}),
        ("conformer", {"features": 8, "kernel": 3}, {"features": (8,), "kernel": (3,)}),
        ("unet", {"channels": [4, 8], "narrow": [2, 4], "classes": 2}, {"classes": (2,)}),
        ("amoebanet", {"filters": 32, "classes": 7}, {"classes": (7,)}),
        ("deep_unet", {"channels": 8, "levels": 3}, {}),
    ],
)
def test_a_plan_of_changed_widths_is_saved_and_opened(model, changes, dims):
    program = build(model, **changes)
    assert {name: program.dims[name] for name in dims} == dims
    assert program.name == {"deep_unet": "deep U-Net"}.get(model, model)
    plan = Plan(program, "data:8", "batch:data")
    assert parse_plan(dump_plan(plan)) == plan


WRONG = [
    ("decoder", {"d_modle": 8}, "There is no argument `d_modle`", "did you mean `d_model`?"),
    ("decoder", {"heads": 8}, "There is no argument `heads`", "did you mean `kv_heads`?"),
    ("decoder", {"d_model": 0}, "`d_model` is '0'; it should be a whole number from 1.", "omit it to use the value of the preset"),
    ("decoder", {"d_model": 64.0}, "`d_model` is '64.0'; it should be a whole number from 1.", "omit it to use the value of the preset"),
    ("decoder", {"biases": 1}, "`biases` is '1'; it should be true or false.", "omit it to use the value of the preset"),
    ("decoder", {"d_head": 7}, "`d_head` is 7; rotary positions turn one half of a head with the other, so it must be even.", "take 6"),
    ("decoder", {"positions": "sinusoidal", "d_model": 63}, "`d_model` is 63; half of the positions are sines", "take 62"),
    ("decoder", {"positions": "rotery"}, "`positions` is 'rotery'; it should be one of `rotary`, `learned`, `sinusoidal`.", "did you mean"),
    (
        "decoder",
        {"fused": "attention los"},
        "`fused` is 'attention los'; it should be some of `attention`, `softmax`",
        "did you mean `loss`?",
    ),
    ("decoder", {"compute": "bf16"}, "`compute` is 'bf16'; it should be one of `bfloat16`, `float32`, `float16`.", ""),
    ("decoder", {"recompute": "selective"}, "`recompute` is 'selective'; it should be one of `none`, `kernels`, `alternate`", ""),
    ("decoder", {"dropout": 1.0}, "`dropout` is 1.0; it is the share that is dropped, below 1.", "take 0.1"),
    ("decoder", {"dropout": -0.5}, "`dropout` is '-0.5'; it should be a number from 0.", "omit it"),
    ("decoder", {"learning_rate": float("nan")}, "`learning_rate` is 'nan'; it should be a number above 0.", "omit it"),
    ("decoder", {"gate_up": 3}, "`gate_up` is 3; the maximum is 2.", "take a smaller one"),
    ("mixture", {"experts": 4, "top_k": 8}, "`top_k` is 8; there are 4 `experts`.", "take 4 at most"),
    ("mixture", {"layers": 2, "dense": 2}, "`layers` is 2 and `dense` is 2, so no layer has experts.", "take more `layers`"),
    ("mixture", {"preset": "deepseek-v2", "experts": 150}, "`experts` is 150; they form 8 `groups` of equal size.", "take 144"),
    ("mixture", {"preset": "deepseek-v2", "top_groups": 7}, "`top_groups` is 7; there are 8 `groups`, and `top_k` is 6.", "take 6 at most"),
    (
        "mixture",
        {"q_rank": 0},
        "`q_rank` is 0; latent attention needs each of `q_rank`, `kv_rank` and `d_rotary`.",
        'take `attention` "heads"',
    ),
    ("mixture", {"preset": "tiny-top2", "layers": 3}, "`layers` less `dense` is 3; with `alternate`", "use one more or one less"),
    ("mixture", {"preset": "tiny-top2", "d_head": 8}, "`d_value` is 16 and `d_head` 8; only latent attention", "take `d_value` 8"),
    ("t5", {"buckets": 3}, "`buckets` is 3; half of them are of the future", "take an even number from 4"),
    ("unet", {"channels": [8, 16]}, "`channels` are of 2 levels and `narrow` of 3; each level has one of both.", "give as many of both"),
    ("unet", {"channels": []}, "`channels` is '[]'; it should be a list of whole numbers from 1.", "omit it"),
    ("unet", {"channels": 8}, "`channels` is '8'; it should be a list of whole numbers from 1.", "omit it"),
    ("unet", {"channels": [8] * 13}, "`channels` has 13 sizes, one for each level; there can be 12 at most.", "take fewer"),
    ("amoebanet", {"filters": 12}, "`filters` is 12; its narrowest products make an eighth of them.", "take 8"),
    ("deep_unet", {"channels": 5}, "`channels` is 5; the last level returns half of them, so it must be even.", "take 4"),
]


@pytest.mark.parametrize(("model", "changes", "message", "way_out"), WRONG)
def test_what_cannot_be_is_refused_with_ways_out(model, changes, message, way_out):
    with pytest.raises(DocumentError) as caught:
        build(model, **changes)
    assert message in caught.value.message
    assert any(way_out in each for each in caught.value.ways_out)


@given(
    sizes=st.fixed_dictionaries({name: st.integers(1, 5) for name in ("vocab", "layers", "kv_heads", "q_per_kv", "d_ff", "seq", "batch")}),
    even=st.fixed_dictionaries({name: st.integers(1, 4).map(lambda half: 2 * half) for name in ("d_model", "d_head")}),
    choices=st.fixed_dictionaries(
        {name: st.sampled_from(argument_words(DecoderConfig, name)) for name in ("norm", "positions")}
        | {name: st.booleans() for name in ("biases", "tied")}
        | {"gate_up": st.integers(1, 2)}
    ),
)
@settings(max_examples=20)
def test_the_formula_counts_the_parameters_of_any_widths(sizes, even, choices):
    config = choose_config("decoder", **sizes, **even, **choices)
    made = jax.eval_shape(lambda key: decoder_weights.init(key, config, scan=True), jax.random.key(0))
    assert sum(math.prod(leaf.shape) for leaf in jax.tree.leaves(made)) == config.parameters


WORDS = [
    (model, name, word)
    for model in ALL_MODELS
    for name in model.arguments
    for word in argument_words(model.config, name)
    if name != "optimizer" or model.name == "gpt"  # each on the smallest; what they keep is in tests/tracing/test_named_optimizers.py
]


@pytest.mark.compile
@pytest.mark.share(10)
@pytest.mark.parametrize(("model", "name", "word"), [pytest.param(*each, id=f"{each[0].name}-{each[1]}-{each[2]}") for each in WORDS])
def test_every_word_that_a_choice_may_be_makes_a_program(model, name, word):
    others = {"lora_rank": 4} if name == "base" and word else {}  # a type of frozen weights: there are some below adapters alone
    program = build(model.name, **{name: word}, **others)
    assert getattr(choose_config(model.name, **dict(program.reference.arguments)), name) == word
    assert program.parameters > 0


def test_layers_that_are_each_traced_are_counted_however_they_are_asked_for():
    verify_quick("mixture", {"preset": "deepseek-v3"}, "A link")
    verify_quick("unet", {"preset": "mlperf-kits19"}, "A link")
    for model, arguments in (
        ("mixture", {"layers": 40, "dense": 30}),
        ("unet", {"channels": [8] * 9, "narrow": [8] * 9}),
        ("deep_unet", {"convolutions": 12, "levels": 6}),
    ):
        with pytest.raises(DocumentError, match="which takes long"):
            verify_quick(model, arguments, "A link")


@pytest.mark.compile
def test_a_configuration_of_ones_own_is_traced_stage_by_stage():
    config = choose_config("decoder", preset="llama3-8b", layers=1, d_ff=512, seq=256, batch=1)
    assert isinstance(config, DecoderConfig)
    assert decoder_stage.micro_batch(config, last=False).dims["d_ff"] == (512,)
    assert decoder_stage.update(config, replicas=2).dims["replica"] == (2,)
    sparse = choose_config("mixture", layers=2)
    assert isinstance(sparse, MixtureConfig)
    assert mixture_stage.micro_batch(sparse).dims["experts"] == (8,)
    with pytest.raises(DocumentError, match="has no presets"):
        choose_config("mnist")
