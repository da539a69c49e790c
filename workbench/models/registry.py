"""The models of the zoo, their programs by name, as plan documents refer to them, and text views of the zoo."""

import inspect
import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from textwrap import fill
from typing import Any

from workbench.core.program import Program, Reference
from workbench.core.text_tables import WIDTH, table_text
from workbench.errors import DocumentError, unknown_name
from workbench.models import amoebanet, amoebanet_cells, conformer, deep_unet, einsum, gpt, gpt_config, mnist, t5, two_layer, unet
from workbench.models.config_fields import ArgumentKind, argument_kinds, argument_words, choose_preset
from workbench.models.decoder import decoder, decoder_config, decoder_inference, decoder_layouts
from workbench.models.mixture import mixture, mixture_config, mixture_inference
from workbench.models.size_limits import (
    MOST,
    MOST_LETTERS,
    MOST_LEVELS,
    MOST_RATE,
    Pieces,
    cells,
    convolutions,
    levels,
    one_piece,
    unrolled_and_dense_layers,
    unrolled_layers,
    verify_pieces,
)


@dataclass(frozen=True, slots=True)
class Model:
    """A model of the zoo: name in documents, one line of description, builder, and suggested layouts.

    **Invariants**

    - `build` takes keyword arguments with defaults, and the fields of `config`, if there is one, as overrides of a
      preset: integers, numbers, booleans, text, or lists of integers, as in JSON.
    - `pieces` gives the number of separately traced layers; a document may ask for `quick` of them: about four seconds.
    - `parameters`: of the defaults of a model without presets; 0 if it has none.
    - `layouts` are pairs of mesh and layout text for eight devices, legal for the defaults.
    """

    name: str
    about: str
    build: Callable[..., Program]
    layouts: tuple[tuple[str, str], ...]
    pieces: Pieces = one_piece
    quick: int = 1
    presets: Mapping[str, Any] = field(default_factory=dict)
    parameters: int = 0

    @property
    def config(self) -> type | None:
        return next(map(type, self.presets.values()), None)

    @property
    def arguments(self) -> Mapping[str, Any]:
        """Arguments of `build` with their defaults; `None` for a field that the preset sets."""
        named = (item for item in inspect.signature(self.build).parameters.values() if item.kind is not inspect.Parameter.VAR_KEYWORD)
        defaults = {parameter.name: parameter.default for parameter in named}
        return defaults | {name: None for name in argument_kinds(self.config) if name not in defaults}

    def kind_of(self, argument: str) -> ArgumentKind:
        """Return the kind of an argument, from the configuration or else from its default."""
        default = self.arguments[argument]
        return argument_kinds(self.config)[argument] if default is None else ArgumentKind(type(default))


