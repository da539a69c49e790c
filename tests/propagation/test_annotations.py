"""What each annotation does to propagation: priorities, open and closed dimensions, kept-out axes, partial sums, groups, barriers."""

import jax
import jax.numpy as jnp
import pytest
from jax.sharding import AbstractMesh, AxisType
from jax.sharding import PartitionSpec as P

from workbench.errors import LayoutError
from workbench.public_plan import Plan
from workbench.tracing import trace


def spec(*shape):
    return jax.ShapeDtypeStruct(shape, "float32")


def network(x, w0, w1, w2):
    with jax.named_scope("in"):
        h = jnp.tanh(x @ w0)
    with jax.named_scope("up"):
        u = h @ w1
    with jax.named_scope("down"):
        return u @ w2


def sums(x, w1, w2):
    with jax.named_scope("a"):
        h = x @ w1
    with jax.named_scope("b"):
        u = x @ w2
    with jax.named_scope("both"):
        return jnp.sin(h) + jnp.cos(u), h + u


@pytest.fixture(scope="module")
def stack():
    dims = {"x": "batch d_in", "w0": "d_in embed", "w1": "embed ff", "w2": "ff out"}
    return trace(network, spec(8, 16), spec(16, 32), spec(32, 64), spec(64, 16), dims=dims)


@pytest.fixture(scope="module")
def pair():
    dims = {"x": "batch embed", "w1": "embed ff", "w2": "embed ff"}
    return trace(sums, spec(8, 16), spec(16, 32), spec(16, 32), dims=dims)


def values(program, layout, mesh="data:4 model:2"):
    """Where each value lies, by path, and the report they are of."""
    report = Plan(program, mesh, layout).report()
    return {value.path: str(value.sharding) for value in report.values}, report


@pytest.mark.parametrize(
    ("layout", "hidden"),
    [
        ("batch:data; ff:model p1; embed:data p2", "[data, -]"),  # batch, then Megatron, then ZeRO
        ("batch:data p2; ff:model p1; embed:data", "[-, data]"),
        ("batch:data p1; ff:model; embed:data p7", "[data, -]"),  # gaps are allowed, only the order counts
    ],
)
def test_what_propagates_first_wins_the_axis(stack, layout, hidden):
    found, _ = values(stack, layout)
    assert found["in/tanh"] == hidden


def test_priorities_of_single_arguments_do_the_same_as_those_of_rules(stack):
    by_rule, _ = values(stack, "batch:data p2; embed:data")
    by_override, _ = values(stack, "x=[data p2, -]; w0=[-, data]; w1=[data, -]")
    assert by_rule == by_override


def test_a_priority_on_a_constraint_counts(pair):
    first, _ = values(pair, "ff:model p1; @a/dot_general=[-, ?]; @both/sin=[model, ?]")
    later, _ = values(pair, "ff:model; @a/dot_general=[-, ?]; @both/sin=[model p1, ?]")
    assert first["both/cos"] == "[model, -]"
    assert later["both/cos"] == "[-, model]"


def test_an_argument_left_open_lies_as_propagation_says(stack):
    closed, report = values(stack, "batch:data; w0=[-, -]; w1=[-, model]; w2=[-, -]")
    assert str(report.arguments[3].sharding) == "[-, -]"
    opened, report = values(stack, "batch:data; w0=[-, -]; w1=[-, model]; w2=[?, -]")
    assert str(report.arguments[3].sharding) == "[model, -]"
    assert opened["down/dot_general"] == closed["down/dot_general"] == "[data, -]"
    assert report.arguments[3].local_shape == (32, 16)


def test_a_dimension_with_axes_left_open_gains_minor_ones_and_a_closed_one_never_changes(stack):
    _, report = values(stack, "x=[data?, -]; w0=[-, -]; w1=[-, -]; w2=[-, -]; @in/tanh=[data+model, -]")
    assert str(report.arguments[0].sharding) == "[data+model, -]"
    _, report = values(stack, "x=[data, -]; w0=[-, -]; w1=[-, -]; w2=[-, -]; @in/tanh=[data+model, -]")
    assert str(report.arguments[0].sharding) == "[data, -]"


def test_an_axis_kept_out_of_a_value_is_on_none_of_its_dimensions(pair):
    free, _ = values(pair, "w1=[-, model]; w2=[-, ?]")
    kept, report = values(pair, "w1=[-, model]; w2=[-, ?] replicated:model")
    assert free["b/dot_general"] == kept["b/dot_general"] == "[-, model]"
    assert str(report.arguments[2].sharding) == "[-, -]"
    assert str(values(pair, "w1=[-, model]; w2=[-, ?]")[1].arguments[2].sharding) == "[-, model]"


def test_partial_sums_are_added_before_they_are_reduced(pair):
    whole = values(pair, "embed:model")[1]
    partial = values(
        pair, "embed:model; " + "; ".join(f"@{at}=[-, -] unreduced:model" for at in ("a/dot_general", "b/dot_general", "both/add"))
    )[1]
    reductions = [[each.path for each in report.collectives if each.kind == "all-reduce"] for report in (whole, partial)]
    assert reductions[0] == ["a/dot_general", "b/dot_general"]
    assert "both/add" in reductions[1]


