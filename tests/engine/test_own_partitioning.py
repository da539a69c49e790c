"""Functions that partition themselves (`custom_partitioning`): a note says so, and they run and compile by their own rule."""

import pickle

import jax
import jax.numpy as jnp
import pytest
from jax.experimental.custom_partitioning import ArrayMapping, CompoundFactor, SdyShardingRule, custom_partitioning
from jax.sharding import NamedSharding, PartitionSpec

from workbench.engine.worker.pickling import dump_by_value
from workbench.public_plan import Plan
from workbench.tracing import trace

ROWS = jax.ShapeDtypeStruct((64, 32), "float32")


def on_whole(function, rule, count=1):
    """`function`, for which its operands are gathered: its own rule says so."""
    own = custom_partitioning(function)

    def whole(mesh, *_):
        return NamedSharding(mesh, PartitionSpec())

    def partition(mesh, *_):
        return mesh, function, whole(mesh), (whole(mesh),) * count

    own.def_partition(partition=partition, infer_sharding_from_operands=whole, sharding_rule=rule)
    return own


def norm(x):
    return x * jax.lax.rsqrt(jnp.mean(x * x, -1, keepdims=True))


def flatten(x):
    return jnp.tanh(x).reshape(-1)


def scaled(x, scale):
    return x * scale.mean()


FLAT = SdyShardingRule((ArrayMapping("a", "b"),), (ArrayMapping(CompoundFactor("a", "b")),))
OWN = {
    "norm": (lambda x: on_whole(norm, "row col -> row col")(x).sum(0), (ROWS,)),
    "flatten": (lambda x: -on_whole(flatten, FLAT)(x), (ROWS,)),
    "scaled": (lambda x, s: -on_whole(scaled, "row col, other -> row col", 2)(x, s), (ROWS, jax.ShapeDtypeStruct((32,), "float32"))),
}


def plan_of(name):
    fn, specs = OWN[name]
    return Plan(trace(fn, *specs, dims={"x": "row col"}), "data:8", "col:data")


@pytest.mark.parametrize("name", OWN)
def test_a_note_names_the_function_and_its_line(name):
    for tier in ("planned", "partitioned"):
        (note,) = [each for each in plan_of(name).report(tier).notes if each.kind == "own partitioning"]
        assert note.subject == name
        assert note.message.startswith(f"`{name}` (test_own_partitioning.py:")


@pytest.mark.parametrize("mapping", [ArrayMapping("a", "b"), ArrayMapping(CompoundFactor("a", "b"), "c")])
def test_a_rule_arrives_as_it_was_sent(mapping):
    arrived = pickle.loads(dump_by_value(mapping))
    assert (arrived, type(arrived), list(map(type, arrived))) == (mapping, type(mapping), list(map(type, mapping)))


@pytest.mark.compile
@pytest.mark.share(3)
@pytest.mark.parametrize("name", OWN)
def test_it_runs_and_compiles_by_its_own_rule(name):
    plan = plan_of(name)
    assert plan.run(steps=1, check=True).max_error < 1e-5
    assert plan.compile(keep=False).by_axis_and_kind[("data",), "all-gather"] == 64 * 32 * 4