ALL_MODELS = (
    Model("two_layer", "the Mesh-TensorFlow paper's example: two matrix products and their gradients", two_layer.build, two_layer.LAYOUTS),
    Model("einsum", "one einsum, or a copy without a product, for lessons", einsum.build, einsum.LAYOUTS),
    Model(
        "mnist",
        "Mesh-TensorFlow's classifier of 28 x 28 images, trained with SGD on synthetic digits",
        mnist.build,
        mnist.LAYOUTS,
        parameters=814_090,
    ),
    Model(
        "decoder",
        "a current decoder Transformer; presets of Llama 2 and 3, Megatron, MaxText and GPipe",
        decoder.build,
        decoder_layouts.LAYOUTS,
        unrolled_layers(decoder_config.PRESETS),
        quick=12,
        presets=decoder_config.PRESETS,
    ),
    Model(
        "mixture",
        "a mixture-of-experts Transformer with latent attention; presets of DeepSeek-V2 and V3 and of GLaM",
        mixture.build,
        mixture.LAYOUTS,
        unrolled_and_dense_layers(mixture_config.PRESETS),
        quick=6,
        presets=mixture_config.PRESETS,
    ),
    Model(
        "t5",
        "an encoder-decoder Transformer; presets of T5 up to 290 billion parameters",
        t5.build,
        t5.LAYOUTS,
        unrolled_layers(t5.PRESETS),
        quick=6,
        presets=t5.PRESETS,
    ),
    Model(
        "conformer",
        "a speech encoder of convolutions and attention; preset of BigSSL",
        conformer.build,
        conformer.LAYOUTS,
        unrolled_layers(conformer.PRESETS),
        quick=6,
        presets=conformer.PRESETS,
    ),
    Model(
        "unet",
        "a 3-D U-Net for volumes too large for one device; presets of Cicek, Mesh-TensorFlow and MLPerf",
        unet.build,
        unet.LAYOUTS,
        levels(unet.PRESETS),
        quick=8,
        presets=unet.PRESETS,
    ),
    Model(
        "amoebanet",
        "a convolutional network of different cells, each reading the two previous ones; presets of GPipe",
        amoebanet.build,
        amoebanet.LAYOUTS,
        cells(amoebanet_cells.PRESETS),
        quick=3,
        presets=amoebanet_cells.PRESETS,
    ),
    Model(
        "deep_unet",
        "a 2-D U-Net with many convolutions per level; presets of torchgpipe's benchmarks",
        deep_unet.build,
        deep_unet.LAYOUTS,
        convolutions(deep_unet.PRESETS),
        quick=96,
        presets=deep_unet.PRESETS,
    ),
    Model(
        "decoder_prefill",
        "inference with the decoder Transformer: reads a prompt and caches its keys and values",
        decoder_inference.build_prefill,
        decoder_layouts.PREFILL_LAYOUTS,
        unrolled_layers(decoder_inference.PRESETS),
        quick=12,
        presets=decoder_inference.PRESETS,
    ),
    Model(
        "decoder_decode",
        "inference with the decoder Transformer: one token per sequence, which attends to the cache",
        decoder_inference.build_decode,
        decoder_layouts.DECODE_LAYOUTS,
        unrolled_layers(decoder_inference.PRESETS),
        quick=12,
        presets=decoder_inference.PRESETS,
    ),
    Model(
        "mixture_prefill",
        "inference with the mixture of experts: reads a prompt and caches its latents",
        mixture_inference.build_prefill,
        mixture.PREFILL_LAYOUTS,
        unrolled_and_dense_layers(mixture_inference.PRESETS),
        quick=6,
        presets=mixture_inference.PRESETS,
    ),
    Model(
        "mixture_decode",
        "inference with the mixture of experts: one token per sequence, which attends to the cached latents",
        mixture_inference.build_decode,
        mixture.DECODE_LAYOUTS,
        unrolled_and_dense_layers(mixture_inference.PRESETS),
        quick=6,
        presets=mixture_inference.PRESETS,
    ),
    Model(
        "gpt",
        "a GPT, from a small byte-level model to a trillion parameters, trained with Adam",
        gpt.build,
        gpt.LAYOUTS,
        unrolled_layers(gpt_config.PRESETS),
        quick=24,
        presets=gpt_config.PRESETS,
    ),
)


FORMER_DIMS = {"queries": "q_per_kv", "shares": "qkv", "gates": "gate_up"}
"""Present names of dimensions by their former names."""


def build(name: str, /, **arguments: Any) -> Program:
    """Build a model's program with its document reference. Raises `DocumentError` for invalid arguments."""
    program = verify_model(name, arguments).build(**arguments)
    return replace(program, reference=Reference(name, arguments), former_dims=FORMER_DIMS)


def choose_config(name: str, /, preset: str = "tiny", **changes: Any) -> Any:
    """Return the configuration of a preset with some fields changed, for `models.decoder_stage` and
    `models.mixture_stage`.

    It also gives the number of `parameters`. Raises `DocumentError` like `build`.
    """
    model = verify_model(name, changes)
    if model.config is None:
        raise DocumentError(f"Model `{name}` has no presets.", [f"write `build({name!r})`"])
    return choose_preset(model.presets, preset, **changes)


def verify_model(name: str, arguments: Mapping[str, Any]) -> Model:
    """Return the model of that name if it accepts these arguments. Raises `DocumentError` otherwise."""
    model = next((member for member in ALL_MODELS if member.name == name), None)
    if model is None:
        raise DocumentError(*unknown_name("model", name, (known.name for known in ALL_MODELS)))
    for argument, value in arguments.items():
        _verify_argument(model, argument, value)
    return model


def verify_quick(name: str, arguments: Mapping[str, Any], whose: str) -> None:
    """Raise `DocumentError` if a model is invalid or takes long to trace; `whose` names the request."""
    model = verify_model(name, arguments)
    verify_pieces(whose, name, model.pieces({**model.arguments, **arguments}), model.quick)


