"""The hook itself: what it leaves behind, what it refuses, what it hears."""

import jax
import jax.numpy as jnp
import pytest

from tests.support.resharding import reproducer
from tests.support.spmd_plans import traced_paths
from workbench.analysis.tier_comparison import compare_collectives
from workbench.errors import PartitionError
from workbench.models import build
from workbench.propagation import module_of
from workbench.public_plan import Plan
from workbench.spmd.ask_partitioner import ask_partitioner, gathered_whole, without_functions
from workbench.spmd.hlo_module import read_module
from workbench.spmd.run_partitioner import MAX_DEVICES, FullRematerialization, ask, read_warnings
from workbench.tracing import trace

LAYOUT = "batch:rows; hidden:cols"


@pytest.fixture(scope="module")
def two_layer():
    return Plan(build("two_layer"), "rows:2 cols:4", LAYOUT)


def test_the_process_compiles_and_runs_as_before_once_it_has_asked(two_layer):
    ask_partitioner(two_layer)
    assert float(jax.jit(lambda x: x * 2 + 1)(jnp.float32(3))) == 7


def test_nothing_of_the_program_is_needed_but_its_stablehlo(two_layer):
    bare = without_functions(two_layer)
    assert bare.program.step.call() == ()
    assert bare.program.module == b""
    assert ask_partitioner(bare).collectives == ask_partitioner(two_layer).collectives != ()


def test_the_same_plan_has_the_same_answer(two_layer):
    assert ask_partitioner(two_layer).collectives == ask_partitioner(two_layer).collectives


def test_more_devices_than_xla_can_have_here_are_refused_before_anything_is_compiled(two_layer):
    with pytest.raises(PartitionError) as caught:
        ask(b"not even read", MAX_DEVICES * 2, ())
    assert str(caught.value) == (
        "XLA's partitioner answers here for at most 2,048 devices; the mesh has 4,096.\n"
        "  Try: make an axis smaller · keep the planned figures."
    )


def test_what_xla_cannot_read_is_refused_in_its_words_and_the_next_plan_is_answered(two_layer):
    with pytest.raises(PartitionError, match="XLA refuses this plan: "):
        ask(b"no module", 8, ())
    assert ask_partitioner(two_layer).collectives


def test_a_mesh_of_two_thousand_devices_is_asked_as_it_is():
    plan = Plan(build("two_layer", batch=4096), "rows:64 cols:32", LAYOUT)
    answer = ask_partitioner(plan)
    assert answer.devices == answer.asked_devices == 2048
    assert {axes for axes, _ in answer.by_axis_and_kind} <= {("rows",), ("cols",)}
    assert answer.by_axis_and_kind


def test_xlas_own_cpu_widens_floats_of_two_bytes_and_a_neutral_answer_does_not():
    halves = trace(lambda x, w: x @ w, *(jax.ShapeDtypeStruct((64, 64), jnp.bfloat16),) * 2, dims={"x": "batch k", "w": "k out"})
    plan = Plan(halves, "data:4", "k:data")
    plain, cpu = (sum(ask_partitioner(plan, platform).by_axis_and_kind.values()) for platform in ("", "cpu"))
    assert (plain, cpu) == (64 * 64 * 2, 64 * 64 * 4)


@pytest.mark.parametrize(
    ("model", "recipe"),
    [("gpt", "zero_1"), ("gpt", "zero_3"), ("unet", "zero_2"), ("t5", "zero_1")],  # CHLO operations, and constants that two operations read
)
def test_priorities_hold_also_where_xla_drops_them(model, recipe, monkeypatch):
    """From 0.11.2 on; that way of stating them is tried on any version."""
    plan = Plan(build(model), "data:4 model:2").recipe(recipe)
    monkeypatch.setattr("workbench.propagation.annotate_lowered_module._DROPS_PRIORITIES", (0, 0, 0))
    rows = compare_collectives(plan.report(), ask_partitioner(plan).by_axis_and_kind)
    assert rows
    assert [row for row in rows if not row.agrees] == []


NAMED = "{mesh['r'=2,'c'=4], [{'r'}, {}, {'c'}]}"  # as XLA writes a sharding from JAX 0.12 on


@pytest.mark.parametrize("sharding", ["{devices=[2,1,4]<=[8]}", NAMED, "{replicated}"])
def test_a_warning_is_read_however_xla_writes_shardings(sharding):
    text = (
        "W1 spmd_partitioner.cc:666] [SPMD] Involuntary full rematerialization. The compiler cannot go from sharding "
        f"{sharding} to {sharding} efficiently for HLO operation %wb0.0 = f32[32,64]{{1,0}} copy(%param), sharding={sharding}, "
        'metadata={op_name="wb0"}. As the last resort'
    )
    (found,) = read_warnings(text)
    assert found == FullRematerialization("wb0", "wb0.0", "f32[32,64]", sharding, sharding)


def test_what_xla_gathers_whole_is_said_of_the_operation_that_the_planner_says_it_of():
    plan = reproducer()
    (found,) = ask_partitioner(plan).gathered_whole
    before_named = ("{devices=[2,1,4]<=[8]}", "{devices=[1,8,1]<=[2,4]T(1,0)}")
    assert (found.before, found.after) in (before_named, (NAMED, "{mesh['r'=2,'c'=4], [{}, {'c', 'r'}, {}]}"))
    assert traced_paths(plan.program)[found.operation] == plan.report().reshards[0].path


def test_each_operation_of_the_module_has_its_number_and_the_programs_names_stay_out_of_it(two_layer):
    answer = ask(module_of(two_layer), 8, (True,) * len(two_layer.program.results))
    named = {each.op_name for visit in read_module(answer.module).visits() if (each := visit.instruction).op_name}
    assert named
    assert not any("dot_general" in name for name in named)


WARNING = (
    "W1121 10:38:30.268620   12654 spmd_partitioner.cc:656] [SPMD] Involuntary full rematerialization. The compiler cannot go from "
    "sharding {devices=[2,2]<=[4]} to {devices=[4,1]<=[4]} efficiently for HLO operation %reshape.7 = f32[8,16]{1,0} reshape(%x), metadata="
    '{op_name="wb12"}. As the last resort, SPMD will replicate the tensor\n'
)


def test_a_warning_is_read_once_with_the_operation_it_is_about():
    (found,) = gathered_whole("I0000 other words\n" + WARNING + WARNING)
    assert (found.operation, found.shape) == (12, "f32[8,16]")
    assert (found.before, found.after) == ("{devices=[2,2]<=[4]}", "{devices=[4,1]<=[4]}")
    assert gathered_whole("nothing of the kind") == ()
