"""Models that no one here wrote go through unchanged: Flax NNX, Equinox, and plain pytrees with optax."""

import equinox as eqx
import jax
import jax.numpy as jnp
import optax
import pytest
from flax import nnx

from workbench.core.tensor import Role
from workbench.errors import TraceError
from workbench.public_plan import Plan
from workbench.tracing import trace_training

S = jax.ShapeDtypeStruct


class Block(nnx.Module):
    def __init__(self, rngs):
        self.attention = nnx.MultiHeadAttention(num_heads=4, in_features=64, decode=False, rngs=rngs)
        self.norm = nnx.LayerNorm(64, rngs=rngs)
        self.up = nnx.Linear(64, 256, rngs=rngs)
        self.down = nnx.Linear(256, 64, rngs=rngs)

    def __call__(self, x):
        x = x + self.attention(x)
        return x + self.down(jax.nn.gelu(self.up(self.norm(x))))


def flax_program():
    graph, state = nnx.split(nnx.eval_shape(lambda: Block(nnx.Rngs(0))))

    def loss(state, batch):
        return jnp.mean((nnx.merge(graph, state)(batch["x"]) - batch["y"]) ** 2)

    batch = {"x": S((16, 8, 64), "float32"), "y": S((16, 8, 64), "float32")}
    dims = {"batch/x": "batch seq d_model", "up/kernel/**": "d_model d_ff", "query/kernel/**": "d_model heads d_head"}
    return trace_training(loss, state, batch, optimizer=optax.adamw(1e-3), dims=dims)


def equinox_program():
    model = eqx.filter_eval_shape(eqx.nn.MLP, 64, 8, 256, 3, key=jax.random.key(0))
    arrays, rest = eqx.partition(model, lambda leaf: isinstance(leaf, S))

    def loss(arrays, batch):
        images, labels = batch
        logits = jax.vmap(eqx.combine(arrays, rest))(images)
        return optax.softmax_cross_entropy_with_integer_labels(logits, labels).mean()

    batch = (S((32, 64), "float32"), S((32,), "int32"))
    dims = {"batch/0": "batch pixels", "layers/0/weight": "d_ff pixels", "layers/3/weight": "classes _"}
    return trace_training(loss, arrays, batch, optimizer=optax.sgd(1e-2, momentum=0.9), dims=dims)


def plain_program():
    """The pytree style of optax's and JAX's own examples: lists of (weights, bias) tuples."""
    params = [(S((64, 256), "float32"), S((256,), "float32")), (S((256, 8), "float32"), S((8,), "float32"))]

    def loss(params, batch):
        x, y = batch
        for w, b in params[:-1]:
            x = jnp.tanh(x @ w + b)
        w, b = params[-1]
        logits = x @ w + b
        return -jnp.mean(jnp.sum((logits - jax.nn.logsumexp(logits, axis=1, keepdims=True)) * y, axis=1))

    batch = (S((32, 64), "float32"), S((32, 8), "float32"))
    return trace_training(loss, params, batch, optimizer=optax.adam(1e-3), dims={"batch/0": "batch pixels", "params/0/0": "pixels d_ff"})


FOREIGN = {
    "flax": (flax_program, "batch:data; d_ff:model; heads:model", {"params/down/kernel/value": ("d_ff", "d_model")}),
    "equinox": (equinox_program, "batch:data; d_ff:model", {"params/layers/1/weight": ("d256", "d_ff")}),
    "plain": (plain_program, "batch:data; d_ff:model", {"params/1/0": ("d_ff", "d8")}),
}


@pytest.mark.parametrize("name", FOREIGN)
def test_a_foreign_model_is_traced_named_and_planned(name):
    build, layout, expected = FOREIGN[name]
    program = build()
    named = {tensor.path: tensor.dims for tensor in program.arguments}
    assert {path: named[path] for path in expected} == expected
    report = Plan(program, "data:4 model:2", layout).report()
    assert report.flops.duplication == pytest.approx(1, abs=0.1)
    assert any(each.axes == ("model",) for each in report.collectives)
    assert (
        0
        < report.memory.by_role[Role.PARAMETER]
        < sum(4 * tensor.elements for tensor in program.arguments if tensor.role is Role.PARAMETER)
    )


def test_a_module_changed_from_outside_of_the_trace_is_told_with_its_line_and_the_way_to_merge_it():
    graph, params, others = nnx.split(nnx.BatchNorm(4, rngs=nnx.Rngs(0)), nnx.Param, ...)

    def loss(params, batch):
        return nnx.merge(graph, params, others)(batch).mean()

    with pytest.raises(TraceError) as caught:
        trace_training(loss, params, jnp.ones((8, 4)), optimizer=optax.sgd(0.1))
    assert caught.value.message.startswith(
        f"`loss` raised TraceContextError while it was traced (test_foreign_models.py:{loss.__code__.co_firstlineno + 1}): Cannot mutate"
    )
    assert caught.value.ways_out == (
        "make the module inside the function, `nnx.merge(graphdef, params, copy=True)`",
        "see the whole traceback with `jax.eval_shape(loss, ...)`, or, of its gradient, `jax.eval_shape(jax.grad(loss), ...)`",
    )


def test_a_module_of_equinox_in_place_of_arrays_is_answered_with_its_adapter():
    model = eqx.nn.MLP(4, 2, 8, 1, key=jax.random.key(0))
    with pytest.raises(TraceError) as caught:
        trace_training(lambda model, x: jax.vmap(model)(x).sum(), model, jnp.ones((2, 4)), optimizer=optax.sgd(0.1))
    assert caught.value.message == "`params/activation` is a custom_jvp, which is not an array."
    assert "wb.from_equinox(model, loss, batch)" in caught.value.ways_out[0]
