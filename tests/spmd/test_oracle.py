"""What XLA's partitioner is heard to answer is what XLA compiles: over random programs, meshes, layouts and constraints."""

from collections import Counter

import jax
import jax.numpy as jnp
import pytest
from hypothesis import HealthCheck, given, settings

from tests.support.layered import stack
from tests.support.spmd_plans import calling, plans, traced_paths
from workbench.core.layout import Layout
from workbench.core.mesh import Mesh
from workbench.engine.hlo.compiled_collectives import collectives_of
from workbench.engine.spmd.compiled_step import lower_step
from workbench.engine.spmd.device_mesh import device_mesh
from workbench.errors import PartitionError
from workbench.propagation import argument_placements, result_placements
from workbench.public_plan import Plan
from workbench.reports.collective import collective_class
from workbench.reports.compiled import payload_by_axis_and_kind
from workbench.spmd.ask_partitioner import ask_partitioner
from workbench.spmd.compile_to_schedule import module_of
from workbench.tracing import trace

pytestmark = pytest.mark.compile

F32 = jnp.float32


def compiled_bytes(plan):
    """As the program has it that runs, which other code reads: what `jit` lowers, with what JAX has no words for written into it."""
    return by_class(payload_by_axis_and_kind(collectives_of(module_of(lower_step(plan, device_mesh(plan)).compile()), plan.mesh)))


def by_class(volumes):
    totals = Counter()
    for (axes, kind), payload in volumes.items():
        totals[axes, collective_class(kind)] += payload
    return +totals


def answer_of(plan, platform=""):
    """`None` where XLA fails on the plan."""
    try:
        return ask_partitioner(plan, platform)
    except PartitionError:
        return None


@settings(max_examples=20, suppress_health_check=[HealthCheck.too_slow])
@given(plans())
def test_the_answer_for_cpu_is_what_xla_compiles_for_it(plan):
    answer = answer_of(plan, "cpu")
    if answer is None:
        with pytest.raises(Exception, match=r"INTERNAL|INVALID_ARGUMENT"):  # XLA's own error, or its verifier's, whatever wraps it
            compiled_bytes(plan)
        return
    assert by_class(answer.by_axis_and_kind) == compiled_bytes(plan)


@pytest.mark.parametrize("params", ["[-?, x]", "[x?, -?]", "[-?, -?]"])
def test_a_state_that_is_left_open_comes_back_as_it_went_in(params):
    plan = Plan(stack(2), Mesh("x:8"), Layout(f"params/layers/*={params}; opt_state/0/*/layers/*=[-?, -?]; @optimizer/add=[-, -]"))
    assert by_class(answer_of(plan, "cpu").by_axis_and_kind) == compiled_bytes(plan)
    lies = argument_placements(plan)
    assert {result: each.dims for result, each in result_placements(plan).items()} == {
        result: lies[argument].dims for result, argument in plan.program.carried
    }


@settings(max_examples=20, suppress_health_check=[HealthCheck.too_slow])
@given(plans())
def test_what_makes_and_reads_a_collective_is_in_the_program_as_traced(plan):
    operations = len(traced_paths(plan.program))
    answer = answer_of(plan)
    for each in answer.collectives if answer else ():
        assert -1 <= each.made_by < operations
        assert -1 <= each.read_by < operations
        assert each.payload >= each.result > 0
        assert each.count >= 1


@settings(max_examples=15, suppress_health_check=[HealthCheck.too_slow])
@given(plans())
def test_an_answer_does_not_depend_on_what_was_asked_before(plan):
    first, second = answer_of(plan), answer_of(plan)
    assert (first and first.collectives) == (second and second.collectives)


def scopes(x, up, down):
    with jax.named_scope("up"):
        hidden = x @ up
    with jax.named_scope("act"):
        hidden = jnp.sin(hidden)
    with jax.named_scope("down"):
        out = hidden @ down
    with jax.named_scope("tail"):
        return jnp.cos(out)


