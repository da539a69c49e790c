"""Whether one tensor may lie so is decided once: the error and the few words in a drop zone tell the same fault."""

from hypothesis import given
from hypothesis import strategies as st

from tests.support.programs import parameter, program
from workbench.core.mesh import Mesh
from workbench.plan.layout_legality import first_fault, illegality_text, layout_errors
from workbench.plan.sharding_legality import AxisTwice, UnevenSplit, brief_fault, fault_error, sharding_faults
from workbench.public_plan import Plan

MESH = Mesh("data:2 model:3")
WEIGHT = parameter("mlp/w1", d_model=8, d_ff=9)
AXES = st.lists(st.sampled_from(MESH.names), unique=True).map(tuple)


def test_faults_come_dimension_by_dimension():
    found = list(sharding_faults((8, 9), (("model",), ("model", "data")), MESH))
    assert found == [UnevenSplit(0, 8, ("model",), 3), AxisTwice("model", 0, 1), UnevenSplit(1, 9, ("model", "data"), 6)]


def test_a_fault_is_told_at_length_and_briefly():
    uneven, twice = UnevenSplit(0, 8, ("model",), 3), AxisTwice("model", 0, 1)
    assert brief_fault(uneven, WEIGHT, "d_model") == "8 % 3 = 2"
    assert "and 8 % 3 = 2. JAX requires" in fault_error(uneven, WEIGHT, MESH).message
    assert brief_fault(twice, WEIGHT, "d_ff") == "w1 has d_model on model"
    assert brief_fault(twice, WEIGHT, "d_model") == "w1 has d_ff on model"
    assert "both `d_model` and `d_ff` on mesh axis `model`" in fault_error(twice, WEIGHT, MESH).message


@given(AXES, AXES)
def test_what_is_said_of_a_drop_is_what_the_plan_says_of_the_layout(first, second):
    plan = Plan(program(WEIGHT), MESH, "")
    layout = plan.layout.with_rule("d_model", first)
    found = first_fault(plan.program, MESH, layout, "d_ff", second)
    errors = [each.message for each in layout_errors(plan.program, MESH, layout.with_rule("d_ff", second))]
    assert illegality_text(plan.program, MESH, layout, "d_ff", second) == next(iter(errors), None)
    assert (found is None) == (not errors)
