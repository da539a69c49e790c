"""The zoo program nearest to an architecture, and the differences between them."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from math import prod
from typing import Any

from workbench.core.precision import Precision
from workbench.core.program import Program
from workbench.core.remat import Remat
from workbench.core.tensor import Role
from workbench.errors import DocumentError
from workbench.models.registry import build
from workbench.models.sizing.architecture import Architecture, pad_vocab
from workbench.units import format_bytes

FUSED = "attention norm activation rotary loss"
WEIGHT_TYPES = {"bfloat16": ("bfloat16", 2.0), "float8": ("float8_e4m3fn", 1.0), "int8": ("int8", 1.0), "int4": ("int4", 0.5)}
"""Data types of the weights of a decoding step, and of frozen weights, with their bytes."""
RECOMPUTE = ("kernels", "full")
"""Recomputation of a layer in its backward pass: results of kernels with kept operands, or everything."""


@dataclass(frozen=True, slots=True)
class Workload:
    """The inputs of a step: `batch` sequences of `seq` tokens, or with `is_inference` one token each after `seq` cached ones.

    `compute` is the type of products, `optimizer` a name of `tracing.named_optimizers`, `precision` a word of `FLOAT8`
    if weight products use it. `weights`, of `WEIGHT_TYPES`, is the type of the weights in decoding, or of frozen weights below adapters
    of rank `lora`, which are then trained alone.
    """

    seq: int
    batch: int
    is_inference: bool = False
    compute: str = "bfloat16"
    optimizer: str = "adamw"
    precision: str = ""
    weights: str = "bfloat16"
    lora: int = 0

    @property
    def weight_bytes(self) -> float:
        return WEIGHT_TYPES[self.weights][1]

    def copies_kv_heads(self, architecture: Architecture) -> bool:
        """Whether a tensor-parallel axis may exceed the number of key-value heads, with copies of them on its devices."""
        return not self.lora and _model_of(architecture) == "decoder"


def nearest_program(architecture: Architecture, workload: Workload, recompute: str = "kernels", kv_copies: int = 1) -> Program:
    """The program of the zoo with the sizes of an architecture: a training step with float32 parameters and moments, or a decoding step
    with a bfloat16 cache. Its heads of keys and values have so many copies.

    Raises `DocumentError` where the zoo has none.
    """
    model = _model_of(architecture)
    sizes: dict[str, Any] = {"seq": workload.seq, "batch": workload.batch, "layers": architecture.layers, "d_model": architecture.d_model}
    sizes |= {"d_head": architecture.d_head, "vocab": pad_vocab(architecture.vocab), "compute": workload.compute}
    sizes |= {"gate_up": architecture.gates, "tied": architecture.tied, **_SIZES[model](architecture, workload)}
    sizes |= {"kv_copies": kv_copies} if kv_copies > 1 else {}
    if _plans_windows(architecture) and architecture.count_local(workload.seq):
        sizes |= {"window": architecture.window, "pattern": architecture.pattern, "chunked": architecture.chunked}
    if workload.is_inference:
        if model == "t5" or architecture.kind != "decoder":
            raise DocumentError(
                f"The zoo has no decode step for the family {architecture.family}, only for decoders.",
                ["leave out `--inference`: a training step can be planned"],
            )
        return build(f"{model}_decode", **sizes, weights=WEIGHT_TYPES[workload.weights][0], cache="bfloat16", context=workload.seq)
    sizes["optimizer"], precision = workload.optimizer, Precision.parse(workload.precision)
    if model == "t5":
        remat = Remat.parse("" if recompute == "kernels" else recompute)
        return build(model, **sizes).variant(remat=remat, precision=precision)
    sizes |= {"lora_rank": workload.lora, "base": WEIGHT_TYPES[workload.weights][0].removeprefix("bfloat16")} if workload.lora else {}
    params = "bfloat16" if workload.lora else "float32"
    return build(model, **sizes, recompute=recompute, params=params).variant(precision=precision)


def verify_adapters(architecture: Architecture) -> None:
    """Raise `DocumentError` if the zoo has no adapters for such a model."""
    if _model_of(architecture) != "decoder":
        raise DocumentError(
            f"The zoo has no low-rank adapters for the family {architecture.family}, only for models of one stack without experts.",
            ["leave out `--lora`: training of all weights can be planned"],
        )


def _model_of(architecture: Architecture) -> str:
    if architecture.encoder_layers:
        return "t5"
    return "mixture" if architecture.experts else "decoder"


def _plans_windows(architecture: Architecture) -> bool:
    """Whether the zoo has local layers for such a model."""
    return not (architecture.encoder_layers or architecture.dense_layers or architecture.kv_rank)


def has_all_biases(architecture: Architecture) -> bool:
    """Whether every product of a layer has a bias; the zoo's decoder has all biases or none."""
    return {"qkv", "output", "mlp"} <= set(architecture.biases)


