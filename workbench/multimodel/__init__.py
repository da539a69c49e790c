"""Train many models at once, as shard units on shared devices (Hydra): jobs, policies, bounds, simulation. Nothing here executes."""

from workbench.multimodel.bounds import Strategy as Strategy
from workbench.multimodel.bounds import list_bound as list_bound
from workbench.multimodel.bounds import lower_bound as lower_bound
from workbench.multimodel.bounds import strategies as strategies
from workbench.multimodel.jobs import Job as Job
from workbench.multimodel.jobs import Pass as Pass
from workbench.multimodel.jobs import Unit as Unit
from workbench.multimodel.jobs import chain as chain
from workbench.multimodel.policies import ALL_POLICIES as ALL_POLICIES
from workbench.multimodel.policies import MENU as MENU
from workbench.multimodel.policies import Candidate as Candidate
from workbench.multimodel.policies import Policy as Policy
from workbench.multimodel.policies import policy_named as policy_named
from workbench.multimodel.schedule import FleetSchedule as FleetSchedule
from workbench.multimodel.schedule import ScheduledUnit as ScheduledUnit
from workbench.multimodel.simulate import FleetEvent as FleetEvent
from workbench.multimodel.simulate import simulate as simulate