def test_values_tied_together_lie_alike(pair):
    alone = "w1=[-, model]; w2=[-, -]; @both/add=[-, -]; barrier[@a/dot_general]; barrier[@b/dot_general]"
    apart, _ = values(pair, alone)
    tied, _ = values(pair, f"{alone}; group[@a/dot_general, @b/dot_general]")
    assert (apart["a/dot_general"], apart["b/dot_general"]) == ("[-, model]", "[-, -]")
    assert (tied["a/dot_general"], tied["b/dot_general"]) == ("[-, model]", "[-, model]")


def test_an_argument_can_be_tied_to_a_value(stack):
    _, free = values(stack, "batch:data; w2=[?, ?]")
    _, tied = values(stack, "x=[?, ?]; w2=[-, ?]; @down/dot_general=[?, model]; group[x, @down/dot_general]")
    assert str(free.arguments[3].sharding) == "[-, -]"
    assert str(tied.arguments[0].sharding) == "[-, model]"


@pytest.mark.parametrize(
    ("allows", "behind", "in_front"),
    [("", "[-, -]", "[-, -]"), (" allows:forward", "[data, -]", "[-, -]"), (" allows:backward", "[-, -]", "[-, model]")],
)
def test_a_barrier_stops_shardings_and_lets_one_direction_through(stack, allows, behind, in_front):
    forward, _ = values(stack, f"x=[data, -]; barrier[@in/tanh]{allows}")
    backward, _ = values(stack, f"w0=[-, ?]; w1=[model, -]; barrier[@in/tanh]{allows}")
    assert forward["in/tanh"] == "[data, -]"
    assert forward["up/dot_general"] == behind
    assert backward["in/tanh"] == in_front


def test_a_result_that_is_not_carried_on_can_be_placed(stack):
    _, report = values(stack, "batch:data; result=[-, model]")
    assert str(report.results[0].sharding) == "[-, model]"
    _, report = values(stack, "batch:data; result=[?, -]")
    assert str(report.results[0].sharding) == "[data, -]"


def test_a_line_names_the_values_it_makes_in_the_forward_pass():
    program = trace(jax.grad(lambda x, w: jnp.tanh(x @ w).sum()), spec(8, 16), spec(16, 16))
    line = next(op.source for op in program.operations if op.path == "tanh")
    named = {op.path for op in program.operations if op.source == line}
    assert any(path.startswith("grad/") for path in named)
    found, _ = values(program, f"@{line}=[data, ?]")
    assert found["dot_general"] == found["tanh"] == "[data, -]"
    narrowed, _ = values(program, f"@{line}/tanh=[?, model]")
    assert narrowed["tanh"] == "[-, model]"


def test_parts_of_axes_are_told_where_propagation_makes_them():
    program = trace(lambda x: jnp.tanh(x.reshape(2, 4, 16)), spec(8, 16), dims={"x": "batch embed"})
    found, report = values(program, "batch:x", mesh="x:8")
    assert found["tanh"] == "[x:(1)2, x:(2)4, -]"
    assert str(report.results[0].sharding) == "[-, -, -]"  # JAX cannot hand over a part of an axis


def dead(x):
    with jax.named_scope("lost"):
        jnp.sin(x)
    return x * 2


def test_a_value_that_was_left_out_is_told_from_one_that_never_was():
    program = trace(dead, spec(8, 4))
    with pytest.raises(
        LayoutError, match=r"`lost/sin` is in the function \(test_annotations.py:\d+\) but not in the step: no result depends"
    ):
        Plan(program, "data:4", "@lost/sin=[data, -]")
    with pytest.raises(LayoutError, match="There is no intermediate value `found/sin`"):
        Plan(program, "data:4", "@found/sin=[data, -]")


def mapped(x):
    mesh = AbstractMesh((4, 2), ("data", "model"), axis_types=(AxisType.Auto,) * 2)
    inside = jax.shard_map(jnp.sin, mesh=mesh, in_specs=P(None, "model"), out_specs=P(None, "model"), axis_names={"model"})
    return inside(jnp.tanh(x))


def test_in_a_manual_region_only_free_axes_can_be_constrained():
    program = trace(mapped, spec(8, 16))
    found, report = values(program, "x=[data, -]; @sin=[data, -]")
    assert found["sin"] == "[data, -]"
    assert found["tanh"] == "[data, model]"  # as the region wants its operand
    assert {each.axes for each in report.collectives} <= {("model",), ("data",)}
    with pytest.raises(LayoutError, match="computed in a shard_map that is manual over `model`"):
        Plan(program, "data:4 model:2", "@sin=[data, model]")
    with pytest.raises(LayoutError, match="computed in a shard_map that is manual over `model`"):
        Plan(program, "data:4 model:2", "@sin=[data, ?] replicated:model")
