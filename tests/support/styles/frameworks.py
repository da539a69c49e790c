"""Models of the frameworks that name no dimension, as their users write them."""

import jax
import jax.numpy as jnp

import workbench as wb
from tests.support.styles.plain import OPTIMIZER, S, cross_entropy

VECTORS = {"x": S((16, 24), "float32"), "y": S((16,), "int32")}
TOKENS = S((8, 16), "int32")
WIDTH, HEADS, VOCAB = 32, 4, 64


def vector_loss(model, batch):
    return cross_entropy(model(batch["x"]), batch["y"])


def token_loss(model, tokens):
    return cross_entropy(model(tokens)[:, :-1], tokens[:, 1:])


def equinox_mlp():
    import equinox as eqx

    def loss(model, batch):
        return cross_entropy(jax.vmap(model)(batch["x"]), batch["y"])

    return wb.from_equinox(lambda key: eqx.nn.MLP(24, 10, 64, 2, key=key), loss, VECTORS, optimizer=OPTIMIZER)


def equinox_transformer():
    import equinox as eqx

    class Block(eqx.Module):
        attention: eqx.nn.MultiheadAttention
        mlp: eqx.nn.MLP
        norm1: eqx.nn.LayerNorm
        norm2: eqx.nn.LayerNorm

        def __init__(self, key):
            keys = jax.random.split(key)
            self.attention = eqx.nn.MultiheadAttention(HEADS, WIDTH, key=keys[0])
            self.mlp = eqx.nn.MLP(WIDTH, WIDTH, 4 * WIDTH, 1, key=keys[1])
            self.norm1, self.norm2 = eqx.nn.LayerNorm(WIDTH), eqx.nn.LayerNorm(WIDTH)

        def __call__(self, x):
            y = jax.vmap(self.norm1)(x)
            x = x + self.attention(y, y, y)
            return x + jax.vmap(self.mlp)(jax.vmap(self.norm2)(x))

    class Transformer(eqx.Module):
        table: eqx.nn.Embedding
        blocks: list
        head: eqx.nn.Linear

        def __init__(self, key):
            keys = jax.random.split(key, 4)
            self.table = eqx.nn.Embedding(VOCAB, WIDTH, key=keys[0])
            self.blocks = [Block(each) for each in keys[1:3]]
            self.head = eqx.nn.Linear(WIDTH, VOCAB, key=keys[3])

        def __call__(self, tokens):
            x = jax.vmap(self.table)(tokens)
            for block in self.blocks:
                x = block(x)
            return jax.vmap(self.head)(x)

    def loss(model, tokens):
        return cross_entropy(jax.vmap(model)(tokens)[:, :-1], tokens[:, 1:])

    return wb.from_equinox(Transformer, loss, TOKENS, optimizer=OPTIMIZER)


def _nnx_transformer(kernel_inits):
    from flax import nnx

    class Block(nnx.Module):
        def __init__(self, rngs):
            self.norm1 = nnx.LayerNorm(WIDTH, rngs=rngs, **kernel_inits("scale_init", nnx.initializers.ones_init(), ("tp",)))
            self.norm2 = nnx.LayerNorm(WIDTH, rngs=rngs)
            self.attention = nnx.MultiHeadAttention(HEADS, WIDTH, decode=False, rngs=rngs)
            init = nnx.initializers.lecun_normal()
            self.up = nnx.Linear(WIDTH, 4 * WIDTH, rngs=rngs, **kernel_inits("kernel_init", init, ("fsdp", "tp")))
            self.down = nnx.Linear(4 * WIDTH, WIDTH, rngs=rngs, **kernel_inits("kernel_init", init, ("tp", "fsdp")))

        def __call__(self, x):
            x = x + self.attention(self.norm1(x))
            return x + self.down(jax.nn.gelu(self.up(self.norm2(x))))

    class Transformer(nnx.Module):
        def __init__(self, rngs):
            self.table = nnx.Embed(VOCAB, WIDTH, rngs=rngs)
            self.first, self.second = Block(rngs), Block(rngs)
            self.head = nnx.Linear(WIDTH, VOCAB, rngs=rngs)

        def __call__(self, tokens):
            return self.head(self.second(self.first(self.table(tokens))))

    return wb.from_flax(Transformer, token_loss, TOKENS, optimizer=OPTIMIZER)


