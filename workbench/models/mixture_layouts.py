"""Layouts of a mixture of experts that its marks make possible."""


def expert_parallel(*, batch: str, experts: str = "expert") -> str:
    """Constraints that split tokens along the batch outside the experts, and along the experts inside: an all-to-all there and one back.

    `batch` are the axes of the batch, `experts` the one of them that the experts are split over.
    """
    rest = "+".join(axis for axis in batch.split("+") if axis != experts) or "-"
    outside = {"sent": f"[{batch}, -, -, ?]", "returned": f"[{batch}, -, -, ?]", "share_sent": f"[{batch}, -, -]"}
    inside = {"received": f"[{rest}, {experts}, -, ?]", "made": f"[{rest}, {experts}, -, ?]", "share_received": f"[{rest}, {experts}, -]"}
    places = "; ".join(f"@{place}/reduce_precision={sharding}" for place, sharding in (outside | inside).items())
    return f"batch:{batch}; experts:{experts}; {places}"


LAYOUTS = (
    ("expert:8", expert_parallel(batch="expert")),
    ("data:8", "batch:data"),
    ("data:2 expert:4", expert_parallel(batch="data+expert")),
    ("expert:4 model:2", expert_parallel(batch="expert") + "; heads:model; d_ff:model; d_expert:model; d_shared:model"),
)
"""For `tiny` on eight devices: expert parallel, data parallel, both, experts and their attention split further."""
