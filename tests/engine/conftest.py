"""What all tests that compile need."""

from collections.abc import Iterator
from pathlib import Path

import jax
import pytest

from tests.support.recorded import Record

MOST_MAPS = 20_000


@pytest.fixture(autouse=True)
def few_memory_maps() -> Iterator[None]:
    """Linux gives a process 65,530 memory maps, and XLA:CPU takes hundreds for a program. JAX 0.11 never gives back those of what it
    compiled with all its arguments, and the process that wants one too many dies: what earlier tests compiled is forgotten."""
    yield
    maps = Path("/proc/self/maps")
    if maps.exists() and maps.read_bytes().count(b"\n") > MOST_MAPS:
        jax.clear_caches()


@pytest.fixture(scope="session")
def record(request: pytest.FixtureRequest) -> Record:
    """What libtpu compiles, of which most is recorded."""
    return Record(request.config.getoption("--hypothesis-seed"), request.config.getoption("--update-golden"))
