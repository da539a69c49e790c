"""The visual state-space model of Equimo (Mamba 2 without its order), in Equinox: two stages, the image halved between."""

from typing import Any

import jax
import optax

import workbench as wb
from benchmarks.corpus.layouts import StatedLayout
from benchmarks.corpus.program import ThirdPartyProgram
from benchmarks.corpus.third_party.equinox_glue import arrays_of
from benchmarks.corpus.third_party.glue import mean_cross_entropy, spec
from workbench.core.program import Program


def make_model(key: Any) -> Any:
    from equimo.models import Vssd

    return Vssd(
        img_size=128, in_channels=3, dim=128, depths=[1, 1], num_heads=[4, 8], attentions_layers=("mamba2mixer", "attention"), key=key
    )


def build() -> Program:
    import equinox as eqx

    arrays, rest = arrays_of(make_model)

    def loss(arrays, batch):
        model = eqx.combine(arrays, rest)
        logits = jax.vmap(lambda image: model(image, key=jax.random.key(0), inference=True))(batch["images"])
        return mean_cross_entropy(logits, batch["labels"])

    batch = {"images": spec((32, 3, 128, 128)), "labels": spec((32,), "int32")}
    dims = {"images": "batch channels height width", "labels": "batch"}
    return wb.trace_training(loss, arrays, batch, optimizer=optax.adamw(1e-3), dims=dims, name="equimo_vssd")


PROGRAM = ThirdPartyProgram(
    "equimo_vssd",
    "state-space model",
    ("equimo", "equinox"),
    build,
    tensor_parallel=StatedLayout(
        "data:4 model:2",
        "batch:data; mlp/fc1/weight=[model, -]; mlp/fc1/bias=[model]; mlp/fc2/weight=[-, model]",
    ),
)
