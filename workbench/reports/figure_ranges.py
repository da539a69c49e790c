"""Prediction intervals of figures."""

from dataclasses import dataclass

SENT, MEMORY, KERNELS, STEP = "sent", "memory", "kernels", "step"  # figures with a range


@dataclass(frozen=True, slots=True)
class Range:
    """A 90 % prediction interval in the unit of the figure."""

    low: float
    high: float

    def __contains__(self, value: float) -> bool:
        return self.low <= value <= self.high
