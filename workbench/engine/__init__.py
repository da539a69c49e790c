"""Run plans on attached devices, and compile them for devices that may be absent."""

from workbench.engine.compile.compile_in_process import compile_here as compile_here
from workbench.engine.find.start_searches import prepare_searches as prepare_searches
from workbench.engine.find.start_searches import start_searches as start_searches
from workbench.engine.partitioner import WarmWorker as WarmWorker
from workbench.engine.partitioner import partition_plan as partition_plan
from workbench.engine.partitioner import shared_worker as shared_worker
from workbench.engine.partitioner import start_partition as start_partition
from workbench.engine.search import open_answerer as open_answerer
from workbench.engine.spmd.calibrate import calibrate as calibrate
from workbench.engine.spmd.calibrate import calibrate_here as calibrate_here
from workbench.engine.spmd.compiled_step import argument_specs as argument_specs
from workbench.engine.spmd.distributed import start_distributed as start_distributed
from workbench.engine.spmd.execute_plan import execute as execute
from workbench.engine.worker.job_handle import Handle as Handle
from workbench.engine.worker.job_payload import add_model_command as add_model_command
from workbench.engine.worker.launch import compile_plan as compile_plan
from workbench.engine.worker.launch import measure_units as measure_units
from workbench.engine.worker.launch import prepare_compile as prepare_compile
from workbench.engine.worker.launch import run_fleet as run_fleet
from workbench.engine.worker.launch import run_plan as run_plan
from workbench.engine.worker.launch import start_compile as start_compile
from workbench.engine.worker.launch import start_fleet as start_fleet
from workbench.engine.worker.launch import start_run as start_run
from workbench.engine.worker.launch import start_timing as start_timing
from workbench.engine.worker.launch import why_not_compiled as why_not_compiled
