"""The engines that the server knows, each in a file of its own."""

from workbench.team.jobs.here import Here
from workbench.team.jobs.kubernetes import Kubernetes
from workbench.team.jobs.ray import Ray
from workbench.team.jobs.slurm import Slurm

ALL_ENGINES = (Here, Slurm, Ray, Kubernetes)
"""The class of each engine; `name` is what a job's row says."""
