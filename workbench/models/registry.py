"""The zoo's members, and programs by name, which a plan document refers to; and the zoo as text, its models and their arguments."""

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
    layers_beside_dense,
    levels,
    one_piece,
    unrolled_layers,
    verify_pieces,
)


@dataclass(frozen=True, slots=True)
class Model:
    """A program to plan with: its name in documents, one line about it, how it is built, and layouts worth trying.

    **Invariants**

    - `build` takes keyword arguments with defaults, and the fields of `config`, if there is one, which change a preset: whole numbers,
      numbers, truth values, text, or lists of whole numbers, as JSON carries them.
    - `pieces` gives how many of its layers are traced separately, and a document may ask for `quick` of them: some four seconds.
    - `layouts` are pairs of mesh and layout text, legal for the defaults, on eight devices each.
    """

    name: str
    about: str
    build: Callable[..., Program]
    layouts: tuple[tuple[str, str], ...]
    pieces: Pieces = one_piece
    quick: int = 1
    presets: Mapping[str, Any] = field(default_factory=dict)

    @property
    def config(self) -> type | None:
        """The configuration whose fields are arguments, too; of a model without presets there is none."""
        return next(map(type, self.presets.values()), None)

    @property
    def arguments(self) -> Mapping[str, Any]:
        """The arguments of `build` and their defaults; `None` is a size or choice that the preset sets."""
        named = (each for each in inspect.signature(self.build).parameters.values() if each.kind is not inspect.Parameter.VAR_KEYWORD)
        own = {each.name: each.default for each in named}
        return own | {name: None for name in argument_kinds(self.config) if name not in own}

    def kind_of(self, argument: str) -> ArgumentKind:
        """What an argument may be: as the configuration has it, else as its default is."""
        default = self.arguments[argument]
        return argument_kinds(self.config)[argument] if default is None else ArgumentKind(type(default))


