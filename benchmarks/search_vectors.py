"""Candidates of a search as vectors of whole numbers, for optimizers that know nothing of plans.

A vector has a column for each decision that a space leaves open, in the order in which they are decoded:

- the size of each mesh axis: which of the sizes that occur; `data`, where the number of devices is fixed, gets those that are left. Where
  the sizes are no mesh of the space, the nearest one is meant: the one that differs by the fewest doublings;
- words, such as layouts and schedules: which of those that occur. One that does not go with what was decided before gives way to the next
  that does;
- numbers, and words of which there are many, such as the axis assignments of all meshes: which of those that go with what was decided
  before, the last where there are not as many. So micro-batches are counted by their examples, one of them first, whatever the replicas.

So every vector is a candidate of the space, and every candidate has a vector that is decoded to it. Which decisions there are is read
from the fields of `PlanCandidate` and from the candidates of the space.
"""

import random
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from functools import cached_property
from math import log2, prod
from typing import Any

from workbench.search.bounds.relaxed_blocks import DATA
from workbench.search.plan_candidate import PlanCandidate
from workbench.search.search_space import SearchSpace

FEW = 40
"""Words of which there are more are counted among those that go with what was decided before."""
Mesh = tuple[tuple[str, int], ...]


@dataclass(frozen=True, slots=True)
class Column:
    """One number of a vector, from 0 to `count` - 1.

    - `values` that the numbers stand for; none where they count the values that go with the columns before;
    - `is_ordered`: whether numbers next to each other stand for values next to each other.
    """

    name: str
    count: int
    values: tuple[Any, ...] = ()
    is_ordered: bool = True

    def value_of(self, number: int, options: Sequence[Any]) -> Any:
        """The value of a number among those that are left to choose from: its own, or the next that is left."""
        if not self.values:
            return options[min(number, len(options) - 1)]
        return next(each for each in (*self.values[number:], *self.values[:number]) if each in options)

    def number_of(self, value: Any, options: Sequence[Any]) -> int:
        """The number that stands for one of the values that are left."""
        return (self.values or options).index(value)


@dataclass(frozen=True)
class CandidateVectors:
    """The vectors of a space."""

    space: SearchSpace

    @cached_property
    def _cores(self) -> Mapping[Mesh, tuple[PlanCandidate, ...]]:
        """The cores of each mesh that have a candidate."""
        found: dict[Mesh, list[PlanCandidate]] = {}
        for core in self.space.cores():
            if any(True for _ in self.space.candidates_of(core)):
                found.setdefault(core.mesh, []).append(core)
        return {mesh: tuple(cores) for mesh, cores in found.items()}

    @cached_property
    def _axes(self) -> tuple[Column, ...]:
        """A column for each mesh axis with a choice, but for the one that gets what is left, if that is the same for all meshes."""
        rest = DATA if DATA in self.space.axes else self.space.axes[-1]
        left = rest if len({prod(size for _, size in mesh) for mesh in self._cores}) == 1 else ""
        sizes = {axis: tuple(sorted({dict(mesh)[axis] for mesh in self._cores})) for axis in self.space.axes if axis != left}
        return tuple(Column(axis, len(values), values) for axis, values in sizes.items() if len(values) > 1)

    @cached_property
    def _of_cores(self) -> tuple[Column, ...]:
        """What decides a core of a mesh."""
        return _list_columns(list(self._cores.values()))

    @cached_property
    def _of_candidates(self) -> tuple[Column, ...]:
        """What decides a candidate of a core; read from cores of each mesh that show every word that decides one."""
        decided = {"mesh", *(each.name for each in self._of_cores)}
        words = [each.name for each in self._of_cores if each.values]
        shown = [core for cores in self._cores.values() for core in _show_all(words, cores)]
        found = _list_columns([tuple(self.space.candidates_of(core)) for core in shown])
        return tuple(each for each in found if each.name not in decided)

    @cached_property
    def columns(self) -> tuple[Column, ...]:
        return (*self._axes, *self._of_cores, *self._of_candidates)

    def decode(self, vector: Sequence[int]) -> PlanCandidate:
        """The candidate of a vector, one number for each of `columns`."""
        numbers = {column.name: number for column, number in zip(self.columns, vector, strict=True)}
        core = _choose(self._of_cores, self._cores[self._nearest_mesh(numbers)], numbers)
        return _choose(self._of_candidates, tuple(self.space.candidates_of(core)), numbers)

    def encode(self, candidate: PlanCandidate) -> tuple[int, ...]:
        """The vector of a candidate of the space."""
        found = [column.number_of(candidate.size(column.name), ()) for column in self._axes]
        found += _number(self._of_cores, self._cores[candidate.mesh], candidate)
        return (*found, *_number(self._of_candidates, tuple(self.space.candidates_of(candidate.core())), candidate))

    def draw(self, rng: random.Random) -> tuple[int, ...]:
        """A vector, each number drawn by itself."""
        return tuple(rng.randrange(each.count) for each in self.columns)

    def _nearest_mesh(self, numbers: Mapping[str, int]) -> Mesh:
        wanted = {column.name: column.values[numbers[column.name]] for column in self._axes}
        return min(self._cores, key=lambda mesh: sum(abs(log2(size / wanted.get(axis, size))) for axis, size in mesh))


def _list_columns(groups: Sequence[Sequence[PlanCandidate]]) -> tuple[Column, ...]:
    """A column for each field with a choice, but for the mesh; a group is what is left to choose from once others are decided."""
    names = [each.name for each in fields(PlanCandidate) if each.name != "mesh"]
    options = {name: [_options(group, name) for group in groups] for name in names}
    return tuple(column for name in names if (column := _make_column(name, options[name])).count > 1)


def _make_column(name: str, options: Sequence[Sequence[Any]]) -> Column:
    values = tuple(dict.fromkeys(value for each in options for value in each))
    most, is_number = max(len(each) for each in options), not any(isinstance(each, str) for each in values)
    if is_number or len(values) > FEW:
        return Column(name, most, is_ordered=is_number)
    return Column(name, len(values), values, is_ordered=False)


def _show_all(names: Sequence[str], cores: Sequence[PlanCandidate]) -> Iterator[PlanCandidate]:
    """A few of the cores that have together every value of these fields."""
    seen: set[tuple[str, Any]] = set()
    for core in cores:
        values = {(name, getattr(core, name)) for name in names}
        if not values <= seen:
            seen |= values
            yield core


def _options(group: Sequence[PlanCandidate], name: str) -> tuple[Any, ...]:
    """The values of a field in a group, as they appear."""
    return tuple(dict.fromkeys(getattr(each, name) for each in group))


def _choose(columns: Sequence[Column], group: Sequence[PlanCandidate], numbers: Mapping[str, int]) -> PlanCandidate:
    """The one of a group that the numbers of all its columns lead to."""
    for column in columns:
        value = column.value_of(numbers[column.name], _options(group, column.name))
        group = [each for each in group if getattr(each, column.name) == value]
    (found,) = group
    return found


def _number(columns: Sequence[Column], group: Sequence[PlanCandidate], candidate: PlanCandidate) -> list[int]:
    """The numbers that lead to a candidate, or its core, in a group."""
    found = []
    for column in columns:
        value = getattr(candidate, column.name)
        found.append(column.number_of(value, _options(group, column.name)))
        group = [each for each in group if getattr(each, column.name) == value]
    return found
