"""The terms of the glossary that an answer to "Why?" is about."""

from workbench.core.inference_steps import carries_cache, decoded_sequences
from workbench.core.program import Program

WORDS = {
    "memory": ("Memory per device", "Role", "Recomputation"),
    "sent": ("Sent per device", "Payload", "Collective"),
    "flops": ("FLOP per device", "Duplication"),
    "duplication": ("Duplication", "Mesh", "Padding"),
    "predicted": ("Predicted step", "Exposed and hidden communication", "Bubble"),
    "mfu": ("MFU", "Predicted step"),
    "measured": ("Measured", "Predicted, compiled, measured"),
    "collective": ("Collective", "Payload", "Partial sum (unreduced)"),
    "axis": ("Propagation", "Conflict", "Override and constraint"),
    "tensor": ("Per device", "Sharding"),
    "value": ("Propagation", "Sharding"),
}
"""By what is asked, the terms that the answer is about."""
DECODE_WORDS = {
    "memory": ("Memory per device", "Role", "KV cache", "Batch of sequences"),
    "flops": (*WORDS["flops"], "Decode"),
    "predicted": ("Predicted step", "Decode", "Latency per token", "Throughput", "Latency front"),
    "mfu": (*WORDS["mfu"], "Decode"),
    "measured": (*WORDS["measured"], "Latency per token"),
}
"""Where the program is a step of decoding."""
PREFILL_WORDS = {
    "memory": DECODE_WORDS["memory"],
    "flops": (*WORDS["flops"], "Prefill"),
    "predicted": ("Predicted step", "Exposed and hidden communication", "Prefill", "Time to first token"),
    "mfu": (*WORDS["mfu"], "Prefill"),
    "measured": (*WORDS["measured"], "Time to first token"),
}
"""Where it is another step of inference: many tokens of each sequence at once."""


def words_about(kind: str, name: str, program: Program) -> list[str]:
    """The terms for a figure by its `name`, or for a `kind` of thing that is asked about."""
    asked = name if kind == "figure" else kind
    special = DECODE_WORDS if decoded_sequences(program) else PREFILL_WORDS if carries_cache(program) else {}
    return list(special.get(asked, WORDS[asked]))
