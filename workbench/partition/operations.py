"""Kinds of StableHLO operations, as far as the planner tells them apart."""

CONSTANTS = ("stablehlo.constant", "sdy.constant")
# Operations whose regions are part of the program; other regions (a reduce's, a sort's) hold scalar arithmetic.
CONTROL_FLOW = ("stablehlo.while", "stablehlo.case", "stablehlo.if", "sdy.manual_computation")
ELEMENTWISE = frozenset(
    f"stablehlo.{name}"
    for name in (
        "abs add and atan2 cbrt ceil clamp compare complex convert cosine divide erf exponential exponential_minus_one floor imag "
        "is_finite log log_plus_one logistic maximum minimum multiply negate not or popcnt power real remainder round_nearest_afz "
        "round_nearest_even rsqrt select shift_left shift_right_arithmetic shift_right_logical sign sine sqrt subtract tan tanh xor"
    ).split()
)
