"""Terms of annotations, search, inference and figure tiers, as fields of `glossary.Term`."""

_SHARDY = "https://openxla.org/shardy/"
_SAYS, _SPREADS = f"{_SHARDY}sharding_representation", f"{_SHARDY}propagation"
_NOTE, _STEPS = "Annotate", "Propagation, step by step"

ANNOTATIONS: tuple[tuple[str, str, str, tuple[str, ...], str], ...] = (
    (
        "Open dimension (?)",
        "A dimension whose sharding propagation decides. A sharded dimension can be open too, `model?`: propagation may shard it further.",
        _SAYS,
        ("by itself", "open dimension"),
        _NOTE,
    ),
    (
        "Round (priority)",
        "Statements of priority 0 propagate first, then those of priority 1, and so on; in a conflict the lower number wins.",
        _SPREADS,
        ("propagation priority", "priority"),
        _NOTE,
    ),
    (
        "Partial sum (unreduced)",
        "Each device along the axis holds a partial sum that is reduced later, from a product whose contracted dimension is sharded.",
        _SAYS,
        ("partial sum over", "unreduced"),
        _NOTE,
    ),
    (
        "Kept out",
        "An axis that may shard no dimension of this value, whatever is propagated to it; the value is replicated along it.",
        _SAYS,
        ("keep out",),
        _NOTE,
    ),
    (
        "Sharding group",
        "Values of a group always have the same sharding; an axis propagated to one of them is propagated to all.",
        _SPREADS,
        ("group with another value…", "sharding group"),
        _NOTE,
    ),
    (
        "Barrier",
        "A value through which shardings propagate forward only, backward only, or not at all.",
        _SPREADS,
        ("propagation barrier",),
        _NOTE,
    ),
    (
        "Conflict",
        "Two statements that request different shardings of one value, or one axis for two dimensions of it.",
        _SPREADS,
        ("conflicts",),
        "Conflicts",
    ),
    (
        "Minimal annotations",
        "The smallest set of statements that gives every value its current sharding; propagation does the rest.",
        _SPREADS,
        ("fewest",),
        _STEPS,
    ),
)


# Terms of inference, as fields of `glossary.Term`: name, definition, further reading, explained labels.

BOOK = "https://jax-ml.github.io/scaling-book/inference"
ARXIV = "https://arxiv.org/abs/"

INFERENCE: tuple[tuple[str, str, str, tuple[str, ...]], ...] = (
    (
        "Prefill",
        (
            "The step that processes a prompt: all tokens at once, each product with batch × tokens rows, so it is mostly "
            "compute-bound. It fills the cache."
        ),
        BOOK,
        ("prefill",),
    ),
    (
        "Decode",
        (
            "The step that produces one token per sequence: a product has one row per sequence and reads all its weights, so "
            "below a critical batch size it is memory-bound."
        ),
        BOOK,
        ("decode", "decoding"),
    ),
    (
        "KV cache",
        (
            "The keys and values of all previous tokens, read in each decode step: 2 × layers × KV heads × head size × "
            "bytes per element per token, times tokens, times sequences. Its role is model state."
        ),
        f"{ARXIV}2211.05102",
        ("kv cache", "cache", "model state"),
    ),
    (
        "Batch of sequences",
        "Number of sequences in a decode step. They share one read of the weights; each has its own cache.",
        BOOK,
        ("sequences", "batch size"),
    ),
    (
        "Time to first token",
        "Seconds from a prompt to its first output token: the prefill step, plus queueing in a server.",
        f"{ARXIV}2401.09670",
        ("time to first token", "ttft"),
    ),
    (
        "Latency per token",
        "Seconds between two tokens of one sequence: one decode step, at least the bytes read on a device ÷ its memory bandwidth.",
        f"{ARXIV}2401.09670",
        ("latency per token", "a token", "time per output token"),
    ),
    (
        "Throughput",
        "Tokens per second over all sequences: batch ÷ step time; also given per chip.",
        BOOK,
        ("throughput", "tokens/s", "a chip"),
    ),
    (
        "Latency front",
        (
            "The Pareto front over batches and machines: no other pair that fits has both lower latency per token and "
            "higher throughput per chip "
            "(`plan.latency_front`, `workbench latency`)."
        ),
        f"{ARXIV}2211.05102",
        ("latency front",),
    ),
)


# Terms of figure tiers, as fields of `glossary.Term`: name, definition, further reading, explained labels.

GSPMD = "https://arxiv.org/abs/2105.04663"
AOT = "https://docs.jax.dev/en/latest/aot.html"
PROFILING = "https://docs.jax.dev/en/latest/profiling.html"

_PLANNED = (
    "Computed in this process after each edit: Shardy decides the sharding of every value, which determines bytes sent, memory and time."
)
_PARTITIONED = "From XLA's own SPMD partitioner, usually within half a second: its collectives, with the resulting memory and time."
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
"""Name, definition, further reading, and explained labels, in order of accuracy and cost."""


# Terms of the search, as fields of `glossary.Term`: name, definition, further reading, explained labels, and a heading of
# notebook 05.

FINDING: tuple[tuple[str, str, str, tuple[str, ...], str], ...] = (
    (
        "Find",
        "A search over meshes, layouts, ZeRO, rematerialisation, stages, schedules and micro-batches, each plan evaluated as on the board.",
        "https://arxiv.org/abs/2201.12023",
        ("find", "find a plan"),
        "A space of plans",
    ),
    (
        "Front",
        "The Pareto front of the plans found: any faster plan needs more memory or more devices.",
        "https://en.wikipedia.org/wiki/Pareto_front",
        ("front", "the front"),
        "A proof one can watch",
    ),
    (
        "Gap",
        "Distance of the best plan found from the lower bound over all unexplored plans; at zero the plan is proved optimal.",
        "https://en.wikipedia.org/wiki/Branch_and_bound",
        ("gap", "proved"),
        "A proof one can watch",
    ),
    (
        "Ledger",
        "The path from one plan to another, one decision at a time; every step is planned, so the lines add up to the difference.",
        "https://arxiv.org/abs/2201.12023",
        ("ledger", "from one plan to the other"),
        "Why this one?",
    ),
)
