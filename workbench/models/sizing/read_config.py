"""Read a Hugging Face `config.json` into an `Architecture`, by the table of families in `config_families.toml`. Nothing is downloaded."""

import json
import re
import tomllib
from collections.abc import Mapping
from dataclasses import MISSING, asdict, dataclass, field, fields
from functools import cache
from math import prod
from pathlib import Path
from typing import Any

from workbench.core.parse_untrusted import UnreadableError, parse_json, read_text, verify_length
from workbench.errors import DocumentError, unknown_name
from workbench.models.sizing.architecture import Architecture

FAMILIES_FILE = Path(__file__).with_name("config_families.toml")
CONFIG_NAME = "config.json"
MOST_SIZE = 1 << 24
"""The largest size that a file may have: 50 times the largest published vocabulary."""
MOST_LAYERS = 1 << 12
_REPOSITORY = re.compile(r"[\w-][\w.-]*/[\w.-]*\w(?<!\.json)")
NESTED = ("text_config", "llm_config", "language_config")
"""Where a model that also reads pictures or sound has the configuration of its language model."""


@dataclass(frozen=True)
class Family:
    """How the files of one family are read; `config_families.toml` describes each field."""

    name: str
    about: str
    model_types: tuple[str, ...]
    absent: Mapping[str, Any] = field(default_factory=dict)
    read: Mapping[str, list[str]] = field(default_factory=dict)
    derive: Mapping[str, str | int] = field(default_factory=dict)
    set: Mapping[str, Any] = field(default_factory=dict)
    rules: tuple[Mapping[str, Any], ...] = ()
    stem: tuple[tuple[str | int, ...], ...] = ()
    only: Mapping[str, Any] = field(default_factory=dict)


@cache
def families() -> Mapping[str, Family]:
    """Every family by its name, each with the table of the one that it is like."""
    tables = tomllib.loads(FAMILIES_FILE.read_text(encoding="utf-8"))
    return {name: Family(name, **_merge_table(name, tables)) for name in tables}


def _merge_table(name: str, tables: Mapping[str, Any]) -> dict[str, Any]:
    table = dict(tables[name])
    base = _merge_table(like, tables) if (like := table.pop("like", "")) else {}
    return base | {key: {**base.get(key, {}), **value} if isinstance(value, dict) else value for key, value in table.items()}


def read_config(path: str | Path) -> Architecture:
    """The architecture in a `config.json`, or in the folder that holds it.

    Raises `DocumentError` for a file that cannot be read or is not JSON, for an unknown family, and for sizes that cannot be.
    """
    file = Path(path)
    file = file / CONFIG_NAME if file.is_dir() else file
    name = f"`{file}`"
    try:
        text = read_text(file)
        verify_length(text, name, CONFIG_NAME)
        values = parse_json(text)
    except OSError as error:
        ways_out = ["give a `config.json`, or the folder of a model that holds one", "name a model of the zoo, `llama3-8b`"]
        if _REPOSITORY.fullmatch(str(path)) and not file.parent.exists():
            ways_out.insert(0, f"nothing is downloaded: fetch it with `hf download {path} config.json --local-dir .`")
        raise DocumentError(f"{name} cannot be read: {error.strerror or error}.", ways_out) from None
    except (UnreadableError, UnicodeDecodeError) as error:
        raise DocumentError(f"{name} is not JSON that can be read: {error}.", ["give the `config.json` of the model"]) from None
    return read_architecture(values, name)


def read_architecture(values: Any, name: str = f"`{CONFIG_NAME}`") -> Architecture:
    """The architecture that the values of a `config.json` describe; `name` is what errors call the file. Raises `DocumentError`."""
    if not isinstance(values, Mapping):
        raise DocumentError(f"{name} holds no object of settings.", ["give the `config.json` of the model"])
    nested = next((values[key] for key in NESTED if isinstance(values.get(key), Mapping)), None)
    if nested is not None:  # the keys outside it count where it says nothing: its `model_type` is often there
        values = {**values, **nested}
    family = _find_family(values.get("model_type"), name)
    return _Reading(family, _with_absent(family, values), name).make()


def read_preset(model: str, preset: Any) -> Architecture:
    """The architecture of a configuration of the zoo, which is read as a file is."""
    values = {key: value for key, value in asdict(preset).items() if value != 0 or isinstance(value, bool)}
    family = families()[f"zoo_{model}"]
    return _Reading(family, _with_absent(family, values), f"`{model}`").make()


def _find_family(model_type: Any, name: str) -> Family:
    known = {each: family for family in families().values() for each in family.model_types}  # the zoo's have none
    if model_type is None:
        raise DocumentError(f"{name} has no `model_type`.", [f"add one of {', '.join(f'`{each}`' for each in known)}"])
    if not isinstance(model_type, str) or model_type not in known:
        message, ways_out = unknown_name("`model_type`", model_type if isinstance(model_type, str) else str(model_type), known)
        abouts = ", ".join(family.about for family in families().values() if family.model_types)
        raise DocumentError(
            f"{name}: {message} These are the families {abouts}.", [*ways_out, "give the nearest family's `model_type` to the file"]
        )
    return known[model_type]


def _with_absent(family: Family, values: Mapping[str, Any]) -> Mapping[str, Any]:
    """The values with those that transformers leaves out of the file."""
    labels = values.get("id2label")
    counted = {"num_labels": len(labels)} if isinstance(labels, Mapping) and labels else {}
    return {**family.absent, **counted, **{key: value for key, value in values.items() if value is not None}}