def _verify_argument(model: Model, argument: str, value: Any) -> None:
    if argument not in model.arguments:
        message, ways_out = unknown_name("argument", argument, model.arguments)
        raise DocumentError(f"Model `{model.name}`: {message}", ways_out)
    default, kind = model.arguments[argument], model.kind_of(argument)
    if value is default or kind.accepts(value):
        for item in value if isinstance(value, list | tuple) else (value,):
            _verify_bound(model, argument, item)
        _verify_length(model, argument, value)
        return
    raise DocumentError(
        f"Model `{model.name}`: `{argument}` is {str(value)[:80]!r}; it should be {kind}.",
        [f"leave it out for {default!r}" if default is not None else "omit it to use the value of the preset"],
    )


def _verify_bound(model: Model, argument: str, value: Any) -> None:
    if value is None or isinstance(value, bool):
        return
    size = len(value) if isinstance(value, str) else value
    most, unit = (MOST_LETTERS, " letters long") if isinstance(value, str) else (MOST.get(argument, MOST_RATE), "")
    if not size <= most:
        shown = f"{size:,}" if abs(size) < 10**18 else f"{size:.2g}" if isinstance(size, float) else "10**18 or more"
        raise DocumentError(
            f"Model `{model.name}`: `{argument}` is {shown}{unit}; the maximum is {most:,.0f}.", ["take a smaller one", "leave it out"]
        )


def _verify_length(model: Model, argument: str, value: Any) -> None:
    if isinstance(value, list | tuple) and len(value) > MOST_LEVELS:
        raise DocumentError(
            f"Model `{model.name}`: `{argument}` has {len(value):,} sizes, one for each level; there can be {MOST_LEVELS} at most.",
            ["take fewer", "leave it out"],
        )


# Text views of the zoo: a table of all models, and the arguments of one model with their allowed values.


def models_text(models: Iterable[Model]) -> str:
    rows = [(model.name, model.about, " ".join(_argument_text(*argument) for argument in model.arguments.items())) for model in models]
    table = table_text(["model", "what it is~", "arguments (--argument NAME=VALUE)~"], rows)
    return f"{table}\n\n`workbench models NAME` tells what each argument may be, `workbench models NAME PRESET` what it is in a preset."


def model_text(model: Model, preset: str | None = None) -> str:
    """Arguments of a model in a preset, with allowed values. Raises `DocumentError` for an unknown preset."""
    preset = preset or model.arguments.get("preset") or ""
    config = choose_preset(model.presets, preset) if model.config else None
    rows = [(name, _value_text(model, config, preset, name), _kind_text(model, name)) for name in model.arguments]
    presets = f"\n\n{fill('presets: ' + ' '.join(model.presets), WIDTH, break_on_hyphens=False)}" if model.presets else ""
    return f"{model.name}: {model.about}{presets}\n\n{table_text(['argument', f'in {preset}>' if preset else 'default>', 'may be~'], rows)}"


def model_record(model: Model, preset: str | None = None) -> dict[str, Any]:
    """JSON values of a model's arguments in a preset. Raises `DocumentError` for an unknown preset."""
    preset = preset or model.arguments.get("preset") or ""
    config = choose_preset(model.presets, preset) if model.config else None
    arguments = {name: {"value": _value(model, config, preset, name), "may_be": _kind_text(model, name)} for name in model.arguments}
    named = {"name": model.name, "about": model.about, "presets": list(model.presets), "preset": preset or None}
    return {**named, "arguments": arguments, "layouts": [{"mesh": mesh, "layout": layout} for mesh, layout in model.layouts]}


def _value_text(model: Model, config: Any, preset: str, name: str) -> str:
    value = _value(model, config, preset, name)
    return "-" if value in (None, "") else json.dumps(value).strip('"')


def _value(model: Model, config: Any, preset: str, name: str) -> Any:
    return preset if name == "preset" else model.arguments[name] or getattr(config, name, model.arguments[name])


def _kind_text(model: Model, name: str) -> str:
    words = argument_words(model.config, name)
    several = name == "fused"
    return (
        (f"{'some' if several else 'one'} of {', '.join(words)}") if words else "a preset" if name == "preset" else str(model.kind_of(name))
    )


def _argument_text(name: str, default: object) -> str:
    return name if default is None else f"{name}={json.dumps(default)}"
