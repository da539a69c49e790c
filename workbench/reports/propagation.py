"""How shardings propagate through a program: what was annotated, every step by which an axis was propagated, and the rejected axes.

    argument x: [data, -]   --step 1, forward over dot_general-->   h: [data, ?]   --step 4, backward over add-->   ...

Its records (origins, axis propagations, rejected axes) are those of `propagation_records`.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, lru_cache

from workbench.core.path_patterns import is_line, selects, unknown_line
from workbench.core.sharding import Sharding, base_axis
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
    """A value or a propagation step that does not exist."""


@dataclass(frozen=True, eq=False)
class Propagation:
    """The propagation of a plan, step by step.

    **Invariants**

    - `axis_propagations` are in the order of their steps, 1, 2, ...; the axis that one takes on was there before its step.
    - Every axis of every value's sharding has an origin and a path to it.
    - `one[v]` is the number that value `v` goes by: all values on one of Shardy's data-flow edges, those a loop carries for example, are
      one.
    """

    values: tuple[ShardedValue, ...]
    axis_propagations: tuple[AxisPropagation, ...]
    origins: Mapping[AxisOnDim, Origin]  # the axes present before the first step
    one: tuple[int, ...]
    find_rejections: "Callable[[Propagation, int], tuple[RejectedAxis, ...]]" = field(repr=False)
    find_others: "Callable[[Propagation, AxisOnDim], tuple[Origin, ...]]" = field(repr=False)
    list_conflicts: "Callable[[Propagation], tuple[Conflict, ...]]" = field(repr=False)
    _shown: tuple[int, tuple[Sharding, ...]] = field(default=(-1, ()), init=False, repr=False)  # the step queried last

    @cached_property
    def steps(self) -> tuple[PropagationStep, ...]:
        """All steps, from step 1; before it there are only the annotations."""
        grouped: dict[int, list[AxisPropagation]] = {}
        for propagation in self.axis_propagations:
            grouped.setdefault(propagation.step, []).append(propagation)
        return tuple(
            PropagationStep(
                number, axis_propagations[0].over, axis_propagations[0].kind, axis_propagations[0].line, tuple(axis_propagations)
            )
            for number, axis_propagations in grouped.items()
        )

    @cached_property
    def conflicts(self) -> tuple[Conflict, ...]:
        """Origins that were in conflict; made when first asked for."""
        return self.list_conflicts(self)

    @cached_property
    def _arrivals(self) -> Mapping[AxisOnDim, AxisPropagation]:
        found: dict[AxisOnDim, AxisPropagation] = {}
        for propagation in self.axis_propagations:
            found.setdefault(propagation.axis_on_dim, propagation)
        return found

    def find(self, pattern: str) -> tuple[int, ...]:
        """The numbers of the values that a path or pattern names: arguments and results first, then intermediate values.

        Raises `PropagationError` with the nearest name if there is none.
        """
        named = [number for number, sharded_value in enumerate(self.values) if sharded_value.path == pattern]
        found = named or [
            number
            for number, sharded_value in enumerate(self.values)
            if sharded_value.path and selects(pattern, sharded_value.path, sharded_value.source)
        ]
        if not found and is_line(pattern):
            raise PropagationError(*unknown_line(pattern, ((sharded_value.path, sharded_value.source) for sharded_value in self.values)))
        if not found:
            raise PropagationError(
                *unknown_name("value", pattern, dict.fromkeys(sharded_value.path for sharded_value in self.values if sharded_value.path))
            )
        return tuple(sorted(found, key=lambda number: self.values[number].role == "value"))

    @cached_property
    def _numbers(self) -> Mapping[tuple[str, str, tuple[int, ...], Sharding], int]:
        return {
            (sharded_value.path, sharded_value.kind, sharded_value.shape, sharded_value.computed): i
            for i, sharded_value in reversed(tuple(enumerate(self.values)))
        }

    def number(self, path: str, kind: str, shape: tuple[int, ...], sharding: Sharding) -> int | None:
        """The number of a `placement.Value`, a `kernel.GraphNode` or an argument (kind `input`), the first of alike ones; `None` if the
        partitioner never gives it a sharding."""
        return self._numbers.get((path, kind, shape, sharding))

    def axis(self, value: int, dim: int, axis: str) -> Explanation:
        """Why `axis` splits dimension `dim` of a value. Raises `PropagationError` if it does not."""
        axis_on_dim = AxisOnDim(self.one[value], dim, axis)
        sharded_value = self.values[value]
        if not 0 <= dim < len(sharded_value.shape) or axis not in (sharded_value.sharding.dims[dim] or ()):
            raise PropagationError(
                f"`{axis}` does not split dimension {dim} of `{sharded_value.path}`, whose sharding is {sharded_value.sharding}.",
                ["ask about an axis of its sharding"],
            )
        origin, path = self.trace(axis_on_dim)
        lost = tuple(each for each in self.rejections(value) if each.wanted.dim == dim or each.wanted.axis == axis)
        others = tuple(each for each in self.find_others(self, axis_on_dim) if each != origin)
        return Explanation(axis_on_dim, origin, path, lost, others)

    def trace(self, axis_on_dim: AxisOnDim) -> tuple[Origin, tuple[AxisPropagation, ...]]:
        """The origin of an axis that a value has, and the axis propagations that brought it."""
        path: list[AxisPropagation] = []
        while axis_on_dim not in self.origins:
            propagation = self._arrivals[axis_on_dim]
            path.append(propagation)
            axis_on_dim = self.matching_axis(propagation.source, propagation.source_dim, propagation.axis)
        return self.origins[axis_on_dim], tuple(reversed(path))

    def origin_of(self, axis_on_dim: AxisOnDim) -> Origin:
        """The origin of an axis that a value has."""
        return self._origins_by_axis[axis_on_dim]

    @cached_property
    def _origins_by_axis(self) -> Mapping[AxisOnDim, Origin]:
        found = dict(self.origins)
        for propagation in self.axis_propagations:
            found.setdefault(
                propagation.axis_on_dim, found[self.matching_axis(propagation.source, propagation.source_dim, propagation.axis)]
            )
        return found

    def matching_axis(self, value: int, dim: int, axis: str) -> AxisOnDim:
        """The axis a dimension has of `axis`: itself, a sub-axis of it, or an axis that it is a sub-axis of (Shardy's sub-axes)."""
        axes = self.values[value].sharding.dims[dim] or ()
        return AxisOnDim(value, dim, axis if axis in axes else next(each for each in axes if base_axis(each) == base_axis(axis)))

    def rejections(self, value: int) -> tuple[RejectedAxis, ...]:
        """All axes that were rejected on a value."""
        return self.find_rejections(self, self.one[value])

    def at(self, step: int) -> tuple[Sharding, ...]:
        """The sharding of every value after so many steps, by number; 0 is what was annotated. Values on one data-flow edge have one
        sharding at each step."""
        last = self.axis_propagations[-1].step if self.axis_propagations else 0
        if not 0 <= step <= last:
            raise PropagationError(f"The propagation has {last} steps; {step} is out of range.", ["ask for a step from 0"])
        shown, lies = self._shown
        if shown != step:
            lies = tuple(
                sharded_value.sharding
                if (axis_propagations := self._to.get(one)) is None or axis_propagations[-1].step <= step
                else _before(sharded_value.sharding, axis_propagations, step)
                for sharded_value, one in zip(self.values, self.one, strict=True)
            )
            object.__setattr__(self, "_shown", (step, lies))
        return lies

    def changes(self, step: int) -> Mapping[int, Sharding]:
        """The values that step `step`, from 1, changed, and their shardings after it: what a slider needs to move on by one."""
        reached = {propagation.target for propagation in self.steps[step - 1].axis_propagations}
        return {number: _before(self.values[number].sharding, self._to[one], step) for number, one in enumerate(self.one) if one in reached}

    def __str__(self) -> str:
        """The whole replay, one line per step, after the axes that were there before the first step."""
        places = ((point, origin, place_text(self, point.value, point.dim)) for point, origin in self.origins.items())
        by_hand = dict.fromkeys(f"by hand: {point.axis} splits {place}, {origin}" for point, origin, place in places)
        return "\n".join([*by_hand, *(axis_propagation_text(self, propagation) for propagation in self.axis_propagations)])

    @cached_property
    def _to(self) -> Mapping[int, list[AxisPropagation]]:
        found: dict[int, list[AxisPropagation]] = {}
        for propagation in self.axis_propagations:
            found.setdefault(propagation.target, []).append(propagation)
        return found


def _before(sharding: Sharding, axis_propagations: Sequence[AxisPropagation], step: int) -> Sharding:
    """The sharding of a value after a step, from its final sharding and the axis propagations that reached it."""
    return _without(
        sharding, frozenset((propagation.target_dim, propagation.axis) for propagation in axis_propagations if propagation.step > step)
    )


@lru_cache(maxsize=1 << 14)
def _without(sharding: Sharding, missing: frozenset[tuple[int, str]]) -> Sharding:
    return Sharding(tuple(tuple(axis for axis in axes or () if (dim, axis) not in missing) for dim, axes in enumerate(sharding.dims)))


EMPTY = Propagation((), (), {}, (), lambda _, __: (), lambda _, __: (), lambda _: ())
"""The propagation of a program that no partitioner has seen."""
