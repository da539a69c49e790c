"""Programs that name no dimension, written as JAX users write them without a framework."""

import jax
import jax.numpy as jnp
import optax

import workbench as wb

S = jax.ShapeDtypeStruct
OPTIMIZER = optax.sgd(0.1, momentum=0.9)  # Adam would make steps of what is zero but for rounding


def shapes(**sizes):
    return {name: S(size, "float32") for name, size in sizes.items()}


def cross_entropy(logits, labels):
    return optax.softmax_cross_entropy_with_integer_labels(logits, labels).mean()


def residual_mlp():
    """An MLP with a residual stream of 32 and hidden layers of 128."""

    def loss(params, batch):
        x = batch["x"] @ params["embed"]
        for layer in params["layers"]:
            x = x + jax.nn.relu(x @ layer["up"] + layer["bias"]) @ layer["down"]
        return cross_entropy(x @ params["head"], batch["y"])

    layer = shapes(up=(32, 128), bias=(128,), down=(128, 32))
    params = {**shapes(embed=(24, 32), head=(32, 10)), "layers": [layer, layer]}
    return wb.trace_training(loss, params, {"x": S((16, 24), "float32"), "y": S((16,), "int32")}, optimizer=OPTIMIZER)


def scanned_gpt():
    """A decoder whose layers are stacked and scanned, with query, key and value matrices and tied embeddings."""
    heads, head_size = 4, 8

    def attention(x, layer):
        def split(y):
            return y.reshape(*y.shape[:2], heads, head_size)

        query, key, value = split(x @ layer["q"]), split(x @ layer["k"]), split(x @ layer["v"])
        scores = jnp.einsum("bqhd,bkhd->bhqk", query, key) / head_size**0.5
        scores = jnp.where(jnp.tril(jnp.ones(scores.shape[-2:], bool)), scores, -1e9)
        mixed = jnp.einsum("bhqk,bkhd->bqhd", jax.nn.softmax(scores), value)
        return mixed.reshape(*x.shape[:2], -1) @ layer["o"]

    def normalize(x, scale):
        return x * jax.lax.rsqrt(jnp.mean(x * x, -1, keepdims=True) + 1e-6) * scale

    def loss(params, tokens):
        def block(x, layer):
            x = x + attention(normalize(x, layer["norm1"]), layer)
            return x + jax.nn.gelu(normalize(x, layer["norm2"]) @ layer["up"]) @ layer["down"], None

        x = params["table"][tokens] + params["positions"]
        x, _ = jax.lax.scan(block, x, params["layers"])
        return cross_entropy(x[:, :-1] @ params["table"].T, tokens[:, 1:])

    width, layers = heads * head_size, 3
    square, norms = dict.fromkeys("qkvo", (layers, width, width)), dict.fromkeys(("norm1", "norm2"), (layers, width))
    stack = shapes(**square, **norms, up=(layers, width, 4 * width), down=(layers, 4 * width, width))
    params = {**shapes(table=(64, width), positions=(16, width)), "layers": stack}
    return wb.trace_training(loss, params, S((8, 16), "int32"), optimizer=OPTIMIZER)


def two_headed_encoder():
    """A variational autoencoder: two matrices read the hidden layer of its encoder."""

    def loss(params, x):
        hidden = jax.nn.softplus(x @ params["e0"])
        noise = jax.random.normal(jax.random.key(0), (16, 8))
        latent = hidden @ params["mean"] + jnp.exp(hidden @ params["std"]) * noise
        return jnp.mean((jax.nn.softplus(latent @ params["d0"]) @ params["d1"] - x) ** 2)

    params = shapes(e0=(48, 64), mean=(64, 8), std=(64, 8), d0=(8, 64), d1=(64, 48))
    return wb.trace_training(loss, params, S((16, 48), "float32"), optimizer=OPTIMIZER)


def convolutions():
    """A convolution net with residual blocks."""

    def convolve(x, kernel):
        return jax.lax.conv_general_dilated(x, kernel, (1, 1), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC"))

    def loss(params, batch):
        x = convolve(batch["images"], params["stem"])
        for block in params["blocks"]:
            x = x + convolve(jax.nn.relu(convolve(x, block["expand"])), block["project"])
        return cross_entropy(x.mean((1, 2)) @ params["head"], batch["labels"])

    block = shapes(expand=(3, 3, 16, 32), project=(1, 1, 32, 16))
    params = {**shapes(stem=(3, 3, 3, 16), head=(16, 10)), "blocks": [block, block]}
    batch = {"images": S((16, 8, 8, 3), "float32"), "labels": S((16,), "int32")}
    return wb.trace_training(loss, params, batch, optimizer=OPTIMIZER)


def nested_step():
    """A train step of one's own: an optax chain, a moving average and a counter in nested state."""
    optimizer = optax.chain(optax.clip_by_global_norm(1.0), OPTIMIZER)

    def step(state, batch):
        def loss(params):
            hidden = jax.nn.relu(batch["x"] @ params["encoder"]["w"] + params["encoder"]["b"])
            return cross_entropy(hidden @ params["decoder"]["w"], batch["y"])

        value, grads = jax.value_and_grad(loss)(state["params"])
        updates, opt_state = optimizer.update(grads, state["opt_state"])
        params = optax.apply_updates(state["params"], updates)
        ema = jax.tree.map(lambda old, new: 0.9 * old + 0.1 * new, state["ema"], params)
        return {"params": params, "opt_state": opt_state, "ema": ema, "count": state["count"] + 1}, value

    params = {"encoder": shapes(w=(24, 64), b=(64,)), "decoder": shapes(w=(64, 8))}
    opt_state = jax.eval_shape(optimizer.init, params)
    state = {"params": params, "opt_state": opt_state, "ema": params, "count": S((), "int32")}
    return wb.trace_step(step, state, {"x": S((16, 24), "float32"), "y": S((16,), "int32")})
