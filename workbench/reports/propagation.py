"""The propagation of shardings through a program: annotations, propagation steps and rejected axes.

    argument x: [data, -]   --step 1, forward over dot_general-->   h: [data, ?]   --step 4, backward over add-->   ...

The records are in `propagation_records`.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, lru_cache

from workbench.core.path_patterns import is_line, selects, unknown_line
from workbench.core.sharding import Sharding, base_axis
from workbench.core.text_tables import group_items
from workbench.errors import WorkbenchError, unknown_name
from workbench.reports.propagation_records import (
    AxisOnDim,
    AxisPropagation,
    Conflict,
    Explanation,
    Origin,
    PropagationStep,
    RejectedAxis,
    ShardedValue,
)
from workbench.reports.propagation_step_text import axis_propagation_text, place_text


class PropagationError(WorkbenchError):
    """An unknown value or propagation step."""


@dataclass(frozen=True, eq=False)
class Propagation:
    """The propagation of a plan, step by step.

    **Invariants**

    - `axis_propagations` are in the order of their steps, 1, 2, ...; each passes on an axis present before its step.
    - Every axis of every value's sharding has an origin and a path to it.
    - `one[v]` is the representative of value `v`: all values on one of Shardy's data-flow edges, such as loop-carried
      values, share one.
    """

    values: tuple[ShardedValue, ...]
    axis_propagations: tuple[AxisPropagation, ...]
    origins: Mapping[AxisOnDim, Origin]  # axes present before the first step
    one: tuple[int, ...]
    find_rejections: "Callable[[Propagation, int], tuple[RejectedAxis, ...]]" = field(repr=False)
    find_others: "Callable[[Propagation, AxisOnDim], tuple[Origin, ...]]" = field(repr=False)
    list_conflicts: "Callable[[Propagation], tuple[Conflict, ...]]" = field(repr=False)
    _shown: tuple[int, tuple[Sharding, ...]] = field(default=(-1, ()), init=False, repr=False)  # cache of the last queried step

    @cached_property
    def steps(self) -> tuple[PropagationStep, ...]:
        """All steps, from step 1; before it there are only the annotations."""
        groups = group_items(self.axis_propagations, lambda propagation: propagation.step)
        return tuple(PropagationStep(group[0].step, group[0].over, group[0].kind, group[0].line, tuple(group)) for group in groups)

    @cached_property
    def conflicts(self) -> tuple[Conflict, ...]:
        return self.list_conflicts(self)

    @cached_property
    def _arrivals(self) -> Mapping[AxisOnDim, AxisPropagation]:
        first_propagations: dict[AxisOnDim, AxisPropagation] = {}
        for propagation in self.axis_propagations:
            first_propagations.setdefault(propagation.axis_on_dim, propagation)
        return first_propagations

    def find(self, pattern: str) -> tuple[int, ...]:
        """Return the values that match a path or pattern, intermediate ones last. Raises `PropagationError`."""
        exact_matches = [number for number, sharded_value in enumerate(self.values) if sharded_value.path == pattern]
        matches = exact_matches or [
            number
            for number, sharded_value in enumerate(self.values)
            if sharded_value.path and selects(pattern, sharded_value.path, sharded_value.source)
        ]
        if not matches and is_line(pattern):
            raise PropagationError(*unknown_line(pattern, ((sharded_value.path, sharded_value.source) for sharded_value in self.values)))
        if not matches:
            raise PropagationError(
                *unknown_name("value", pattern, dict.fromkeys(sharded_value.path for sharded_value in self.values if sharded_value.path))
            )
        return tuple(sorted(matches, key=lambda number: self.values[number].role == "value"))

    @cached_property
    def _numbers(self) -> Mapping[tuple[str, str, tuple[int, ...], Sharding], int]:
        return {
            (sharded_value.path, sharded_value.kind, sharded_value.shape, sharded_value.computed): i
            for i, sharded_value in reversed(tuple(enumerate(self.values)))
        }

    def number(self, path: str, kind: str, shape: tuple[int, ...], sharding: Sharding) -> int | None:
        """Return the number of a `placement.Value`, `kernel.GraphNode` or argument (kind `input`), or `None`."""
        return self._numbers.get((path, kind, shape, sharding))

    def axis(self, value: int, dim: int, axis: str) -> Explanation:
        """Explain why `axis` shards dimension `dim` of a value. Raises `PropagationError` if it does not."""
        axis_on_dim = AxisOnDim(self.one[value], dim, axis)
        sharded_value = self.values[value]
        if not 0 <= dim < len(sharded_value.shape) or axis not in (sharded_value.sharding.dims[dim] or ()):
            raise PropagationError(
                f"`{axis}` does not split dimension {dim} of `{sharded_value.path}`, whose sharding is {sharded_value.sharding}.",
                ["ask about an axis of its sharding"],
            )
        origin, path = self.trace(axis_on_dim)
        lost = tuple(candidate for candidate in self.rejections(value) if candidate.wanted.dim == dim or candidate.wanted.axis == axis)
        others = tuple(candidate for candidate in self.find_others(self, axis_on_dim) if candidate != origin)
        return Explanation(axis_on_dim, origin, path, lost, others)

    def trace(self, axis_on_dim: AxisOnDim) -> tuple[Origin, tuple[AxisPropagation, ...]]:
        """Return the origin of a value's axis and the axis propagations from it."""
        path: list[AxisPropagation] = []
        while axis_on_dim not in self.origins:
            propagation = self._arrivals[axis_on_dim]
            path.append(propagation)
            axis_on_dim = self.matching_axis(propagation.source, propagation.source_dim, propagation.axis)
        return self.origins[axis_on_dim], tuple(reversed(path))

    def origin_of(self, axis_on_dim: AxisOnDim) -> Origin:
        return self._origins_by_axis[axis_on_dim]

    @cached_property
    def _origins_by_axis(self) -> Mapping[AxisOnDim, Origin]:
        origins = dict(self.origins)
        for propagation in self.axis_propagations:
            origins.setdefault(
                propagation.axis_on_dim, origins[self.matching_axis(propagation.source, propagation.source_dim, propagation.axis)]
            )
        return origins

    def matching_axis(self, value: int, dim: int, axis: str) -> AxisOnDim:
        """Return the dimension's axis that matches `axis`: itself, a sub-axis, or its parent axis."""
        axes = self.values[value].sharding.dims[dim] or ()
        return AxisOnDim(
            value, dim, axis if axis in axes else next(candidate for candidate in axes if base_axis(candidate) == base_axis(axis))
        )

    def rejections(self, value: int) -> tuple[RejectedAxis, ...]:
        return self.find_rejections(self, self.one[value])

    def at(self, step: int) -> tuple[Sharding, ...]:
        """Return the shardings after `step` steps by value; 0 is the annotations. Raises `PropagationError`."""
        last = self.axis_propagations[-1].step if self.axis_propagations else 0
        if not 0 <= step <= last:
            raise PropagationError(f"The propagation has {last} steps; {step} is out of range.", ["ask for a step from 0"])
        cached_step, shardings = self._shown
        if cached_step != step:
            shardings = tuple(
                sharded_value.sharding
                if (axis_propagations := self._to.get(one)) is None or axis_propagations[-1].step <= step
                else _before(sharded_value.sharding, axis_propagations, step)
                for sharded_value, one in zip(self.values, self.one, strict=True)
            )
            object.__setattr__(self, "_shown", (step, shardings))
        return shardings

    def changes(self, step: int) -> Mapping[int, Sharding]:
        """Return the values changed in step `step` (from 1) with their new shardings, for a slider."""
        reached = {propagation.target for propagation in self.steps[step - 1].axis_propagations}
        return {number: _before(self.values[number].sharding, self._to[one], step) for number, one in enumerate(self.one) if one in reached}

    def __str__(self) -> str:
        places = ((point, origin, place_text(self, point.value, point.dim)) for point, origin in self.origins.items())
        annotated = dict.fromkeys(f"by hand: {point.axis} splits {place}, {origin}" for point, origin, place in places)
        return "\n".join([*annotated, *(axis_propagation_text(self, propagation) for propagation in self.axis_propagations)])

    @cached_property
    def _to(self) -> Mapping[int, list[AxisPropagation]]:
        return {group[0].target: group for group in group_items(self.axis_propagations, lambda propagation: propagation.target)}


def _before(sharding: Sharding, axis_propagations: Sequence[AxisPropagation], step: int) -> Sharding:
    return _without(
        sharding, frozenset((propagation.target_dim, propagation.axis) for propagation in axis_propagations if propagation.step > step)
    )


@lru_cache(maxsize=1 << 14)
def _without(sharding: Sharding, missing: frozenset[tuple[int, str]]) -> Sharding:
    return Sharding(tuple(tuple(axis for axis in axes or () if (dim, axis) not in missing) for dim, axes in enumerate(sharding.dims)))


EMPTY = Propagation((), (), {}, (), lambda _, __: (), lambda _, __: (), lambda _: ())
"""The propagation of a program that was not partitioned."""
