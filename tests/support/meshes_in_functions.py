"""Functions that refer to device meshes, planned and run: `python tests/support/meshes_in_functions.py [NAME...]` prints the error and the
layout of each as JSON.

A program of its own, because the number of a process's devices is fixed when JAX starts.
"""

import json
import os
import sys

os.environ["XLA_FLAGS"] = "--xla_force_host_platform_device_count=8"

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import AxisType, NamedSharding
from jax.sharding import PartitionSpec as P

import workbench as wb

NAMES = ("data", "model")
X, W = jax.ShapeDtypeStruct((64, 8), "float32"), jax.ShapeDtypeStruct((8, 16), "float32")
DIMS = {"x": "row col", "w": "col out"}
REVERSED = jax.sharding.Mesh(np.array(jax.devices()[::-1]).reshape(4, 2), NAMES, axis_types=(AxisType.Auto,) * 2)
EXPLICIT = jax.make_mesh((4, 2), NAMES)


def constrained(x, w):
    return jax.lax.with_sharding_constraint(jnp.tanh(x @ w), NamedSharding(REVERSED, P("data", "model")))


def mapped(x, w):
    body = lambda x, w: x @ w + jax.lax.psum(x, "data").sum()  # noqa: E731
    return jax.shard_map(body, mesh=REVERSED, in_specs=(P("data"), P(None, "model")), out_specs=P("data", "model"), check_vma=False)(x, w)


def mapped_over_one_axis(x, w):
    body = lambda x, w: (x * jax.lax.axis_index("data")) @ w  # noqa: E731
    return jax.shard_map(body, mesh=REVERSED, in_specs=(P("data"), P()), out_specs=P("data"), axis_names={"data"})(x, w)


def gradient(x, w):
    body = lambda x, w: jax.lax.psum((x @ w).sum(), NAMES)  # noqa: E731
    return jax.grad(jax.shard_map(body, mesh=REVERSED, in_specs=(P("data"), P(None, "model")), out_specs=P()))(x, w)


def moved(x, w):
    return jax.device_put(x @ w, NamedSharding(REVERSED, P("data")))


def in_context(x, w):
    return jax.lax.with_sharding_constraint(x @ w, P("data", "model"))


def mapped_in_context(x, w):
    return jax.shard_map(jnp.matmul, in_specs=(P("data"), P(None, "model")), out_specs=P("data", "model"))(x, w)


def with_output_sharding(x, w):
    return jnp.tanh(jnp.einsum("bd,df->bf", x, w, out_sharding=P("data", "model")))


def mapped_over_explicit_mesh(x, w):
    return jax.shard_map(jnp.matmul, mesh=EXPLICIT, in_specs=(P("data"), P(None, "model")), out_specs=P("data", "model"))(x, w)


def typed(mesh):
    specs = (P("data", None), P(None, "model"))
    return [
        jax.ShapeDtypeStruct(each.shape, each.dtype, sharding=NamedSharding(mesh, spec)) for each, spec in zip((X, W), specs, strict=True)
    ]


def programs():
    for function in (constrained, mapped, mapped_over_one_axis, gradient, moved):
        yield function.__name__, wb.trace(function, X, W, dims=DIMS)
    for function in (in_context, mapped_in_context):
        with jax.set_mesh(REVERSED):
            yield function.__name__, wb.trace(function, X, W, dims=DIMS)
    with REVERSED:
        yield "in a `with mesh` block", wb.trace(in_context, X, W, dims=DIMS)
    for function in (with_output_sharding, mapped_in_context):
        with jax.set_mesh(EXPLICIT):
            yield f"{function.__name__}, explicit", wb.trace(function, *typed(EXPLICIT), dims=DIMS)
    yield mapped_over_explicit_mesh.__name__, wb.trace(mapped_over_explicit_mesh, *typed(EXPLICIT), dims=DIMS)


if __name__ == "__main__":
    found = {}
    for name, program in programs():
        if not sys.argv[1:] or name in sys.argv[1:]:
            for layout in (None, "row:data"):
                plan = wb.Plan(program, "data:4 model:2", layout)
                found[f"{name}: {layout}"] = [plan.run(steps=1, check=True).max_error, str(plan.layout)]
    print(json.dumps(found))
