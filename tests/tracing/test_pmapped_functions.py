"""A function that `jax.pmap` maps is refused with what to write instead, in the user's names."""

import functools

import jax
import pytest

from workbench.errors import PartitionError, TraceError
from workbench.public_plan import Plan
from workbench.tracing import trace

S = jax.ShapeDtypeStruct
ARGUMENTS = S((999, 16, 32), "float32"), S((999, 32, 8), "float32")  # for more devices than there are
SMALL = S((4, 16, 32), "float32"), S((4, 32, 8), "float32")


@functools.partial(jax.pmap, axis_name="devices")
def multiply(x, w):
    return jax.lax.psum(x @ w, "devices")


@jax.pmap
def unnamed(x, w):
    return x @ w


def step(x, w):
    return multiply(x, w) * 2


@pytest.mark.parametrize(
    ("function", "mapped", "axis"), [(multiply, "multiply", "devices"), (step, "multiply", "devices"), (unnamed, "unnamed", "data")]
)
def test_a_pmapped_function_is_refused_with_what_to_write_instead(function, mapped, axis):
    with pytest.raises(TraceError) as caught:
        trace(function, *ARGUMENTS)
    assert str(caught.value).startswith(f"`{mapped}` is mapped by `jax.pmap`, which chooses its own devices, so that no plan can shard it.")
    jitted, kept = caught.value.ways_out
    assert f"`jax.jit({mapped})`" in jitted
    assert f'`jax.shard_map({mapped}, mesh=mesh, in_specs=P("{axis}"), out_specs=P("{axis}"))`' in kept


def test_the_suggested_shard_map_and_jit_can_be_planned():
    mesh = jax.sharding.AbstractMesh((4,), ("devices",), (jax.sharding.AxisType.Auto,))
    part = jax.P("devices")

    def body(x, w):
        return jax.lax.psum(x[0] @ w[0], "devices")[None]

    assert trace(jax.shard_map(body, mesh=mesh, in_specs=part, out_specs=part), *SMALL).manual_mesh == (("devices", 4),)
    assert trace(jax.jit(lambda x, w: x @ w), S((64, 32), "float32"), S((32, 8), "float32")).manual_mesh == ()


def test_a_pmap_without_a_named_axis_is_refused_at_its_line():
    with pytest.raises(PartitionError, match=r"calls `jax.pmap` \(test_pmapped_functions.py:\d+\)") as caught:
        Plan(trace(lambda x, w: unnamed(x, w) * 2, *SMALL), "shards:2").report()
    assert "`batch:shards`" in caught.value.ways_out[0]
    assert 'in_specs=P("shards")' in caught.value.ways_out[1]


ALONE = S((1, 16, 32), "float32"), S((1, 32, 8), "float32")


def nested(x, w):
    return jax.lax.scan(lambda total, _: (total + multiply(x, w), None), jax.numpy.zeros((1, 16, 8)), length=2)[0]


def anonymous(x, w):
    return jax.pmap(lambda x, w: jax.numpy.tanh(x @ w))(x, w)


@pytest.mark.parametrize(
    ("function", "mapped", "axis"),
    [(step, "multiply", "devices"), (unnamed, "unnamed", "data"), (nested, "multiply", "devices"), (anonymous, "f", "data")],
)
def test_a_pmap_over_one_device_is_refused_at_its_line(function, mapped, axis):
    with pytest.raises(TraceError, match=rf"^`{mapped}` is mapped by `jax.pmap`( \(test_pmapped_functions.py:\d+\))?, which") as caught:
        trace(lambda x, w: function(x, w) * 2, *ALONE)
    assert "(test_pmapped_functions.py:" in str(caught.value)
    assert f'in_specs=P("{axis}")' in caught.value.ways_out[1]


def test_a_shard_map_over_one_device_is_planned():
    mesh = jax.sharding.AbstractMesh((1,), ("devices",), (jax.sharding.AxisType.Auto,))
    program = trace(jax.shard_map(lambda x, w: x @ w, mesh=mesh, in_specs=jax.P("devices"), out_specs=jax.P("devices")), *ALONE)
    assert Plan(program, "devices:1").report().collectives == ()