@dataclass
class _Reading:
    """One file being read: fields are found as they are asked for, and verified."""

    family: Family
    values: Mapping[str, Any]
    name: str
    known: dict[str, Any] = field(default_factory=dict)

    def make(self) -> Architecture:
        self._verify_only()
        fixed, biases = self._apply_rules()
        sizes = {each.name for each in fields(Architecture) if each.type is int}
        required = {each.name for each in fields(Architecture) if each.default is MISSING}
        found: dict[str, Any] = {}
        for name in (each.name for each in fields(Architecture)):
            if name in fixed:
                found[name] = self._number(fixed[name]) if name in sizes else fixed[name]
            elif name in self.family.read or name in self.family.derive:
                found[name] = self.find(name, required=name in required)
        made = {key: value for key, value in found.items() if value is not None} | {"biases": biases, "family": self.family.about}
        made["tied"] = made.get("tied", False) is True
        made["quantized"] = self._quantization()
        self._verify_sizes(made)
        return Architecture(**made, stem=sum(prod(map(self._number, term)) for term in self.family.stem))

    def find(self, name: str, *, required: bool) -> Any:
        """A field as the file has it, else as it is derived; `None` where it has neither and need not."""
        if name not in self.known:
            key = next((each for each in self.family.read.get(name, ()) if each in self.values), None)
            if key is not None:
                self.known[name] = self._verify(key, self.values[key], name)
            elif name in self.family.derive:
                self.known[name] = self._number(self.family.derive[name])
            elif required:
                raise self._missing(*self.family.read.get(name, (name,)))
            else:
                self.known[name] = None
        return self.known[name]

    def _quantization(self) -> str:
        """The method and bits that the file names; empty where its weights are not quantized."""
        config = self.values.get("quantization_config")
        if not isinstance(config, Mapping):
            return ""
        method, bits = config.get("quant_method"), config.get("bits")
        named = method if isinstance(method, str) and method else "a method it does not name"
        return f"{named[:40]}, {bits} bits" if isinstance(bits, int) and not isinstance(bits, bool) else named[:40]

    def _number(self, text: str | int) -> int:
        """A number, or a product or quotient of fields and of the file's own names: `d_model / heads`."""
        if isinstance(text, int):
            return text
        if " / " in text:
            upper, lower = (self._number(each) for each in text.split(" / "))
            if not lower or upper % lower:
                raise DocumentError(f"{self.name}: `{text}` is {upper} / {lower}, which is no whole number.", ["correct one of them"])
            return upper // lower
        if " * " in text:
            return prod(self._number(each) for each in text.split(" * "))
        if text.isdecimal():
            return int(text)
        if text in self.family.read or text in self.family.derive:
            return int(self.find(text, required=True))
        if text not in self.values:
            raise self._missing(text)
        return int(self._verify(text, self.values[text], text))

    def _verify(self, key: str, value: Any, name: str) -> Any:
        """A value of the file: a truth value for `tied`, else a size; 0 where the architecture has a default for it."""
        if name == "tied":
            if not isinstance(value, bool):
                raise self._wrong(key, value, "true or false")
            return value
        optional = {each.name for each in fields(Architecture) if each.default == 0} | {"n_shared_experts", "type_vocab_size", "classes"}
        least, most = 0 if name in optional else 1, MOST_LAYERS if "layers" in name else MOST_SIZE
        if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= most:
            raise self._wrong(key, value, f"a whole number from {least} to {most:,}")
        return value

    def _apply_rules(self) -> tuple[dict[str, Any], tuple[str, ...]]:
        fixed, biases = dict(self.family.set), list(self.family.set.get("biases", ()))
        for rule in self.family.rules:
            if all(self.values.get(key) == value for key, value in rule.get("when", {}).items()):
                fixed |= rule.get("set", {})
                biases += rule.get("add", ())
        return {key: value for key, value in fixed.items() if key != "biases"}, tuple(dict.fromkeys(biases))

    def _verify_only(self) -> None:
        for key, value in self.family.only.items():
            if self.values.get(key, value) != value:
                raise self._wrong(key, self.values[key], f"{value}: other patterns of dense and sparse layers cannot be counted")

    def _verify_sizes(self, found: Mapping[str, Any]) -> None:
        heads, kv_heads = found["heads"], found["kv_heads"]
        if kv_heads == 0 or heads % kv_heads:
            raise DocumentError(
                f"{self.name} has {heads} heads of queries and {kv_heads} of keys, which do not divide them.", ["correct one"]
            )
        experts, top_k = found.get("experts", 0), found.get("top_k", 0)
        if experts and not 1 <= top_k <= experts:
            raise DocumentError(f"{self.name} chooses {top_k} of {experts} experts for each token.", ["correct one of them"])
        if experts and found.get("dense_layers", 0) >= found["layers"]:
            dense = found["dense_layers"]
            raise DocumentError(
                f"{self.name} has {found['layers']} layers, of which {dense} are dense: none has experts.", ["correct one of them"]
            )

    def _missing(self, *keys: str) -> DocumentError:
        names = " or ".join(f"`{each}`" for each in keys)
        return DocumentError(f"{self.name} has no {names}, which a model of the family {self.family.about} needs.", [f"add {names}"])

    def _wrong(self, key: str, value: Any, expected: str) -> DocumentError:
        return DocumentError(
            f"{self.name}: `{key}` is {json.dumps(value, default=str, skipkeys=True)[:80]}; it should be {expected}.", [f"correct `{key}`"]
        )
