"""Terms of pipelines and fleets, as fields of `glossary.Term`."""

_ARXIV = "https://arxiv.org/abs/"
_GPIPE, _MEGATRON = f"{_ARXIV}1811.06965", f"{_ARXIV}2104.04473"

PIPELINES: tuple[tuple[str, str, str, tuple[str, ...]], ...] = (
    (
        "Stage",
        "Consecutive layers of a network on a separate group of devices; the size of the pipeline's mesh axis is the number of stages.",
        _GPIPE,
        ("stages", "on mesh axis"),
    ),
    (
        "Micro-batch",
        "An equal part of the batch. Micro-batches pass through the stages one after another; the step sums their gradients.",
        _GPIPE,
        ("micro-batches",),
    ),
    (
        "Bubble",
        "The idle share of the stages' time: with p equal stages and m micro-batches (p − 1)/(m + p − 1).",
        _GPIPE,
        ("bubble", "the step over time"),
    ),
    ("Schedule", "The order of forward and backward tasks on each stage. All schedules give the same result.", _MEGATRON, ("schedule",)),
    (
        "GPipe",
        "A schedule: all forward tasks, then all backward tasks; the activations of every micro-batch are kept in between.",
        _GPIPE,
        ("gpipe",),
    ),
    (
        "1F1B",
        "A schedule: each stage alternates one backward and one forward task; no stage keeps more micro-batches than there are stages.",
        "https://arxiv.org/abs/2006.09503",
        ("1f1b",),
    ),
    (
        "Eager 1F1B",
        "A schedule: 1F1B with up to twice the warm-up; a stage computes one micro-batch while the next is sent.",
        f"{_ARXIV}2211.05322",
        ("eager_1f1b",),
    ),
    (
        "Interleaved, chunks",
        "A schedule: each device holds several chunks of layers (virtual stages); a shorter bubble, more bytes sent.",
        _MEGATRON,
        ("interleaved", "chunks a stage"),
    ),
    (
        "Zero bubble",
        "A schedule: weight gradients are separate tasks, which fill the bubble because no other stage needs them.",
        f"{_ARXIV}2401.10241",
        ("zero_bubble",),
    ),
    (
        "V schedules",
        "Schedules with two chunks per device: a micro-batch goes up the devices and back down; its activations are kept for less time.",
        f"{_ARXIV}2405.15362",
        ("zb_v", "dualpipe_v", "v_half", "v_min"),
    ),
    (
        "Recompute",
        "Keep only the input of a stage and recompute its forward pass in the backward task. Under 1F1B the first stages save the most.",
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
        "Mean stage time divided by the slowest stage's time. Dynamic programming minimises the slowest stage exactly.",
        f"{_ARXIV}2004.09910",
        ("balance of the stages", "balance"),
    ),
    (
        "Fullest stage",
        "Peak memory of one device: parameters, gradients and optimizer state of its stage, and micro-batches in flight.",
        _MEGATRON,
        ("fullest stage, per device",),
    ),
    (
        "Sent between stages",
        "Activations from stage to stage and their gradients back, for all micro-batches; a skip connection goes directly to its reader.",
        _GPIPE,
        ("sent between stages", "passed"),
    ),
)


# Terms of fleets, as fields of `glossary.Term`: name, definition, further reading, explained labels, and a heading of
# notebook 04.

_HYDRA = "https://arxiv.org/abs/2110.08633"
_GRAHAM = "https://doi.org/10.1002/j.1538-7305.1966.tb01709.x"

FLEETS: tuple[tuple[str, str, str, tuple[str, ...], str], ...] = (
    (
        "Shard",
        "Consecutive layers of a model that fit a device; loaded from host memory for a unit and stored back afterwards.",
        _HYDRA,
        ("shards", "fleet shards"),
        "Shards that fit",
    ),
    (
        "Shard unit",
        (
            "The forward or backward pass of one shard over one mini-batch. Units of a model run strictly in order, "
            "concurrently with other models."
        ),
        _HYDRA,
        ("shard units", "shard units over time"),
        "Shard units",
    ),
    (
        "Makespan",
        "Seconds from the first unit's start to the last one's end, transfers included: the time to train all models.",
        _HYDRA,
        ("makespan",),
        "Shard units",
    ),
    (
        "Lower bound",
        "The larger of total work divided by devices and the longest model in sequence. No schedule of shard units is shorter.",
        _HYDRA,
        ("lower bound",),
        "Shard units",
    ),
    (
        "Policy",
        "The rule that picks the next model for a free device. `sharded-lrtf` takes the model with the longest remaining time.",
        _HYDRA,
        ("policy",),
        "Policies",
    ),
    (
        "List schedule",
        "A schedule that leaves no device idle while a unit could run; at most 2 − 1/P times the optimum on P devices.",
        _GRAHAM,
        ("at most, if no device idles",),
        "Policies",
    ),
    (
        "Memory budget, buffer",
        "Usable bytes of each device. A share is reserved (double buffering) to load the next unit's shard during computation.",
        _HYDRA,
        ("memory of a device",),
        "Spilling, and bringing in meanwhile",
    ),
    (
        "Ways to train many models",
        "Sequential; model parallel (one device computes at a time); task parallel (a whole model on each device); pipelined.",
        _HYDRA,
        ("to train the same models",),
        "Two regimes",
    ),
)
