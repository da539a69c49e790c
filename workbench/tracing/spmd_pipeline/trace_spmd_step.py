"""A training step pipelined as one SPMD program: traced for an abstract mesh, to be planned, or with its step for real devices."""

from collections.abc import Callable
from typing import Any

import jax
from jax.sharding import AbstractMesh, AxisType, NamedSharding, PartitionSpec

from workbench.core.derived_value_cache import cache_with_program
from workbench.core.mesh import Mesh
from workbench.core.pipeline_spec import PipelineSpec
from workbench.core.program import Program
from workbench.tracing.spmd_pipeline.spmd_loss import spmd_loss
from workbench.tracing.trace_training_step import with_loss, with_traced_loss


@cache_with_program(700)
def trace_spmd_step(program: Program, spec: PipelineSpec, mesh: Mesh) -> Program:
    """The program of the pipelined step. Raises `PipelineError` where the layers cannot be pipelined so."""
    abstract = AbstractMesh(tuple(size for _, size in mesh.axes), mesh.names, axis_types=(AxisType.Auto,) * len(mesh.names))
    return with_traced_loss(program, _loss(program, spec, abstract))


def with_spmd_step(program: Program, spec: PipelineSpec, mesh: jax.sharding.Mesh) -> Program:
    """The program with its step pipelined over these devices; what is planned of it stays. Raises `PipelineError` as above."""
    return with_loss(program, _loss(program, spec, mesh))


def _loss(program: Program, spec: PipelineSpec, mesh: jax.sharding.Mesh | AbstractMesh) -> Callable[[Any, Any], Any]:
    return spmd_loss(program, spec, lambda tree: _place_on_stages(tree, spec, mesh))


def _place_on_stages(tree: Any, spec: PipelineSpec, mesh: jax.sharding.Mesh | AbstractMesh) -> Any:
    """Leaves [stages, ...] each constrained to its stage's devices; other dimensions are left to the layout and the compiler."""
    if spec.stages == 1:
        return tree

    def place_leaf(leaf: Any) -> Any:
        others = [PartitionSpec.UNCONSTRAINED] * (leaf.ndim - 1)
        return jax.lax.with_sharding_constraint(leaf, NamedSharding(mesh, PartitionSpec(spec.axis, *others)))

    return jax.tree.map(place_leaf, tree)
