"""Bytes of each parameter slice on one device of a stage: the slice, the sum of its gradients, and the optimiser's state for it."""

from typing import NamedTuple

from workbench.core.derived_value_cache import cache_with_owner, cache_with_program
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
    states: list[list[tuple[Tensor, Sharding]]] = [[] for _ in network.parameter_paths]
    for tensor, sharding, leaf in zip(
        plan.program.arguments, plan.argument_shardings, leaves_of_arguments(network, plan.program.arguments), strict=True
    ):
        if leaf >= 0 and tensor.role is Role.OPTIMIZER_STATE:
            states[leaf].append((tensor, sharding))
    found: dict[tuple[int, bool], SliceBytes] = {}  # layers of a stack are alike
    for (leaf, layer), _ in network.flat.param_slices:
        if (leaf, layer is None) not in found:
            tensor, sharding = leaves[leaf]
            types = tensor.dtype, str(accumulator_type(tensor.dtype))
            param_bytes, sum_bytes = (_local_bytes(tensor.shape, dtype, layer, sharding, plan) for dtype in types)
            state = sum(_local_bytes(each.shape, each.dtype, layer, placement, plan) for each, placement in states[leaf])
            found[leaf, layer is None] = SliceBytes(param_bytes, sum_bytes, state)
    return tuple(found[leaf, layer is None] for (leaf, layer), _ in network.flat.param_slices)


@cache_with_owner
def leaves_of_arguments(network: Network, arguments: tuple[Tensor, ...]) -> tuple[int, ...]:
    """For each argument the number of the parameter that it is, or is the optimiser's state of; -1 for any other."""
    number = {path.partition("/")[2]: leaf for leaf, path in enumerate(network.parameter_paths)}
    found = []
    for tensor in arguments:
        is_state = tensor.role is Role.OPTIMIZER_STATE
        owner = find_parameter(tensor.path, number) if is_state else tensor.path.partition("/")[2]
        found.append(number.get(owner or "", -1) if tensor.role in (Role.PARAMETER, Role.OPTIMIZER_STATE) else -1)
    return tuple(found)


def _local_bytes(shape: tuple[int, ...], dtype: str, layer: int | None, sharding: Sharding, plan: Plan) -> int:
    """Bytes on one device; of a stacked tensor those of one layer."""
    dims = tuple(dim or () for dim in sharding.dims)
    if layer is not None:
        shape, dims = (1, *shape[1:]), ((), *dims[1:])
    tile = plan.hardware.chip.array_tile if plan.hardware else ()
    return tiled_bytes(tuple(Sharding(dims).local_shape(shape, plan.mesh)), dtype, tile)
