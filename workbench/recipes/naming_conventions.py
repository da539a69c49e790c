"""The purpose of a dimension or a mesh axis by its name, from the names in common libraries.

| what it is | here | T5X, MaxText | Megatron-LM, Hugging Face |
|---|---|---|---|
| examples | `batch` | `batch`, `activation_batch` | `micro_batch_size`, `bsz` |
| tokens | `seq` | `length`, `activation_length` | `seq_length`, `sequence_length` |
| heads | `heads`, `kv_heads` | `heads`, `q_heads`, `kv_heads` | `num_attention_heads`, `num_query_groups` |
| between the two products of a block | `d_ff`, `hidden` | `mlp` | `ffn_hidden_size`, `intermediate_size` |
| words | `vocab` | `vocab`, `activation_vocab` | `padded_vocab_size`, `vocab_size` |
| experts | `experts` | `exp` | `num_moe_experts`, `num_local_experts` |
| of a picture or a recording | `height`, `rows`, `frames` | - | `image_height`, `num_mel_bins` |
"""

import re
from enum import StrEnum


class DimUse(StrEnum):
    """The purpose of a dimension; the value is its display name."""

    BATCH = "examples"
    SEQUENCE = "tokens of a sequence"
    HEADS = "attention heads"
    HIDDEN = "hidden units"
    VOCABULARY = "words of the vocabulary"
    EXPERTS = "experts"
    SPACE = "positions in space"
    WIDTH = "width of the residual stream"
    LAYERS = "stacked layers"


_PREFIX = re.compile(r"^(?:activation_|global_|micro_|local_|num_|n_|padded_|image_)+")
_SUFFIX = re.compile(r"_(?:size|dim|len|count)$")

DIMS: dict[DimUse, tuple[str, ...]] = {
    DimUse.BATCH: ("batch", "b", "bs", "bsz", "examples", "sequences"),
    DimUse.SEQUENCE: (
        "seq",
        "sequence",
        "length",
        "s",
        "l",
        "positions",
        "tokens",
        "context",
        "seq_length",
        "sequence_length",
        "frames",
        "time",
    ),
    DimUse.HEADS: ("heads", "kv_heads", "q_heads", "attention_heads", "query_groups", "key_value_heads", "h", "n_head", "head"),
    DimUse.HIDDEN: (
        *("d_ff", "ff", "ffn", "mlp", "hidden", "inner", "intermediate", "ffn_hidden", "d_inner", "d_hidden", "d_mlp", "ff_dim", "f"),
        *("d_expert", "d_shared", "moe_mlp", "expert_mlp", "moe_ffn_hidden", "moe_intermediate", "channels_mid"),
    ),
    DimUse.VOCABULARY: ("vocab", "vocabulary", "words", "v"),
    DimUse.EXPERTS: ("experts", "expert", "exp", "e", "moe_experts", "local_experts", "routed_experts"),
    DimUse.WIDTH: ("d_model", "embed", "width", "n_embd"),
    DimUse.LAYERS: ("layers", "layer", "blocks"),
    DimUse.SPACE: ("depth", "height", "width", "rows", "cols", "columns", "frames", "time", "planes", "d", "h", "w", "x", "y", "z"),
}
"""Names by purpose, without the affixes that `strip_affixes` removes; names may be ambiguous, so the use is checked
too.
"""

AXES: dict[str, tuple[str, ...]] = {
    "data": ("data", "dp", "batch", "replica", "replicas", "fsdp"),
    "shards": ("fsdp", "zero", "data", "dp", "batch", "replica"),
    "model": ("model", "tensor", "tp", "mp", "mdl"),
    "experts": ("expert", "experts", "ep"),
    "sequence": ("context", "seq", "sequence", "cp", "sp"),
    "space": ("spatial", "space", "rows", "height"),
    "pipeline": ("stage", "pipe", "pipeline", "pp"),
}
"""Names of mesh axes by purpose, the most specific first."""


def strip_affixes(name: str) -> str:
    """A name without the affixes that libraries add.

    >>> strip_affixes("num_attention_heads"), strip_affixes("padded_vocab_size"), strip_affixes("activation_batch"), strip_affixes("n_head")
    ('attention_heads', 'vocab', 'batch', 'head')
    """
    return _SUFFIX.sub("", _PREFIX.sub("", name.lower()))


def is_named(dim: str, use: DimUse) -> bool:
    """Return whether a dimension's name has this purpose. A trailing number is ignored: `hidden_2`, `rows2`.

    >>> is_named("ffn_hidden_size", DimUse.HIDDEN), is_named("rows_2", DimUse.SPACE), is_named("d_model", DimUse.HIDDEN)
    (True, True, False)
    """
    unnumbered = re.sub(r"_?\d+$", "", dim)
    ending = use is DimUse.SEQUENCE and dim.lower().endswith(("_seq", "_sequence", "_length"))  # such as a decoder's `target_seq`
    return ending or strip_affixes(dim) in DIMS[use] or dim.lower() in DIMS[use] or strip_affixes(unnumbered) in DIMS[use]


MESH_AXES = frozenset(name for names in AXES.values() for name in names if not any(is_named(name, use) for use in DimUse))
"""Names of mesh axes that are not names of dimensions."""
