"""Diagnostics of a plan, and the reasons for duplicated computation."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from functools import cached_property
from typing import NamedTuple

from workbench.plan.edits import Edit
from workbench.reports.padding import Padding
from workbench.reports.step_time import DotCost

DOES_NOT_FIT = "does not fit"
"""Kind of the diagnostic for insufficient device memory."""
UNKNOWN_TRIP_COUNT = "unknown trip count"
"""Kind of the diagnostic for a data-dependent loop, whose body is counted once."""


@dataclass(frozen=True)
class Diagnostic:
    """A problem of a plan: subject, message, and edits that fix it, known in advance or found by trial."""

    kind: str
    subject: str
    message: str
    known: tuple[Edit, ...] = ()
    find: Callable[[], tuple[Edit, ...]] | None = field(default=None, compare=False, repr=False)

    @cached_property
    def edits(self) -> tuple[Edit, ...]:
        """Edits that fix it, most relevant first; searched for on first access."""
        return self.find() if self.find else self.known


# Devices compute more than the program needs because of duplicated work or padding.

ONCE = 1.005
"""Threshold below which a factor of duplication is not reported."""


class Duplication(NamedTuple):
    """The duplication factor of dots, `whole`, as the product of `alike` and `padding`.

    `alike`: equal dots on several devices, because no dimension uses a mesh axis; `padding`: dimensions that do not
    divide evenly; `largest`: the padding with the most wasted FLOP.
    """

    whole: float
    alike: float
    padding: float
    largest: Padding | None

    def __str__(self) -> str:
        alike, padding = "a mesh axis splits nothing there", "of padding" + (f" ({self.largest.arithmetic})" if self.largest else "")
        if self.padding < ONCE:
            return f"because {alike}"
        if self.alike < ONCE:
            return f"because {padding}"
        return f"{self.alike:.2f} times because {alike}, and {self.padding:.2f} times because {padding}"


def explain_duplication(whole: float, products: Iterable[DotCost], paddings: Iterable[Padding]) -> Duplication:
    """Split the duplication factor of a program into equal dots and padding of its `products`."""
    done = equal = 0.0
    for dot in products:
        done += dot.per_device * dot.count
        equal += dot.per_device * dot.count / dot.padding
    padding = done / equal if equal else 1.0
    largest = max(paddings, key=lambda each: each.wasted_flops * each.count, default=None)
    return Duplication(whole, whole / padding, padding, largest if largest and largest.wasted_flops else None)
