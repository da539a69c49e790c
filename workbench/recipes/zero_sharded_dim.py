"""The dimension along which ZeRO splits a tensor over one more axis."""

from collections.abc import Callable

from workbench.core.sharding import Sharding
from workbench.core.tensor import Tensor
from workbench.plan.plan import Plan


def shard_tensors(
    plan: Plan, axis: str, is_meant: Callable[[Tensor], bool], avoid: frozenset[str], priority: int
) -> tuple[dict[str, Sharding], list[Tensor]]:
    """Split each of the tensors over one more axis along the largest dimension that it divides; also the tensors that it does not divide.

    A whole dimension is preferred to one that is split already; dimensions to avoid come last.
    """
    found: dict[str, Sharding] = {}
    whole = []
    for tensor in plan.program.arguments:
        if not is_meant(tensor) or not tensor.shape:
            continue
        sharding = plan.layout.sharding(tensor)
        if axis in sharding.axes:
            continue
        parts = plan.mesh[axis]
        local = sharding.local_shape(tensor.shape, plan.mesh)
        fitting = [i for i, size in enumerate(local) if size % parts == 0]
        if not fitting:
            whole.append(tensor)
            continue
        at = max(fitting, key=lambda i: (tensor.dims[i] not in avoid, not sharding.dims[i], tensor.shape[i], -i))
        priorities = tuple(priority if i == at else sharding.priority(i) for i in range(len(local)))
        found[tensor.path] = Sharding(sharding.with_dim(at, (*(sharding.dims[at] or ()), axis)).dims, priorities=priorities)
    return found, whole
