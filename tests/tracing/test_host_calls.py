"""Prints of the device are planned as XLA compiles them; other calls back to the host are named, with what to write instead."""

import inspect

import equinox
import jax
import jax.numpy as jnp
import pytest

from workbench.errors import TraceError
from workbench.public_plan import Plan
from workbench.tracing import trace

ROWS = jax.ShapeDtypeStruct((64, 8), "float32")


def prints_a_mean(x):
    jax.debug.print("mean {}", x.mean())
    return x * 2


def prints_in_a_scan(x):
    def body(carried, _):
        jax.debug.print("sum {}", carried.sum())
        return carried * 2, None

    return jax.lax.scan(body, x, None, length=3)[0]


def calls_with_a_row(x):
    jax.debug.callback(print, x.sum(0))
    return x * 2


@pytest.mark.parametrize(("fn", "payload", "count"), [(prints_a_mean, 4, 1), (prints_in_a_scan, 4, 3), (calls_with_a_row, 32, 1)])
def test_what_is_printed_is_sent_as_planned(fn, payload, count):
    plan = Plan(trace(fn, ROWS, dims={"x": "row col"}), "data:8", "row:data")
    for tier in ("planned", "partitioned"):
        assert [(each.kind, each.payload, each.count) for each in plan.report(tier).collectives] == [("all-reduce", payload, count)]


def prints_a_column(x):
    jax.debug.print("column {}, mean {}", x[:, 0], x.mean())
    return x * 2


def calls_with_shards_in_a_scan(x):
    def body(carried, _):
        jax.debug.callback(print, carried)
        return jnp.tanh(carried), None

    return jax.lax.scan(body, x, None, length=3)[0]


def prints_an_integer_mask(x):
    jax.debug.print("{}", (x > 0).astype("int8"))
    return x


@pytest.mark.parametrize(
    ("fn", "gathers"),
    [(prints_a_column, [(256, 1)]), (calls_with_shards_in_a_scan, [(2048, 3)]), (prints_an_integer_mask, [(512, 1)])],
)
def test_what_is_sharded_is_gathered_to_be_printed(fn, gathers):
    plan = Plan(trace(fn, ROWS, dims={"x": "row col"}), "data:8", "row:data")
    for tier in ("planned", "partitioned"):
        report = plan.report(tier)
        assert [(each.payload, each.count) for each in report.collectives if each.kind == "all-gather"] == gathers
        assert not report.diagnostics


def prints_shards(x):
    jax.debug.callback(print, x, partitioned=True)
    return x * 2


@pytest.mark.skipif("partitioned" not in inspect.signature(jax.debug.callback).parameters, reason="this JAX prints whole values only")
def test_shards_that_each_device_prints_are_not_gathered_and_tpus_cannot_print_them():
    plan = Plan(trace(prints_shards, ROWS, dims={"x": "row col"}), "data:8", "row:data")
    for tier in ("planned", "partitioned"):
        assert (plan.report(tier).sent, plan.report(tier).diagnostics) == (0, ())
    on_tpu = plan.updated(hardware="TPU v5e 2x4").report().diagnostics
    assert [each.kind for each in on_tpu] == ["no lowering"]
    assert "JAX cannot lower `debug_callback` for TPUs" in on_tpu[0].message


@pytest.mark.tpu
@pytest.mark.compile
@pytest.mark.parametrize("fn", [prints_a_mean, calls_with_shards_in_a_scan, prints_an_integer_mask])
def test_xla_tpu_compiles_what_prints(fn):
    plan = Plan(trace(fn, ROWS, dims={"x": "row col"}), "data:8", "row:data", hardware="TPU v5e 2x4")
    assert plan.report("partitioned").sent == plan.report().sent


def saves(x):
    jax.experimental.io_callback(lambda _: None, None, x)
    return x * 2


def interpolates(x):
    return jax.jit(lambda y: jax.pure_callback(lambda a: a, ROWS, y))(x) * 2


def checks(x):
    return equinox.error_if(x, jnp.isnan(x).any(), "not a number")


def prints_in_order(x):
    jax.debug.print("mean {}", x.mean(), ordered=True)
    return x


@pytest.mark.parametrize(
    ("fn", "named", "size", "way_out"),
    [
        (saves, "`io_callback`", "2.00 KiB", "return what `io_callback` is given"),
        (interpolates, "`pure_callback`", "2.00 KiB", "write what `pure_callback` computes in JAX"),
        (checks, "`eqx.error_if`", "2.00 KiB", "set `EQX_ON_ERROR=nan`"),
        (prints_in_order, "an ordered print", "4 B", "leave `ordered=True` out"),
    ],
)
def test_other_calls_are_named_with_their_line(fn, named, size, way_out):
    with pytest.raises(TraceError) as caught:
        trace(fn, ROWS)
    line = fn.__code__.co_firstlineno + 1
    assert caught.value.message == (
        f"`{fn.__name__}` calls back to the host in every step: {named} (test_host_calls.py:{line}), whose operands of {size} one device "
        "would gather."
    )
    assert caught.value.ways_out[0].startswith(way_out)
