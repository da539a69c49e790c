"""Operators that move data along their dimensions: one table for what is planned, what XLA's partitioner answers, what is compiled, and
what is run.

`sent`: bytes by mesh axes and kind, worked out by hand, in the values' own types; `f32[8, 32, 16, 4]` over 4 parts of `h` has rows of
2,048 bytes.
"""

import functools
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from workbench.propagation.structure.operation_work import SPLITS_FFT_BATCHES
from workbench.tracing import trace

MESH, LINE = "a:2 b:4", "m:8"


class Case(NamedTuple):
    operator: str
    about: str
    fn: object
    shapes: tuple
    dims: dict
    mesh: str
    layout: str
    sent: dict

    def __str__(self):
        return f"{self.operator}: {self.about}"


def spec(*shape, dtype="float32"):
    return jax.ShapeDtypeStruct(shape, dtype)


def program_of(case):
    return trace(case.fn, *case.shapes, dims=case.dims)


def conv(strides=1, low=1, high=1, base=1, dilation=1, groups=1):
    """Along `h` as said, along `w` of three with one of padding."""

    def fn(x, w):
        return lax.conv_general_dilated(
            x,
            w,
            (strides, 1),
            ((low, high), (1, 1)),
            lhs_dilation=(base, 1),
            rhs_dilation=(dilation, 1),
            dimension_numbers=("NHWC", "HWIO", "NHWC"),
            feature_group_count=groups,
        )

    return fn


def gradients(fn):
    return jax.grad(summed(fn), argnums=(0, 1))


def pool(size, stride, low=0, high=0, combine=lax.add, start=0.0):
    return lambda x: lax.reduce_window(x, start, combine, (1, size, 1, 1), (1, stride, 1, 1), ((0, 0), (low, high), (0, 0), (0, 0)))


IMAGE, KERNEL = spec(8, 32, 16, 4), spec(3, 3, 4, 8)
NHWC, HWIO = {"x": "n h w c"}, {"x": "n h w c", "w": "_ _ _ o"}
ROWS, RC = spec(32, 16), {"x": "r c"}
COMPLEX = spec(32, 16, dtype="complex64")
PLACE = spec(dtype="int32")
PERMUTE = "collective-permute"


def image(about, fn, sent, layout="h:b", mesh=MESH, kernel=KERNEL):
    return Case("convolution", about, fn, (IMAGE, kernel), HWIO, mesh, layout, sent)


def pooled(operator, about, fn, sent):
    return Case(operator, about, fn, (IMAGE,), NHWC, MESH, "h:b", sent)


def rows(operator, about, fn, sent, layout="r:b", shapes=(ROWS,), mesh=MESH):
    return Case(operator, about, fn, shapes, RC, mesh, layout, sent)


def summed(fn):
    """A scalar, so that an uneven result is no result of the program."""
    return functools.wraps(fn)(lambda *arguments: jnp.sum(jnp.sin(fn(*arguments))))


def transform(x):
    return jnp.fft.fft(x)


def row(x, i):
    return lax.dynamic_index_in_dim(x, i)


def two_pools(combine, start):
    """A mean, and something else of the same windows of the same value."""
    return twice(pool(3, 1, 1, 1), pool(3, 1, 1, 1, combine, start))


def twice(one, other):
    """Two functions of one value, that is not an argument."""

    def fn(x):
        y = jnp.sin(x)
        return one(y), other(y)

    return fn


def two_pads(one, other, low=1, high=1):
    """The same value padded twice, with two numbers."""

    def fn(x):
        y = jnp.sin(x)
        first, second = jnp.pad(y, ((1, 1), (0, 0)), constant_values=one), jnp.pad(y, ((low, high), (0, 0)), constant_values=other)
        return jnp.sum(jnp.cos(first)), jnp.sum(jnp.exp(second))

    return fn