def nnx_transformer():
    return _nnx_transformer(lambda *_: {})


def nnx_with_partitioning():
    """Its metadata states mesh axes, which are a layout and no names."""
    from flax import nnx

    return _nnx_transformer(lambda name, init, axes: {name: nnx.with_partitioning(init, axes)})


def linen_transformer():
    from flax import linen as nn

    class Transformer(nn.Module):
        @nn.compact
        def __call__(self, tokens):
            table = nn.Embed(VOCAB, WIDTH, name="table")
            x = table(tokens)
            for _ in range(2):
                x = x + nn.MultiHeadDotProductAttention(HEADS)(nn.LayerNorm()(x))
                x = x + nn.Dense(WIDTH)(nn.gelu(nn.Dense(4 * WIDTH)(nn.LayerNorm()(x))))
            return table.attend(x)

    return wb.from_flax(Transformer(), token_loss, TOKENS, optimizer=OPTIMIZER)


def haiku_mlp():
    import haiku as hk

    def forward(x):
        return hk.nets.MLP([64, 64, 10])(x)

    return wb.from_haiku(forward, vector_loss, VECTORS, optimizer=OPTIMIZER)


def keras_mlp():
    import keras

    def make():
        layers = keras.layers
        return keras.Sequential([keras.Input((24,)), layers.Dense(64, activation="relu"), layers.BatchNormalization(), layers.Dense(10)])

    def loss(model, batch):
        return cross_entropy(model(batch["x"], training=True), batch["y"])

    return wb.from_keras(make, loss, VECTORS, optimizer=OPTIMIZER)


def equinox_fused_attention():
    """A decoder with one matrix for queries, keys and values, and a gated MLP."""
    import equinox as eqx

    class Block(eqx.Module):
        qkv: eqx.nn.Linear
        out: eqx.nn.Linear
        gate_up: eqx.nn.Linear
        down: eqx.nn.Linear

        def __init__(self, key):
            keys = jax.random.split(key, 4)
            sizes = ((WIDTH, 3 * WIDTH), (WIDTH, WIDTH), (WIDTH, 4 * WIDTH), (2 * WIDTH, WIDTH))
            linears = [eqx.nn.Linear(*size, use_bias=False, key=each) for size, each in zip(sizes, keys, strict=True)]
            self.qkv, self.out, self.gate_up, self.down = linears

        def __call__(self, x):
            split = (jax.numpy.reshape(each, (-1, HEADS, WIDTH // HEADS)) for each in jnp.split(jax.vmap(self.qkv)(x), 3, axis=-1))
            query, key, value = split
            scores = jax.nn.softmax(jnp.einsum("qhd,khd->hqk", query, key))
            x = x + jax.vmap(self.out)(jnp.einsum("hqk,khd->qhd", scores, value).reshape(-1, WIDTH))
            gate, up = jnp.split(jax.vmap(self.gate_up)(x), 2, axis=-1)
            return x + jax.vmap(self.down)(jax.nn.silu(gate) * up)

    class Decoder(eqx.Module):
        table: eqx.nn.Embedding
        block: Block
        head: eqx.nn.Linear

        def __init__(self, key):
            keys = jax.random.split(key, 3)
            self.table, self.block = eqx.nn.Embedding(VOCAB, WIDTH, key=keys[0]), Block(keys[1])
            self.head = eqx.nn.Linear(WIDTH, VOCAB, key=keys[2])

        def __call__(self, tokens):
            return jax.vmap(self.head)(self.block(jax.vmap(self.table)(tokens)))

    def loss(model, tokens):
        return cross_entropy(jax.vmap(model)(tokens)[:, :-1], tokens[:, 1:])

    return wb.from_equinox(Decoder, loss, TOKENS, optimizer=OPTIMIZER)
