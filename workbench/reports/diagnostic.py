"""Diagnostics: what needs attention in a plan."""

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property

from workbench.plan.edits import Edit

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
