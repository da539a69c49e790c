"""Train many models at once, as shard units on shared devices (Hydra): jobs, policies, bounds, simulation."""

from workbench.multimodel.policies import ALL_POLICIES as ALL_POLICIES
from workbench.multimodel.policies import MENU as MENU
from workbench.multimodel.policies import Candidate as Candidate
from workbench.multimodel.policies import Policy as Policy
from workbench.multimodel.policies import policy_named as policy_named
from workbench.multimodel.simulate_fleet import FleetEvent as FleetEvent
from workbench.multimodel.simulate_fleet import simulate as simulate
from workbench.multimodel.unit_chains import Job as Job
from workbench.multimodel.unit_chains import Pass as Pass
from workbench.multimodel.unit_chains import Unit as Unit
from workbench.multimodel.unit_chains import chain as chain
from workbench.multimodel.unit_schedule import FleetSchedule as FleetSchedule
from workbench.multimodel.unit_schedule import ScheduledUnit as ScheduledUnit
from workbench.multimodel.unit_schedule import Strategy as Strategy
from workbench.multimodel.unit_schedule import list_bound as list_bound
from workbench.multimodel.unit_schedule import lower_bound as lower_bound
from workbench.multimodel.unit_schedule import strategies as strategies
