"""Layouts of a decoder Transformer that its marks make possible."""

CORE = ("query_here", "key_here", "value_here", "mixed_here")


def sequence_parallel(
    *, batch: str = "-", context: str = "-", model: str = "model", ring: bool = False, first: bool = True, last: bool = True
) -> str:
    """Constraints that split the sequence over the axis of the heads wherever no product is made (Korthikanti et al. 2022).

    `batch` is the axis of the batch. On a `context` axis the sequence is split throughout, except in the attention, where the heads are
    split further instead, by all-to-all (Jacobs et al. 2023, DeepSpeed-Ulysses); not with a `ring` as long as the axis, where keys and
    values go around. `first` and `last` for a program with the embedding and the head.
    """
    both, heads = ("+".join(axis for axis in order if axis != "-") or "-" for order in ((context, model), (model, context)))
    outside = f"[{batch}, {context}, {model}, ?, ?]"
    inside = f"[{batch}, -, {heads}, ?, ?]"
    places = {f"{part}/{place}": f"[{batch}, {both}, ?]" for part in ("attention", "mlp") for place in ("normal", "residual/stream")}
    places |= {"embedding/stream": f"[{batch}, {both}, ?]"} if first else {}
    places |= {"final": f"[{batch}, {context}, ?]"} if last else {}
    places |= dict.fromkeys(("projected", "query", "key", "value", "mixed"), outside)
    places |= {} if ring else {f"core/{place}": inside for place in CORE}
    places |= {"up": f"[{batch}, {context}, ?, {model}]", "hidden": f"[{batch}, {context}, {model}]"}
    return "; ".join(f"@{place}/reduce_precision={sharding}" for place, sharding in places.items())


LAYOUTS = (
    ("data:8", "batch:data"),
    ("data:2 model:4", f"batch:data; d_ff:model; kv_heads:model; {sequence_parallel(batch='data')}"),
    ("data:8", "batch:data; d_model:data; norm/scale=[-]; @embedding/stream/reduce_precision=[data, ?, ?]"),
    (
        "data:4 model:2",
        "batch:data; d_model:data; d_ff:model; kv_heads:model; norm/scale=[-]; @embedding/stream/reduce_precision=[data, ?, ?]",
    ),
)
"""For `tiny` on eight devices: data parallel, Megatron's two dimensions with sequences split between the products, FSDP, both. (The last
normalisation's scale is not worth splitting: XLA gathers its 256 bytes twice.)"""

DECODE_LAYOUTS = (
    ("data:8", "batch:data"),
    ("data:2 model:4", "batch:data; kv_heads:model; d_ff:model; vocab:model"),
    ("data:2 context:4", "batch:data; context:context"),
    ("model:8", "context:model; d_ff:model; vocab:model"),
    ("data:2 context:2 model:2", "batch:data; context:context; kv_heads:model; d_ff:context+model; vocab:model"),
)
"""For decoding of `tiny` on eight devices: the cache split by sequences, by Megatron's heads, by positions, by positions where weights are
split by `d_ff`, by all three. Split by positions, each device attends to its part of the cache, and shares and mixed values are summed."""

PREFILL_LAYOUTS = (
    ("data:8", "batch:data"),
    ("data:2 model:4", "batch:data; kv_heads:model; d_ff:model; vocab:model"),
    ("data:8", "batch:data; d_model:data"),
    ("data:2 context:2 model:2", "batch:data; context:context; kv_heads:model; d_ff:context+model; vocab:model"),
)
"""For a prefill of `tiny` on eight devices: data parallel, Megatron's, weights gathered as they are used, the cache split by positions."""
