"""Small programs, with plans, of which it is known whether XLA computes them wrongly, by version of JAX.

`tests/engine/test_wrong_results.py` runs each under the installed JAX and compares it with the unsharded program and the report. When a new
version computes one of them rightly, add the version to `right`; a new kind of wrong result is a new row.
"""

import dataclasses
import functools
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp

from workbench.public_plan import Plan
from workbench.tracing import trace

DIMS = ("NHWC", "HWIO", "NHWC")


def conv(x, k, **options):
    return jax.lax.conv_general_dilated(x, k, (1, 1), "SAME", dimension_numbers=DIMS, **options)


def loss_of_sample(k, x):
    return jnp.sum(conv(x[None], k) ** 2)


def loss_by_patches(k, x):
    patches = jax.lax.conv_general_dilated_patches(x[None], (3, 3), (1, 1), "SAME", dimension_numbers=DIMS)
    return jnp.sum((patches @ k.transpose(2, 0, 1, 3).reshape(-1, k.shape[-1])) ** 2)


def per_sample(k, x):
    return jax.vmap(jax.grad(loss_of_sample), (None, 0))(k, x)


def clipped_sum(k, x):
    """The sum of clipped gradients, as in training with differential privacy."""
    grads = per_sample(k, x)
    return (grads / jnp.maximum(1.0, jnp.sqrt((grads**2).sum((1, 2, 3, 4), keepdims=True)))).sum(0)


def in_one_dimension(k, x):
    def loss(k, x):
        return jnp.sum(jax.lax.conv_general_dilated(x[None], k, (1,), "SAME", dimension_numbers=("NWC", "WIO", "NWC")) ** 2)

    return jax.vmap(jax.grad(loss), (None, 0))(k, x)


def channels_first(k, x):
    def loss(k, x):
        return jnp.sum(jax.lax.conv_general_dilated(x[None], k, (1, 1), "SAME") ** 2)

    return jax.vmap(jax.grad(loss), (None, 0))(k, x)


def pool_gradient(k, x, stride=1):
    def loss(x):
        return (jax.lax.reduce_window(x, -jnp.inf, jax.lax.max, (1, 3, 3, 1), (1, stride, stride, 1), "SAME") ** 2).sum()

    return jax.grad(loss)(x) * k.sum()


def pool_by_slices(k, x):
    """Max pooling of three with stride one, as the maximum of shifted slices."""

    def loss(x):
        padded = jnp.pad(x, ((0, 0), (1, 1), (1, 1), (0, 0)), constant_values=-jnp.inf)
        moved = [padded[:, i : i + x.shape[1], j : j + x.shape[2]] for i in range(3) for j in range(3)]
        return (functools.reduce(jnp.maximum, moved) ** 2).sum()

    return jax.grad(loss)(x) * k.sum()


def wide_pool_gradient(k, x):
    """Windows of four with stride two."""
    pooled = lambda x: (jax.lax.reduce_window(x, -jnp.inf, jax.lax.max, (1, 1, 4, 1), (1, 1, 2, 1), "SAME") ** 2).sum()  # noqa: E731
    return jax.grad(pooled)(x) * k.sum()


def in_pairs(k, x):
    return jax.vmap(jax.grad(lambda k, x: jnp.sum(conv(x, k) ** 2)), (None, 0))(k, x.reshape(8, 2, *x.shape[1:]))


@dataclasses.dataclass(frozen=True)
class Case:
    """`fn(k, x)` of random arrays of these shapes under a plan, and the versions of JAX by whether XLA computes it wrongly."""

    name: str
    fn: Callable[[Any, Any], Any]
    mesh: str = "data:8"
    layout: str = "n:data"
    kernel: tuple[int, ...] = (3, 3, 2, 4)
    image: tuple[int, ...] = (16, 6, 6, 2)
    dims: str = "n _ _ c"
    wrong: tuple[str, ...] = ()
    right: tuple[str, ...] = ()

    def plan(self) -> Plan:
        k, x = (jax.random.normal(jax.random.key(i), shape) for i, shape in enumerate((self.kernel, self.image)))
        names = {"x": self.dims} | ({"k": "_ _ _ o"} if "o:" in self.layout else {})
        return Plan(trace(self.fn, k, x, dims=names, name=self.name.replace(" ", "_")), self.mesh, self.layout)


WRONG, RIGHT = {"wrong": ("0.10.2",)}, {"right": ("0.10.2",)}
LOST = {"wrong": ("0.10.2", "0.11.1")}
KNOWN = (
    Case("per sample", per_sample, **WRONG),
    Case("per sample over two axes", per_sample, "a:2 b:4", "n:a+b", **WRONG),
    Case("per sample of one channel", per_sample, kernel=(3, 3, 1, 4), image=(8, 6, 6, 1), **WRONG),
    Case("per sample clipped", clipped_sum, **WRONG),
    Case("per sample in one dimension", in_one_dimension, kernel=(3, 2, 4), image=(16, 9, 2), dims="n _ c", **WRONG),
    Case("pool of stride one", pool_gradient, "a:2 b:4", "w:a", image=(8, 8, 8, 8), dims="n _ w _", **LOST),
    Case("pool of half overlap", wide_pool_gradient, "a:2 b:4", "w:a", image=(8, 8, 8, 8), dims="n _ w _", **LOST),
    Case("pool of slices", pool_by_slices, "a:2 b:4", "w:a", image=(8, 8, 8, 8), dims="n _ w _", **RIGHT),
    Case("pool of stride one by sample", pool_gradient, image=(8, 8, 8, 8), **RIGHT),
    Case("pool of stride two", functools.partial(pool_gradient, stride=2), "a:2 b:4", "w:a", image=(8, 8, 8, 8), dims="n _ w _", **RIGHT),
    Case("per sample over some devices", per_sample, "a:2 b:4", "n:a", **RIGHT),
    Case("per sample and channel", per_sample, "a:4 b:2", "n:a; c:b", **RIGHT),
    Case("per pair of samples", in_pairs, **RIGHT),
    Case("channels first", channels_first, kernel=(4, 2, 3, 3), image=(16, 2, 6, 6), dims="n c _ _", **RIGHT),
    Case("by patches", jax.vmap(jax.grad(loss_by_patches), (None, 0)), **RIGHT),
    Case("by a loop", lambda k, x: jax.lax.map(lambda s: jax.grad(loss_of_sample)(k, s), x), **RIGHT),
    Case("depthwise", lambda k, x: jax.grad(lambda k: jnp.sum(conv(x, k, feature_group_count=8) ** 2))(k), kernel=(3, 3, 1, 8),
         image=(8, 6, 6, 8), **RIGHT),
    Case("depthwise by channel", lambda k, x: jax.grad(lambda k: jnp.sum(conv(x, k, feature_group_count=8) ** 2))(k), layout="c:data",
         kernel=(3, 3, 1, 8), image=(8, 6, 6, 8), **RIGHT),
    Case("batch gradient", lambda k, x: jax.grad(lambda k: jnp.sum(conv(x, k) ** 2))(k), **RIGHT),
    Case("batch gradient by output channel", lambda k, x: jax.grad(lambda k: jnp.sum(conv(x, k) ** 2))(k), layout="o:data",
         kernel=(3, 3, 2, 8), **RIGHT),
)  # fmt: skip
