"""DenseNet of KerasHub on JAX: convolutions over all features before them, batch normalisation, RMSprop."""

from typing import Any

import optax

import workbench as wb
from benchmarks.corpus.layouts import StatedLayout
from benchmarks.corpus.program import ThirdPartyProgram
from benchmarks.corpus.third_party.glue import mean_cross_entropy, spec
from benchmarks.corpus.third_party.keras_glue import shapes_of, stateless
from workbench.core.program import Program


def make_model() -> Any:
    import keras
    import keras_hub

    backbone = keras_hub.models.DenseNetBackbone(stackwise_num_repeats=[2, 2], image_shape=(128, 128, 3), growth_rate=64)
    pooled = keras.layers.GlobalAveragePooling2D()(backbone.output)
    return keras.Model(backbone.input, keras.layers.Dense(256, name="head")(pooled))


def build() -> Program:
    import keras

    keras.utils.clear_session()
    model = make_model()
    call = stateless(model)

    def loss(params, batch):
        return mean_cross_entropy(call(params, batch["state"], batch["images"]), batch["labels"])

    batch = {"images": spec((64, 128, 128, 3)), "labels": spec((64,), "int32"), "state": shapes_of(model.non_trainable_variables)}
    dims = {"batch/images": "batch height width channels", "batch/labels": "batch"}
    params = shapes_of(model.trainable_variables)
    return wb.trace_training(loss, params, batch, optimizer=optax.rmsprop(1e-3, momentum=0.9), dims=dims, name="keras_hub_densenet")


PROGRAM = ThirdPartyProgram(
    "keras_hub_densenet",
    "convolutional network",
    ("keras-hub", "keras"),
    build,
    tensor_parallel=StatedLayout("data:4 model:2", "batch:data; *_1_conv/kernel=[-, -, -, model]; *_2_conv/kernel=[-, -, model, -]"),
)
