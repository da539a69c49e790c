"""What the words on the board mean: one sentence each, where the notebooks show it, and what to read. One table for every host."""

from dataclasses import dataclass
from functools import cache
from typing import Any

JAX = "https://docs.jax.dev/en/latest/"
SHARDY = "https://openxla.org/shardy/"
BOOK = "https://jax-ml.github.io/scaling-book/"
ARXIV = "https://arxiv.org/abs/"


@dataclass(frozen=True, slots=True)
class Term:
    """`on` are the labels, in lower case, and the keys of figures that it explains; `notebook` a heading in `01_layouts.ipynb`."""

    name: str
    says: str
    link: str
    on: tuple[str, ...] = ()
    notebook: str = ""


LAYOUT = (
    Term(
        "Mesh",
        "The devices as a grid with named axes: `data:4 model:2` is 4 × 2 = 8 devices; each axis is a way to split work.",
        f"{JAX}notebooks/Distributed_arrays_and_automatic_parallelization.html",
        ("mesh axes", "mesh axis"),
        "Devices stand on a mesh",
    ),
    Term(
        "Named dimension",
        "A tensor's dimension under a name that all tensors share, so that one rule (`d_ff:model`) places it in every one of them.",
        f"{ARXIV}1811.02084",
        ("dimensions on mesh axes", "dimensions"),
        "Dimensions have names",
    ),
    Term(
        "Sharding",
        "Which mesh axes split which dimension; a dimension on no axis is whole, and a tensor on no axis is replicated on every device.",
        f"{JAX}jax.sharding.html",
        ("sharding", "layout"),
        "What does each device hold?",
    ),
    Term(
        "Per device",
        "What one device holds of a tensor: each dimension divided by the sizes of the axes it lies on, in bytes or as a shape.",
        f"{BOOK}sharding",
        ("per device", "global shape"),
        "What does each device hold?",
    ),
    Term(
        "Override and constraint",
        "An override places one argument in its own way; a constraint fixes where an intermediate value lies. Both go before the rules.",
        f"{JAX}_autosummary/jax.lax.with_sharding_constraint.html",
        ("override", "constraint"),
        "Which layouts cannot be?",
    ),
    Term(
        "Propagation",
        "From the placed arguments the partitioner (Shardy, the one that JAX uses) works out where every value in between lies.",
        f"{SHARDY}propagation",
        ("values", "value"),
        "What is sent, and why?",
    ),
)

COST = (
    Term(
        "Memory per device",
        "The most bytes alive at once on one device during a step: parameters, optimizer state, gradients, activations.",
        f"{ARXIV}1910.02054",
        ("memory", "memory per device", "peak memory"),
        "Does it fit?",
    ),
    Term(
        "Role",
        "What a tensor is for: parameter, optimizer state, gradient, activation, input or output. Each has its own way to be made smaller.",
        f"{ARXIV}1910.02054",
        ("role",),
        "Does it fit?",
    ),
    Term(
        "Sent per device",
        "Bytes that one device sends to others in a step, all collectives together.",
        f"{BOOK}sharding",
        ("sent", "sent per device", "payload", "all kinds"),
        "What is sent, and why?",
    ),
    Term(
        "Collective",
        "An operation in which the devices along a mesh axis take part: all-gather puts shards together, all-reduce adds partial sums, "
        "reduce-scatter adds and splits, all-to-all moves a split from one dimension to another.",
        "https://openxla.org/xla/operation_semantics",
        ("class", "kind", "collectives"),
        "What is sent, and why?",
    ),
    Term(
        "FLOP per device",
        "Floating-point operations that one device does in a step; a product of m×k and k×n takes 2·m·k·n.",
        f"{BOOK}roofline",
        ("flops", "flop per device"),
        "Is any work done twice?",
    ),
    Term(
        "Duplication",
        "How often the same product is computed because a mesh axis splits nothing in it; 1.00× means no work is done twice.",
        f"{ARXIV}2105.04663",
        ("duplication",),
        "Is any work done twice?",
    ),
    Term(
        "Hardware and wiring",
        "The chips to plan for, and which mesh axis runs over which of their links; a ring is as fast as its slowest link.",
        f"{BOOK}tpus",
        ("hardware", "wiring"),
    ),
    Term(
        "Predicted step",
        "Seconds of one step: kernels bound by arithmetic or memory traffic (the roofline), launches, and communication waited for.",
        f"{BOOK}roofline",
        ("predicted", "step, predicted", "predicted step", "time a step"),
    ),
    Term(
        "Exposed and hidden communication",
        "A collective is hidden while its device computes, and exposed while the device waits for it; only what is exposed takes time.",
        f"{BOOK}sharding",
        ("waited for", "exposed", "hidden"),
    ),
    Term(
        "MFU",
        "Model FLOPs utilisation: the arithmetic the model needs over what all devices could do in the step at their peak. "
        "HFU also counts what is computed again.",
        f"{ARXIV}2204.02311",
        ("mfu",),
    ),
)

PROOF = (
    Term(
        "Compile ahead of time",
        "XLA compiles the plan for its hardware, which need not be here; the collectives, kernels and memory it decides on are read back.",
        f"{JAX}aot.html",
        ("compile ahead of time", "compiled"),
    ),
    Term(
        "Run",
        "The plan runs in a process of its own on the attached devices, or on virtual CPU devices; its shards, time and loss are measured.",
        f"{JAX}profiling.html",
        ("run on the attached devices", "measured", "step, measured"),
        "Run it",
    ),
    Term(
        "Predicted, compiled, measured",
        "Three answers to one question, each nearer to the truth and dearer to get; where they differ, Compared names the cause.",
        f"{JAX}aot.html",
        ("compared", "prediction is", "cause"),
        "Run it",
    ),
    Term(
        "Recomputation",
        "Activations thrown away and computed again in the backward pass (`jax.checkpoint`): less memory for more arithmetic.",
        f"{JAX}gradient-checkpointing.html",
        ("recomputed",),
    ),
)

GROUPS: tuple[tuple[str, tuple[Term, ...]], ...] = (("Laying out", LAYOUT), ("What it costs", COST), ("Proving it", PROOF))

KEYS: tuple[tuple[str, str], ...] = (
    ("Tab", "next control; one stop in each zone of the board"),
    ("Arrows", "from chip to chip; with a chip in hand, from zone to zone"),
    ("Space or Enter", "take the chip, and drop it"),
    ("Shift + Space", "drop it and keep its other axes: the dimension is split further"),
    ("Esc", "put the chip back; close a menu, a panel, the tour"),
    ("M or Shift + F10", "menu of the chip"),
    ("Ctrl + Z", "undo; with Shift, redo"),
    ("Arrows in a table or picture", "from row to row, from mark to mark; Enter selects in every view"),
    ("Arrows on a curve", "read it step by step"),
    ("?", "this help"),
)


@cache
def glossary_state() -> dict[str, Any]:
    """The tables as JSON, for the front end."""
    groups = [{"title": title, "terms": [_term_state(term) for term in terms]} for title, terms in GROUPS]
    return {"groups": groups, "keys": [{"press": press, "does": does} for press, does in KEYS]}


def _term_state(term: Term) -> dict[str, Any]:
    return {"name": term.name, "says": term.says, "link": term.link, "on": list(term.on), "notebook": term.notebook}
