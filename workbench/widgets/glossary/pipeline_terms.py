"""Terms of pipelines and of many models at once, as fields of `glossary.Term`: name, definition, further reading, the labels it
explains."""

_ARXIV = "https://arxiv.org/abs/"
_GPIPE, _MEGATRON = f"{_ARXIV}1811.06965", f"{_ARXIV}2104.04473"

PIPELINES: tuple[tuple[str, str, str, tuple[str, ...]], ...] = (
    (
        "Stage",
        "Consecutive layers of a network on devices of their own; a pipeline has as many stages as its mesh axis has groups of devices.",
        _GPIPE,
        ("stages", "on mesh axis"),
    ),
    (
        "Micro-batch",
        "A batch is divided into equal micro-batches that go through the stages one after another; the step sums their gradients.",
        _GPIPE,
        ("micro-batches",),
    ),
    (
        "Bubble",
        "The share of the stages' time in which they wait for others: with p equal stages and m micro-batches (p − 1)/(m + p − 1).",
        _GPIPE,
        ("bubble", "the step over time"),
    ),
    (
        "Schedule",
        "In which order each stage does the forward and backward tasks of its micro-batches; the results are the same under all of them.",
        _MEGATRON,
        ("schedule",),
    ),
    (
        "GPipe",
        "A schedule: all forward tasks, then all backward ones; the activations of every micro-batch are kept until then.",
        _GPIPE,
        ("gpipe",),
    ),
    (
        "1F1B",
        "A schedule: a backward task as soon as there is one, then a forward one; no stage keeps more micro-batches than there are stages.",
        "https://arxiv.org/abs/2006.09503",
        ("1f1b",),
    ),
    (
        "Eager 1F1B",
        "A schedule: 1F1B with up to twice as many forward tasks before; a stage works on one micro-batch while the next is sent.",
        f"{_ARXIV}2211.05322",
        ("eager_1f1b",),
    ),
    (
        "Interleaved, chunks",
        "A schedule: each device holds several chunks of layers (virtual stages); micro-batches go round; a shorter bubble, more is sent.",
        _MEGATRON,
        ("interleaved", "chunks a stage"),
    ),
    (
        "Zero bubble",
        "A schedule: the gradients of weights, which no other stage needs, are separate tasks, run while a stage would wait.",
        f"{_ARXIV}2401.10241",
        ("zero_bubble",),
    ),
    (
        "V schedules",
        "Schedules of two chunks a device: a micro-batch goes up the devices and back down, and its activations are kept for less time.",
        f"{_ARXIV}2405.15362",
        ("zb_v", "dualpipe_v", "v_half", "v_min"),
    ),
    (
        "Recompute",
        "Keep a stage's input alone, and compute its forward pass again in the backward task. Under 1F1B the first stages gain most by it.",
        f"{_ARXIV}1604.06174",
        ("recompute",),
    ),
    (
        "Engine",
        "One program for each stage, dispatched asynchronously (MPMD), or one program that all stages run in lockstep (SPMD).",
        f"{_ARXIV}2412.14374",
        ("engine",),
    ),
    (
        "Balance of the stages",
        "The mean stage's time divided by the busiest one's. The least possible busiest stage is found exactly, by dynamic programming.",
        f"{_ARXIV}2004.09910",
        ("balance of the stages", "balance"),
    ),
    (
        "Fullest stage",
        "What one device holds at its worst moment: parameters, gradients and optimiser state of its stage, and micro-batches in flight.",
        _MEGATRON,
        ("fullest stage, per device",),
    ),
    (
        "Sent between stages",
        "Activations from stage to stage and their gradients back, for all micro-batches; a skip connection goes straight to its reader.",
        _GPIPE,
        ("sent between stages", "passed"),
    ),
)


# Terms of many models at once, as fields of `glossary.Term`: name, definition, further reading, the labels it explains, and the heading of
# notebook 04 that shows it.

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
