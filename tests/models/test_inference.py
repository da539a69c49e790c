"""Prefill and decode: a prompt read, and tokens one after the other, give what a forward pass of the whole sequence gives."""

from dataclasses import replace
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from workbench.core.tensor import Role
from workbench.errors import DocumentError
from workbench.models import build, choose_config
from workbench.models.decoder import decoder, decoder_inference, decoder_weights
from workbench.models.layers.decoder_blocks import embed, project_vocab
from workbench.models.layers.kv_cache import encode_rows
from workbench.models.layers.quantized_weights import QuantizedWeight, multiply, quantize, quantize_weights
from workbench.models.mixture import mixture, mixture_inference, mixture_weights
from workbench.public_plan import Plan

pytestmark = pytest.mark.compile

PROMPT, TOKENS, PLACES = 10, 14, 16
SIZES = {"batch": 4, "seq": PROMPT, "context": PLACES, "layers": 2}
ROOMY = {"capacity_factor": 4.0}  # a place for every token in every expert: none is dropped in either pass
EXACT, ROUNDED, EIGHT_BITS, FLOAT8, FOUR_BITS = 2e-6, 0.012, 0.04, 0.15, 0.5
"""How far logits may be off, as a share of their root mean square. float32 sums alone; bfloat16 keeps 8 bits of a weight; int8 and a scale
for each channel 7 bits below its largest; float8_e4m3 four bits of every number, and int4 three of the largest."""


def tokens(vocab=256):
    return jax.random.randint(jax.random.key(1), (SIZES["batch"], TOKENS), 0, vocab)


def decoder_forward(config, *, scan):
    """Logits [batch, tokens, vocab] of the training model, with its parameters in float32."""
    built = replace(config.architecture, params="float32")
    params = decoder_weights.init(jax.random.key(0), built, scan=scan)

    def forward(params):
        x = embed(params, tokens(), built, lambda table: table[:TOKENS])
        return project_vocab(params, decoder.run_layers(params, x, replace(built, seq=TOKENS)), built)

    return jax.jit(forward)(params)


def mixture_forward(config, *, scan):
    built = replace(config.architecture, params="float32", seq=TOKENS)
    params = mixture_weights.init(jax.random.key(0), built, scan=scan)

    def forward(params):
        return project_vocab(params, mixture.run_layers(params, embed(params, tokens(), built), built)[0], built)

    return jax.jit(forward)(params)


def generate(model, config, given, *, scan):
    """Logits of the prompt's last token and of those after it, each from the cache that the step before returned."""
    params = model.make_params(jax.random.key(0), config, scan=scan)
    cache, all_tokens = model.make_cache(config, scan=scan), tokens()
    cache, logits = jax.jit(partial(model.prefill, config=given))(params, cache, {"tokens": all_tokens[:, :PROMPT]})
    found, decode = [logits], jax.jit(partial(model.decode, config=given))
    for number in range(PROMPT, TOKENS):
        assert cache["length"] == number
        cache, logits = decode(params, cache, {"tokens": all_tokens[:, number]})
        found.append(logits)
    return jnp.stack(found, 1)


def off(found, expected):
    """The root mean square of the difference, as a share of that of what is expected."""
    return float(jnp.linalg.norm(found - expected) / jnp.linalg.norm(expected))


DECODERS = [
    ({}, True, EXACT),
    ({"norm": "layer", "biases": True, "gate_up": 1, "positions": "learned", "tied": True}, False, EXACT),
    ({"positions": "sinusoidal", "lookup": "gather", "fused": "attention norm activation rotary"}, True, EXACT),
    ({"weights": "bfloat16", "cache": "bfloat16"}, True, ROUNDED),
    ({"weights": "int8", "tied": True, "lookup": "gather"}, True, EIGHT_BITS),
    ({"cache": "int8"}, False, ROUNDED),
    ({"weights": "int8", "cache": "int8"}, True, EIGHT_BITS),
    ({"weights": "float8_e4m3fn", "cache": "float8_e4m3fn"}, True, FLOAT8),
    ({"weights": "int4"}, True, FOUR_BITS),
]


@pytest.mark.share(3)
@pytest.mark.parametrize(("changes", "scan", "bound"), DECODERS, ids=[f"{each[0]}" for each in DECODERS])
def test_a_decoder_reads_a_prompt_and_goes_on_as_it_reads_the_whole(changes, scan, bound):
    config = choose_config("decoder_decode", **SIZES, **changes)
    found = generate(decoder_inference, config, config.architecture, scan=scan)
    assert off(found, decoder_forward(config, scan=scan)[:, PROMPT - 1 :]) < bound


