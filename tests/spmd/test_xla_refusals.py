"""What XLA's partitioner refuses is told with the user's line, whose bug it is, and all that XLA said."""

import jax
import pytest

from workbench.errors import PartitionError, WorkbenchError, opening_text
from workbench.public_plan import Plan
from workbench.spmd.ask_partitioner import ask_partitioner, partition_error
from workbench.tracing import trace


def pads_and_joins(x):
    def cut(low, high):
        return jax.lax.pad(x, 0.0, [(-low, -high, 0)])

    return jax.lax.concatenate([cut(7, 0), cut(0, 1)], 0) * jax.lax.concatenate([cut(1, 0), cut(0, 7)], 0)


def test_a_bug_of_xla_is_told_as_that_with_the_line_and_all_its_words():
    program = trace(pads_and_joins, jax.ShapeDtypeStruct((8,), "float32"), dims={"x": "row"})
    with pytest.raises(PartitionError) as caught:
        ask_partitioner(Plan(program, "data:8", "row:data"))
    line = pads_and_joins.__code__.co_firstlineno + 4
    assert f"at `concatenate` (test_xla_refusals.py:{line}): INTERNAL" in caught.value.message
    assert "actual shape is f32[8]" in caught.value.message
    assert caught.value.ways_out[-1] == "report it to openxla/xla"
    assert "Failed after spmd-partitioning" in str(caught.value)


def test_what_the_user_can_mend_is_nobodys_bug():
    program = trace(pads_and_joins, jax.ShapeDtypeStruct((8,), "float32"))
    error = partition_error("INVALID_ARGUMENT: no such thing", program)
    assert str(error) == "XLA refuses this plan: INVALID_ARGUMENT: no such thing\n  Try: revert the layout."


def test_an_error_made_again_elsewhere_keeps_what_was_said():
    error = PartitionError("refused", ["go back"], "refused because\nof this")
    assert str(PartitionError(*error.parts)) == str(error) == ("refused\n  Try: go back.\n  In full:\n    refused because\n    of this")
    assert WorkbenchError("all of it", (), "all of it").detail == ""


def test_a_message_of_several_lines_opens_with_what_its_colon_announces():
    said = "sizes do not divide:\n\n* x has 3\nSee the manual."
    with pytest.raises(WorkbenchError) as caught:
        trace(_raises(said), jax.ShapeDtypeStruct((8,), "float32"))
    assert "sizes do not divide: * x has 3\n  Try" in str(caught.value)
    assert str(caught.value).endswith("See the manual.")
    assert opening_text("") == ""


def _raises(text):
    def function(x):
        raise ValueError(text)

    return function
