"""The terms on the board: one sentence each, a notebook heading, and further reading. One table for every host."""

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
    """A term: `on` are the labels and figure keys that it explains, `notebook` is a heading in notebook `number`."""

    name: str
    says: str
    link: str
    on: tuple[str, ...] = ()
    notebook: str = ""
    number: str = "01"


LAYOUT = (
    Term(
        "Mesh",
        "The devices as a grid with named axes: `data:4 model:2` is 4 × 2 = 8 devices; each axis is one way to shard the work.",
        f"{JAX}notebooks/Distributed_arrays_and_automatic_parallelization.html",
        ("mesh axes", "mesh axis"),
        "Devices stand on a mesh",
    ),
    Term(
        "Named dimension",
        "A dimension name shared by all tensors, so that one rule (`d_ff:model`) shards the dimension in all of them.",
        f"{ARXIV}1811.02084",
        ("dimensions on mesh axes", "dimensions"),
        "Dimensions have names",
    ),
    Term(
        "Sharding",
        "The mesh axes of each dimension. A dimension without an axis is unsharded; a tensor without axes is replicated on every device.",
        f"{JAX}jax.sharding.html",
        ("sharding", "layout"),
        "What does each device hold?",
    ),
    Term(
        "Per device",
        "The shard of a tensor on one device: each dimension divided by the sizes of its mesh axes, in bytes or as a shape.",
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
        "The partitioner (Shardy, as in JAX) derives the sharding of every value from the shardings of the arguments.",
        f"{SHARDY}propagation",
        ("values", "value"),
        "Propagation, step by step",
        "03",
    ),
)

COST = (
    Term(
        "Memory per device",
        "Peak bytes in use on one device during a step: parameters, optimizer state, gradients, activations.",
        f"{ARXIV}1910.02054",
        ("memory", "memory per device", "peak memory"),
        "Does it fit?",
    ),
    Term(
        "Role",
        "The purpose of a tensor: parameter, optimizer state, gradient, activation, input or output. Each is reduced by different means.",
        f"{ARXIV}1910.02054",
        ("role",),
        "Does it fit?",
    ),
    Term(
        "Sent per device",
        "Bytes sent by one device per step, over all collectives: on a ring of n, an all-reduce sends 2 (n − 1)/n of its payload, "
        "a permute all of it, and the others (n − 1)/n.",
        f"{BOOK}sharding",
        ("sent", "sent per device", "sent a step"),
        "What is sent, and why?",
    ),
    Term(
        "Payload",
        "The data of a collective: the larger of its input and output on one device. The bytes that a device sends for it "
        "are a separate figure.",
        f"{BOOK}sharding",
        ("payload", "predicted payload", "payload, once", "all kinds"),
        "What is sent, and why?",
    ),
    Term(
        "Collective",
        "A communication among all devices along a mesh axis: all-gather concatenates shards, all-reduce adds partial sums, "
        "reduce-scatter adds and shards, all-to-all moves an axis from one dimension to another.",
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
        "How many times the matrix products are computed; 1.00× means no duplicated work. Causes: a mesh axis that shards no dimension "
        "of a product, and padding of sizes that do not divide.",
        f"{ARXIV}2105.04663",
        ("duplication",),
        "Is any work done twice?",
    ),
    Term(
        "Hardware, and axes on links",
        "The chips of the plan, and the links that each mesh axis uses; a ring is as fast as its slowest link.",
        f"{BOOK}tpus",
        ("hardware", "wiring"),
    ),
    Term(
        "Predicted step",
        "Seconds of one step: compute-bound and memory-bound kernels (the roofline), launches, and exposed communication.",
        f"{BOOK}roofline",
        ("predicted", "step, predicted", "predicted step", "time a step"),
    ),
    Term(
        "Exposed and hidden communication",
        "A collective is hidden while its device computes, and exposed while the device waits for it; only exposed time counts.",
        f"{BOOK}sharding",
        ("waited for", "exposed", "hidden"),
    ),
    Term(
        "MFU",
        "Model FLOPs utilisation: the arithmetic of the model, divided by the peak arithmetic of all devices during the step. "
        "HFU also counts recomputation.",
        f"{ARXIV}2204.02311",
        ("mfu",),
    ),
)

RESHARD = "https://openxla.org/shardy/sharding_representation"

