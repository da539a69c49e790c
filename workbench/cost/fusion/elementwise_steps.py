"""What elementwise operations cost a kernel: steps for each element, several for those that a vector unit does not have."""

from workbench.cost.tuned_constants import tuned
from workbench.propagation.structure.program_structure import Op

_SLOW = frozenset(
    {
        *("stablehlo.atan2", "stablehlo.cbrt", "stablehlo.cosine", "stablehlo.divide", "stablehlo.erf", "stablehlo.exponential"),
        *("stablehlo.exponential_minus_one", "stablehlo.log", "stablehlo.log_plus_one", "stablehlo.logistic", "stablehlo.power"),
        *("stablehlo.remainder", "stablehlo.rsqrt", "stablehlo.sine", "stablehlo.sqrt", "stablehlo.tan", "stablehlo.tanh"),
    }
)
_SLOW_STEPS = int(tuned("slow_steps"))
MOST_STEPS = int(tuned("most_recomputed_steps"))
"""Steps up to which a reader computes an operand itself."""


def steps_of(op: Op) -> int:
    """Steps of one elementwise operation for each element."""
    return _SLOW_STEPS if op.kind in _SLOW else 1
