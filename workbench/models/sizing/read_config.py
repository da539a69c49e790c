"""Reader of Hugging Face `config.json` files, driven by the families in `config_families.toml`. Nothing is downloaded."""

import json
import re
import tomllib
from collections.abc import Mapping
from dataclasses import MISSING, asdict, dataclass, field, fields, replace
from functools import cache
from math import prod
from pathlib import Path
from typing import Any

from workbench.core.parse_untrusted import UnreadableError, parse_json, read_text, verify_length
from workbench.errors import DocumentError, unknown_name
from workbench.models.sizing.architecture import Architecture
from workbench.models.sizing.layer_pattern import read_pattern

FAMILIES_FILE = Path(__file__).with_name("config_families.toml")
CONFIG_NAME = "config.json"
MOST_SIZE = 1 << 24
"""Maximum size in a file: 50 times the largest published vocabulary."""
MOST_LAYERS = 1 << 12
_REPOSITORY = re.compile(r"[\w-][\w.-]*/[\w.-]*\w(?<!\.json)")
NESTED = ("text_config", "llm_config", "language_config")
"""Keys of the language model configuration in multimodal models."""


@dataclass(frozen=True)
class Family:
    """Rules for reading the files of one family; `config_families.toml` describes each field."""

    name: str
    about: str
    model_types: tuple[str, ...]
    absent: Mapping[str, Any] = field(default_factory=dict)
    read: Mapping[str, list[str]] = field(default_factory=dict)
    derive: Mapping[str, str | int] = field(default_factory=dict)
    set: Mapping[str, Any] = field(default_factory=dict)
    rules: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    stem: tuple[tuple[str | int, ...], ...] = ()
    only: Mapping[str, Any] = field(default_factory=dict)


@cache
def families() -> Mapping[str, Family]:
    """Load all families by name, each merged with the family it is based on."""
    tables = tomllib.loads(FAMILIES_FILE.read_text(encoding="utf-8"))
    return {name: Family(name, **_merge_table(name, tables)) for name in tables}


def _merge_table(name: str, tables: Mapping[str, Any]) -> dict[str, Any]:
    table = dict(tables[name])
    base = _merge_table(like, tables) if (like := table.pop("like", "")) else {}
    return base | {key: {**base.get(key, {}), **value} if isinstance(value, dict) else value for key, value in table.items()}