MIXTURES = [
    ("tiny", {}, True, EXACT),
    ("tiny", {"token_groups": 2, "dense": 0}, False, EXACT),
    ("tiny-top2", {"token_groups": 1}, True, EXACT),
    ("tiny-top2", {"cache": "int8"}, False, ROUNDED),
    ("tiny-top2", {"heads": 2, "q_per_kv": 2, "weights": "int8"}, False, EIGHT_BITS),
    ("tiny-top2", {"heads": 2, "q_per_kv": 2}, True, EXACT),
    ("tiny", {"weights": "int8", "cache": "int8"}, True, EIGHT_BITS),
    ("tiny", {"weights": "float8_e4m3fn", "cache": "float8_e4m3fn"}, True, FLOAT8),
]


@pytest.mark.share(3)
@pytest.mark.parametrize(("preset", "changes", "scan", "bound"), MIXTURES, ids=[f"{each[0]}-{each[1]}" for each in MIXTURES])
def test_a_mixture_reads_a_prompt_and_goes_on_as_it_reads_the_whole(preset, changes, scan, bound):
    """In latent attention no key or value is made of what is cached."""
    config = choose_config("mixture_decode", preset, **SIZES, **ROOMY, **changes)
    found = generate(mixture_inference, config, config, scan=scan)
    assert off(found, mixture_forward(config, scan=scan)[:, PROMPT - 1 :]) < bound


@pytest.mark.parametrize(
    ("subscripts", "x", "w", "shared"),
    [
        ("bsd,dhck->bshck", (2, 3, 8), (8, 2, 3, 4), (-4,)),
        ("bshqk,hqkd->bsd", (2, 3, 2, 2, 4), (2, 2, 4, 8), (-4, -3, -2)),
        ("ebcd,edgf->ebcgf", (4, 2, 3, 8), (4, 8, 2, 5), (-3,)),
        ("bshk,rhk->bshr", (2, 3, 2, 4), (6, 2, 4), (-3,)),  # the other way round: a scale for what is summed
    ],
)
def test_a_product_of_a_quantized_weight_is_that_of_the_weight_it_stands_for(subscripts, x, w, shared):
    x, w = jax.random.normal(jax.random.key(0), x), jax.random.normal(jax.random.key(1), w)
    values, scale = quantize(w, shared, "int8")
    meant = values.astype(jnp.float32) * jnp.expand_dims(scale, shared)
    found = multiply(subscripts, x, QuantizedWeight(values, scale, shared).astype(x.dtype))
    np.testing.assert_allclose(found, jnp.einsum(subscripts, x, meant), rtol=1e-4, atol=1e-5)
    assert float(jnp.abs(meant - w).max()) <= float(jnp.abs(w).max()) / 127 / 2 * 1.01, "half of a step of eight bits"


def test_zeros_are_kept_as_zeros_and_a_scale_of_sixteen_bits_rounds_nothing_off():
    values, scale = quantize(jnp.zeros((2, 4)), (-1,), "int8")
    assert not values.any()
    assert (scale > 0).all()
    rows = jax.random.normal(jax.random.key(0), (64, 32))
    cached = encode_rows("key", rows, "int8")
    back = cached["key"].astype(jnp.float32) * cached["key_scale"].astype(jnp.float32)[:, None]
    assert float((jnp.abs(back - rows) / jnp.abs(rows).max(-1, keepdims=True)).max()) < 1.02 / 127, "a step, for the scale rounds down too"


def test_norms_biases_and_routers_keep_their_type():
    config = choose_config("mixture_decode", weights="int8")
    params = jax.eval_shape(lambda: mixture_inference.make_params(jax.random.key(0), config, scan=True))
    assert params["layers"]["experts"]["router"].dtype == params["norm"]["scale"].dtype == jnp.bfloat16
    assert params["layers"]["experts"]["w1"].values.dtype == params["embedding"]["tokens"].values.dtype == jnp.int8
    assert quantize_weights({"w": jnp.ones((2, 2))}, {"w": (-2,)}, "bfloat16")["w"].dtype == jnp.bfloat16


def test_a_full_cache_has_its_last_token_replaced():
    config = choose_config("decoder_decode", batch=2, seq=4, context=4, layers=1)
    params = decoder_inference.make_params(jax.random.key(0), config, scan=False)
    cache = decoder_inference.make_cache(config, scan=False) | {"length": jnp.int32(4)}
    after, _ = decoder_inference.decode(params, cache, {"tokens": jnp.array([5, 6])}, config.architecture)
    assert int(after["length"]) == 4
    written = np.abs(after["layers"][0]["key"]).sum((1, 2, 3)) > 0
    assert list(written) == [False, False, False, True]


