"""What JAX has no words for is compiled and run as planned: priorities, open arguments, kept-out axes, partial sums, groups, barriers."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.sharding import AbstractMesh, AxisType
from jax.sharding import PartitionSpec as P

from tests.support.choosing import parametrize_drawn
from workbench.analysis.tier_comparison import compare_collectives
from workbench.engine.hlo.compiled_collectives import collectives_of
from workbench.engine.spmd.compiled_step import compile_step
from workbench.engine.spmd.device_mesh import host_value, real_shard_shape
from workbench.errors import EngineError
from workbench.models import build
from workbench.public_plan import Plan
from workbench.reports.compiled import payload_by_axis_and_kind
from workbench.spmd.ask_partitioner import ask_partitioner
from workbench.spmd.compile_to_schedule import module_of
from workbench.tracing import trace

pytestmark = pytest.mark.compile

MESH = "data:4 model:2"


def sums(x, w1, w2):
    with jax.named_scope("a"):
        h = x @ w1
    with jax.named_scope("b"):
        u = jnp.tanh(x) @ w2
    with jax.named_scope("both"):
        return jnp.sin(h + u), jnp.cos(u)


LINE = f"test_annotations.py:{sums.__code__.co_firstlineno + 2}"


@functools.cache
def pair():
    shapes = [jax.ShapeDtypeStruct(shape, "float32") for shape in ((8, 16), (16, 32), (16, 32))]
    return trace(sums, *shapes, dims={"x": "batch embed", "w1": "embed ff", "w2": "embed ff"}, name="sums")


@functools.cache
def small_gpt():
    return build("gpt", layers=2, seq=16, batch=8, scan=True)


CASES = [
    (pair, "batch:data p1; w1=[-, data]"),
    (pair, "batch:data p1; w1=[-, data+model]; w2=[-, ?]"),
    (pair, "batch:data; w1=[?, model]; w2=[?, ?]"),
    (pair, "x=[data?, ?]; w1=[-, -]; w2=[-, -]; @b/tanh=[data+model, -]"),
    (pair, "batch:data; w1=[-, model]; w2=[-, -]; @b/dot_general=[?, -] replicated:model"),
    (pair, "embed:model; @a/dot_general=[-, -] unreduced:model; @b/dot_general=[?, ?]"),
    (pair, "embed:model; " + "; ".join(f"@{at}=[-, -] unreduced:model" for at in ("a/dot_general", "b/dot_general", "both/add"))),
    (pair, "embed:data+model; @a/dot_general=[-, -] unreduced:model"),
    (pair, "w1=[-, model]; group[@a/dot_general, @b/dot_general]; barrier[@both/add]"),
    (pair, "batch:data; barrier[@b/tanh]; result/0=[-, ?]"),
    (pair, "batch:data; barrier[@b/tanh] allows:forward; " + f"@{LINE}=[?, model]"),
    (small_gpt, "batch:data p1; d_ff:model; heads:model; barrier[@mlp/up/dot_general] allows:forward"),
]


@functools.cache
def ran(made, layout):
    """The report, the step compiled, its first arguments' shard shapes, its results and the unsharded ones."""
    plan = Plan(made(), MESH, layout)
    step = compile_step(plan)
    arguments = step.arguments(0)
    expected = jax.jit(plan.program.step.call)(*map(host_value, arguments))
    shapes = [real_shard_shape(each) for each in arguments]
    return plan.report(), step, shapes, step.advance(arguments, None), [np.asarray(each) for each in expected]


def words_of(case):
    """What of the notation is in a case."""
    return [case[0], *(word for word in ("p1", "?", "replicated:", "unreduced:", "group[", "barrier[") if word in case[1])]


def name_of(case):
    return f"{case[0].__name__} {case[1]}"


def pytest_generate_tests(metafunc):
    """A third is compiled and run in every run, each word of the notation among them."""
    parametrize_drawn(metafunc, "case", CASES, words_of, name_of)


@pytest.mark.parametrize("stated", CASES, ids=name_of)
def test_the_partitioner_answers_what_was_planned(stated):
    made, layout = stated
    plan = Plan(made(), MESH, layout)
    rows = compare_collectives(plan.report(), ask_partitioner(plan, "cpu").by_axis_and_kind)
    assert [row for row in rows if not row.agrees] == []


def test_every_device_holds_what_was_planned(case):
    report, _, shapes, results, _ = ran(*case)
    assert shapes == [each.local_shape for each in report.arguments]
    assert [real_shard_shape(each) for each in results] == [each.local_shape for each in report.results]


def test_the_annotated_step_computes_the_same(case):
    *_, results, expected = ran(*case)
    for ours, theirs in zip(results, expected, strict=True):
        np.testing.assert_allclose(host_value(ours), theirs, rtol=2e-4, atol=5e-3 * max(np.abs(theirs).max(initial=0), 1e-6))


def test_the_annotated_step_sends_what_was_planned(case):
    report, step, *_ = ran(*case)
    rows = compare_collectives(report, payload_by_axis_and_kind(collectives_of(module_of(step.compiled), report.mesh)))
    assert [row for row in rows if not row.agrees] == []


def test_one_plan_does_not_leak_into_another_of_the_same_program():
    """JAX lowers a function once and keeps the module; statements are written into a module of the plan's own."""
    stopped = compile_step(Plan(pair(), MESH, "batch:data; barrier[x]")).compiled.as_text()
    free = compile_step(Plan(pair(), MESH, "batch:data")).compiled.as_text()
    assert "all-gather" in stopped
    assert "all-gather" not in free


def test_a_function_over_explicit_axes_is_planned_and_compiled_so():
    mesh = AbstractMesh((4, 2), ("data", "model"), axis_types=(AxisType.Explicit,) * 2)
    with jax.sharding.use_abstract_mesh(mesh):
        program = trace(lambda x: jax.reshard(x, P("data", None)) * 2, jax.ShapeDtypeStruct((8, 16), "float32"), name="laid_out")
    plan = Plan(program, MESH)
    assert str(plan.report().results[0].sharding) == "[data, -]"
    assert compile_step(plan).compiled.output_shardings[0].shard_shape((8, 16)) == (2, 16)


def test_a_partial_sum_between_steps_is_refused():
    with pytest.raises(EngineError, match="`x` would be a partial sum over `model` between steps"):
        compile_step(Plan(pair(), MESH, "x=[data, -] unreduced:model"))
