"""Layouts that published runs have in common: a model split over the axis `model`, and the optimiser's state over replicas."""

from collections.abc import Iterator

from workbench.core.program import Program
from workbench.core.tensor import Role

MODEL_DIMS = ("kv_heads", "d_ff", "vocab")
"""Dimensions that tensor parallelism splits (Shoeybi et al. 2019)."""


def model_rules(program: Program) -> str:
    """The rules that split a program over `model`."""
    return "; ".join(f"{dim}:model" for dim in MODEL_DIMS if dim in program.dims)


def split_states(program: Program, replicas: int, *, over_model: bool = True, but: str = "") -> Iterator[str]:
    """Statements that split the state of each parameter over `data`, along the first dimension that allows it, but of parameters with the
    dimension `but`."""
    for each in program.arguments:
        if each.role is not Role.PARAMETER or but in each.dims:
            continue
        dims = ["model" if over_model and dim in MODEL_DIMS else "-" for dim in each.dims]
        free = next((i for i, dim in enumerate(dims) if dim == "-" and each.shape[i] % replicas == 0), None)
        if free is not None:
            dims[free] = "data"
            yield f"opt_state/**/{each.path.partition('/')[2]}=[{', '.join(dims)}]"