@pytest.mark.parametrize("model", ["decoder_decode", "mixture_prefill"])
@pytest.mark.parametrize("cache", ["bfloat16", "int8"])
def test_the_cache_is_model_state_that_each_step_gives_back(model, cache):
    program = build(model, cache=cache, context=48)
    held = [tensor for tensor in program.arguments if tensor.role is Role.MODEL_STATE]
    assert [program.arguments[i] for _, i in program.carried] == held
    assert [program.results[i].path for i, _ in program.carried] == [each.path for each in held]
    assert {each.dtype for each in held if each.dims[-1:] in (("d_head",), ("d_latent",))} == {cache}
    assert {each.shape[each.dims.index("context")] for each in held if "context" in each.dims} == {48}


def test_a_latent_attention_caches_one_row_of_a_token_for_all_heads():
    """DeepSeek-V2 (arXiv:2405.04434, table 1): d_c + d_h^R = 4.5 d_h elements a token and layer, for 128 heads."""
    report = Plan(build("mixture_decode", preset="deepseek-v2", batch=1, context=4096), "data:1").report()
    assert report.memory.by_role[Role.MODEL_STATE] == pytest.approx(60 * 4096 * 4.5 * 128 * 2, rel=1e-6)


def test_unscanned_layers_have_a_cache_each():
    paths = [each.path for each in build("mixture_decode", scan=False, preset="tiny-top2").arguments if each.role is Role.MODEL_STATE]
    assert "cache/layers/0/before/key" in paths
    assert "cache/layers/0/value" in paths


def test_a_prompt_longer_than_its_cache_is_refused():
    with pytest.raises(DocumentError) as caught:
        build("decoder_prefill", seq=64, context=32)
    assert caught.value.message == (
        "`seq` is 64 and `context` 32; the cache has a place for every token of the prompt, so `context` is `seq` or more."
    )
    with pytest.raises(DocumentError, match="3 `token_groups` of equal size"):
        build("mixture_decode", token_groups=3)


def test_the_layouts_of_the_training_model_carry_over():
    """Rules by name: those of Megatron's layout of a training step lay out the cache with the heads it belongs to."""
    report = Plan(build("decoder_decode"), "data:2 model:4", "batch:data; d_ff:model; kv_heads:model").report()
    held = {each.tensor.path: each.local_shape for each in report.arguments}
    assert held["cache/layers/key"] == (2, 64, 1, 8, 8)
    assert {each.kind for each in report.collectives} == {"all-reduce"}


@pytest.mark.parametrize("scan", [True, False], ids=["scanned", "unrolled"])
def test_copies_of_heads_of_keys_and_values_give_the_same_logits(scan):
    found = []
    for copies in (1, 4):
        config = replace(decoder_inference.PRESETS["tiny"], kv_heads=2, q_per_kv=4, layers=2, kv_copies=copies)
        step = partial(decoder_inference.decode, decoder_inference.make_params(jax.random.key(0), config, scan=scan))
        cache = decoder_inference.make_cache(config, scan=scan)
        for number in range(2):
            cache, logits = step(cache, {"tokens": jnp.arange(config.batch) + number}, config.architecture)
        found.append(logits)
    np.testing.assert_allclose(*found, rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize("scan", [True, False], ids=["scanned", "unrolled"])
def test_copies_of_heads_of_keys_and_values_train_as_the_heads_do(scan):
    config = replace(decoder_inference.PRESETS["tiny"].architecture, kv_heads=2, q_per_kv=4, biases=True)
    found = []
    for copies in (1, 2):
        copied = replace(config, kv_copies=copies)
        step = decoder.training_step(copied, scan=scan).step
        batch = dict(zip(("targets", "tokens"), step.feed(0), strict=True))
        loss, gradient = jax.value_and_grad(decoder.make_loss(copied))(decoder_weights.init(jax.random.key(0), copied, scan=scan), batch)
        found.append((loss, decoder_weights.copy_kv_heads(gradient, 2 // copies)))
    jax.tree.map(partial(np.testing.assert_allclose, atol=1e-6), *found)


def test_a_training_step_has_more_devices_than_heads_of_keys_and_values():
    config = replace(decoder_inference.PRESETS["tiny"].architecture, kv_heads=2, q_per_kv=4, kv_copies=2)
    report = Plan(decoder.training_step(config), "model:4", "kv_heads:model; d_ff:model").report()
    layer = config.d_model * 2 * config.d_head * 4  # float32 bytes of the key and the value of one head
    copies = [each for each in report.collectives if each.path.endswith("reduce_sum") and "layers" in each.path]
    assert [(each.kind, each.payload, each.count) for each in copies] == [("all-reduce", layer, config.layers)]


def test_copies_that_do_not_share_the_queries_are_refused():
    with pytest.raises(DocumentError, match="`kv_copies` is 3 and `q_per_kv` 8; each copy of a head of keys serves as many"):
        build("decoder_decode", preset="llama3-70b", kv_copies=3)
