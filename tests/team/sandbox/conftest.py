"""One sandbox of each kind for the tests of a file."""

from collections.abc import Iterator

import pytest

from tests.support.team_sandbox import ability_alone, ability_here, ability_of_user, opened, opened_or_skipped
from workbench.team.sandbox.sandbox import Sandbox


@pytest.fixture(scope="module")
def walled() -> Iterator[Sandbox]:
    """The best that this machine has; skipped where that is no sandbox."""
    yield from opened_or_skipped(ability_here())


@pytest.fixture(scope="module")
def walled_by_user() -> Iterator[Sandbox]:
    """In a user namespace."""
    yield from opened_or_skipped(ability_of_user())


@pytest.fixture(scope="module")
def alone() -> Iterator[Sandbox]:
    """Without bubblewrap."""
    yield from opened(ability_alone())
