"""Layouts that published runs have in common: a model split over the axis `model`, the optimizer's state over replicas, and the plans of a
pipeline stage of a mixture of experts, as Megatron-LM trains it: experts split over the devices that replicate the rest.

A micro-batch of a mixture is one of each replica, `config.batch` sequences, on an axis `expert`; there the gradients of what is replicated
are summed too, which Megatron-LM does once a step. That is in the update, on the same devices as an axis `data`.
"""

from collections.abc import Iterator
from dataclasses import replace
from functools import cache

import workbench as wb
from workbench.core.program import Program
from workbench.core.tensor import Role
from workbench.hardware.hardware import Hardware
from workbench.models.mixture import mixture_stage
from workbench.models.mixture.mixture import expert_parallel
from workbench.models.mixture.mixture_config import MixtureConfig

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


@cache
def _micro_batch(config: MixtureConfig, first: bool, last: bool) -> Program:
    return mixture_stage.micro_batch(config, first=first, last=last)


@cache
def _update(config: MixtureConfig, first: bool, last: bool, replicas: int) -> Program:
    return mixture_stage.update(config, first=first, last=last, replicas=replicas)


def stage_plans(config: MixtureConfig, replicas: int, pipe: int, number: int, hardware: Hardware) -> tuple[wb.Plan, wb.Plan]:
    """Of stage `number` of `pipe`: a micro-batch's, and the update's; `replicas` devices, each with as many of the experts."""
    first, last = number == 0, number == pipe - 1
    config = replace(config, layers=config.layers // pipe, dense=config.dense if first else 0, batch=config.batch * replicas)
    micro, update = _micro_batch(config, first, last), _update(config, first, last, replicas)
    return (
        wb.Plan(micro, f"expert:{replicas}", expert_parallel(batch="expert"), hardware=hardware),
        wb.Plan(update, f"data:{replicas}", _update_layout(update, replicas), hardware=hardware),
    )


def _update_layout(program: Program, replicas: int) -> str:
    """Experts as in the stage; the state of all else is split over the replicas along the first dimension that allows it."""
    return "; ".join(["replica:data", "experts:data", *split_states(program, replicas, over_model=False, but="experts")])
