"""Dimension names that a trace proposes where the user gave none, each with its reason."""

from collections.abc import Mapping
from dataclasses import dataclass, replace


@dataclass(frozen=True, slots=True)
class ProposedName:
    """One dimension without a name of the user's.

    - `size_name` is its name after its size, `d1024`, which layouts and documents may still use;
    - `name` is its present name: the proposed one, or `size_name` where its role is unknown;
    - `reason` says how the program uses it, or why it has no other name; it is empty once the user has renamed the dimension.
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
        """The present name by the name after the size, where they differ."""
        return {each.size_name: each.name for each in self.dims if each.name != each.size_name}

    @property
    def unconfirmed(self) -> tuple[str, ...]:
        """The proposed names that the user has not replaced, in order of appearance."""
        return tuple(dict.fromkeys(each.name for each in self.dims if each.reason and each.name != each.size_name))

    def reason(self, name: str) -> str:
        """Why a dimension is called so; empty for a name of the user's."""
        return next((each.reason for each in self.dims if each.name == name), "")

    def renamed(self, names: Mapping[str, str]) -> "ProposedNames":
        """With dimensions that the user renames."""
        return ProposedNames(tuple(replace(each, name=names[each.name], reason="") if each.name in names else each for each in self.dims))

    def proposing(self, names: Mapping[str, str], reasons: Mapping[str, str]) -> "ProposedNames":
        """With these proposals and reasons, by present name."""
        return ProposedNames(
            tuple(replace(each, name=names.get(each.name, each.name), reason=reasons.get(each.name, each.reason)) for each in self.dims)
        )

    def __str__(self) -> str:
        lines = []
        for name in dict.fromkeys(each.name for each in self.dims):
            sizes = ", ".join(each.size_name for each in self.dims if each.name == name != each.size_name)
            lines.append(f"`{name}`{f' ({sizes})' if sizes else ''}: {self.reason(name) or 'named by you'}")
        return "\n".join(lines)


NONE_PROPOSED = ProposedNames()
