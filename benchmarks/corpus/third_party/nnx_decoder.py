"""A decoder of Flax NNX's own layers, its blocks stacked and scanned over with `nnx.scan`, bfloat16 activations."""

from typing import Any

import jax
import jax.numpy as jnp
import optax

import workbench as wb
from benchmarks.corpus.layouts import MEGATRON
from benchmarks.corpus.program import ThirdPartyProgram
from benchmarks.corpus.third_party.glue import mean_cross_entropy, tokens
from workbench.core.program import Program

WIDTH, HIDDEN, HEADS, LAYERS, WORDS, LENGTH = 512, 2048, 8, 6, 8192, 256


def make_model(rngs: Any) -> Any:
    from flax import nnx

    class Block(nnx.Module):
        def __init__(self, rngs):
            kind = {"dtype": jnp.bfloat16, "rngs": rngs}
            self.attention = nnx.MultiHeadAttention(HEADS, WIDTH, decode=False, use_bias=False, **kind)
            self.up = nnx.Linear(WIDTH, HIDDEN, use_bias=False, **kind)
            self.down = nnx.Linear(HIDDEN, WIDTH, use_bias=False, **kind)
            self.before, self.between = nnx.RMSNorm(WIDTH, **kind), nnx.RMSNorm(WIDTH, **kind)

        def __call__(self, x):
            x = x + self.attention(self.before(x), mask=nnx.make_causal_mask(x[..., 0]))
            return x + self.down(jax.nn.gelu(self.up(self.between(x))))

    class Decoder(nnx.Module):
        def __init__(self, rngs):
            self.table = nnx.Embed(WORDS, WIDTH, dtype=jnp.bfloat16, rngs=rngs)
            self.blocks = nnx.vmap(Block, in_axes=0, out_axes=0)(rngs.fork(split=LAYERS))
            self.norm = nnx.RMSNorm(WIDTH, dtype=jnp.bfloat16, rngs=rngs)

        def __call__(self, words):
            step = nnx.scan(lambda x, block: block(x), in_axes=(nnx.Carry, 0), out_axes=nnx.Carry)
            return self.table.attend(self.norm(step(self.table(words), self.blocks)))

    return Decoder(rngs)


def build() -> Program:
    from flax import nnx

    graph, params, rest = nnx.split(nnx.eval_shape(lambda: make_model(nnx.Rngs(0))), nnx.Param, ...)

    def loss(params, batch):
        model = nnx.merge(graph, params, batch["rest"], copy=True)
        return mean_cross_entropy(model(batch["tokens"])[:, :-1], batch["tokens"][:, 1:])

    dims = {
        "batch/tokens": "batch seq",
        "embedding/**": "vocab d_model",
        "query/kernel/**": "layers d_model heads d_head",
        "key/kernel/**": "layers d_model heads d_head",
        "value/kernel/**": "layers d_model heads d_head",
        "out/kernel/**": "layers heads d_head d_model",
        "up/kernel/**": "layers d_model d_ff",
        "down/kernel/**": "layers d_ff d_model",
    }
    batch = {"tokens": tokens(32, LENGTH), "rest": rest}
    return wb.trace_training(loss, params, batch, optimizer=optax.adamw(3e-4), dims=dims, name="nnx_decoder")


PROGRAM = ThirdPartyProgram("nnx_decoder", "decoder-only language model", ("flax",), build, tensor_parallel=MEGATRON)
