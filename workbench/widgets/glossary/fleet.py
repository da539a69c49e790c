"""Terms of many models at once, as fields of `glossary.Term`: name, definition, further reading, the labels it explains, and the heading of
notebook 04 that shows it."""

_HYDRA = "https://arxiv.org/abs/2110.08633"
_GRAHAM = "https://doi.org/10.1002/j.1538-7305.1966.tb01709.x"

FLEETS: tuple[tuple[str, str, str, tuple[str, ...], str], ...] = (
    (
        "Shard",
        "Consecutive layers of a model that together fit a device; they are loaded from host memory for a unit, and stored back after it.",
        _HYDRA,
        ("shards", "fleet shards"),
        "Shards that fit",
    ),
    (
        "Shard unit",
        "The forward or backward pass of one shard over one mini-batch. Units of a model run strictly in order, beside those of others.",
        _HYDRA,
        ("shard units", "shard units over time"),
        "Shard units",
    ),
    (
        "Makespan",
        "Seconds from the first unit's start to the last one's end, transfers included: how long training all models takes.",
        _HYDRA,
        ("makespan",),
        "Shard units",
    ),
    (
        "Lower bound",
        "No schedule is shorter than all work divided by the devices, nor than the longest model's units in sequence; pipelining can be.",
        _HYDRA,
        ("lower bound",),
        "Shard units",
    ),
    (
        "Policy",
        "Which idle model's next unit a free device runs. `sharded-lrtf` takes the one with the longest remaining time.",
        _HYDRA,
        ("policy",),
        "Policies",
    ),
    (
        "List schedule",
        "One that leaves no device idle while a unit could run; it takes at most 2 − 1/P times the optimum on P devices.",
        _GRAHAM,
        ("at most, if no device idles",),
        "Policies",
    ),
    (
        "Memory budget, buffer",
        "Bytes of each device that may be used. A share stays free (double buffering) to load the next unit's shard while one computes.",
        _HYDRA,
        ("memory of a device",),
        "Spilling, and bringing in meanwhile",
    ),
    (
        "Ways to train many models",
        "One at a time; model parallel, in which one device computes at a time; task parallel, a whole model on each device; pipelined.",
        _HYDRA,
        ("to train the same models",),
        "Two regimes",
    ),
)