def _decoder_sizes(architecture: Architecture, _: Workload) -> Mapping[str, Any]:
    return {
        "preset": "llama3-8b",
        "kv_heads": architecture.kv_heads,
        "q_per_kv": architecture.heads // architecture.kv_heads,
        "d_ff": architecture.d_ff,
        "biases": has_all_biases(architecture),
        "positions": "learned" if architecture.learned else "rotary",
        "norm": "rms" if architecture.norm == "rms" else "layer",
        "fused": FUSED,
    }


def _mixture_sizes(architecture: Architecture, _: Workload) -> Mapping[str, Any]:
    is_latent = architecture.kv_rank > 0
    return {
        "preset": "deepseek-v2",
        **{name: getattr(architecture, name) for name in ("kv_rank", "d_rotary", "experts", "top_k", "d_expert", "d_shared")},
        "heads": architecture.heads if is_latent else architecture.kv_heads,
        "q_per_kv": 1 if is_latent else architecture.heads // architecture.kv_heads,
        "dense": architecture.dense_layers,
        "attention": "latent" if is_latent else "heads",
        "q_rank": _query_rank(architecture) if is_latent else 0,
        "d_value": architecture.d_value if is_latent else architecture.d_head,
        "d_ff": architecture.d_ff or architecture.d_expert,
        "groups": 1,
        "top_groups": 0,
        "scale": 1.0,
        "fused": f"{FUSED} permute sort",
    }


def _query_rank(architecture: Architecture) -> int:
    """Rank of the query latent; for queries projected in one product, that of two products with as many weights."""
    width = architecture.heads * (architecture.d_head + architecture.d_rotary)
    return architecture.q_rank or round(architecture.d_model * width / (architecture.d_model + width) / 128) * 128 or 128


def _t5_sizes(architecture: Architecture, workload: Workload) -> Mapping[str, Any]:
    source = architecture.source or workload.seq
    return {
        "preset": "t5-base",
        "layers": (architecture.layers + architecture.encoder_layers + 1) // 2,
        "heads": architecture.heads,
        "d_ff": architecture.d_ff,
        "seq": source,
        "target_seq": workload.seq,
    }


_SIZES: Mapping[str, Callable[[Architecture, Workload], Mapping[str, Any]]] = {
    "decoder": _decoder_sizes,
    "mixture": _mixture_sizes,
    "t5": _t5_sizes,
}


def program_parameters(program: Program) -> int:
    return sum(prod(tensor.shape) for tensor in program.arguments if tensor.role is Role.PARAMETER)


def list_approximations(architecture: Architecture, workload: Workload, program: Program) -> tuple[str, ...]:
    """List the differences between program and model, with the change in parameters; empty if there are none."""
    planned, exact = program_parameters(program), architecture.parameters
    share = planned / exact - 1
    notes = tuple(_differences(architecture, workload))
    if not notes and not share:
        return ()
    more = f"{abs(planned - exact):,} {'more' if share > 0 else 'fewer'} than the model's {exact:,}" if share else "as the model"
    count = f"the planned program has {planned:,} parameters, {more}" + (f" ({share:+.2%})" if abs(share) >= 5e-5 else "")
    return (count, *notes)


def _differences(architecture: Architecture, workload: Workload) -> Iterator[str]:
    padded = pad_vocab(architecture.vocab)
    if padded != architecture.vocab:
        yield f"the vocabulary is padded from {architecture.vocab:,} to {padded:,} rows, so that devices can share it"
    if architecture.kv_rank and not architecture.q_rank:
        yield f"queries are projected through a latent of {_query_rank(architecture):,} in place of one product"
    if local := architecture.count_local(workload.seq):
        yield _describe_windows(architecture, workload, local)
    if architecture.kind in ("encoder", "vision"):
        yield "attention to all tokens is planned as causal attention, which computes half of its scores"
    if architecture.kind == "vision":
        yield "the patch projection is planned as a token table of as many weights, and its classifier as that table"
    if architecture.encoder_layers and architecture.encoder_layers != architecture.layers:
        yield f"{architecture.encoder_layers} encoder and {architecture.layers} decoder layers are planned as equal numbers of both"
    if architecture.source:
        yield "the convolutions in front of the encoder are left out, and its positions are relative"
    if architecture.layer_norms != 2 or architecture.qk_norm or architecture.norm == "none":
        yield "two norms a layer are planned; norms of queries and keys, and further ones, are left out"
    if architecture.biases and (architecture.experts or not has_all_biases(architecture)):
        yield "biases are left out"


def _describe_windows(architecture: Architecture, workload: Workload, local: int) -> str:
    """What is assumed of the runtime for layers that see fewer tokens than there are."""
    layers = f"{local} of {architecture.layers} layers attend to {architecture.window:,} tokens"
    layers += " at most, their chunk of the sequence" if architecture.chunked else ""
    if not _plans_windows(architecture):
        return f"{layers}; planned as attention to all {workload.seq:,}"
    if not workload.is_inference:
        return f"{layers}; the attention kernel is assumed to skip all others"
    row = 2 * architecture.cached_values * workload.batch
    kept, full = (row * rows for rows in (architecture.cached_rows(workload.seq), architecture.layers * workload.seq))
    return f"{layers}, and their caches keep no others: {format_bytes(kept)} in place of {format_bytes(full)} for all tokens in every layer"
