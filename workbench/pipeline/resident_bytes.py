"""Bytes of each parameter slice on one device of a stage: the slice, the sum of its gradients, and the optimiser's state for it."""

from collections.abc import Sequence
from typing import NamedTuple

from workbench.core.derived_value_cache import cache_with_program
from workbench.core.path_patterns import find_parameter
from workbench.core.sharding import Sharding
from workbench.core.tensor import Role, Tensor
from workbench.cost.tiled_bytes import tiled_bytes
from workbench.plan.plan import Plan
from workbench.tracing.stage_partition.network_blocks import Network
from workbench.tracing.stage_partition.stage_update import accumulator_type


class SliceBytes(NamedTuple):
    """Bytes on one device of a parameter slice, of its accumulated gradient, and of the optimiser's state for it."""

    param: int
    sums: int
    state: int

    @property
    def resident(self) -> int:
        return self.param + self.sums


def weigh_params(plan: Plan, network: Network) -> tuple[SliceBytes, ...]:
    """The bytes of each parameter slice. They do not depend on boundaries, and stay cached while one is dragged."""
    return _weigh_params(plan.updated(pipeline=None, name=""), network)


@cache_with_program(5)
def _weigh_params(plan: Plan, network: Network) -> tuple[SliceBytes, ...]:
    arguments = zip(plan.program.arguments, plan.argument_shardings, strict=True)
    leaves = [(tensor, sharding) for tensor, sharding in arguments if tensor.role is Role.PARAMETER]
    states = _find_states(plan, [path.partition("/")[2] for path in network.parameter_paths])
    found: dict[tuple[int, bool], SliceBytes] = {}  # layers of a stack are alike
    for (leaf, layer), _ in network.flat.param_slices:
        if (leaf, layer is None) not in found:
            tensor, sharding = leaves[leaf]
            types = tensor.dtype, str(accumulator_type(tensor.dtype))
            param_bytes, sum_bytes = (_local_bytes(tensor.shape, dtype, layer, sharding, plan) for dtype in types)
            state = sum(_local_bytes(each.shape, each.dtype, layer, placement, plan) for each, placement in states[leaf])
            found[leaf, layer is None] = SliceBytes(param_bytes, sum_bytes, state)
    return tuple(found[leaf, layer is None] for (leaf, layer), _ in network.flat.param_slices)


def _find_states(plan: Plan, parameters: Sequence[str]) -> list[list[tuple[Tensor, Sharding]]]:
    """The tensors of the optimiser's state for each parameter, with their shardings."""
    number = {path: index for index, path in enumerate(parameters)}
    found: list[list[tuple[Tensor, Sharding]]] = [[] for _ in parameters]
    for tensor, sharding in zip(plan.program.arguments, plan.argument_shardings, strict=True):
        owner = find_parameter(tensor.path, number) if tensor.role is Role.OPTIMIZER_STATE else None
        if owner is not None:
            found[number[owner]].append((tensor, sharding))
    return found


def _local_bytes(shape: tuple[int, ...], dtype: str, layer: int | None, sharding: Sharding, plan: Plan) -> int:
    """Bytes on one device; of a stacked tensor those of one layer."""
    dims = tuple(dim or () for dim in sharding.dims)
    if layer is not None:
        shape, dims = (1, *shape[1:]), ((), *dims[1:])
    tile = plan.hardware.chip.array_tile if plan.hardware else ()
    return tiled_bytes(tuple(Sharding(dims).local_shape(shape, plan.mesh)), dtype, tile)
