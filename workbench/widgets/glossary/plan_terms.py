"""Terms of plans, as fields of `glossary.Term` (name, definition, further reading, the labels it explains, the heading): of annotations, of
the search, of inference and of the tiers of a figure."""

_SHARDY = "https://openxla.org/shardy/"
_SAYS, _SPREADS = f"{_SHARDY}sharding_representation", f"{_SHARDY}propagation"
_NOTE, _STEPS = "Annotate", "Propagation, step by step"

ANNOTATIONS: tuple[tuple[str, str, str, tuple[str, ...], str], ...] = (
    (
        "By itself, open (?)",
        "A dimension left to propagation. One that has axes may be open too, `model?`: then propagation can split it further.",
        _SAYS,
        ("by itself", "open dimension"),
        _NOTE,
    ),
    (
        "Round (priority)",
        "Statements of round 0 propagate first, those of round 1 over what is left, and so on; in a conflict the earlier round wins.",
        _SPREADS,
        ("spreads in round", "priority"),
        _NOTE,
    ),
    (
        "Partial sum (unreduced)",
        "Each device along the axis has a part of a sum that is added up later: the result of a product whose summed dimension is split.",
        _SAYS,
        ("partial sum over", "unreduced"),
        _NOTE,
    ),
    (
        "Kept out",
        "An axis that no dimension of this value may be split over, whatever is propagated to it; the value is replicated along it.",
        _SAYS,
        ("keep out",),
        _NOTE,
    ),
    (
        "Tie (sharding group)",
        "Values that are tied always have the same sharding; an axis that is propagated to one of them is propagated to all.",
        _SPREADS,
        ("tie to another, to be sharded alike…", "sharding group"),
        _NOTE,
    ),
    (
        "Barrier",
        "A value that lets shardings pass forward only, backward only, or not at all.",
        _SPREADS,
        ("lets shardings pass",),
        _NOTE,
    ),
    (
        "Conflict",
        "Two statements that ask for different shardings of one value: an axis splits one dimension, and the axes of one have one order.",
        _SPREADS,
        ("conflicts",),
        "Conflicts",
    ),
    (
        "Minimal annotations",
        "The fewest statements that give every value its present sharding; propagation does the rest.",
        _SPREADS,
        ("fewest",),
        _STEPS,
    ),
)


# Terms of inference, as fields of `glossary.Term`: name, definition, further reading, the labels it explains.

BOOK = "https://jax-ml.github.io/scaling-book/inference"
ARXIV = "https://arxiv.org/abs/"

INFERENCE: tuple[tuple[str, str, str, tuple[str, ...]], ...] = (
    (
        "Prefill",
        (
            "The step that reads a prompt: all its tokens at once, each product with batch × tokens rows, so that it mostly waits for "
            "arithmetic. It fills the cache."
        ),
        BOOK,
        ("prefill",),
    ),
    (
        "Decode",
        (
            "The step that writes one token of each sequence: a product has as many rows as the batch and reads all its weights, so that "
            "below a critical batch it waits for memory."
        ),
        BOOK,
        ("decode", "decoding"),
    ),
    (
        "KV cache",
        (
            "The keys and values of all tokens so far, which each step of decoding reads: 2 × layers × heads of keys × numbers a head × "
            "bytes a number for a token, times tokens, times sequences. Its role is model state."
        ),
        f"{ARXIV}2211.05102",
        ("kv cache", "cache", "model state"),
    ),
    (
        "Batch of sequences",
        "How many sequences get a token in a step of decoding. They share one reading of the weights, and each has a cache of its own.",
        BOOK,
        ("sequences", "batch size"),
    ),
    (
        "Time to first token",
        "Seconds from a prompt to the first token of its answer: those of the prefill step, and in a server of waiting before it.",
        f"{ARXIV}2401.09670",
        ("time to first token", "ttft"),
    ),
    (
        "Latency per token",
        "Seconds between two tokens of one sequence: a step of decoding, at least bytes read on a device ÷ bytes a second of its memory.",
        f"{ARXIV}2401.09670",
        ("latency per token", "a token", "time per output token"),
    ),
    (
        "Throughput",
        "Tokens a second of all sequences together: batch ÷ seconds of a step; divided by the chips, what one of them makes.",
        BOOK,
        ("throughput", "tokens/s", "a chip"),
    ),
    (
        "Latency front",
        (
            "The batches and machines of which no other one that fits has both a lower latency per token and a higher throughput a chip "
            "(`plan.latency_front`, `workbench latency`)."
        ),
        f"{ARXIV}2211.05102",
        ("latency front",),
    ),
)


# Terms of the tiers of a figure, as fields of `glossary.Term`: name, definition, further reading, the labels it explains.

GSPMD = "https://arxiv.org/abs/2105.04663"
AOT = "https://docs.jax.dev/en/latest/aot.html"
PROFILING = "https://docs.jax.dev/en/latest/profiling.html"

_PLANNED = (
    "Computed in this process as soon as a plan is edited: Shardy decides the sharding of every value, from which bytes sent, memory and "
    "time follow."
)
_PARTITIONED = (
    "From XLA's own SPMD partitioner, usually within half a second: the collectives are those it makes of the plan, and memory and time "
    "follow from them."
)
_COMPILED = (
    "Read from the program that XLA compiled for the hardware of the plan: its collectives, memory and kernels. For a TPU they come within "
    "a second or two, before code is generated; the compiler's own kernel times come with the code."
)
TIERS: tuple[tuple[str, str, str, tuple[str, ...]], ...] = (
    ("Planned", _PLANNED, _SHARDY, ("planned",)),
    ("Partitioned", _PARTITIONED, GSPMD, ("partitioned",)),
    ("Compiled", _COMPILED, AOT, ("compiled", "compiled payload")),
    ("Measured", "Taken from a run of the plan on the attached devices.", PROFILING, ("measured", "step, measured")),
)
"""Name, definition, further reading, and the labels it explains; each tier is more accurate than the one before, and costs more."""


# Terms of the search for a plan, as fields of `glossary.Term`: name, definition, further reading, the labels it explains, and a heading of
# notebook 05.

FINDING: tuple[tuple[str, str, str, tuple[str, ...], str], ...] = (
    (
        "Find",
        "A search over meshes, layouts, ZeRO, rematerialisation, stages, schedules and micro-batches, each plan planned as the board does.",
        "https://arxiv.org/abs/2201.12023",
        ("find", "find a plan"),
        "A space of plans",
    ),
    (
        "Front",
        "The plans found of which none is beaten: any other one that is faster needs more memory, or more devices (the Pareto front).",
        "https://en.wikipedia.org/wiki/Pareto_front",
        ("front", "the front"),
        "A proof one can watch",
    ),
    (
        "Gap",
        "How much better than the best found a plan could be at most, by bounds on all that was not planned; at zero the best is proved.",
        "https://en.wikipedia.org/wiki/Branch_and_bound",
        ("gap", "proved"),
        "A proof one can watch",
    ),
    (
        "Ledger",
        "The way from one plan to another, one decision at a time; every step is planned, so that the lines add up to the difference.",
        "https://arxiv.org/abs/2201.12023",
        ("ledger", "from one plan to the other"),
        "Why this one?",
    ),
)
