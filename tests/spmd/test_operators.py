"""Operators that move data along their dimensions: XLA's partitioner answers what is worked out by hand."""

import pytest

from tests.support.moving_operators import CASES, program_of
from workbench.public_plan import Plan
from workbench.spmd.ask_partitioner import ask_partitioner


@pytest.mark.compile
@pytest.mark.parametrize("case", CASES, ids=str)
def test_the_answer_is_what_is_worked_out_by_hand(case):
    found = ask_partitioner(Plan(program_of(case), case.mesh, case.layout)).by_axis_and_kind
    assert {("+".join(axes), kind): count for (axes, kind), count in found.items()} == case.sent
