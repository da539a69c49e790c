"""Cluster questions: a model, a cluster, and an amount of training or decoding; numbers in text form, `2T`, `4M`, `8k`."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from math import log2
from pathlib import Path
from typing import Any

from workbench.core.precision import FLOAT8
from workbench.errors import DocumentError, HardwareError, SearchError, unknown_name, wrong_type
from workbench.hardware.catalogue import default_catalogue, machines, parse_hardware
from workbench.hardware.hardware import Hardware
from workbench.hardware.link_and_price import split_options
from workbench.hardware.resize_hardware import resize_hardware
from workbench.models.registry import ALL_MODELS
from workbench.models.sizing.architecture import Architecture
from workbench.models.sizing.nearest_program import WEIGHT_TYPES, Workload, verify_adapters
from workbench.models.sizing.read_config import families, read_config, read_preset
from workbench.tracing.named_optimizers import find_optimizer
from workbench.units import divisors

TOKENS_PER_PARAMETER = 20  # Hoffmann et al. 2022 (arXiv:2203.15556), table 3
DEFAULT_BATCH_TOKENS = 1 << 20
NEAR_POWER, ANY_POWER = 0.05, 0.5  # tolerances of rounding a batch in tokens to a power of two: if given, and by default
DEFAULT_SEQUENCES = 8  # decoded at once
MOST_CLUSTER = 1 << 20  # devices
MOST_SEQ = 1 << 20
MOST_BATCH = 1 << 24
MOST_TOKENS = 10**18
_SUFFIXES = {"": 1, "k": 10**3, "m": 10**6, "b": 10**9, "g": 10**9, "t": 10**12}
_COUNT = re.compile(r"^\s*(\d{1,20})\s*x\s*(?=[^\d\s])", re.IGNORECASE)
_TPUS = re.compile(r"(?:TPU\s*)?(v4|v5p|v5e|v5litepod|v6e)-(\d{1,7})", re.IGNORECASE)
"""Slice names of Google Cloud: `v5e-256` has 256 chips, `v5p-256` has 256 cores, two per chip."""
_NUMBER = re.compile(r"\s*(\d{1,20}(?:\.\d{1,9})?)\s*([kmbgt]?)\s*(tokens?|sequences?|seqs?)?\s*", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class NamedModel:
    """The name and architecture of a model that has been read already, for example from a file elsewhere."""

    name: str
    architecture: Architecture


@dataclass(frozen=True, slots=True)
class ClusterQuestion:
    """A model on a cluster: training on `tokens` tokens, or decoding. `assumptions` are the defaults used, as text."""

    name: str
    architecture: Architecture
    hardware: Hardware
    workload: Workload
    tokens: int
    assumptions: tuple[str, ...] = ()

    @property
    def step_tokens(self) -> int:
        """Tokens of a step: of all sequences in training, one per sequence in decoding."""
        return self.workload.batch * (1 if self.workload.is_inference else self.workload.seq)


def read_question(
    config: str | Path | NamedModel,
    on: str | Hardware,
    *,
    tokens: int | str | None = None,
    batch: int | str | None = None,
    seq: int | str | None = None,
    inference: bool = False,
    optimizer: str = "adamw",
    precision: str = "",
    lora: int = 0,
) -> ClusterQuestion:
    """A question with its defaults. `batch` counts sequences; with a suffix or the word `tokens` it counts tokens, rounded to whole
    sequences that many devices can share.

    Raises `DocumentError` for a model, `HardwareError` for a cluster, `SearchError` for invalid numbers and `TraceError` for an
    unknown optimizer.
    """
    find_optimizer(optimizer)
    name, architecture = (config.name, config.architecture) if isinstance(config, NamedModel) else read_model(config)
    rank = _read_rank(lora, architecture, inference)
    hardware = on if isinstance(on, Hardware) else read_cluster(on)
    assumptions = list[str]()
    length = _read_seq(architecture, seq, assumptions)
    sequences = _read_batch(batch, length, hardware.size, inference, assumptions)
    total = 0 if tokens is None else parse_amount("tokens", tokens, MOST_TOKENS)
    if not total and not inference:
        total = TOKENS_PER_PARAMETER * architecture.parameters
        assumptions.append(
            f"{TOKENS_PER_PARAMETER} tokens per parameter, {format_amount(total)} in total (Hoffmann et al. 2022); set `--tokens`"
        )
    compute = next((dtype for dtype in ("bfloat16", "float16") if dtype in hardware.chip.flops), "float32")
    products, weights = _read_precision(precision, architecture, inference, rank)
    workload = Workload(length, sequences, inference, compute, optimizer, products, weights, rank)
    return ClusterQuestion(name, architecture, hardware, workload, total, tuple(assumptions))


def _read_rank(lora: int, architecture: Architecture, inference: bool) -> int:
    if not lora:
        return 0
    if inference:
        raise SearchError("A decoding step trains no adapters: they are part of its weights.", ["leave out `--lora`", "or `--inference`"])
    verify_adapters(architecture)
    return parse_amount("lora", lora, architecture.d_model)


def _read_precision(word: str, architecture: Architecture, inference: bool, lora: int) -> tuple[str, str]:
    """The precision of products, a word of `FLOAT8` or empty, and the type of decoded or frozen weights."""
    known = [*WEIGHT_TYPES] if inference else [*FLOAT8, "bfloat16", *(("int8", "int4") if lora else ())]
    if word and word not in known:
        about = "decoding" if inference else "training with adapters" if lora else "training of all weights"
        message, ways_out = unknown_name(f"precision for {about}", word, known)
        raise SearchError(
            message, ways_out if lora or inference or word not in WEIGHT_TYPES else [*ways_out, "train adapters: `--lora 16`"]
        )
    if inference:
        return "", word or _decoded_type(architecture.quantized)
    return (word, "bfloat16") if word in FLOAT8 else ("", word or "bfloat16")


def _decoded_type(quantized: str) -> str:
    """The type of `WEIGHT_TYPES` nearest to the quantization of a file.

    >>> [_decoded_type(text) for text in ("mxfp4", "fp8", "gptq, 4 bits", "bitsandbytes, 8 bits", "aqlm", "")]
    ['int4', 'float8', 'int4', 'int8', 'bfloat16', 'bfloat16']
    """
    marks = {"fp4": "int4", "4 bits": "int4", "fp8": "float8", "8 bits": "int8", "awq": "int4"}
    return next((name for mark, name in marks.items() if mark in quantized), "bfloat16")


def parse_amount(name: str, value: Any, most: int) -> int:
    """Parse a count with a suffix k, M, B or T (powers of a thousand). Raises `SearchError` if invalid.

    >>> parse_amount("tokens", "2T", 10**18), parse_amount("batch", "1.5M", 10**9), parse_amount("tokens", 300, 10**18)
    (2000000000000, 1500000, 300)
    """
    if isinstance(value, int) and not isinstance(value, bool):
        count = value
    elif isinstance(value, str) and (match := _NUMBER.fullmatch(value)):
        count = round(float(match[1]) * _SUFFIXES[match[2].lower()])
    else:
        raise SearchError(wrong_type(name, value, "a number, such as 2T, 4M or 512"), [f"write {name} 4M"])
    if not 1 <= count <= most:
        raise SearchError(f"`{name}` is {value}; it must be from 1 to {most:,}.", [f"write another `{name}`"])
    return count


def format_amount(count: float) -> str:
    """Format a count for `parse_amount`, with three digits.

    >>> format_amount(2e12), format_amount(36.6e9), format_amount(999_999_999), format_amount(512)
    ('2T', '36.6B', '1B', '512')
    """
    text = f"{count:.3g}"
    scale, suffix = next(
        (scale, suffix) for scale, suffix in ((1e12, "T"), (1e9, "B"), (1e6, "M"), (1e3, "k"), (1, "")) if float(text) >= scale
    )
    return f"{float(text) / scale:,.10g}{suffix}"


def _read_seq(architecture: Architecture, seq: int | str | None, assumed: list[str]) -> int:
    if architecture.kind == "vision":
        return architecture.context  # the number of patches of an image
    if seq is None:
        length = min(architecture.context, 4096)
        assumed.append(f"sequences of {length:,} tokens; set `--seq`")
        return length
    text = seq.strip().lower() if isinstance(seq, str) else ""
    if text.endswith("k") and text[:-1].isdecimal():  # 8k tokens are 8,192
        return parse_amount("seq", int(text[:-1][:9] or 0) * 1024, MOST_SEQ)
    return parse_amount("seq", seq, MOST_SEQ)


def _read_batch(batch: int | str | None, seq: int, devices: int, inference: bool, assumed: list[str]) -> int:
    if batch is None and inference:
        assumed.append(f"{DEFAULT_SEQUENCES} sequences decoded at once; set `--batch`")
        return DEFAULT_SEQUENCES
    match = _NUMBER.fullmatch(batch) if isinstance(batch, str) else None
    unit = (match[3] or "").lower() if match else ""
    counts_tokens = batch is None or unit.startswith("token") or (match is not None and bool(match[2]) and not unit)
    if not counts_tokens or inference:
        return parse_amount("batch", batch, MOST_BATCH)
    tokens = max(DEFAULT_BATCH_TOKENS, devices * seq) if batch is None else parse_amount("batch", batch, MOST_TOKENS)
    sequences = _round_sequences(tokens / seq, devices, ANY_POWER if batch is None else NEAR_POWER)
    if batch is None or sequences * seq != tokens:
        assumed.append(f"a batch of {sequences:,} sequences, {sequences * seq:,} tokens{'; set `--batch`' if batch is None else ''}")
    return parse_amount("batch", sequences, MOST_BATCH)


def _round_sequences(sequences: float, devices: int, near: float = NEAR_POWER) -> int:
    """Round to the nearest number of sequences that many devices can share. That is a multiple of the largest divisor
    of the number of devices up to a fourth of the sequences, and a power of two if one is within `near`: 4M is
    within 5 % of 2 ** 22.

    >>> _round_sequences(488.3, 64), _round_sequences(1953.1, 16384), _round_sequences(0.3, 8), _round_sequences(7812.5, 96)
    (512, 2048, 1, 7776)
    """
    shares = max((divisor for divisor in divisors(devices) if divisor <= sequences / 4), default=1)
    power = 1 << round(log2(max(1.0, sequences)))
    if power % shares == 0 and abs(power / sequences - 1) < near:
        return power
    return max(1, round(sequences / shares)) * shares


def read_cluster(text: str) -> Hardware:
    """Read a cluster in plan notation or as a count, `64 H100`, `256 TPU v5p`; a kind alone is one device.

    >>> read_cluster("64 H100").name, read_cluster("256 TPU v5p").name, read_cluster("4 nodes of 8 A100").name
    ('8 nodes of 8 H100', 'TPU v5p 4x8x8', '4 nodes of 8 A100-80GB')
    >>> read_cluster("8xH100").name, read_cluster("v5p-256").name, read_cluster("2 p5.48xlarge").name
    ('8 H100', 'TPU v5p 4x4x8', '2 nodes of 8 H100 EFA')

    Raises `HardwareError`.
    """
    if not isinstance(text, str):
        raise HardwareError(wrong_type("on", text, "a cluster"), ['write "64 H100"', '"TPU v5p 4x4x4"'])
    devices, *options = split_options(text)
    if devices in default_catalogue() and devices.casefold() not in machines():
        return resize_hardware(text, 1)
    devices = _COUNT.sub(r"\1 ", devices)  # `8xH100` and `8 x H100` as `8 H100`
    text = ", ".join((devices, *options))
    if tpus := _TPUS.fullmatch(devices):
        count = int(tpus[2]) // (2 if tpus[1].casefold() in ("v4", "v5p") else 1)
        return resize_hardware(", ".join((f"TPU {tpus[1]}".replace("litepod", "e"), *options)), count)
    match = re.fullmatch(r"\s*(\d{1,20})\s+(?!x |nodes? |slices? )(.+?)\s*", devices, re.IGNORECASE)
    if match and int(match[1]) > MOST_CLUSTER:
        raise HardwareError(f"{int(match[1]):,} devices are more than can be planned.", [f"take {MOST_CLUSTER:,} at most"])
    try:
        return parse_hardware(text)
    except HardwareError as error:
        if match is None or match[2].casefold() in machines():
            raise
        try:
            return resize_hardware(", ".join((match[2], *options)), int(match[1]))
        except HardwareError as other:
            raise (error if "no hardware" in other.message else other) from None


def read_model(config: str | Path) -> tuple[str, Architecture]:
    """Return the name and architecture of a `config.json` or of a zoo preset. Raises `DocumentError`."""
    if not isinstance(config, str | Path):
        raise DocumentError(wrong_type("config", config, "a file or a model of the zoo"), ["write `llama3-8b`"])
    text, path = str(config), Path(config)
    if path.exists() or path.suffix == ".json" or "/" in text or isinstance(config, Path):
        folder = path if path.is_dir() else path.parent
        return (folder.resolve().name if path.is_dir() or path.name == "config.json" else path.stem) or "model", read_config(path)
    presets = sizable_presets()
    if text not in presets:
        message, ways_out = unknown_name("file or model of the zoo", text, presets)
        raise DocumentError(message, [*ways_out, "give a `config.json`, or the folder that holds one"])
    return text, read_preset(*presets[text])


@cache
def sizable_presets() -> Mapping[str, tuple[str, Any]]:
    """The zoo presets with a readable architecture: model name and configuration by preset."""
    zoo = [model for model in ALL_MODELS if f"zoo_{model.name}" in families()]
    presets = {preset: (model.name, config) for model in zoo for preset, config in model.presets.items()}
    return {
        name: preset for name, preset in presets.items() if not getattr(preset[1], "alternate", False)
    }  # alternating layers cannot be read
