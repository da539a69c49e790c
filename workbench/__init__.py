"""The sharding workbench: choose how to shard a JAX program, see what it costs, and run it.

    import workbench as wb

    program = wb.trace_training(loss, params, batch, optimizer=optax.adamw(3e-4), dims={"w1": "d_model d_ff"})
    plan = wb.Plan(program, mesh="data:4 model:2", layout="batch:data; d_ff:model")
    print(plan.report())
    measurement = plan.run(steps=20)
    wb.Workbench(plan)  # the board, in a notebook cell

Importing this package imports nothing else: exports are loaded on first use.
"""

from workbench.core import import_path as import_path  # before any module that a downloaded file could shadow

# isort: split
from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from workbench.adapters import from_equinox as from_equinox
    from workbench.adapters import from_flax as from_flax
    from workbench.adapters import from_haiku as from_haiku
    from workbench.adapters import from_keras as from_keras
    from workbench.adapters import from_torch as from_torch
    from workbench.app.notebook.board_cell import Workbench as Workbench
    from workbench.app.notebook.fleet_cell import FleetBoard as FleetBoard
    from workbench.core.layout import Layout as Layout
    from workbench.core.mesh import Mesh as Mesh
    from workbench.core.offload import Offload as Offload
    from workbench.core.precision import Precision as Precision
    from workbench.core.program import Program as Program
    from workbench.core.program import Reference as Reference
    from workbench.core.remat import Remat as Remat
    from workbench.core.sharding import Sharding as Sharding
    from workbench.errors import WorkbenchError as WorkbenchError
    from workbench.exercises.exercise import Exercise as Exercise
    from workbench.public_plan import Plan as Plan
    from workbench.public_plan import plan_config as plan_config
    from workbench.reports.measurement import Measurement as Measurement
    from workbench.reports.report import Report as Report
    from workbench.session.plan_history import Session as Session
    from workbench.team_client import connect as connect
    from workbench.tracing import checkpoint_name as checkpoint_name
    from workbench.tracing import layer as layer
    from workbench.tracing import micro_batch_weight as micro_batch_weight
    from workbench.tracing import moving_average as moving_average
    from workbench.tracing import optimizer as optimizer
    from workbench.tracing import scanned_loss as scanned_loss
    from workbench.tracing import sequential_loss as sequential_loss
    from workbench.tracing import trace as trace
    from workbench.tracing import trace_inference as trace_inference
    from workbench.tracing import trace_step as trace_step
    from workbench.tracing import trace_training as trace_training

__version__ = "0.1.0"

_NAMES_IN = {
    "workbench.adapters": "from_equinox from_flax from_haiku from_keras from_torch",
    "workbench.app.notebook.board_cell": "Workbench",
    "workbench.app.notebook.fleet_cell": "FleetBoard",
    "workbench.core.layout": "Layout",
    "workbench.core.mesh": "Mesh",
    "workbench.core.offload": "Offload",
    "workbench.core.precision": "Precision",
    "workbench.core.program": "Program Reference",
    "workbench.core.remat": "Remat",
    "workbench.core.sharding": "Sharding",
    "workbench.errors": "WorkbenchError",
    "workbench.exercises.exercise": "Exercise",
    "workbench.public_plan": "Plan plan_config",
    "workbench.reports.measurement": "Measurement",
    "workbench.reports.report": "Report",
    "workbench.session.plan_history": "Session",
    "workbench.team_client": "connect",
    "workbench.tracing": (
        "checkpoint_name layer micro_batch_weight moving_average optimizer scanned_loss sequential_loss "
        "trace trace_inference trace_step trace_training"
    ),
}
_MODULE_OF = {name: module for module, names in _NAMES_IN.items() for name in names.split()}
"""The module of each exported name, imported on first use: the process that serves a team's pages imports
this package, and neither JAX nor a user interface."""
__all__ = ["load", "models", *_MODULE_OF]  # noqa: PLE0604 - names, which docs/reference/python.md documents one by one


def __getattr__(name: str) -> Any:
    if name == "models":
        return import_module("workbench.models")
    if name == "load":
        from workbench.public_plan import load

        return load
    if name not in _MODULE_OF:
        raise AttributeError(f"module 'workbench' has no attribute {name!r}")
    value = globals()[name] = getattr(import_module(_MODULE_OF[name]), name)
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *_MODULE_OF, "models", "load"})
