"""Sharding annotations in the traced function itself: constraints, types of explicit mode, manual regions. A value; `print` it.

- `with_sharding_constraint`, `jax.reshard` and an explicit-mode `out_sharding` are constraints on the value they are applied to;
- an argument whose type carries a sharding (`AxisType.Explicit`) states the sharding it is meant to have; a plan may choose another;
- in a `shard_map` the function itself says what each device does along the manual axes; propagation leaves those alone.
"""

from dataclasses import dataclass

from workbench.core.sharding import Sharding


@dataclass(frozen=True, slots=True)
class SourceConstraint:
    """A value that the function itself constrains: its path, the user's line, its sharding; `times` counts such values at this place."""

    path: str
    source: str
    shape: tuple[int, ...]
    dtype: str
    sharding: Sharding
    manual: tuple[str, ...] = ()
    times: int = 1


@dataclass(frozen=True, slots=True)
class SourceType:
    """An argument whose type carries a sharding."""

    path: str
    sharding: Sharding


@dataclass(frozen=True, slots=True)
class ManualRegion:
    """A `shard_map`: its manual axes, and the shardings of its operands and results; an open dimension is left to propagation."""

    path: str
    source: str
    axes: tuple[str, ...]
    incoming: tuple[Sharding, ...]
    outgoing: tuple[Sharding, ...]


@dataclass(frozen=True, slots=True)
class SourceAnnotations:
    """All annotations, in program order; `mesh` are the axes they name, with the sizes they had in the trace."""

    mesh: tuple[tuple[str, int], ...] = ()
    types: tuple[SourceType, ...] = ()
    constraints: tuple[SourceConstraint, ...] = ()
    regions: tuple[ManualRegion, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.types or self.constraints or self.regions)

    def __str__(self) -> str:
        from workbench.text.source_annotations import source_annotations_text

        return source_annotations_text(self)
