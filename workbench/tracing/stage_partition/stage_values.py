"""What a segment of a cut reads and gives, as shapes and types."""

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import jax
import jax.numpy as jnp

from workbench.tracing.stage_partition.stages import Cut, Segment


@dataclass(frozen=True, eq=False)
class StageValues:
    """Of one segment; `arriving` and `departing` are of the gradients."""

    cut: Cut
    segment: Segment

    @cached_property
    def pieces(self) -> tuple[jax.ShapeDtypeStruct, ...]:
        return tuple(spec_of(self.cut.network.flat.pieces[i][1].aval) for i in self.segment.pieces)

    @cached_property
    def batch(self) -> tuple[jax.ShapeDtypeStruct, ...]:
        return tuple(spec_of(self.cut.network.flat.batch[i].aval) for i in self.segment.batch)

    @cached_property
    def entering(self) -> tuple[jax.ShapeDtypeStruct, ...]:
        return tuple(spec_of(self.cut.values[i].aval) for i in self.segment.entering)

    @cached_property
    def arriving(self) -> tuple[int, ...]:
        """Places in `leaving` of what flows back."""
        return tuple(place for place, i in enumerate(self.segment.leaving) if self.cut.values[i].flows_back)

    @cached_property
    def departing(self) -> tuple[int, ...]:
        """Places in `entering` of what flows back."""
        return tuple(place for place, i in enumerate(self.segment.entering) if self.cut.values[i].flows_back)

    @cached_property
    def trained(self) -> tuple[int, ...]:
        """Places in `pieces` of what has a gradient."""
        return tuple(place for place, spec in enumerate(self.pieces) if jnp.issubdtype(spec.dtype, jnp.inexact))

    @property
    def is_last(self) -> bool:
        return self.segment.number == len(self.cut.segments) - 1


def spec_of(aval: Any) -> jax.ShapeDtypeStruct:
    return jax.ShapeDtypeStruct(aval.shape, aval.dtype, weak_type=getattr(aval, "weak_type", False))
