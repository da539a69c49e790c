"""Terms of the search for a plan, as fields of `glossary.Term`: name, definition, further reading, the labels it explains, and a heading of
notebook 05."""

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
