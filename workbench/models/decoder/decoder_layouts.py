"""Layouts of a decoder Transformer that use its marks."""

CORE = ("query_here", "key_here", "value_here", "mixed_here")


def sequence_parallel(
    *, batch: str = "-", context: str = "-", model: str = "model", ring: bool = False, first: bool = True, last: bool = True
) -> str:
    """Constraints that shard the sequence over the axis of the heads outside the products (Korthikanti et al. 2022).

    `batch` is the axis of the batch. On a `context` axis the sequence is sharded throughout, except in the attention,
    which shards the heads further instead, by all-to-all (Jacobs et al. 2023, DeepSpeed-Ulysses); not with a `ring` as
    long as the axis, in which keys and values circulate. `first` and `last`: the program has the embedding and the
    head.
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
"""For `tiny` on eight devices: data parallel; Megatron with sequence parallelism; FSDP; both. The scale of the last
normalization is not sharded: XLA would gather its 256 bytes twice.
"""

DECODE_LAYOUTS = (
    ("data:8", "batch:data"),
    ("data:2 model:4", "batch:data; kv_heads:model; d_ff:model; vocab:model"),
    ("data:2 context:4", "batch:data; context:context"),
    ("model:8", "context:model; d_ff:model; vocab:model"),
    ("data:2 context:2 model:2", "batch:data; context:context; kv_heads:model; d_ff:context+model; vocab:model"),
)
"""For decoding of `tiny` on eight devices: the cache sharded by sequence; by Megatron's heads; by position; by position
with `d_ff` sharded; by all three. With positions sharded, each device attends to its part of the cache, and
attention weights and mixed values are all-reduced.
"""

PREFILL_LAYOUTS = (
    ("data:8", "batch:data"),
    ("data:2 model:4", "batch:data; kv_heads:model; d_ff:model; vocab:model"),
    ("data:8", "batch:data; d_model:data"),
    ("data:2 context:2 model:2", "batch:data; context:context; kv_heads:model; d_ff:context+model; vocab:model"),
)
"""For prefill of `tiny` on eight devices: data parallel, Megatron, weights gathered, cache by position."""
