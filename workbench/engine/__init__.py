"""Run plans on attached devices, or compile them for absent ones; exports are lazy, as not every process needs JAX."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from workbench.engine.partitioner.partitioner_client import WarmWorker as WarmWorker
    from workbench.engine.partitioner.partitioner_client import shared_worker as shared_worker
    from workbench.engine.partitioner.plan_partitioning import partition_plan as partition_plan
    from workbench.engine.partitioner.plan_partitioning import start_partition as start_partition
    from workbench.engine.search.choose_answerer import open_answerer as open_answerer
    from workbench.engine.spmd.calibrate import calibrate as calibrate
    from workbench.engine.spmd.calibrate import calibrate_here as calibrate_here
    from workbench.engine.spmd.compiled_step import argument_specs as argument_specs
    from workbench.engine.spmd.device_mesh import count_processes as count_processes
    from workbench.engine.spmd.device_mesh import start_distributed as start_distributed
    from workbench.engine.spmd.execute_plan import execute as execute
    from workbench.engine.spmd.kept_calibration import kept_calibration as kept_calibration
    from workbench.engine.worker.job_payload import add_model_command as add_model_command
    from workbench.engine.worker.submit_jobs import attached_hardware as attached_hardware
    from workbench.engine.worker.submit_jobs import compile_plan as compile_plan
    from workbench.engine.worker.submit_jobs import measure_units as measure_units
    from workbench.engine.worker.submit_jobs import prepare_compile as prepare_compile
    from workbench.engine.worker.submit_jobs import prepare_searches as prepare_searches
    from workbench.engine.worker.submit_jobs import run_fleet as run_fleet
    from workbench.engine.worker.submit_jobs import run_plan as run_plan
    from workbench.engine.worker.submit_jobs import start_calibration as start_calibration
    from workbench.engine.worker.submit_jobs import start_compile as start_compile
    from workbench.engine.worker.submit_jobs import start_fleet as start_fleet
    from workbench.engine.worker.submit_jobs import start_run as start_run
    from workbench.engine.worker.submit_jobs import start_searches as start_searches
    from workbench.engine.worker.submit_jobs import start_timing as start_timing
    from workbench.engine.worker.submit_jobs import why_not_compiled as why_not_compiled

_NAMES_IN = {
    "workbench.engine.partitioner.partitioner_client": "shared_worker WarmWorker",
    "workbench.engine.partitioner.plan_partitioning": "partition_plan start_partition",
    "workbench.engine.search.choose_answerer": "open_answerer",
    "workbench.engine.spmd.calibrate": "calibrate calibrate_here",
    "workbench.engine.spmd.compiled_step": "argument_specs",
    "workbench.engine.spmd.device_mesh": "count_processes start_distributed",
    "workbench.engine.spmd.execute_plan": "execute",
    "workbench.engine.spmd.kept_calibration": "kept_calibration",
    "workbench.engine.worker.job_payload": "add_model_command",
    "workbench.engine.worker.submit_jobs": (
        "attached_hardware compile_plan measure_units prepare_compile prepare_searches run_fleet run_plan "
        "start_calibration start_compile start_fleet start_run start_searches start_timing why_not_compiled"
    ),
}
_MODULE_OF = {name: module for module, names in _NAMES_IN.items() for name in names.split()}
"""Module of each exported name."""


def __getattr__(name: str) -> Any:
    if name not in _MODULE_OF:
        raise AttributeError(f"module 'workbench.engine' has no attribute {name!r}")
    value = globals()[name] = getattr(import_module(_MODULE_OF[name]), name)
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *_MODULE_OF})
