"""Run plans on attached devices."""

from workbench.engine.calibrate import calibrate as calibrate
from workbench.engine.distributed import start_distributed as start_distributed
from workbench.engine.execute import execute as execute
from workbench.engine.supervisor import Handle as Handle
from workbench.engine.supervisor import run_plan as run_plan
from workbench.engine.supervisor import start_run as start_run