CASES = (
    image("a row from either neighbour", conv(), {("b", PERMUTE): 2 * 2048}),
    image(
        "borders of both dimensions, the second with the first's", conv(), {("a", PERMUTE): 2 * 512, ("b", PERMUTE): 2 * 2304}, "h:a; w:b"
    ),
    image("over two axes at once", conv(), {("a+b", PERMUTE): 2 * 2048}, "h:a+b"),
    image("a stride reads one border alone", conv(2, 0, 1), {("b", PERMUTE): 2048}),
    image("a stride of the window's size reads none", conv(2, 0, 0), {}, kernel=spec(2, 3, 4, 8)),
    image("causal: rows from the left alone", conv(1, 2, 0), {("b", PERMUTE): 2 * 2048}),
    image("dilated windows reach further", conv(1, 4, 4, dilation=4), {("m", PERMUTE): 2 * 4 * 2048}, "h:m", LINE),
    image(
        "a border of several blocks comes from several neighbours",
        conv(1, 6, 6),
        {("m", PERMUTE): 2 * 6 * 2048},
        "h:m",
        LINE,
        spec(13, 3, 4, 8),
    ),
    image("a dilated image", conv(1, 2, 1, base=2), {("b", PERMUTE): 2048}),
    image("depthwise", conv(groups=4), {("b", PERMUTE): 2 * 2048}, kernel=spec(3, 3, 1, 8)),
    image(
        "depthwise, the kernel cut as the batch is: the image goes to it, the result comes back",
        conv(groups=4),
        {("a", "all-to-all"): 32768 + 65536},
        "n:a; w=[-,-,-,a]",
        kernel=spec(3, 3, 1, 8),
    ),
    image(
        "gradients: borders for each, and the sum of the weight's",
        gradients(conv()),
        {("b", PERMUTE): 2 * 1024 + 2 * 2048 + 2 * 1024, ("b", "all-reduce"): 1152, ("a", "all-reduce"): 1152},
        "n:a; h:b",
    ),
    image(
        "gradients of both dimensions: one sum for both",
        gradients(conv()),
        {("a", PERMUTE): 2 * (512 + 1024 + 512), ("b", PERMUTE): 2 * (2304 + 4608 + 2304), ("a+b", "all-reduce"): 1152},
        "h:a; w:b",
    ),
    Case(
        "convolution",
        "an uneven last part",
        lambda x, w: jnp.sum(jnp.sin(conv()(jnp.sin(x[:, :30]), w))),
        (IMAGE, KERNEL),
        HWIO,
        MESH,
        "h:b",
        {("b", PERMUTE): 2 * 2048, ("b", "all-reduce"): 4},
    ),
    pooled("windowed reduction", "pools that fit the parts", pool(2, 2, combine=lax.max, start=-jnp.inf), {}),
    pooled("windowed reduction", "two of the same windows: one border", two_pools(lax.max, 0.0), {("b", PERMUTE): 2 * 2048}),
    pooled("windowed reduction", "pools that overlap", pool(3, 2, 0, 1), {("b", PERMUTE): 2048}),
    rows("windowed reduction", "a running sum gathers", lambda x: jnp.cumsum(x, 0), {("b", "all-gather"): 2048}),
    rows("windowed reduction", "a running maximum from the end", lambda x: lax.cummax(x, 0, reverse=True), {("b", "all-gather"): 2048}),
    rows("windowed reduction", "a running sum along the other dimension", lambda x: jnp.cumsum(x, 1), {}),
    pooled("select and scatter", "gradient of pools that fit", jax.grad(summed(pool(2, 2, combine=lax.max, start=-jnp.inf))), {}),
    rows("slice", "the middle", lambda x: x[4:20], {("b", PERMUTE): 512}),
    rows("slice", "every second", lambda x: x[::2], {}),
    rows("slice", "one part", lambda x: x[8:16], {("b", PERMUTE): 3 * 128}),
    rows("slice", "all but the first", summed(lambda x: x[1:]), {("b", PERMUTE): 64, ("b", "all-reduce"): 4}),
    rows(
        "pad",
        "at either end",
        summed(lambda x: lax.pad(x, jnp.float32(0), ((1, 2, 0), (0, 0, 0)))),
        {("b", PERMUTE): 128, ("b", "all-reduce"): 4},
    ),
    rows("reshape", "one row is summed with zeros", lambda x: jnp.sin(jnp.exp(x[:1]).reshape(4, 4)), {("b", "all-reduce"): 64}),
    rows("pad", "twice with one number: one border", two_pads(0.0, 0.0), {("b", PERMUTE): 128, ("b", "all-reduce"): 8}),
    rows("pad", "between the elements", lambda x: lax.pad(x, jnp.float32(0), ((0, 1, 1), (0, 0, 0))), {}),
    rows("reversal", "parts change places", lambda x: x[::-1], {("b", PERMUTE): 512}),
    rows("reversal", "over two axes", lambda x: x[::-1], {("a+b", PERMUTE): 256}, "r:a+b"),
    rows("concatenation", "moves the cut and back", lambda x: jnp.concatenate([x, x * 2]), {("b", "all-to-all"): 512 + 512 + 1024}),
    rows("concatenation", "a rotation passes on what wraps around", lambda x: jnp.roll(x, 1, 0), {("b", PERMUTE): 64}),
    rows("concatenation", "a rotation by more than a part", lambda x: jnp.roll(x, 13, 0), {("b", PERMUTE): 512}),
    rows("dynamic slice", "gathers", lambda x, i: lax.dynamic_slice(x, (i, 0), (8, 16)), {("b", "all-gather"): 2048}, shapes=(ROWS, PLACE)),
    rows(
        "dynamic slice",
        "gathers one axis",
        row,
        {("b", "all-gather"): 1024},
        "r:b; c:a",
        (ROWS, PLACE),
    ),
    rows("dynamic slice", "along the other dimension", lambda x, i: lax.dynamic_slice(x, (0, i), (32, 8)), {}, shapes=(ROWS, PLACE)),
    rows(
        "dynamic update",
        "of some rows gathers",
        lambda x, u, i: lax.dynamic_update_slice(x, u, (i, 0)),
        {("b", "all-gather"): 2048},
        shapes=(ROWS, spec(8, 16), PLACE),
    ),
    rows(
        "dynamic update",
        "of some rows and columns gathers both ways",
        lambda x, u, i: lax.dynamic_update_slice(jnp.exp(x), u, (i, i)),
        {("a", "all-gather"): 512, ("b", "all-gather"): 2048},
        "r:b; c:a",
        (ROWS, spec(8, 4), PLACE),
    ),
    rows(
        "dynamic update",
        "at a constant place in one part gathers the rows",
        lambda x, u: lax.dynamic_update_slice(jnp.exp(x), jnp.exp(u), (8, 0)),
        {("b", "all-gather"): 8 * 16 * 4},
        "r:b; u=[b, -]",
        (ROWS, spec(8, 16)),
    ),
    rows(
        "dynamic update",
        "at a constant place in two parts gathers all",
        lambda x, u: lax.dynamic_update_slice(jnp.exp(x), u, (4, 0)),
        {("b", "all-gather"): 2048},
        shapes=(ROWS, spec(8, 16)),
    ),
    rows("reversal", "of both dimensions", lambda x: x[::-1, ::-1], {("a+b", PERMUTE): 256}, "r:a; c:b"),
    rows(
        "dynamic update",
        "of one row does not",
        lambda x, u, i: lax.dynamic_update_slice(x, u, (i, 0)),
        {},
        shapes=(ROWS, spec(1, 16), PLACE),
    ),
    rows("Fourier transform", "of each row", transform, {} if SPLITS_FFT_BATCHES else {("b", "all-gather"): 4096}, shapes=(COMPLEX,)),
    rows("Fourier transform", "along the cut", transform, {("b", "all-gather"): 4096}, "c:b", (COMPLEX,)),
    rows("top-k", "of each row gathers the rows", lambda x: lax.top_k(x, 2), {("b", "all-gather"): 4096}, shapes=(spec(16, 64),)),
    rows("top-k", "along the cut", lambda x: lax.top_k(x, 2), {("b", "all-gather"): 4096}, "c:b", (spec(16, 64),)),
    rows("sort", "along the cut moves it and back", lambda x: jnp.sort(x, 0), {("b", "all-to-all"): 2 * 512}),
    Case(
        "gather",
        "of rows that lie apart: each device's own, summed",
        lambda x, i: x[i],
        (spec(64, 16), spec(24, dtype="int32")),
        {"x": "v d", "i": "t"},
        MESH,
        "v:b; t:a",
        {("b", "all-reduce"): 768},
    ),
    Case(
        "scatter",
        "of updates that lie apart: sums of each device's",
        lambda x, i, u: x.at[i].add(u),
        (spec(64, 16), spec(24, dtype="int32"), spec(24, 16)),
        {"x": "v d", "i": "t", "u": "t d"},
        MESH,
        "v:b; t:a",
        {("a", "all-reduce"): 1024},
    ),
)
PADDED_ALIKE = (
    ("a maximum and a mean of the same windows", two_pools(lax.max, -jnp.inf), IMAGE, "n h w c", True),
    ("running ones", twice(lambda y: jnp.cumsum(y, 0), lambda y: lax.cummax(y, 0)), ROWS, "h c", True),
    ("two numbers around one value", two_pads(0.0, 1.0), ROWS, "h c", True),
    ("two numbers, other windows", two_pads(0.0, 1.0, 2, 0), ROWS, "h c", False),
    (
        "windows that reach no further",
        twice(pool(3, 3), pool(3, 3, combine=lax.max, start=-jnp.inf)),
        spec(8, 36, 16, 4),
        "n h w c",
        False,
    ),
)
"""What it is, the function, its argument and dimensions, and whether XLA takes one padding for the other where `h` is cut."""


def results(fn, arguments):
    return [np.asarray(each) for each in jax.tree.leaves(jax.jit(fn)(*arguments))]
