"""Local attention: the masks of windows and chunks, the work of a kernel, and caches of as many rows as a layer sees."""

from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from tests.models.test_inference import EXACT, PROMPT, ROOMY, SIZES, decoder_forward, generate, mixture_forward, off
from workbench.core.tensor import Role
from workbench.errors import DocumentError
from workbench.models import build, choose_config
from workbench.models.decoder import decoder, decoder_inference, decoder_weights
from workbench.models.layers.decoder_blocks import softmax
from workbench.models.layers.local_attention import Window, visible_share
from workbench.models.mixture import mixture_inference
from workbench.propagation import structure_of
from workbench.public_plan import Plan


def visible(length, window, *, chunked):
    """Which keys each query sees, one pair after the other."""
    sees = [[k <= q and (q // window == k // window if chunked else q - k < window) for k in range(length)] for q in range(length)]
    return np.array(sees)


@pytest.mark.parametrize("chunked", [False, True])
@pytest.mark.parametrize(("length", "window"), [(12, 4), (13, 5), (16, 16), (9, 1), (7, 30)])
def test_a_window_hides_what_each_pair_of_tokens_says(length, window, chunked):
    shares = softmax(jnp.zeros((1, 1, 1, length, length)), Window(window, chunked, 0.5))[0, 0, 0]
    expected = visible(length, window, chunked=chunked)
    np.testing.assert_allclose(shares, expected / expected.sum(1, keepdims=True), atol=1e-6)


@pytest.mark.parametrize("chunked", [False, True])
@pytest.mark.parametrize(("length", "window"), [(1024, 128), (1000, 300), (1024, 1024), (1024, 5000)])
def test_the_share_of_a_kernel_is_that_of_the_pairs_of_tokens(length, window, chunked):
    pairs = visible(length, window, chunked=chunked).mean()
    assert visible_share(length, window, chunked=chunked) == pytest.approx(pairs, abs=1 / length)


def core_flops(program):
    structure = structure_of(program)
    return sum(op.work.flops * structure.regions[op.region].runs_per_step for op in structure.ops if op.custom_kernel)


DECODER = {"layers": 7, "seq": 256, "fused": "attention norm activation rotary loss", "recompute": "kernels"}


MIXTURE = {"preset": "tiny-top2", "alternate": False, "layers": 7, "seq": 256, "fused": "attention"}


@pytest.mark.parametrize(("name", "sizes"), [("decoder", DECODER), ("mixture", MIXTURE)])
def test_a_scanned_model_computes_as_much_as_its_layers_one_by_one(name, sizes):
    sizes = sizes | {"pattern": "LLG"}
    scanned, separate, full = (
        core_flops(build(name, **sizes, **more)) for more in ({"window": 32}, {"window": 32, "scan": False}, {"window": 0})
    )
    assert scanned == pytest.approx(separate, rel=1e-6)
    expected = (5 * visible_share(256, 32, chunked=False) + 2 * 0.5) / 7 / 0.5
    assert scanned / full == pytest.approx(expected, rel=1e-6)


@pytest.mark.compile
@pytest.mark.parametrize("changes", [{"pattern": "LG"}, {"chunked": True}, {"pattern": "LLG", "fused": "attention"}])
def test_a_scanned_model_s_loss_is_that_of_its_layers_one_by_one(changes):
    config = choose_config("decoder", layers=3, seq=24, batch=2, window=5, **changes)
    stacked = decoder_weights.init(jax.random.key(0), config, scan=True)
    separate = stacked | {"layers": [jax.tree.map(lambda rows, number=number: rows[number], stacked["layers"]) for number in range(3)]}
    tokens = jax.random.randint(jax.random.key(1), (2, 24), 0, config.vocab)
    batch = {"tokens": tokens, "targets": jnp.roll(tokens, -1, 1)}
    loss = jax.jit(decoder.make_loss(config))
    found = loss(stacked, batch)
    np.testing.assert_allclose(found, loss(separate, batch), rtol=1e-6)
    assert abs(found - jax.jit(decoder.make_loss(replace(config, window=0)))(stacked, batch)) > 1e-4


CACHED = [
    ({"window": 4}, True),
    ({"window": 4, "chunked": True}, True),
    ({"window": 12}, True),  # longer than the prompt, shorter than the cache
    ({"window": 3, "pattern": "LG", "layers": 3}, True),
    ({"window": 5, "pattern": "LLG", "layers": 4}, False),
    ({"window": 4, "pattern": "GL", "chunked": True, "layers": 4, "fused": "attention"}, True),
    ({"window": 16, "pattern": "LG"}, True),
]


@pytest.mark.compile
@pytest.mark.share(3)
@pytest.mark.parametrize(("changes", "scan"), CACHED, ids=[f"{each[0]}" for each in CACHED])
def test_a_decoder_goes_on_from_the_rows_that_its_local_layers_keep(changes, scan):
    config = choose_config("decoder_decode", **SIZES | changes)
    found = generate(decoder_inference, config, config.architecture, scan=scan)
    assert off(found, decoder_forward(config, scan=scan)[:, PROMPT - 1 :]) < EXACT


@pytest.mark.compile
@pytest.mark.share(2)
@pytest.mark.parametrize(("changes", "scan"), [CACHED[0], CACHED[2], CACHED[3], CACHED[4]], ids=str)
def test_a_mixture_goes_on_from_the_rows_that_its_local_layers_keep(changes, scan):
    config = choose_config("mixture_decode", "tiny-top2", **SIZES | ROOMY | {"alternate": False} | changes)
    found = generate(mixture_inference, config, config, scan=scan)
    assert off(found, mixture_forward(config, scan=scan)[:, PROMPT - 1 :]) < EXACT


@pytest.mark.parametrize("name", ["decoder_decode", "mixture_decode"])
@pytest.mark.parametrize("scan", [True, False])
def test_caches_of_local_layers_have_as_many_rows_as_these_see(name, scan):
    preset = {"decoder_decode": {}, "mixture_decode": {"preset": "tiny-top2", "alternate": False}}[name]
    sizes = {**preset, "seq": 64, "context": 128, "layers": 7, "batch": 2, "scan": scan, "cache": "bfloat16"}
    local, full = (build(name, **sizes, window=window, pattern="LLG") for window in (16, 0))

    def rows(program):
        return sum(np.prod(tensor.shape) for tensor in program.arguments if tensor.role is Role.MODEL_STATE and tensor.shape)

    assert rows(local) / rows(full) == (5 * 16 + 2 * 128) / (7 * 128)
    assert {dim for tensor in local.arguments if tensor.role is Role.MODEL_STATE for dim in tensor.dims} >= {"window", "context"}
    assert Plan(local, "data:2", "batch:data").report().peak < Plan(full, "data:2", "batch:data").report().peak


def test_a_window_of_all_tokens_changes_no_program():
    plain, wide = (build("decoder", **DECODER, window=window) for window in (0, 256))
    assert plain.module == wide.module


@pytest.mark.parametrize(
    ("model", "changes", "message"),
    [
        ("decoder", {"pattern": "LX"}, "`pattern` is 'LX'; it has a letter for each layer"),
        ("decoder", {"window": 8, "ring": 4}, "`ring` is 4 and `window` 8"),
        ("mixture", {"window": 8}, "only layers with experts and plain heads have one"),
    ],
)
def test_what_no_layer_has_is_refused(model, changes, message):
    with pytest.raises(DocumentError, match=message):
        build(model, **changes)
