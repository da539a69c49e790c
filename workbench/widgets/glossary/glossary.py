"""The terms on the board: one sentence each, where the notebooks show it, and what to read. One table for every host."""

from dataclasses import dataclass
from functools import cache
from typing import Any

from workbench.widgets.glossary.lessons import lesson_of, page_of
from workbench.widgets.glossary.pipeline_terms import FLEETS, PIPELINES
from workbench.widgets.glossary.plan_terms import ANNOTATIONS, FINDING, INFERENCE, TIERS

JAX = "https://docs.jax.dev/en/latest/"
SHARDY = "https://openxla.org/shardy/"
BOOK = "https://jax-ml.github.io/scaling-book/"
ARXIV = "https://arxiv.org/abs/"


@dataclass(frozen=True, slots=True)
class Term:
    """`on` are the labels, in lower case, and the keys of figures that it explains; `notebook` a heading in the notebook `number`."""

    name: str
    says: str
    link: str
    on: tuple[str, ...] = ()
    notebook: str = ""
    number: str = "01"


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
        "What one device holds of a tensor: each dimension divided by the sizes of the axes that split it, in bytes or as a shape.",
        f"{BOOK}sharding",
        ("per device", "global shape"),
        "What does each device hold?",
    ),
    Term(
        "Override and constraint",
        "An override sets the sharding of one argument; a constraint sets that of an intermediate value. Both replace the rules.",
        f"{JAX}_autosummary/jax.lax.with_sharding_constraint.html",
        ("override", "constraint"),
        "Annotate",
        "03",
    ),
    Term(
        "Propagation",
        "From the shardings of the arguments the partitioner (Shardy, the one that JAX uses) works out those of all other values.",
        f"{SHARDY}propagation",
        ("values", "value"),
        "Propagation, step by step",
        "03",
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
        "Bytes that leave one device in a step, all collectives together: on a ring of n, an all-reduce sends 2 (n − 1)/n of its payload, "
        "the others (n − 1)/n, a permutation all of it.",
        f"{BOOK}sharding",
        ("sent", "sent per device", "sent a step"),
        "What is sent, and why?",
    ),
    Term(
        "Payload",
        "What a collective works on: the larger of what goes in and comes out on one device. The bytes that leave a device for it "
        "are another number: what is sent.",
        f"{BOOK}sharding",
        ("payload", "predicted payload", "payload, once", "all kinds"),
        "What is sent, and why?",
    ),
    Term(
        "Collective",
        "An operation of all devices along a mesh axis: all-gather puts shards together, all-reduce adds partial sums, "
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
        "How often the work of the products is done: the same on several devices, because a mesh axis splits nothing in it, or for "
        "padding, where a size does not divide; 1.00× means no work is done twice.",
        f"{ARXIV}2105.04663",
        ("duplication",),
        "Is any work done twice?",
    ),
    Term(
        "Hardware, and axes on links",
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
        "Model FLOPs utilisation: the arithmetic the model needs, divided by what all devices could do in the step at their peak. "
        "HFU also counts what is computed again.",
        f"{ARXIV}2204.02311",
        ("mfu",),
    ),
)

RESHARD = "https://openxla.org/shardy/sharding_representation"

RESHARDING = (
    Term(
        "Resharding",
        "A value is made with one sharding and needed with another where it is read; the change may send bytes.",
        f"{ARXIV}2105.04663",
        ("made → needed", "where a sharding turns into another"),
        "Resharding",
        "03",
    ),
    Term(
        "Way",
        "How a value gets from one sharding to another, as one of the eight ways of XLA's partitioner: as planned by Shardy, then "
        "as XLA does it; only XLA knows where the last way is taken, which gathers the value whole.",
        f"{ARXIV}2105.04663",
        ("way",),
        "Resharding",
        "03",
    ),
    Term("1 Stays", "Both shardings are the same: nothing is done.", RESHARD, ("stays",)),
    Term(
        "2 Within groups",
        "Inside a `shard_map`, only the axes that are not manual change: one of the other ways, within each group of devices.",
        f"{JAX}notebooks/shard_map.html",
        ("within the groups of a shard_map",),
    ),
    Term(
        "3 Permuted",
        "Each device needs the part that another one has, of the same shape: one collective-permute sends it there.",
        "https://openxla.org/xla/operation_semantics",
        ("permuted",),
    ),
    Term(
        "4 Swapped from dimension to dimension",
        "A mesh axis leaves one dimension for another: an all-to-all, in which each device keeps 1/n of what it has and sends the rest.",
        "https://openxla.org/xla/operation_semantics",
        ("swapped from dimension to dimension",),
    ),
    Term("5 Sliced", "Each device keeps a part of what it has: nothing is sent.", RESHARD, ("sliced",)),
    Term(
        "6 Gathered",
        "An axis no longer splits a dimension: an all-gather over it, after which each device along it holds all of that dimension.",
        "https://openxla.org/xla/operation_semantics",
        ("gathered",),
    ),
    Term(
        "7 In several moves",
        "No single collective is enough; with shardings in between, several of the ways above follow one another.",
        RESHARD,
        ("in several moves",),
    ),
    Term(
        "8 Gathered whole, then sliced",
        "XLA finds no other way: every device gathers the whole value and keeps its part. The compiler warns of an involuntary full "
        "rematerialization; a sharding in between avoids it.",
        f"{ARXIV}2105.04663",
        ("gathered whole, then sliced", "the compiler warns of"),
        "Resharding",
        "03",
    ),
    Term(
        "Padding",
        "A dimension that does not divide evenly is split into equal parts of the next larger size; the excess elements hold no data.",
        f"{ARXIV}2105.04663",
        ("waste", "wasted bytes", "wasted work"),
        "Sizes that do not divide",
        "03",
    ),
    Term(
        "Recipe",
        "A known way to lay a program out, such as Megatron's or ZeRO: it finds its dimensions and axes by name, and is a list of edits.",
        f"{ARXIV}2105.04663",
        ("recipes",),
        "A real model",
        "03",
    ),
    Term(
        "Of the function itself",
        "What the traced function sets by `with_sharding_constraint`, explicit axis types or `shard_map`; the plan cannot change it.",
        f"{JAX}notebooks/explicit-sharding.html",
        ("of the function", "manual axes"),
        "Propagation, step by step",
        "03",
    ),
)

