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
        "Statements of round 0 spread first, those of round 1 over what is left, and so on; where two meet, the earlier has its way.",
        _SPREADS,
        ("spreads in round", "priority"),
        _NOTE,
    ),
    (
        "Partial sum (unreduced)",
        "Each device along the axis has a part of the sum, added up later: what a product makes whose summed dimension is split.",
        _SAYS,
        ("partial sum over", "unreduced"),
        _NOTE,
    ),
    (
        "Kept out",
        "An axis that no dimension of this value may take, whatever its neighbours want; the value is replicated along it.",
        _SAYS,
        ("keep out",),
        _NOTE,
    ),
    (
        "Tie (sharding group)",
        "Values that are tied lie alike, however that is; what reaches one of them reaches all.",
        _SPREADS,
        ("tie to another, to lie alike…", "sharding group"),
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
        "Two statements that met on one value and could not both hold: an axis splits one dimension of it, and a dimension has one order.",
        _SPREADS,
        ("conflicts",),
        "Conflicts",
    ),
    (
        "Minimal annotations",
        "The fewest statements after which every value lies as it lies now; propagation does the rest.",
        _SPREADS,
        ("fewest",),
        _STEPS,
    ),
)
