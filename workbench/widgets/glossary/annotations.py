"""Terms of annotations, as fields of `glossary.Term`: name, definition, further reading, the labels it explains, the heading."""

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