ALL_MODELS = (
    Model("two_layer", "Mesh-TensorFlow's example of two matrices: output and weight gradients", two_layer.build, two_layer.LAYOUTS),
    Model("einsum", "one product of tensors, or none: what a lesson begins with", einsum.build, einsum.LAYOUTS),
    Model("mnist", "Mesh-TensorFlow's classifier of 28 x 28 images, trained with SGD on drawn digits", mnist.build, mnist.LAYOUTS),
    Model(
        "decoder",
        "a decoder Transformer of today; presets of Llama 2 and 3, Megatron, MaxText and GPipe",
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
        layers_beside_dense(mixture_config.PRESETS),
        quick=6,
        presets=mixture_config.PRESETS,
    ),
    Model(
        "t5",
        "an encoder-decoder Transformer; presets of T5, the largest of 290 billion parameters",
        t5.build,
        t5.LAYOUTS,
        unrolled_layers(t5.PRESETS),
        quick=6,
        presets=t5.PRESETS,
    ),
    Model(
        "conformer",
        "an encoder of speech that convolves and attends; preset of BigSSL",
        conformer.build,
        conformer.LAYOUTS,
        unrolled_layers(conformer.PRESETS),
        quick=6,
        presets=conformer.PRESETS,
    ),
    Model(
        "unet",
        "a 3-D U-Net for volumes too large for a device; presets of Cicek, Mesh-TensorFlow and MLPerf",
        unet.build,
        unet.LAYOUTS,
        levels(unet.PRESETS),
        quick=8,
        presets=unet.PRESETS,
    ),
    Model(
        "amoebanet",
        "a convolutional network of unequal cells, each reading the two before; presets of GPipe",
        amoebanet.build,
        amoebanet.LAYOUTS,
        cells(amoebanet_cells.PRESETS),
        quick=3,
        presets=amoebanet_cells.PRESETS,
    ),
    Model(
        "deep_unet",
        "a 2-D U-Net of many convolutions a level; presets of torchgpipe's benchmarks",
        deep_unet.build,
        deep_unet.LAYOUTS,
        convolutions(deep_unet.PRESETS),
        quick=96,
        presets=deep_unet.PRESETS,
    ),
    Model(
        "decoder_prefill",
        "inference of the decoder Transformer: a prompt is read and its keys and values are cached",
        decoder_inference.build_prefill,
        decoder_layouts.PREFILL_LAYOUTS,
        unrolled_layers(decoder_inference.PRESETS),
        quick=12,
        presets=decoder_inference.PRESETS,
    ),
    Model(
        "decoder_decode",
        "inference of the decoder Transformer: one token of each sequence, attending to the cache",
        decoder_inference.build_decode,
        decoder_layouts.DECODE_LAYOUTS,
        unrolled_layers(decoder_inference.PRESETS),
        quick=12,
        presets=decoder_inference.PRESETS,
    ),
    Model(
        "mixture_prefill",
        "inference of the mixture of experts: a prompt is read and its latents are cached",
        mixture_inference.build_prefill,
        mixture.PREFILL_LAYOUTS,
        layers_beside_dense(mixture_inference.PRESETS),
        quick=6,
        presets=mixture_inference.PRESETS,
    ),
    Model(
        "mixture_decode",
        "inference of the mixture of experts: one token of each sequence, attending to the cached latents",
        mixture_inference.build_decode,
        mixture.DECODE_LAYOUTS,
        layers_beside_dense(mixture_inference.PRESETS),
        quick=6,
        presets=mixture_inference.PRESETS,
    ),
    Model(
        "gpt",
        "a decoder Transformer from bytes of English to 175 billion parameters, trained with Adam",
        gpt.build,
        gpt.LAYOUTS,
        unrolled_layers(gpt_config.PRESETS),
        quick=24,
        presets=gpt_config.PRESETS,
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


def choose_config(name: str, /, preset: str = "tiny", **changes: Any) -> Any:
    """The configuration of a preset of model `name`, any of its fields changed: for `models.decoder_stage` and `models.mixture_stage`, or
    to read `parameters` from.

    Raises `DocumentError` as `build` does.
    """
    model = verify_model(name, changes)
    if model.config is None:
        raise DocumentError(f"Model `{name}` has no presets.", [f"write `build({name!r})`"])
    return choose_preset(model.presets, preset, **changes)


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
    default, kind = model.arguments[argument], model.kind_of(argument)
    if value is default or kind.accepts(value):
        for each in value if isinstance(value, list | tuple) else (value,):
            _verify_bound(model, argument, each)
        _verify_length(model, argument, value)
        return
    raise DocumentError(
        f"Model `{model.name}`: `{argument}` is {str(value)[:80]!r}; it should be {kind}.",
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


def _verify_length(model: Model, argument: str, value: Any) -> None:
    """Raises `DocumentError` for a list of more levels than can be planned."""
    if isinstance(value, list | tuple) and len(value) > MOST_LEVELS:
        raise DocumentError(
            f"Model `{model.name}`: `{argument}` has {len(value):,} sizes, one for each level; there can be {MOST_LEVELS} at most.",
            ["take fewer", "leave it out"],
        )


# The zoo as text: a table of all models, and every argument of one with what it may be.


def models_text(models: Iterable[Model]) -> str:
    """One row for each model."""
    rows = [(model.name, model.about, " ".join(_argument_text(*each) for each in model.arguments.items())) for model in models]
    table = table_text(["model", "what it is~", "arguments (--argument NAME=VALUE)~"], rows)
    return f"{table}\n\n`workbench models NAME` tells what each argument may be, `workbench models NAME PRESET` what it is in a preset."


def model_text(model: Model, preset: str | None = None) -> str:
    """Every argument of a model: its value in a preset, its default one if none is named, and what it may be.

    Raises `DocumentError` for a preset that is not there.
    """
    preset = preset or model.arguments.get("preset") or ""
    config = choose_preset(model.presets, preset) if model.config else None
    rows = [(name, _value_text(model, config, preset, name), _kind_text(model, name)) for name in model.arguments]
    presets = f"\n\n{fill('presets: ' + ' '.join(model.presets), WIDTH, break_on_hyphens=False)}" if model.presets else ""
    return f"{model.name}: {model.about}{presets}\n\n{table_text(['argument', f'in {preset}>' if preset else 'default>', 'may be~'], rows)}"


def model_record(model: Model, preset: str | None = None) -> dict[str, Any]:
    """A model as JSON carries it: each argument's value in a preset (by default the model's own), and the values it may have.

    Raises `DocumentError` for a preset that is not there.
    """
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
    """`layers=2`; without a value where the model has its own default."""
    return name if default is None else f"{name}={json.dumps(default)}"
