"""What a virtual stage reads and returns, as shapes and types."""

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import jax
import jax.numpy as jnp

from workbench.tracing.stage_partition.partition_network import StageFunction, StagePartition


@dataclass(frozen=True, eq=False)
class StageValues:
    """Shapes and types of one virtual stage's values; `arriving` and `departing` are of gradients."""

    partition: StagePartition
    virtual_stage: StageFunction

    @cached_property
    def param_slices(self) -> tuple[jax.ShapeDtypeStruct, ...]:
        return tuple(spec_of(self.partition.network.flat.param_slices[i][1].aval) for i in self.virtual_stage.param_slices)

    @cached_property
    def batch(self) -> tuple[jax.ShapeDtypeStruct, ...]:
        return tuple(spec_of(self.partition.network.flat.batch[i].aval) for i in self.virtual_stage.batch)

    @cached_property
    def input_activations(self) -> tuple[jax.ShapeDtypeStruct, ...]:
        return tuple(spec_of(self.partition.values[i].aval) for i in self.virtual_stage.input_activations)

    @cached_property
    def arriving(self) -> tuple[int, ...]:
        """Places in `output_activations` of values that have gradients."""
        return tuple(place for place, i in enumerate(self.virtual_stage.output_activations) if self.partition.values[i].flows_back)

    @cached_property
    def departing(self) -> tuple[int, ...]:
        """Places in `input_activations` of values that have gradients."""
        return tuple(place for place, i in enumerate(self.virtual_stage.input_activations) if self.partition.values[i].flows_back)

    @cached_property
    def trained(self) -> tuple[int, ...]:
        """Places in `param_slices` of those that have gradients."""
        return tuple(place for place, spec in enumerate(self.param_slices) if jnp.issubdtype(spec.dtype, jnp.inexact))

    @property
    def is_last(self) -> bool:
        return self.virtual_stage.number == len(self.partition.virtual_stages) - 1


def spec_of(aval: Any) -> jax.ShapeDtypeStruct:
    return jax.ShapeDtypeStruct(aval.shape, aval.dtype, weak_type=getattr(aval, "weak_type", False))