PROOF = (
    Term(
        "Compile ahead of time",
        "XLA compiles the plan for its hardware, which need not be here; the collectives, kernels and memory it decides on are read back.",
        f"{JAX}aot.html",
        ("compile ahead of time",),
    ),
    Term(
        "Run",
        "The plan runs in a process of its own on the attached devices, or on virtual CPU devices; its shards, time and loss are measured.",
        f"{JAX}profiling.html",
        ("run on the attached devices",),
        "Run it",
    ),
    Term(
        "Predicted, compiled, measured",
        "Three answers to one question, each more accurate than the last, and more costly; where they differ, Compared names the cause.",
        f"{JAX}aot.html",
        ("compared", "prediction is", "cause"),
        "Run it",
    ),
    Term(
        "Recomputation",
        "Activations are dropped and computed again in the backward pass (`jax.checkpoint`): less memory for more arithmetic.",
        f"{JAX}gradient-checkpointing.html",
        ("recomputed",),
    ),
)

GROUPS: tuple[tuple[str, tuple[Term, ...]], ...] = (
    ("Laying out", LAYOUT),
    ("Annotations and how they spread", tuple(Term(*each, number="03") for each in ANNOTATIONS)),
    ("What it costs", COST),
    ("Resharding and recipes", RESHARDING),
    ("Pipelines", tuple(Term(*each) for each in PIPELINES)),
    ("Inference", tuple(Term(*each) for each in INFERENCE)),
    ("Finding a plan", tuple(Term(*each, number="05") for each in FINDING)),
    ("Many models", tuple(Term(*each, number="04") for each in FLEETS)),
    ("Where a figure is from", tuple(Term(*each) for each in TIERS)),
    ("Proving it", PROOF),
)

KEYS: tuple[tuple[str, str], ...] = (
    ("Tab", "next control; one stop in each zone of the board"),
    ("Arrows", "from chip to chip; while a chip is dragged, from zone to zone"),
    ("Space or Enter", "take the chip, and drop it"),
    ("Shift + Space", "drop it and keep its other axes: the dimension is split further"),
    ("Esc", "put the chip back; close a menu, a panel, the tour"),
    ("M or Shift + F10", "menu of the chip"),
    ("Ctrl + Z", "undo; with Shift, redo"),
    ("Arrows in a table or picture", "from row to row, from mark to mark; Enter selects in every view"),
    ("Arrows on a curve", "read it step by step"),
    ("+ and − on a chart", "zoom; A and D pan, 0 shows all of it; with the pointer drag, Ctrl + wheel, and Shift + drag for a box"),
    ("Arrows on the replay's slider", "step by step through the propagation; Home and End, its first and last"),
    ("?", "this help"),
)


@cache
def glossary_state() -> dict[str, Any]:
    """The tables as JSON, for the front end."""
    groups = [{"title": title, "terms": [_term_state(term) for term in terms]} for title, terms in GROUPS]
    return {"groups": groups, "keys": [{"press": press, "does": does} for press, does in KEYS]}


def _term_state(term: Term) -> dict[str, Any]:
    return {
        "name": term.name,
        "says": term.says,
        "link": term.link,
        "on": list(term.on),
        "notebook": term.notebook,
        "number": term.number,
        "page": page_of(term.name),
        "lesson": lesson_of(term.name),
    }
