"""The zoo's members, and programs by name: what a plan document refers to."""

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from workbench.core.program import Program, Reference
from workbench.errors import DocumentError, unknown_name
from workbench.models import mnist, two_layer
from workbench.models.amoebanet import amoebanet
from workbench.models.amoebanet import config as amoebanet_config
from workbench.models.conformer import config as conformer_config
from workbench.models.conformer import conformer
from workbench.models.decoder import config as decoder_config
from workbench.models.decoder import decoder
from workbench.models.decoder import layouts as decoder_layouts
from workbench.models.deep_unet import config as deep_unet_config
from workbench.models.deep_unet import deep_unet
from workbench.models.gpt import config as gpt_config
from workbench.models.gpt import gpt
from workbench.models.mixture import config as mixture_config
from workbench.models.mixture import layouts as mixture_layouts
from workbench.models.mixture import mixture
from workbench.models.size_limits import (
    MOST,
    MOST_LETTERS,
    MOST_RATE,
    Pieces,
    cells,
    convolutions,
    one_piece,
    unrolled_layers,
    verify_pieces,
)
from workbench.models.t5 import config as t5_config
from workbench.models.t5 import t5
from workbench.models.unet import unet


@dataclass(frozen=True, slots=True)
class Model:
    """A program to plan with: its name in documents, one line about it, how it is built, and layouts worth trying.

    **Invariants**

    - `build` takes keyword arguments with defaults, whole numbers, numbers, truth values or text: JSON carries them.
    - `pieces` gives how many of its layers are traced separately, and a document may ask for `quick` of them: some four seconds.
    - `layouts` are pairs of mesh and layout text, legal for the defaults, on eight devices each.
    """

    name: str
    about: str
    build: Callable[..., Program]
    layouts: tuple[tuple[str, str], ...]
    pieces: Pieces = one_piece
    quick: int = 1

    @property
    def arguments(self) -> Mapping[str, Any]:
        """The arguments of `build` and their defaults; `None` is a size that the preset sets."""
        return {name: parameter.default for name, parameter in inspect.signature(self.build).parameters.items()}


ALL_MODELS = (
    Model("two_layer", "Mesh-TensorFlow's example of two matrices: output and weight gradients", two_layer.build, two_layer.LAYOUTS),
    Model("mnist", "Mesh-TensorFlow's classifier of 28 x 28 images, trained with SGD on drawn digits", mnist.build, mnist.LAYOUTS),
    Model(
        "decoder",
        "a decoder Transformer of today; presets of Llama 3, Megatron and MaxText",
        decoder.build,
        decoder_layouts.LAYOUTS,
        unrolled_layers(decoder_config.PRESETS),
        quick=12,
    ),
    Model(
        "mixture",
        "a mixture-of-experts Transformer with latent attention; presets of DeepSeek-V2 and V3 and of GLaM",
        mixture.build,
        mixture_layouts.LAYOUTS,
        unrolled_layers(mixture_config.PRESETS),
        quick=6,
    ),
    Model(
        "t5",
        "an encoder-decoder Transformer; presets of T5, the largest of 290 billion parameters",
        t5.build,
        t5.LAYOUTS,
        unrolled_layers(t5_config.PRESETS),
        quick=6,
    ),
    Model(
        "conformer",
        "an encoder of speech that convolves and attends; preset of BigSSL",
        conformer.build,
        conformer.LAYOUTS,
        unrolled_layers(conformer_config.PRESETS),
        quick=6,
    ),
    Model("unet", "a 3-D U-Net for volumes too large for a device; presets of Cicek, Mesh-TensorFlow and MLPerf", unet.build, unet.LAYOUTS),
    Model(
        "amoebanet",
        "a convolutional network of unequal cells, each reading the two before; presets of GPipe",
        amoebanet.build,
        amoebanet.LAYOUTS,
        cells(amoebanet_config.PRESETS),
        quick=3,
    ),
    Model(
        "deep_unet",
        "a 2-D U-Net of many convolutions a level; presets of torchgpipe's benchmarks",
        deep_unet.build,
        deep_unet.LAYOUTS,
        convolutions(deep_unet_config.PRESETS),
        quick=96,
    ),
    Model(
        "gpt",
        "a decoder Transformer from bytes of English to 175 billion parameters, trained with Adam",
        gpt.build,
        gpt.LAYOUTS,
        unrolled_layers(gpt_config.PRESETS),
        quick=24,
    ),
)


FORMER_DIMS = {"queries": "q_per_kv", "shares": "qkv", "gates": "gate_up"}
"""Former names of the models' dimensions, and their present names."""


def build(name: str, /, **arguments: Any) -> Program:
    """The program of model `name`, with the reference that a plan document keeps of it.

    Raises `DocumentError` for a model or argument that is not there, or a value of the wrong kind.
    """
    program = verify_model(name, arguments).build(**arguments)
    return replace(program, reference=Reference(name, arguments), former_dims=FORMER_DIMS)


def verify_model(name: str, arguments: Mapping[str, Any]) -> Model:
    """The model of that name, if it takes these arguments. Raises `DocumentError` otherwise."""
    model = next((each for each in ALL_MODELS if each.name == name), None)
    if model is None:
        raise DocumentError(*unknown_name("model", name, (each.name for each in ALL_MODELS)))
    for argument, value in arguments.items():
        _verify_argument(model, argument, value)
    return model


def verify_quick(name: str, arguments: Mapping[str, Any], whose: str) -> None:
    """Raises `DocumentError` for a model that takes long to trace, `whose` is what asks for it; and what `verify_model` raises."""
    model = verify_model(name, arguments)
    verify_pieces(whose, name, model.pieces({**model.arguments, **arguments}), model.quick)


def _verify_argument(model: Model, argument: str, value: Any) -> None:
    if argument not in model.arguments:
        message, ways_out = unknown_name("argument", argument, model.arguments)
        raise DocumentError(f"Model `{model.name}`: {message}", ways_out)
    default = model.arguments[argument]
    kind = int if default is None else type(default)
    fits = isinstance(value, (int, float) if kind is float else kind) and isinstance(value, bool) == (kind is bool)
    if value is default or (fits and (kind in (bool, str) or value > 0)):
        _verify_bound(model, argument, value)
        return
    words = {bool: "true or false", str: "text", int: "a whole number from 1", float: "a number above 0"}[kind]
    raise DocumentError(
        f"Model `{model.name}`: `{argument}` is {str(value)[:80]!r}; it should be {words}.",
        [f"leave it out for {default!r}" if default is not None else "leave it out for the preset's own"],
    )


def _verify_bound(model: Model, argument: str, value: Any) -> None:
    """Raises `DocumentError` for a value beyond what can be planned; not a number (NaN) is beyond as well."""
    if value is None or isinstance(value, bool):
        return
    size = len(value) if isinstance(value, str) else value
    most, unit = (MOST_LETTERS, " letters long") if isinstance(value, str) else (MOST.get(argument, MOST_RATE), "")
    if not size <= most:
        shown = f"{size:,}" if abs(size) < 10**18 else f"{size:.2g}" if isinstance(size, float) else "10**18 or more"
        raise DocumentError(
            f"Model `{model.name}`: `{argument}` is {shown}{unit}; it can be {most:,.0f} at most.", ["take a smaller one", "leave it out"]
        )
