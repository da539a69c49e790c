"""Policies: which model runs next, one short file each. Simulator and executor use the same code."""

from workbench.errors import FleetError, unknown_name
from workbench.multimodel.policies.policy import Candidate as Candidate
from workbench.multimodel.policies.policy import ExactOrder, FirstInList, RandomOrder, RoundRobin, ShardedLrtf, Shortest
from workbench.multimodel.policies.policy import Policy as Policy

ALL_POLICIES: tuple[Policy, ...] = (ShardedLrtf(), RandomOrder(), FirstInList(), Shortest(), RoundRobin())
"""The policies that decide at run time."""

MENU: tuple[Policy, ...] = (*ALL_POLICIES, ExactOrder())
"""All policies, with the one that must know all units in advance (`optimal_schedule.prepare_policy`)."""


def policy_named(name: str) -> Policy:
    """The policy of that name; raises `FleetError` with the names there are."""
    found = next((each for each in MENU if each.name == name), None)
    if found is None:
        raise FleetError(*unknown_name("policy", name, (each.name for each in MENU)))
    return found
