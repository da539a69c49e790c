"""Dimension names proposed by a trace for dimensions that the user did not name, each with its reason."""

from collections.abc import Mapping
from dataclasses import dataclass, replace


@dataclass(frozen=True, slots=True)
class ProposedName:
    """A dimension that the user did not name.

    - `size_name`: its size-based name, `d1024`, which layouts and documents may still use;
    - `name`: its current name: the proposed one, or `size_name` if its role is unknown;
    - `reason`: how the program uses it, or why it has no other name; empty once the user has renamed the dimension.
    """

    size_name: str
    name: str
    reason: str


@dataclass(frozen=True, slots=True)
class ProposedNames:
    """The dimensions of a program that the user did not name.

    >>> names = ProposedNames((ProposedName("d8", "batch", "leads the batch"), ProposedName("d3", "d3", "no product uses it")))
    >>> print(names)
    `batch` (d8): leads the batch
    `d3`: no product uses it
    >>> names.aliases, names.renamed({"batch": "rows"}).aliases
    ({'d8': 'batch'}, {'d8': 'rows'})
    """

    dims: tuple[ProposedName, ...] = ()

    @property
    def aliases(self) -> Mapping[str, str]:
        """The current name of each size-based name, where they differ."""
        return {dim.size_name: dim.name for dim in self.dims if dim.name != dim.size_name}

    @property
    def unconfirmed(self) -> tuple[str, ...]:
        """The proposed names that the user has not replaced, in order of appearance."""
        return tuple(dict.fromkeys(dim.name for dim in self.dims if dim.reason and dim.name != dim.size_name))

    def reason(self, name: str) -> str:
        """Return the reason for a dimension's name; empty for names given by the user."""
        return next((dim.reason for dim in self.dims if dim.name == name), "")

    def renamed(self, names: Mapping[str, str]) -> "ProposedNames":
        return ProposedNames(tuple(replace(dim, name=names[dim.name], reason="") if dim.name in names else dim for dim in self.dims))

    def proposing(self, names: Mapping[str, str], reasons: Mapping[str, str]) -> "ProposedNames":
        """Return a copy with these proposals and reasons, keyed by current name."""
        return ProposedNames(
            tuple(replace(dim, name=names.get(dim.name, dim.name), reason=reasons.get(dim.name, dim.reason)) for dim in self.dims)
        )

    def __str__(self) -> str:
        lines = []
        for name in dict.fromkeys(dim.name for dim in self.dims):
            sizes = ", ".join(dim.size_name for dim in self.dims if dim.name == name != dim.size_name)
            lines.append(f"`{name}`{f' ({sizes})' if sizes else ''}: {self.reason(name) or 'named by you'}")
        return "\n".join(lines)


NONE_PROPOSED = ProposedNames()
