"""Translate the plan's mesh and shardings to JAX's, and place host arrays as shards."""

from typing import Any

import jax
import numpy as np
from jax.sharding import NamedSharding, PartitionSpec

from workbench.core.sharding import Sharding
from workbench.plan.plan import Plan
from workbench.propagation import argument_placements

HOST_MEMORY = "pinned_host"


def named_sharding(sharding: Sharding, mesh: jax.sharding.Mesh) -> NamedSharding:
    """JAX's `NamedSharding` of a closed sharding."""
    return NamedSharding(mesh, PartitionSpec(*(dim or None for dim in sharding.dims)))


def argument_shardings(plan: Plan, mesh: jax.sharding.Mesh) -> tuple[NamedSharding, ...]:
    """Those of a plan's arguments, with the memory each is in."""
    on_host = frozenset(plan.program.on_host)
    found = (named_sharding(each, mesh) for each in argument_placements(plan))
    return tuple(each.with_memory_kind(HOST_MEMORY) if number in on_host else each for number, each in enumerate(found))


def put_sharded(leaf: Any, sharding: NamedSharding) -> jax.Array:
    """Place a host array on the devices: each gets only its slice, and each process touches only its own devices."""
    if isinstance(leaf, jax.Array) and jax.dtypes.issubdtype(leaf.dtype, jax.dtypes.prng_key):
        return jax.device_put(leaf, sharding)  # random keys have no NumPy form; they are small
    host = np.asarray(leaf)
    return jax.make_array_from_callback(host.shape, sharding, host.__getitem__)


def host_value(array: jax.Array) -> np.ndarray[Any, Any]:
    """The whole of an array on the host, on every process."""
    if array.is_fully_addressable or array.is_fully_replicated:
        return np.asarray(array)
    from jax.experimental.multihost_utils import process_allgather

    return np.asarray(process_allgather(array, tiled=True))


def real_shard_shape(array: jax.Array) -> tuple[int, ...]:
    """The shape of the shard that a device of this process actually holds, the largest if they differ."""
    shapes = [shard.data.shape for shard in array.addressable_shards]
    return tuple(max(sizes) for sizes in zip(*shapes, strict=True))
