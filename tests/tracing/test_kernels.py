"""A hand-written kernel reads what comes in and writes what goes out, and no more."""

import jax
import jax.numpy as jnp
import optax
import pytest

from workbench.models.layers.layer_checkpoint import recompute_all
from workbench.public_plan import Plan
from workbench.tracing import fused_kernel, trace, trace_micro_batch, trace_training, trace_update

pytestmark = pytest.mark.compile

S = jax.ShapeDtypeStruct
X, W = S((256, 512), "float32"), S((512, 512), "float32")


def attention(x, *, work=None):
    def core(x):
        return jax.nn.softmax(x @ x.T, axis=-1) @ x

    if work is None:
        return core(x)
    with fused_kernel("flash_attention", work=work):
        return core(x)


def report(fn, *args):
    return Plan(trace(fn, *args), "x:1").report()


def test_a_kernel_moves_its_operand_and_its_result():
    assert report(lambda x: attention(x, work=1.0), X).traffic == 2 * 4 * 256 * 512
    assert report(attention, X).traffic > 2 * 4 * 256 * 512


def test_a_kernel_stores_nothing_inside():
    plain, fused = (report(lambda x, work=work: attention(x, work=work), X).memory.peak for work in (None, 1.0))
    assert fused == 2 * 4 * 256 * 512 < plain


def test_a_kernel_that_skips_half_computes_half():
    assert 2 * report(lambda x: attention(x, work=0.5), X).flops.unique == report(attention, X).flops.unique


@pytest.mark.parametrize("hardware", [None, "1 H100", "TPU v5p 1x1x1"])
def test_a_mask_that_tracing_moves_out_of_a_loop_is_made_in_the_kernel(hardware):
    """JAX makes before a scan what no iteration changes; a kernel of its own would write all of it, and read it in each."""

    def loss(params, x):
        def layer(x, w):
            with fused_kernel("flash_attention"):
                return jax.checkpoint(core)(x @ w), None

        return jnp.square(jax.lax.scan(layer, x, params)[0]).sum()

    def core(x):
        places = jnp.arange(x.shape[0])
        return jax.nn.softmax(x @ x.T + jnp.where(places[:, None] >= places[None, :], 0.0, -1e9), axis=-1) @ x

    program = trace_training(loss, S((2, 16, 16), "float32"), S((2048, 16), "float32"), optimizer=optax.sgd(0.1))
    report = Plan(program, "x:1", hardware=hardware).report()
    assert any("iota" in each.path for each in program.operations if not each.path.startswith("layers"))
    assert max(report.traffic, report.memory.peak) < 4 * 2048 * 2048


def test_its_name_shows_without_its_mark():
    assert any(each.path == "flash_attention/dot_general" for each in trace(lambda x: attention(x, work=0.5), X).operations)


def square(params, batch):
    return jnp.sum(jnp.square(batch["x"] @ params["w"]))


def test_a_micro_batch_adds_its_gradient_where_the_sum_lies():
    program = trace_micro_batch(square, {"w": W}, {"x": X})
    memory = Plan(program, "x:1").report().memory.by_role
    assert memory["parameter"] == memory["gradient"] == 4 * 512 * 512
    x, w = jnp.ones(X.shape), jnp.eye(*W.shape)
    total, back, value = program.step.call(w, 2 * w, x)
    expected, apart = jax.grad(square)({"w": w}, {"x": x})["w"], jax.grad(square, argnums=1)({"w": w}, {"x": x})["x"]
    assert jnp.allclose(total, 2 * w + expected)
    assert jnp.allclose(back, apart)
    assert value == square({"w": w}, {"x": x})


def test_an_update_reduces_once_what_the_replicas_summed():
    import optax

    program = trace_update({"w": S(W.shape, "bfloat16")}, optimizer=optax.sgd(0.1), replicas=4, dims={"gradients/w": "replica a b"})
    split = Plan(program, "data:4", "replica:data; opt_state/**/w=[data, -]").report()
    assert {(each.kind, each.total_payload) for each in split.collectives} == {
        ("reduce-scatter", 4 * 512 * 512),
        ("all-gather", 2 * 512 * 512),
    }


def test_what_is_replayed_is_computed_again_whole_and_gives_the_same_gradient():
    def loss(w, x, wrap):
        return jnp.sum(wrap(lambda w, x: jnp.tanh(x @ w) @ w)(w, x))

    grads = [jax.grad(loss)(jnp.eye(8), jnp.ones((4, 8)), wrap) for wrap in (lambda fn: fn, recompute_all)]
    assert jnp.allclose(*grads)
    flops = [
        report(lambda w, x, wrap=wrap: jax.value_and_grad(loss)(w, x, wrap), S((8, 8), "float32"), S((4, 8), "float32")).flops.unique
        for wrap in (lambda fn: fn, jax.checkpoint, recompute_all)
    ]
    one = 2 * 4 * 8 * 8
    assert flops == [5 * one, 6 * one, 7 * one]