RESHARDING = (
    Term(
        "Resharding",
        "A value is produced with one sharding and read with another; the change may send bytes.",
        f"{ARXIV}2105.04663",
        ("made → needed", "resharded values"),
        "Resharding",
        "03",
    ),
    Term(
        "Way",
        "The method of a reshard, one of eight in XLA's partitioner: first as planned by Shardy, then "
        "as chosen by XLA. Only XLA can tell where the last method, a full gather, is used.",
        f"{ARXIV}2105.04663",
        ("way",),
        "Resharding",
        "03",
    ),
    Term("1 Stays", "Both shardings are the same: no operation is needed.", RESHARD, ("stays",)),
    Term(
        "2 Within groups",
        "Inside a `shard_map`, only the axes that are not manual change: one of the other methods, within each group of devices.",
        f"{JAX}notebooks/shard_map.html",
        ("within the groups of a shard_map",),
    ),
    Term(
        "3 Permuted",
        "Each device needs the shard of another device, of the same shape: one collective-permute sends it.",
        "https://openxla.org/xla/operation_semantics",
        ("permuted",),
    ),
    Term(
        "4 Swapped from dimension to dimension",
        "A mesh axis leaves one dimension for another: an all-to-all, in which each device keeps 1/n of its shard and sends the rest.",
        "https://openxla.org/xla/operation_semantics",
        ("swapped between dimensions",),
    ),
    Term("5 Sliced", "Each device slices its local data: nothing is sent.", RESHARD, ("sliced",)),
    Term(
        "6 Gathered",
        "An axis no longer shards a dimension: an all-gather over it, after which each device along it holds the whole dimension.",
        "https://openxla.org/xla/operation_semantics",
        ("gathered",),
    ),
    Term(
        "7 In several moves",
        "No single collective suffices; several of the methods above are chained through intermediate shardings.",
        RESHARD,
        ("in several moves",),
    ),
    Term(
        "8 Gathered whole, then sliced",
        "XLA has no other method: every device gathers the whole value and keeps its shard. The compiler warns of an involuntary full "
        "rematerialization; an intermediate sharding avoids it.",
        f"{ARXIV}2105.04663",
        ("gathered whole, then sliced", "compiler warning"),
        "Resharding",
        "03",
    ),
    Term(
        "Padding",
        "A dimension that does not divide evenly is sharded into equal parts of the next larger size; the excess elements hold no data.",
        f"{ARXIV}2105.04663",
        ("waste", "wasted bytes", "wasted work"),
        "Sizes that do not divide",
        "03",
    ),
    Term(
        "Recipe",
        "A standard layout, such as Megatron's or ZeRO: it finds dimensions and axes by role and name, and applies a list of edits.",
        f"{ARXIV}2105.04663",
        ("recipes",),
        "A real model",
        "03",
    ),
    Term(
        "Of the function itself",
        "Shardings set in the traced function: `with_sharding_constraint`, explicit axis types, `shard_map`. The plan cannot change them.",
        f"{JAX}notebooks/explicit-sharding.html",
        ("of the function", "manual axes"),
        "Propagation, step by step",
        "03",
    ),
)

PROOF = (
    Term(
        "Compile ahead of time",
        "XLA compiles the plan for its hardware, attached or not; its collectives, kernels and memory are read from the result.",
        f"{JAX}aot.html",
        ("compile ahead of time",),
    ),
    Term(
        "Run",
        "The plan runs in a separate process on the attached devices, or on virtual CPU devices; its shards, time and loss are measured.",
        f"{JAX}profiling.html",
        ("run on the attached devices",),
        "Run it",
    ),
    Term(
        "Predicted, compiled, measured",
        "Three tiers of figures, each more accurate and more costly than the one before; Compared names the causes of differences.",
        f"{JAX}aot.html",
        ("compared", "prediction is", "cause"),
        "Run it",
    ),
    Term(
        "Recomputation",
        "Activations are discarded and recomputed in the backward pass (`jax.checkpoint`): less memory for more arithmetic.",
        f"{JAX}gradient-checkpointing.html",
        ("recomputed",),
    ),
)

GROUPS: tuple[tuple[str, tuple[Term, ...]], ...] = (
    ("Layouts", LAYOUT),
    ("Annotations and propagation", tuple(Term(*entry, number="03") for entry in ANNOTATIONS)),
    ("Cost", COST),
    ("Resharding and recipes", RESHARDING),
    ("Pipelines", tuple(Term(*entry) for entry in PIPELINES)),
    ("Inference", tuple(Term(*entry) for entry in INFERENCE)),
    ("Search", tuple(Term(*entry, number="05") for entry in FINDING)),
    ("Many models", tuple(Term(*entry, number="04") for entry in FLEETS)),
    ("Tiers of figures", tuple(Term(*entry) for entry in TIERS)),
    ("Checking predictions", PROOF),
)

KEYS: tuple[tuple[str, str], ...] = (
    ("Tab", "next control; one stop in each zone of the board"),
    ("Arrows", "move from chip to chip; while a chip is dragged, from zone to zone"),
    ("Space or Enter", "pick up the chip; drop it"),
    ("Shift + Space", "drop the chip and keep its other axes: add an axis"),
    ("Esc", "cancel the drag; close a menu, a panel, the tour"),
    ("M or Shift + F10", "menu of the chip"),
    ("Ctrl + Z", "undo; with Shift, redo"),
    ("Arrows in a table or picture", "from row to row, from mark to mark; Enter selects in every view"),
    ("Arrows on a curve", "read it step by step"),
    ("+ and − on a chart", "zoom; A and D pan, 0 shows everything; with the pointer: drag, Ctrl + wheel, Shift + drag for a box"),
    ("Arrows on the replay's slider", "step by step through the propagation; Home and End, its first and last"),
    ("?", "this help"),
)


@cache
def glossary_state() -> dict[str, Any]:
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
