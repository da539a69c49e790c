"""A session over Mesh-TensorFlow's two matrices, small, with one dimension that four does not divide."""

import pytest

from workbench.core.program import Program
from workbench.models import build
from workbench.public_plan import Plan
from workbench.session.plan_history import Session


@pytest.fixture(scope="session")
def two_layer() -> Program:
    """x[batch=16, io=64], w[io=64, hidden=30], v[hidden=30, io=64]."""
    return build("two_layer", batch=16, io=64, hidden=30)


@pytest.fixture
def session(two_layer: Program) -> Session:
    return Session(Plan(two_layer, "data:4 model:2", "batch:data"))
