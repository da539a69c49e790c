"""The plans of a pipeline stage of a mixture of experts, as Megatron-LM trains it: experts split over the devices that replicate the rest.

A micro-batch is one of each replica, `config.batch` sequences, on an axis `expert`; there the gradients of what is replicated are summed
too, which Megatron-LM does once a step. That is in the update, on the same devices as an axis `data`.
"""

from dataclasses import replace
from functools import cache

import workbench as wb
from benchmarks.published_layouts import split_states
from workbench.core.program import Program
from workbench.hardware.hardware import Hardware
from workbench.models.mixture import mixture_stage
from workbench.models.mixture.config import MixtureConfig
from workbench.models.mixture.layouts import expert_parallel


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
