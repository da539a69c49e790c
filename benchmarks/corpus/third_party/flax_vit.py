"""The vision transformer of Transformers, in Flax Linen: images to classes, bfloat16 activations."""

import jax.numpy as jnp
import optax

import workbench as wb
from benchmarks.corpus.layouts import MEGATRON
from benchmarks.corpus.program import ThirdPartyProgram
from benchmarks.corpus.third_party.glue import mean_cross_entropy, spec
from workbench.core.program import Program


def build() -> Program:
    from transformers import FlaxViTForImageClassification, ViTConfig

    config = ViTConfig(hidden_size=384, num_hidden_layers=2, num_attention_heads=8, intermediate_size=1536, num_labels=1000)
    model = FlaxViTForImageClassification(config, dtype=jnp.bfloat16, _do_init=False)

    def loss(model, batch):
        return mean_cross_entropy(model(batch["images"], train=False).logits, batch["labels"])

    dims = {
        "batch/images": "batch channels height width",
        "batch/labels": "batch",
        "query/kernel": "d_model heads",
        "key/kernel": "d_model heads",
        "value/kernel": "d_model heads",
        "attention/output/dense/kernel": "heads d_model",
        "intermediate/dense/kernel": "d_model d_ff",
        "*/output/dense/kernel": "d_ff d_model",
    }
    batch = {"images": spec((64, 3, 224, 224)), "labels": spec((64,), "int32")}
    return wb.from_flax(model, loss, batch, optimizer=optax.adamw(1e-3), dims=dims, name="flax_vit")


PROGRAM = ThirdPartyProgram("flax_vit", "vision transformer", ("transformers", "flax"), build, tensor_parallel=MEGATRON)
