"""Sandboxes for the tests, of every kind that this machine has."""

import functools
from collections.abc import Iterator
from dataclasses import replace

import pytest

from workbench.team.sandbox.probe_sandbox import probe
from workbench.team.sandbox.resource_limits import SandboxAbility, SandboxLevel, SandboxPolicy
from workbench.team.sandbox.sandbox import Sandbox


@functools.cache
def ability_here() -> SandboxAbility:
    """The best of this machine; programs run in any case."""
    return probe(policy=SandboxPolicy(without_sandbox=True))


@functools.cache
def ability_alone() -> SandboxAbility:
    """As where there is no bubblewrap, and an administrator turned the sandbox off."""
    return probe("/nonexistent/bwrap", SandboxPolicy(without_sandbox=True))


@functools.cache
def ability_refused() -> SandboxAbility:
    """As where there is no bubblewrap."""
    return probe("/nonexistent/bwrap")


def opened(ability: SandboxAbility) -> Iterator[Sandbox]:
    """A sandbox, closed afterwards."""
    sandbox = Sandbox(ability)
    yield sandbox
    sandbox.close()


def opened_or_skipped(ability: SandboxAbility) -> Iterator[Sandbox]:
    if ability.level is not SandboxLevel.SANDBOXED:
        pytest.skip(ability.reason)
    yield from opened(ability)


def ability_of_user() -> SandboxAbility:
    """With a user namespace, as a server that is not root has it."""
    from workbench.team.sandbox.probe_sandbox import problem_of

    ability = replace(ability_here(), own_user=True)
    if ability.level is SandboxLevel.SANDBOXED and (problem := problem_of(ability)) is not None:
        pytest.skip(f"a sandbox in a user namespace cannot be made by another user than root here: {problem}")
    return ability
