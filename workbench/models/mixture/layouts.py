"""Layouts of a mixture of experts that its marks make possible."""


def expert_parallel(*, batch: str, experts: str = "expert", shares: bool = True) -> str:
    """Constraints that split tokens along the batch outside the experts, and along the experts inside: an all-to-all there and one back.

    `batch` are the axes of the batch, `experts` the one of them that the experts are split over; `shares` if a token's weight is sent with
    it, as it is where tokens are gathered.
    """
    rest = "+".join(axis for axis in batch.split("+") if axis != experts) or "-"
    outside, inside = f"[{batch}, -, -", f"[{rest}, {experts}, -"
    places = {"sent": f"{outside}, ?]", "received": f"{inside}, ?]", "made": f"{inside}, ?]", "returned": f"{outside}, ?]"}
    places |= {"share_sent": f"{outside}]", "share_received": f"{inside}]"} if shares else {}
    return f"batch:{batch}; experts:{experts}; " + "; ".join(f"@{place}/reduce_precision={lies}" for place, lies in places.items())


LAYOUTS = (
    ("expert:8", expert_parallel(batch="expert")),
    ("data:8", "batch:data"),
    ("data:2 expert:4", expert_parallel(batch="data+expert")),
    ("expert:4 model:2", expert_parallel(batch="expert") + "; heads:model; d_ff:model; d_expert:model; d_shared:model"),
)
"""For `tiny` on eight devices: expert parallel, data parallel, both, experts and their attention split further."""

TOP2_LAYOUTS = (
    ("data:2 expert:4", expert_parallel(batch="data+expert", shares=False)),
    ("expert:4 model:2", expert_parallel(batch="expert", shares=False) + "; heads:model; d_ff:model; d_expert:model"),
)
"""For `tiny-top2`, GShard's mixture, on eight devices: tokens split over the axis of the experts and another, and each expert too."""

DECODE_LAYOUTS = (
    ("data:8", "batch:data"),
    ("expert:8", expert_parallel(batch="expert")),
    ("data:2 expert:4", expert_parallel(batch="data+expert")),
    ("data:2 context:4", "batch:data; context:context; d_expert:context; d_shared:context; d_ff:context"),
    ("data:2 model:4", "batch:data; heads:model; d_ff:model; d_expert:model; d_shared:model; vocab:model"),
)
"""For decoding of `tiny` on eight devices: the cache of latents split by sequences, with experts apart, by positions; it has no heads, so
that each device of Megatron's axis has all of it."""

PREFILL_LAYOUTS = (
    ("data:8", "batch:data"),
    ("expert:8", expert_parallel(batch="expert")),
    ("data:2 expert:4", expert_parallel(batch="data+expert")),
    ("data:2 model:4", "batch:data; heads:model; d_ff:model; d_expert:model; d_shared:model; vocab:model"),
)
"""For a prefill of `tiny` on eight devices: data parallel, expert parallel, both, Megatron's."""