def read_config(path: str | Path) -> Architecture:
    """Read the architecture from a `config.json`, or from the folder that holds it.

    Raises `DocumentError` for a file that cannot be read or is not JSON, for an unknown family, and for invalid sizes.
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
        reason = error if isinstance(error, UnreadableError) else "it is not text in UTF-8"
        raise DocumentError(f"{name} is not valid JSON: {reason}.", ["give the `config.json` of the model"]) from None
    return read_architecture(values, name)


def read_architecture(values: Any, name: str = f"`{CONFIG_NAME}`") -> Architecture:
    """Read the values of a `config.json`; `name` is the file in errors. Raises `DocumentError`."""
    if not isinstance(values, Mapping):
        raise DocumentError(f"{name} does not contain a JSON object.", ["give the `config.json` of the model"])
    nested = next((values[key] for key in NESTED if isinstance(values.get(key), Mapping)), None)
    if nested is not None:  # outer keys are defaults: `model_type` is often there
        values = {**values, **nested}
    family = _find_family(values.get("model_type"), name)
    return _Reading(family, _with_absent(family, values), name).make()


def read_preset(model: str, preset: Any) -> Architecture:
    """Read the architecture of a zoo configuration, like that of a file."""
    values = {key: value for key, value in asdict(preset).items() if value != 0 or isinstance(value, bool)}
    family = families()[f"zoo_{model}"]
    found = _Reading(family, _with_absent(family, values), f"`{model}`").make()
    return replace(found, **{name: getattr(preset, name) for name in ("window", "pattern", "chunked") if hasattr(preset, name)})


def _find_family(model_type: Any, name: str) -> Family:
    family_of = {type_: family for family in families().values() for type_ in family.model_types}  # zoo families have none
    if model_type is None:
        raise DocumentError(f"{name} has no `model_type`.", [f"add one of {', '.join(f'`{type_}`' for type_ in family_of)}"])
    if not isinstance(model_type, str) or model_type not in family_of:
        known = [family for family in families().values() if family.model_types]
        abouts = ", ".join(family.about for family in known)
        near = [
            way for way in unknown_name("", str(model_type), [family.model_types[0] for family in known])[1] if "these names" not in way
        ]
        raise DocumentError(
            f"{name}: the `model_type` `{str(model_type)[:40]}` is not in a known family: {abouts}.",
            [*near, "set `model_type` in the file to the most similar family"],
        )
    return family_of[model_type]


def _with_absent(family: Family, values: Mapping[str, Any]) -> Mapping[str, Any]:
    """The values, completed by defaults that transformers omits from the file."""
    labels = values.get("id2label")
    counted = {"num_labels": len(labels)} if isinstance(labels, Mapping) and labels else {}
    return {**family.absent, **counted, **{key: value for key, value in values.items() if value is not None}}


@dataclass
class _Reading:
    family: Family
    values: Mapping[str, Any]
    name: str
    known: dict[str, Any] = field(default_factory=dict)

    def make(self) -> Architecture:
        self._verify_only()
        fixed, biases = self._apply_rules()
        sizes = {attribute.name for attribute in fields(Architecture) if attribute.type is int}
        required = {attribute.name for attribute in fields(Architecture) if attribute.default is MISSING}
        settings: dict[str, Any] = {}
        for name in (attribute.name for attribute in fields(Architecture)):
            if name in fixed:
                settings[name] = self._number(fixed[name]) if name in sizes else fixed[name]
            elif name in self.family.read or name in self.family.derive:
                settings[name] = self.find(name, required=name in required)
        arguments = {key: value for key, value in settings.items() if value is not None} | {"biases": biases, "family": self.family.about}
        arguments["tied"] = arguments.get("tied", False) is True
        arguments["quantized"] = self._quantization()
        arguments |= self._local(arguments)
        self._verify_sizes(arguments)
        return Architecture(**arguments, stem=sum(prod(map(self._number, term)) for term in self.family.stem))

    def _local(self, found: Mapping[str, Any]) -> Mapping[str, Any]:
        """The window and the pattern of local layers; of a pattern without local layers neither."""
        if not found.get("window"):
            return {"window": 0, "pattern": "", "chunked": False}
        pattern, key = read_pattern(self.values, found["layers"], found.get("pattern", ""))
        if key and not pattern:
            raise self._wrong(key, self.values[key], "the kinds of local and global layers")
        return {"pattern": pattern.strip("L") and pattern} if "L" in pattern or not key else {"window": 0, "pattern": "", "chunked": False}

    def find(self, name: str, *, required: bool) -> Any:
        """Return a field from the file, else derived from other fields, else `None` unless it is required."""
        if name not in self.known:
            key = next((candidate for candidate in self.family.read.get(name, ()) if candidate in self.values), None)
            if key is not None:
                self.known[name] = self._verify(key, self.values[key], name)
            elif name in self.family.derive:
                self.known[name] = self._number(self.family.derive[name])
            else:
                self.known[name] = None
        if required and self.known[name] is None:
            raise self._missing(*self.family.read.get(name, (name,)))
        return self.known[name]

    def _quantization(self) -> str:
        config = self.values.get("quantization_config")
        if not isinstance(config, Mapping):
            return ""
        method, bits = config.get("quant_method"), config.get("bits")
        label = method if isinstance(method, str) and method else "a method it does not name"
        return f"{label[:40]}, {bits} bits" if isinstance(bits, int) and not isinstance(bits, bool) else label[:40]

    def _number(self, text: str | int) -> int:
        """Evaluate a number, or a product or quotient of fields and of keys of the file: `d_model / heads`."""
        if isinstance(text, int):
            return text
        if " / " in text:
            upper, lower = (self._number(factor) for factor in text.split(" / "))
            if not lower or upper % lower:
                raise DocumentError(f"{self.name}: `{text}` is {upper} / {lower}, which is not a whole number.", ["correct one of them"])
            return upper // lower
        if " * " in text:
            return prod(self._number(factor) for factor in text.split(" * "))
        if text.isdecimal():
            return int(text)
        if text in self.family.read or text in self.family.derive:
            return int(self.find(text, required=True))
        if text not in self.values:
            raise self._missing(text)
        return int(self._verify(text, self.values[text], text))

    def _verify(self, key: str, value: Any, name: str) -> Any:
        """Verify a value: a bool for `tied`, else a size; 0 is valid if the field has a default."""
        if name == "tied":
            if not isinstance(value, bool):
                raise self._wrong(key, value, "true or false")
            return value
        optional = {attribute.name for attribute in fields(Architecture) if attribute.default == 0} | {
            "n_shared_experts",
            "type_vocab_size",
            "classes",
        }
        least, most = 0 if name in optional else 1, MOST_LAYERS if "layers" in name else MOST_SIZE
        if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= most:
            raise self._wrong(key, value, f"a whole number from {least} to {most:,}")
        return value

    def _apply_rules(self) -> tuple[dict[str, Any], tuple[str, ...]]:
        fixed, biases = dict(self.family.set), list(self.family.set.get("biases", ()))
        for rule in self.family.rules.values():
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
                f"{self.name} has {heads} query heads, which are not a multiple of its {kv_heads} key heads.", ["correct one"]
            )
        experts, top_k = found.get("experts", 0), found.get("top_k", 0)
        if experts and not 1 <= top_k <= experts:
            raise DocumentError(f"{self.name} chooses {top_k} of {experts} experts for each token.", ["correct one of them"])
        if experts and found.get("dense_layers", 0) >= found["layers"]:
            dense = found["dense_layers"]
            raise DocumentError(
                f"{self.name} has {found['layers']} layers, {dense} of them dense: none has experts.", ["correct one of them"]
            )

    def _missing(self, *keys: str) -> DocumentError:
        names = " or ".join(f"`{key}`" for key in keys)
        return DocumentError(f"{self.name} has no {names}, which the model family {self.family.about} requires.", [f"add {names}"])

    def _wrong(self, key: str, value: Any, expected: str) -> DocumentError:
        return DocumentError(
            f"{self.name}: `{key}` is {json.dumps(value, default=str, skipkeys=True)[:80]}; it should be {expected}.", [f"correct `{key}`"]
        )
