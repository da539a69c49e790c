"""Diagnostics: what needs attention in a plan, and why devices compute more than the program needs."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from functools import cached_property
from typing import NamedTuple

from workbench.plan.edits import Edit
from workbench.reports.padding import Padding
from workbench.reports.step_time import DotCost

DOES_NOT_FIT = "does not fit"
"""The kind of the diagnostic that a plan needs more memory than a device has."""
UNKNOWN_TRIP_COUNT = "unknown trip count"
"""The kind of the diagnostic that a loop's trip count depends on data: what happens in it is counted once."""


@dataclass(frozen=True)
class Diagnostic:
    """Something that needs attention: its subject, the finding, and edits that would fix it, known or found by trying them."""

    kind: str
    subject: str
    message: str
    known: tuple[Edit, ...] = ()
    find: Callable[[], tuple[Edit, ...]] | None = field(default=None, compare=False, repr=False)

    @cached_property
    def edits(self) -> tuple[Edit, ...]:
        """Edits that would fix it, the most telling first; those that must be tried are tried when first asked for."""
        return self.find() if self.find else self.known


# Why devices compute more than a program needs: the same work on several of them, or padding.

ONCE = 1.005
"""Up to here nothing is said to be computed twice."""


class Duplication(NamedTuple):
    """How often the products are computed, `whole`, is `alike` times `padding`: the same product on several devices, because a mesh axis
    splits nothing of it, and the larger parts of dimensions that do not divide, `largest` the one that takes the most."""

    whole: float
    alike: float
    padding: float
    largest: Padding | None

    def __str__(self) -> str:
        """Why it is more than once, as the end of a sentence."""
        alike, padding = "a mesh axis splits nothing there", "of padding" + (f" ({self.largest.arithmetic})" if self.largest else "")
        if self.padding < ONCE:
            return f"because {alike}"
        if self.alike < ONCE:
            return f"because {padding}"
        return f"{self.alike:.2f} times because {alike}, and {self.padding:.2f} times because {padding}"


def explain_duplication(whole: float, products: Iterable[DotCost], paddings: Iterable[Padding]) -> Duplication:
    """How much of the duplication of a program is padding of its `products`."""
    done = equal = 0.0
    for each in products:
        done += each.per_device * each.count
        equal += each.per_device * each.count / each.padding
    padding = done / equal if equal else 1.0
    largest = max(paddings, key=lambda each: each.wasted_flops * each.count, default=None)
    return Duplication(whole, whole / padding, padding, largest if largest and largest.wasted_flops else None)