JOINED = [  # layout, and of each collective: kind, what makes its operand, what reads its result
    ("up=[-, m]; down=[m, -]", [("all-reduce", "down/dot_general", "tail/cos")]),
    ("x=[-, m]; up=[m, -]", [("all-reduce", "up/dot_general", "act/sin")]),
    ("x=[m, -]; @up/dot_general=[-, m]", [("all-gather", "", "up/dot_general"), ("all-reduce", "down/dot_general", "tail/cos")]),
    ("up=[-, m]; @act/sin=[-, -]", [("all-gather", "up/dot_general", "act/sin")]),
    ("x=[m, -]; @tail/cos=[-, -]", [("all-gather", "down/dot_general", "tail/cos")]),
    ("up=[-, m]; down=[m, -]; @down/dot_general=[m, -]", [("all-reduce", "down/dot_general", "tail/cos")]),  # a device keeps its slice
    ("up=[-, m]; down=[m, -]; @down/dot_general=[m, -]; @tail/cos=[m, -]", [("all-reduce", "down/dot_general", "tail/cos")]),
]


@pytest.fixture(scope="module")
def scoped():
    shapes = [jax.ShapeDtypeStruct(shape, F32) for shape in ((16, 32), (32, 64), (64, 24))]
    return trace(scopes, *shapes, dims={"x": "b i", "up": "i h", "down": "h o"}, name="scopes")


@pytest.mark.parametrize(("layout", "expected"), JOINED)
def test_a_collective_is_joined_to_the_operations_on_both_its_sides(scoped, layout, expected):
    paths = traced_paths(scoped)
    found = ask_partitioner(Plan(scoped, "m:8", layout), "cpu").collectives
    sides = [(each.kind, *(paths[at] if at >= 0 else "" for at in (each.made_by, each.read_by))) for each in found]
    assert list(dict.fromkeys(sides)) == expected


CALLED = [  # layout, and of the collectives in `layer`: how often, what makes the operand, what reads the result
    (
        "x=[-, m]; w=[m, -]; v=[m, -]",
        [
            (1, "first/layer/dot_general", "first/layer/chosen/gt"),
            (1, "second/layer/dot_general", "second/layer/chosen/gt"),
            (3, "layer/dot_general", "layer/chosen/gt"),
        ],
    ),
    (
        "x=[-, -]; w=[-, m]; v=[-, m]",
        [
            (1, "first/layer/add", "second/layer/dot_general"),
            (3, "", "layer/dot_general"),
        ],
    ),
]


@pytest.mark.parametrize(("layout", "expected"), CALLED)
def test_a_collective_in_a_function_is_joined_to_the_operations_of_its_own_call(layout, expected):
    paths = traced_paths(calling())
    found = ask_partitioner(Plan(calling(), "m:8", layout)).collectives
    sides = [(each.count, *(paths[at] if at >= 0 else "" for at in (each.made_by, each.read_by))) for each in found]
    assert [side for side in sides if "layer" in side[2]] == expected


def test_a_loop_counts_as_often_as_it_runs():
    def recurrence(x, w):
        return jax.lax.scan(lambda h, step: (jnp.tanh(h @ w + step), None), jnp.zeros(x.shape[1:]), x)[0]

    program = trace(recurrence, jax.ShapeDtypeStruct((6, 8, 16), F32), jax.ShapeDtypeStruct((16, 16), F32))
    (each,) = ask_partitioner(Plan(program, "m:8", "w=[m, -]; x=[-, -, -]"), "cpu").collectives
    assert (each.kind, each.count, each.payload) == ("all-reduce", 6, 8 * 16 * 4)


def test_two_byte_floats_are_sent_as_four_on_cpu_alone():
    program = trace(lambda x, w: x @ w, *[jax.ShapeDtypeStruct((16, 16), jnp.bfloat16)] * 2, dims={"x": "b i", "w": "i o"})
    plan = Plan(program, "m:8", "i:m")
    assert [each.payload for each in ask_partitioner(plan).collectives] == [16 * 16 * 2]
    assert [each.payload for each in ask_partitioner(plan, "cpu").collectives] == [16 * 16 * 4]
