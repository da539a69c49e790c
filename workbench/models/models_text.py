"""The zoo as text: a table of all models, and every argument of one with what it may be."""

import json
from collections.abc import Iterable
from textwrap import fill
from typing import Any

from workbench.core.text_tables import WIDTH, table_text
from workbench.models.choose_preset import choose_preset
from workbench.models.config_fields import argument_words
from workbench.models.registry import Model


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


def _value_text(model: Model, config: Any, preset: str, name: str) -> str:
    value = preset if name == "preset" else model.arguments[name] or getattr(config, name, model.arguments[name])
    return "-" if value in (None, "") else json.dumps(value).strip('"')


def _kind_text(model: Model, name: str) -> str:
    words = argument_words(model.config, name)
    several = name == "fused"
    return (
        (f"{'some' if several else 'one'} of {', '.join(words)}") if words else "a preset" if name == "preset" else str(model.kind_of(name))
    )


def _argument_text(name: str, default: object) -> str:
    """`layers=2`; without a value where the model has its own default."""
    return name if default is None else f"{name}={json.dumps(default)}"
