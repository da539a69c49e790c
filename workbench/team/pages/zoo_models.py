"""The models of the zoo, for the form that begins with one: the server itself cannot import them, and a test holds that these are they."""

import json
from collections.abc import Iterator
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class ZooModel:
    """A model by its name, what it is, and its presets."""

    name: str
    about: str
    presets: tuple[str, ...] = ()


_DECODER_PRESETS = (
    "tiny",
    "megatron-22b",
    "megatron-175b",
    "megatron-530b",
    "megatron-1t",
    "llama2-7b",
    "llama2-13b",
    "llama2-70b",
    "llama3-8b",
    "llama3-70b",
    "llama3-405b",
    "maxtext-16b",
    "maxtext-32b",
    "maxtext-64b",
    "gpipe-3",
    "gpipe-13",
    "gpipe-103",
    "gpipe-415",
    "gpipe-1663",
    "maxtext-128b",
)
_MIXTURE_PRESETS = (
    "tiny",
    "tiny-top2",
    "glam-64b-64e",
    "deepseek-v2",
    "deepseek-v3",
)

ZOO_MODELS = (
    ZooModel("two_layer", "Mesh-TensorFlow's example of two matrices: output and weight gradients"),
    ZooModel("einsum", "one product of tensors, or none: what a lesson begins with"),
    ZooModel("mnist", "Mesh-TensorFlow's classifier of 28 x 28 images, trained with SGD on drawn digits"),
    ZooModel(
        "decoder",
        "a decoder Transformer of today; presets of Llama 2 and 3, Megatron, MaxText and GPipe",
        _DECODER_PRESETS,
    ),
    ZooModel(
        "mixture",
        "a mixture-of-experts Transformer with latent attention; presets of DeepSeek-V2 and V3 and of GLaM",
        _MIXTURE_PRESETS,
    ),
    ZooModel(
        "t5",
        "an encoder-decoder Transformer; presets of T5, the largest of 290 billion parameters",
        (
            "tiny",
            "t5-base",
            "t5-11b",
            "t5-300b",
        ),
    ),
    ZooModel(
        "conformer",
        "an encoder of speech that convolves and attends; preset of BigSSL",
        (
            "tiny",
            "bigssl-10b",
        ),
    ),
    ZooModel(
        "unet",
        "a 3-D U-Net for volumes too large for a device; presets of Cicek, Mesh-TensorFlow and MLPerf",
        (
            "tiny",
            "cicek-2016",
            "mesh-tensorflow",
            "mlperf-kits19",
        ),
    ),
    ZooModel(
        "amoebanet",
        "a convolutional network of unequal cells, each reading the two before; presets of GPipe",
        (
            "tiny",
            "gpipe-18-208",
            "gpipe-18-256",
            "gpipe-18-416",
            "gpipe-18-544",
            "gpipe-36-544",
            "gpipe-72-512",
        ),
    ),
    ZooModel(
        "deep_unet",
        "a 2-D U-Net of many convolutions a level; presets of torchgpipe's benchmarks",
        (
            "tiny",
            "torchgpipe-6-72",
            "torchgpipe-11-128",
            "torchgpipe-24-128",
            "torchgpipe-24-160",
            "torchgpipe-48-160",
        ),
    ),
    ZooModel(
        "decoder_prefill",
        "inference of the decoder Transformer: a prompt is read and its keys and values are cached",
        _DECODER_PRESETS,
    ),
    ZooModel(
        "decoder_decode",
        "inference of the decoder Transformer: one token of each sequence, attending to the cache",
        _DECODER_PRESETS,
    ),
    ZooModel(
        "mixture_prefill",
        "inference of the mixture of experts: a prompt is read and its latents are cached",
        _MIXTURE_PRESETS,
    ),
    ZooModel(
        "mixture_decode",
        "inference of the mixture of experts: one token of each sequence, attending to the cached latents",
        _MIXTURE_PRESETS,
    ),
    ZooModel(
        "gpt",
        "a decoder Transformer from bytes of English to 175 billion parameters, trained with Adam",
        (
            "tiny",
            "tiny-wide",
            "gpt2-small",
            "gpt3-small",
            "gpt3-medium",
            "gpt3-large",
            "gpt3-1.3b",
            "gpt3-2.7b",
            "gpt3-6.7b",
            "gpt3-13b",
            "gpt3-175b",
            "gspmd-64b",
            "narrow-32b",
            "narrow-64b",
            "narrow-128b",
            "narrow-256b",
            "narrow-512b",
            "gpt-1t",
            "meena-500b",
            "mlperf-200b",
        ),
    ),
)


def zoo_choices() -> Iterator[tuple[str, str]]:
    """The choices of the form: a plan's name and program as its document has them, and what people read."""
    for model in ZOO_MODELS:
        yield _begun(model.name), f"{model.name}: {model.about}"
        for preset in model.presets:
            yield _begun(model.name, preset), f"{model.name}, preset {preset}"


def zoo_document(begun: str, devices: str) -> str:
    """The document of a choice, on so many devices along one mesh axis."""
    ends = '{"format": "sharding-workbench.plan", "version": 1, ', f', "mesh": [["data", {devices}]], "layout": {{"rules": {{}}}}}}'
    return begun.join(ends)


def _begun(target: str, preset: str = "") -> str:
    program = {"target": target, "arguments": {"preset": preset} if preset else {}}
    return json.dumps({"name": f"{target} {preset}".strip(), "program": program})[1:-1]
