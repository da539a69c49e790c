"""A residual network of dm-haiku, four groups of one block: convolutions, batch normalisation over all examples, momentum."""

from typing import Any

import jax
import optax

import workbench as wb
from benchmarks.corpus.layouts import StatedLayout
from benchmarks.corpus.program import ThirdPartyProgram
from benchmarks.corpus.third_party.glue import mean_cross_entropy, spec
from workbench.core.program import Program


def make_model() -> Any:
    import haiku as hk

    def forward(images):
        return hk.nets.ResNet((1, 1, 1, 1), 1000, bottleneck=False, channels_per_group=(64, 128, 256, 512))(images, is_training=True)

    return forward


def build() -> Program:
    import haiku as hk

    forward = make_model()
    net = hk.without_apply_rng(hk.transform_with_state(forward))
    images = spec((64, 128, 128, 3))
    params, state = jax.eval_shape(net.init, jax.eval_shape(lambda: jax.random.key(0)), images)

    def loss(params, batch):
        logits, state = net.apply(params, batch["state"], batch["images"])
        return mean_cross_entropy(logits, batch["labels"]), state

    batch = {"images": images, "labels": spec((64,), "int32"), "state": state}
    optimizer = optax.sgd(0.1, momentum=0.9, nesterov=True)
    dims = {"batch/images": "batch height width channels", "batch/labels": "batch"}
    return wb.trace_training(loss, params, batch, optimizer=optimizer, dims=dims, name="haiku_resnet")


PROGRAM = ThirdPartyProgram(
    "haiku_resnet",
    "convolutional network",
    ("dm-haiku",),
    build,
    tensor_parallel=StatedLayout(
        "data:4 model:2", "batch:data; params/**/conv_0/w=[-, -, -, model]; params/**/conv_1/w=[-, -, model, -]; logits/w=[model, -]"
    ),
)
