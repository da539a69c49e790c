"""A program with a `shard_map` on another mesh is the program that its function makes with that mesh."""

import functools
import sys
import types

import jax
import jax.numpy as jnp
import optax
import pytest
from jax.sharding import AbstractMesh, AxisType, NamedSharding, PartitionSpec

from workbench.core.mesh import Mesh
from workbench.errors import PartitionError, TraceError
from workbench.public_plan import Plan
from workbench.tracing import trace, trace_step, trace_training

X, W, V = (jax.ShapeDtypeStruct(shape, "float32") for shape in ((64, 32), (32, 128), (128, 32)))
SPECS = (PartitionSpec("data", None), PartitionSpec(None, "model"), PartitionSpec("model", None))
SIZES = (4, 2), (2, 4)


def mesh_of(sizes, kind=AxisType.Auto):
    return AbstractMesh(sizes, ("data", "model"), (kind,) * 2)


def product(x, w, v):
    return jax.lax.psum(jnp.tanh(x @ w) @ v, "model")


def mapped(mesh):
    return jax.shard_map(product, mesh=mesh, in_specs=SPECS, out_specs=SPECS[0])


class Model:
    def __init__(self, mesh):
        self.mesh = mesh

    def __call__(self, x, w, v):
        return mapped(self.mesh)(x, w, v)


def from_closure(mesh):
    inner = mapped(mesh)
    return trace(lambda x, w, v: inner(x, w, v).sum(0), X, W, V)


def from_attribute(mesh):
    return trace(Model(mesh), X, W, V)


def from_method(mesh):
    return trace(functools.partial(Model(mesh).__call__), X, W, V)


def under_transformations(mesh):
    inner = jax.checkpoint(jax.jit(mapped(mesh)))
    return trace(lambda x, w, v: jax.grad(lambda w: inner(x, w, v).sum())(w), X, W, V)


def with_its_own_derivative(mesh):
    inner = jax.custom_vjp(mapped(mesh))
    inner.defvjp(lambda x, w, v: (mapped(mesh)(x, w, v), (x, w, v)), lambda kept, g: (g @ kept[2].T @ kept[1].T, *kept[1:]))
    return trace(lambda x, w, v: jax.grad(lambda x: inner(x, w, v).sum())(x), X, W, V)


def beside_a_constraint(mesh):
    def function(x, w, v):
        y = mapped(mesh)(x, w, v) / mesh.shape["model"]
        return jax.lax.with_sharding_constraint(y, NamedSharding(mesh, PartitionSpec(None, "data")))

    return trace(function, X, W, V)


def trained(mesh):
    inner = mapped(mesh)

    def loss(params, batch):
        return jnp.mean(inner(batch, params["w"], params["v"]) ** 2)

    return trace_training(loss, {"w": W, "v": V}, X, optimizer=optax.sgd(0.1))


def stepped(mesh):
    inner = mapped(mesh)
    return trace_step(lambda params, x: (params, inner(x, *params).sum()), (W, V), X)


def explicit(mesh):
    mesh = mesh_of(mesh.axis_sizes, AxisType.Explicit)
    inner = jax.shard_map(product, mesh=mesh, in_specs=SPECS, out_specs=SPECS[0])
    typed = [x.update(sharding=NamedSharding(mesh, spec)) for x, spec in zip((X, W, V), SPECS, strict=True)]
    return trace(inner, *typed)


def under_the_mesh(mesh):
    with jax.sharding.use_abstract_mesh(mesh):
        return trace(jax.shard_map(product, in_specs=SPECS, out_specs=SPECS[0]), X, W, V)


def ring(mesh):
    def shift(x):
        size = jax.lax.axis_size("data")
        return jax.lax.ppermute(x, "data", [(i, (i + 1) % size) for i in range(size)])

    inner = jax.shard_map(shift, mesh=mesh, in_specs=SPECS[0], out_specs=SPECS[0])
    return trace(lambda x: inner(x) * 2, X)


def from_a_module(mesh):
    module = types.ModuleType("users_meshes")
    module.__file__, module.MESH = __file__, mesh
    sys.modules["users_meshes"] = module
    namespace = {"jax": jax, "users_meshes": module, "product": product, "SPECS": SPECS}
    code = "def f(x, w, v): return jax.shard_map(product, mesh=users_meshes.MESH, in_specs=SPECS, out_specs=SPECS[0])(x, w, v)"
    exec(compile(code, "users_program.py", "exec"), namespace)
    return trace(namespace["f"], X, W, V)


