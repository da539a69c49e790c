"""Work and turns, against what is known by hand."""

import jax
import jax.numpy as jnp
import pytest

from workbench.core.tensor import Role
from workbench.public_plan import Plan
from workbench.tracing import trace
from workbench.tracing.jaxpr.equations import equations_below, flops_of

S = jax.ShapeDtypeStruct
ONE = 2 * 8**3  # the product in each turn


def conv(x, w, **options):
    return jax.lax.conv_general_dilated(x, w, options.pop("strides", (1, 1)), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC"), **options)


@pytest.mark.parametrize(
    ("fn", "kernel", "flops"),
    [
        (conv, (3, 3, 4, 8), 2 * 16 * 8 * 8 * 8 * 3 * 3 * 4),
        (lambda x, w: conv(x, w, feature_group_count=4), (3, 3, 1, 8), 2 * 16 * 8 * 8 * 8 * 3 * 3),
        (lambda x, w: conv(x, w, strides=(2, 2)), (3, 3, 4, 8), 2 * 16 * 4 * 4 * 8 * 3 * 3 * 4),
    ],
)
@pytest.mark.parametrize("layout", ["", "n:data", "n:data+model", "o:model"])
def test_a_convolution_is_divided_among_the_devices_that_split_it(fn, kernel, flops, layout):
    program = trace(fn, S((16, 8, 8, 4), "float32"), S(kernel, "float32"), dims={"x": "n h w _", "w": "_ _ _ o"})
    report = Plan(program, "data:4 model:2", layout).report()
    parts = {"": 1, "n:data": 4, "n:data+model": 8, "o:model": 2}[layout]
    assert report.flops.unique == flops
    assert report.flops.per_device == flops // parts


@pytest.mark.parametrize(
    ("fn", "real", "kernel"),
    [
        (lambda x, w: jnp.einsum("nhwc,co->nhwo", x, w), 2 * 16 * 8 * 8 * 4 * 8, (4, 8)),
        (lambda x, w: jnp.einsum("nhwc,nco->nhwo", x, w), 2 * 16 * 8 * 8 * 4 * 8, (16, 4, 8)),
        (conv, 2 * 16 * 8 * 8 * 8 * 3 * 3 * 4, (3, 3, 4, 8)),
    ],
)
def test_a_complex_multiply_add_is_four_real_ones(fn, real, kernel):
    """In plans, and where blocks of a network are weighed against each other."""
    specs = S((16, 8, 8, 4), "complex64"), S(kernel, "complex64")
    plan = Plan(trace(fn, *specs, dims={"x": "n h w c"}), "data:8", "n:data" if len(kernel) != 3 else "")
    assert plan.report().flops.unique == 4 * real
    (eqn,) = (
        each
        for each, _ in equations_below(jax.make_jaxpr(fn)(*specs).jaxpr)
        if each.primitive.name in ("dot_general", "conv_general_dilated")
    )
    assert flops_of(eqn) == 4 * real


def test_a_weight_gradient_sums_over_the_batch_on_every_device():
    gradient = jax.grad(lambda w, x: conv(x, w).sum())
    program = trace(gradient, S((3, 3, 4, 8), "float32"), S((16, 8, 8, 4), "float32"), dims={"x": "n h w c"})
    assert Plan(program, "data:8", "n:data").report().flops.duplication == 1


def loop(start, limit, step, comparison):
    """`h @ h` each turn of a while loop over a counter."""
    return lambda x: jax.lax.while_loop(lambda s: comparison(s[0], limit), lambda s: (s[0] + step, s[1] @ s[1]), (start, x))


@pytest.mark.parametrize(
    ("fn", "turns"),
    [
        (lambda x: jax.lax.fori_loop(0, 3, lambda _, h: jax.lax.fori_loop(0, 4, lambda _, g: g @ g, h), x), 12),
        (lambda x: jax.lax.scan(lambda h, _: (h @ h, None), x, None, length=5, reverse=True)[0], 5),
        (loop(0, 10, 2, lambda i, n: i < n), 5),
        (loop(0, 9, 2, lambda i, n: i <= n), 5),
        (loop(10, 2, -2, lambda i, n: i >= n), 5),
        (loop(5, 5, 1, lambda i, n: i < n), 0),
    ],
)
def test_turns_of_a_loop_are_multiplied(fn, turns):
    report = Plan(trace(fn, S((8, 8), "float32")), "x:1").report()
    assert report.flops.unique == turns * ONE
    assert report.diagnostics == ()


def test_a_moving_limit_is_not_taken_for_a_trip_count():
    def shrinking(x):
        return jax.lax.while_loop(lambda s: s[0] < s[1], lambda s: (s[0] + 1, s[1] - 1, s[2] @ s[2]), (0, 10, x))

    report = Plan(trace(shrinking, S((8, 8), "float32")), "x:1").report()
    assert [each.kind for each in report.diagnostics] == ["unknown trip count"]


def test_an_argmax_gathers_each_devices_candidates():
    program = trace(lambda x: jnp.argmax(x, 0), S((16, 8), "float32"), dims={"x": "row column"})
    found = Plan(program, "m:8", "row:m").report().collectives
    assert {(each.kind, each.payload) for each in found} == {("all-gather", 8 * 8 * 4)}


def test_an_array_the_function_closed_over_takes_memory():
    table = jnp.arange(65536.0)
    assert Plan(trace(lambda x: x * table.sum() + table, S((65536,), "float32")), "x:1").report().memory.peak >= 3 * 4 * 65536 - 4


def test_a_step_that_prints_is_planned():
    def printing(x):
        jax.debug.print("{}", x.sum())
        return x @ x

    assert Plan(trace(printing, S((8, 8), "float32")), "x:2").report().flops.unique == ONE


@pytest.mark.parametrize(("hardware", "products"), [(None, 4), ("TPU v5e 2x4", 1)])
def test_a_ragged_dot_multiplies_every_row_once_on_a_tpu_and_by_every_group_elsewhere(hardware, products):
    def total(x, w, sizes):
        return jnp.sum(jax.lax.ragged_dot(x, w, sizes) ** 2)

    program = trace(
        jax.grad(total, (0, 1)),
        S((64, 32), "float32"),
        S((4, 32, 16), "float32"),
        S((4,), "int32"),
        dims={"x": "row d_in", "w": "group d_in d_out"},
    )
    report = Plan(program, "data:2 model:4", "row:data; d_out:model", hardware=hardware).report()
    assert report.flops.unique == 3 * products * 2 * 64 * 32 * 16
    gathered = {(each.axes, each.payload) for each in report.collectives if each.kind == "all-gather"}
    assert gathered == ({(("data",), 64 * 32 * 4), (("data",), 64 * 4 * 4)} if hardware else set())


@pytest.mark.parametrize("hardware", [None, "TPU v5e 2x4"])
def test_an_updated_argument_that_is_not_donated_is_copied(hardware):
    def step(cache, row, at):
        cache = jax.lax.dynamic_update_slice(cache, row, (at, 0))
        return jax.lax.dynamic_update_slice(cache, 2 * row, (at + 1, 0))

    program = trace(step, S((1024, 64), "float32"), S((1, 64), "float32"), S((), "int32"), dims={"cache": "ctx d"})
    report = Plan(program, "data:8", "d:data", hardware=hardware).report()
    assert program.carried == ()
    assert 1024 * 8 * 4 <= report.memory.peak - report.memory.by_role[Role.INPUT] < 1.3 * 1024 * 8 * 4
