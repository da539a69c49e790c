"""Terms of the tiers of a figure, as fields of `glossary.Term`: name, definition, further reading, the labels it explains."""

SHARDY = "https://openxla.org/shardy/"
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
    ("Planned", _PLANNED, SHARDY, ("planned",)),
    ("Partitioned", _PARTITIONED, GSPMD, ("partitioned",)),
    ("Compiled", _COMPILED, AOT, ("compiled", "compiled payload")),
    ("Measured", "Taken from a run of the plan on the attached devices.", PROFILING, ("measured", "step, measured")),
)
"""Name, definition, further reading, and the labels it explains; each tier is more accurate than the one before, and costs more."""