MADE = [from_closure, from_attribute, from_method, under_transformations, with_its_own_derivative, beside_a_constraint, trained, stepped]
MADE += [explicit, under_the_mesh, ring, from_a_module]


@pytest.mark.parametrize("make", MADE)
def test_a_program_over_another_mesh_is_the_one_that_its_function_makes_with_that_mesh(make):
    first, second = (make(mesh_of(sizes)) for sizes in SIZES)
    resized = Plan(first, "data:2 model:4").program
    assert first.manual_mesh == (("data", 4), ("model", 2))
    assert (resized.manual_mesh, resized.fingerprint) == (second.manual_mesh, second.fingerprint)
    assert Plan(first, "data:4 model:2").program is first
    again = Plan(resized, "data:4 model:2")
    assert again.program == first
    assert Plan(first, "data:2 model:4", hardware="8 H100").updated(mesh="data:4 model:2").program.fingerprint == first.fingerprint


@pytest.mark.parametrize("mesh", ["model:2 data:4", "data:4 model:2 expert:2", "expert:2 data:2 model:4"])
def test_axes_in_another_order_and_further_ones_are_those_of_the_plan(mesh):
    program = Plan(from_closure(mesh_of((4, 2))), mesh).program
    assert program.manual_mesh == Mesh(mesh).axes


def test_a_mesh_whose_further_axes_have_one_device_needs_no_other_trace():
    program = from_closure(mesh_of((4, 2)))
    assert Plan(program, "stage:1 data:4 model:2").program is program


def test_under_a_mesh_that_is_still_set_the_program_is_traced_over_the_other():
    with jax.sharding.use_abstract_mesh(mesh_of((4, 2))):
        program = trace(jax.shard_map(product, in_specs=SPECS, out_specs=SPECS[0]), X, W, V)
        assert Plan(program, "data:2 model:4").program.manual_mesh == (("data", 2), ("model", 4))


def counted(mesh):
    pairs = [(i, (i + 1) % 4) for i in range(4)]
    return trace(jax.shard_map(lambda x: jax.lax.ppermute(x, "data", pairs), mesh=mesh, in_specs=SPECS[0], out_specs=SPECS[0]), X)


def summed_shards(mesh):
    return trace(jax.shard_map(lambda x: x.sum(0, keepdims=True), mesh=mesh, in_specs=SPECS[0], out_specs=SPECS[0]), X)


class Hidden:
    def __getattr__(self, name):
        return mesh_of((4, 2))


def hidden(mesh):
    holder = Hidden()
    return trace(lambda x, w, v: 2 * mapped(holder.mesh)(x, w, v), X, W, V)


@pytest.mark.parametrize(
    ("make", "mesh", "reason", "way_out"),
    [
        (counted, "data:8 model:1", "the pairs of its `ppermute` (test_resized_meshes.py:", "compute the pairs from `jax.lax.axis_size`"),
        (summed_shards, "data:8 model:1", "its results have other shapes there.", "compute shapes from `jax.lax.axis_size`"),
        (hidden, "data:8 model:1", "its mesh does not come from its variables.", "trace it again with that mesh"),
        (from_closure, "data:3 model:2", "`function` raised ValueError while it was traced", "see the whole traceback"),
    ],
)
def test_what_forbids_another_mesh_is_said(make, mesh, reason, way_out):
    with pytest.raises(TraceError) as caught:
        Plan(make(mesh_of((4, 2))), mesh)
    assert f"has a shard_map over data:4 model:2 and cannot be traced over {mesh}: {reason}" in caught.value.message
    assert caught.value.ways_out[0] == "keep data:4 model:2"
    assert caught.value.ways_out[1].startswith(way_out)


def test_an_axis_that_the_mesh_lacks_is_named():
    with pytest.raises(PartitionError, match="The function itself shards values over mesh axis `model`; the mesh of the plan has `data`"):
        Plan(from_closure(mesh_of((4, 2))), "data:8").report()


@pytest.mark.nightly
@pytest.mark.compile
@pytest.mark.worker
@pytest.mark.parametrize("mesh", ["data:2 model:4", "model:2 data:4", "expert:2 data:2 model:2"])
def test_it_runs_over_the_other_mesh(mesh):
    plan = Plan(trained(mesh_of((4, 2))), mesh)
    assert plan.run(steps=1, check=True).max_error < 1e-5
