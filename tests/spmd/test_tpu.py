"""What is made of the partitioner's answer for TPU, against what libtpu compiles, each habit by itself."""

from collections import Counter

import jax
import jax.numpy as jnp
import pytest

from tests.spmd.test_reading import MESH, module_of
from workbench.catalogue import parse_hardware
from workbench.collective import collective_class
from workbench.plan import Plan
from workbench.spmd.back_ends.tpu import (
    add_first,
    fold_gathers,
    fold_reductions,
    gather_again,
    hoist,
    narrow,
    reduce_short_rows,
    rewrite_for_tpu,
    sum_behind,
)
from workbench.spmd.collectives import find_collectives
from workbench.spmd.partition import ask_partitioner
from workbench.tracing import trace

F32 = jnp.float32


def spec(*shape, dtype=F32):
    return jax.ShapeDtypeStruct(shape, dtype)


def words(*shape):
    return spec(*shape, dtype=jnp.int32)


def summed_over_two(x, y):
    return jnp.einsum("bsd,bse->de", x, y)


def two_sums_added(x, y, w, v):
    return jnp.tanh(x @ w + y @ v)


def weights_gathered(x, w):
    return jnp.tanh(x @ w).sum(1)


def vector_gathered(x, scale):
    return jnp.tanh(x) * scale


def twice_the_same(x, w):
    return jnp.sin(x) @ w, jnp.sin(x) @ (w + 1)


def tied(table, ids):
    """The gradient of an embedding that is the last product's weight, too."""
    return jax.grad(lambda t: jnp.sum(jnp.tanh(t[ids]) @ t.T) ** 2)(table)


def read_twice(table, ids, more):
    """The gradient of an embedding that an encoder and a decoder read."""
    return jax.grad(lambda t: jnp.sum(jnp.tanh(t[ids])) ** 2 + jnp.sum(jnp.sin(t[more])))(table)


def tied_and_read_twice(table, ids, more):
    return jax.grad(lambda t: jnp.sum(jnp.tanh(t[ids]) @ t.T) ** 2 + jnp.sum(jnp.sin(t[more])))(table)


def recurrent(w, x):
    """The gradient of a recurrent network's weight, added up turn after turn."""

    def loss(w):
        last, _ = jax.lax.scan(lambda h, each: (jnp.tanh(h @ w + each), None), jnp.zeros_like(x[0]), x)
        return jnp.sum(last**2)

    return jax.grad(loss)(w)


def weight_used_twice_a_turn(w, x):
    """Two sums a turn that are added to one another's: they stay in the loop."""

    def loss(w):
        last, _ = jax.lax.scan(lambda h, each: (jnp.tanh(jnp.sin(h @ w) @ w + each), None), jnp.zeros_like(x[0]), x)
        return jnp.sum(last**2)

    return jax.grad(loss)(w)


def pixels(x, w):
    """Whole numbers that are made floats, scaled and multiplied."""
    return jnp.tanh(x.astype(F32).reshape(64 * 16, 256) / 255.0 @ w)


def routed(x, w):
    """The weights of the two experts that a router picks."""
    best, which = jax.lax.top_k(x @ w, 2)
    return jax.nn.one_hot(which, 8).sum(1) * best.sum(-1, keepdims=True)


def rows_at(x, places, w):
    """What a text says at its last word, say."""
    return jnp.tanh((x @ w)[jnp.arange(x.shape[0]), places])


def weight_of_rows_at(x, places, w):
    return jax.grad(lambda w: jnp.sum(rows_at(x, places, w) ** 2))(w)


def cross_entropy(x, labels):
    """The gradient of the loss as it is most often written."""
    return jax.grad(lambda x: -jnp.mean(jax.nn.log_softmax(x)[jnp.arange(x.shape[0]), labels]))(x)


def elements_at(x, columns):
    """Rows that are picked in an order of their own are no batch."""
    return x[jnp.arange(x.shape[0])[::-1], columns]


def largest_numbers(x):
    return jax.lax.top_k(x * 2, 3)


HABITS = [
    (summed_over_two, (spec(16, 32, 256), spec(16, 32, 256)), "x:2 y:4", "x=[x, y, -]; y=[x, y, -]"),
    (two_sums_added, (spec(256, 512),) * 2 + (spec(512, 256),) * 2, "m:8", "x=[-, m]; y=[-, m]; w=[m, -]; v=[m, -]"),
    (weights_gathered, (spec(1024, 256), spec(256, 256)), "m:8", "x=[m, -]; w=[m, -]"),
    (vector_gathered, (spec(16, 64), spec(64)), "m:8", "x=[m, -]; scale=[m]"),
    (twice_the_same, (spec(1024, 256), spec(256, 256)), "m:8", "x=[-, m]; w=[-, m]"),
    (tied, (spec(512, 256), words(16, 8)), "m:8", "ids=[m, -]"),
    (read_twice, (spec(512, 256), words(16, 8), words(16, 8)), "m:8", "ids=[m, -]; more=[m, -]"),
    (read_twice, (spec(512, 256), words(16, 8), words(16, 4)), "m:8", "ids=[m, -]; more=[m, -]"),
    (tied_and_read_twice, (spec(512, 256), words(16, 8), words(16, 8)), "m:8", "ids=[m, -]; more=[m, -]"),
    (tied_and_read_twice, (spec(512, 256), words(64, 8), words(64, 8)), "m:8", "ids=[m, -]; more=[m, -]"),
    (recurrent, (spec(256, 256), spec(12, 64, 256)), "m:8", "x=[-, m, -]"),
    (weight_used_twice_a_turn, (spec(256, 256), spec(12, 64, 256)), "m:8", "x=[-, m, -]"),
    (routed, (spec(256, 64), spec(64, 8)), "m:8", "x=[m, -]"),
    (routed, (spec(256, 64), spec(64, 8)), "m:8", "x=[-, -]; w=[-, m]"),
    (largest_numbers, (words(64, 32),), "m:8", "x=[m, -]"),
    (rows_at, (spec(64, 32, 128), words(64), spec(128, 256)), "m:8", "x=[m, -, -]; places=[m]"),
    (weight_of_rows_at, (spec(64, 32, 128), words(64), spec(128, 256)), "m:8", "x=[m, -, -]; places=[m]"),
    (cross_entropy, (spec(64, 128), words(64)), "m:8", "x=[m, -]; labels=[m]"),
    (cross_entropy, (spec(64, 128), words(64)), "m:8", "x=[-, m]"),
    (elements_at, (spec(64, 128), words(64)), "m:8", "x=[m, -]; columns=[m]"),
    (pixels, (spec(64, 16, 256, dtype=jnp.uint8), spec(256, 128)), "m:8", "x=[-, m, -]"),
]


def by_class(volumes):
    totals = Counter()
    for (axes, kind), payload in volumes.items():
        totals[axes, collective_class(kind)] += payload
    return +totals


@pytest.mark.parametrize(("fn", "shapes", "mesh", "layout"), HABITS, ids=lambda each: getattr(each, "__name__", ""))
def test_a_habit_is_what_libtpu_compiles(fn, shapes, mesh, layout):
    plan = Plan(trace(fn, *shapes, name=fn.__name__), mesh, layout)
    compiled = plan.updated(hardware=parse_hardware("TPU v5e 2x4")).compile(keep=False)
    assert by_class(ask_partitioner(plan, "tpu").by_axis_and_kind) == by_class(compiled.by_axis_and_kind)


@pytest.mark.parametrize("fn", [tied, recurrent, weight_used_twice_a_turn])
def test_a_habit_is_planned(fn):
    """At once, before the partitioner is asked: it changes the figure by half, or as often as a loop turns."""
    shapes, mesh, layout = next(rest for each, *rest in HABITS if each is fn)
    plan = Plan(trace(fn, *shapes, name=fn.__name__), mesh, layout, hardware="TPU v5e 2x4")
    planned, asked = plan.report("planned"), ask_partitioner(plan, "tpu")
    assert by_class(planned.as_run.by_axis_and_kind) == by_class(asked.by_axis_and_kind)


def sent(text, *rewrites):
    """(kind, axes, payload, count) before and after rewriting."""
    found = find_collectives(module_of(text), MESH)
    before = [(each.collective.kind, each.collective.axes, each.collective.payload, each.collective.count) for each in found]
    for rewrite in rewrites:
        found = rewrite(found, MESH)
    return before, [(each.collective.kind, each.collective.axes, each.collective.payload, each.collective.count) for each in found]


SINGLE = "update_window_dims={}, inserted_window_dims={0}, scatter_dims_to_operand_dims={0}, index_vector_dim=1"
DATA, MODEL = "replica_groups=[2,4]<=[4,2]T(1,0)", "replica_groups=[4,2]<=[8]"


def test_sums_one_behind_the_other_are_one():
    before, after = sent(
        f"""ENTRY %main (x: f32[16]) -> f32[16] {{
  %x = f32[16] parameter(0)
  %one = f32[16] all-reduce(%x), channel_id=1, {DATA}, to_apply=%add
  %moved = f32[16] copy(%one)
  ROOT %two = f32[16] all-reduce(%moved), channel_id=2, {MODEL}, to_apply=%add
}}""",
        fold_reductions,
    )
    assert before == [("all-reduce", ("data",), 64, 1), ("all-reduce", ("model",), 64, 1)]
    assert after == [("all-reduce", ("data", "model"), 64, 1)]


def test_a_sum_that_others_read_too_stays():
    before, after = sent(
        f"""ENTRY %main (x: f32[16]) -> (f32[16], f32[16]) {{
  %x = f32[16] parameter(0)
  %one = f32[16] all-reduce(%x), channel_id=1, {DATA}, to_apply=%add
  %two = f32[16] all-reduce(%one), channel_id=2, {MODEL}, to_apply=%add
  ROOT %t = (f32[16], f32[16]) tuple(%one, %two)
}}""",
        fold_reductions,
    )
    assert before == after


def test_gathers_one_behind_the_other_are_one():
    _, after = sent(
        f"""ENTRY %main (x: f32[16]) -> f32[128] {{
  %x = f32[16] parameter(0)
  %one = f32[32] all-gather(%x), channel_id=1, {MODEL}, dimensions={{0}}
  ROOT %two = f32[128] all-gather(%one), channel_id=2, {DATA}, dimensions={{0}}
}}""",
        fold_gathers,
    )
    assert after == [("all-gather", ("data", "model"), 512, 1)]


def test_three_sums_that_are_added_are_one():
    _, after = sent(
        f"""ENTRY %main (x: f32[16]) -> f32[16] {{
  %x = f32[16] parameter(0)
  %sin = f32[16] sine(%x)
  %cos = f32[16] cosine(%x)
  %one = f32[16] all-reduce(%x), channel_id=1, {DATA}, to_apply=%add
  %two = f32[16] all-reduce(%sin), channel_id=2, {DATA}, to_apply=%add
  %three = f32[16] all-reduce(%cos), channel_id=3, {DATA}, to_apply=%add
  %both = f32[16] add(%one, %two)
  ROOT %all = f32[16] add(%both, %three)
}}""",
        add_first,
    )
    assert after == [("all-reduce", ("data",), 64, 1)]


def chain(length):
    """A gathered value that is read at once, and again `length` operations later."""
    steps = "\n".join(f"  %step{i} = f32[64] sine(%step{i - 1})" for i in range(1, length))
    return f"""ENTRY %main (x: f32[16]) -> f32[64] {{
  %x = f32[16] parameter(0)
  %g = f32[64] all-gather(%x), channel_id=1, {DATA}, dimensions={{0}}
  %step0 = f32[64] cosine(%g)
{steps}
  ROOT %sum = f32[64] add(%step{length - 1}, %g)
}}"""


@pytest.mark.parametrize(("length", "times"), [(90, 1), (120, 2)])
def test_a_gathered_value_is_kept_for_a_hundred_operations(length, times):
    _, after = sent(chain(length), gather_again)
    assert after == [("all-gather", ("data",), 256, 1)] * times


def test_readers_far_from_the_first_have_a_gather_each():
    text = chain(120).replace(
        "ROOT %sum = f32[64] add(%step119, %g)", "%late = f32[64] add(%step119, %g)\n  ROOT %last = f32[64] add(%late, %g)"
    )
    _, after = sent(text, gather_again)
    assert len(after) == 3


def test_gathers_of_one_value_are_one():
    _, after = sent(
        f"""ENTRY %main (x: f32[16]) -> f32[64] {{
  %x = f32[16] parameter(0)
  %one = f32[64] all-gather(%x), channel_id=1, {DATA}, dimensions={{0}}
  %two = f32[64] all-gather(%x), channel_id=2, {DATA}, dimensions={{0}}
  ROOT %sum = f32[64] add(%one, %two)
}}""",
        gather_again,
    )
    assert after == [("all-gather", ("data",), 256, 1)]


@pytest.mark.parametrize(("precision", "bytes_"), [("default,default", 16 * 32 * 2), ("highest,highest", 16 * 32 * 4)])
def test_what_only_products_read_is_sent_in_two_bytes(precision, bytes_):
    _, after = sent(
        f"""ENTRY %main (x: f32[4,32], w: f32[32,8]) -> f32[16,8] {{
  %x = f32[4,32] parameter(0)
  %w = f32[32,8] parameter(1)
  %g = f32[16,32] all-gather(%x), channel_id=1, {DATA}, dimensions={{0}}
  ROOT %dot = f32[16,8] dot(%g, %w), lhs_contracting_dims={{1}}, rhs_contracting_dims={{0}}, operand_precision={{{precision}}}
}}""",
        narrow,
    )
    assert after == [("all-gather", ("data",), bytes_, 1)]


@pytest.mark.parametrize(("size", "kind"), [(16, "all-reduce"), (128, "all-gather")])
def test_short_rows_are_summed(size, kind):
    _, after = sent(
        f"""ENTRY %main (x: f32[{size}]) -> f32[{4 * size}] {{
  %x = f32[{size}] parameter(0)
  ROOT %g = f32[{4 * size}] all-gather(%x), channel_id=1, {DATA}, dimensions={{0}}
}}""",
        reduce_short_rows,
    )
    assert after == [(kind, ("data",), 16 * size, 1)]


def looped(turn):
    """A module of five turns that carry `%x` and `%w`."""
    return f"""
%cond (p: (s32[], f32[16], f32[16])) -> pred[] {{
  %p = (s32[], f32[16], f32[16]) parameter(0)
  %i = s32[] get-tuple-element(%p), index=0
  %limit = s32[] constant(5)
  ROOT %lt = pred[] compare(%i, %limit), direction=LT
}}

%body (p: (s32[], f32[16], f32[16])) -> (s32[], f32[16], f32[16]) {{
  %p = (s32[], f32[16], f32[16]) parameter(0)
  %i = s32[] get-tuple-element(%p), index=0
  %x = f32[16] get-tuple-element(%p), index=1
  %w = f32[16] get-tuple-element(%p), index=2
  %one = s32[] constant(1)
  %turn = s32[] add(%i, %one){turn}
}}

ENTRY %main (x: f32[16], w: f32[16]) -> f32[16] {{
  %x = f32[16] parameter(0)
  %w = f32[16] parameter(1)
  %start = s32[] constant(0)
  %t = (s32[], f32[16], f32[16]) tuple(%start, %x, %w)
  %loop = (s32[], f32[16], f32[16]) while(%t), condition=%cond, body=%body
  ROOT %r = f32[16] get-tuple-element(%loop), index=1
}}
"""


def test_what_no_turn_changes_is_sent_once():
    text = looped("""
  %fixed = f32[16] collective-permute(%w), channel_id=1, source_target_pairs={{0,1},{1,0}}
  %moving = f32[16] collective-permute(%x), channel_id=2, source_target_pairs={{0,1},{1,0}}
  %sum = f32[16] add(%fixed, %moving)
  ROOT %t = (s32[], f32[16], f32[16]) tuple(%turn, %sum, %w)""")
    before, after = sent(text, hoist)
    assert [each[-1] for each in before] == [5, 5]
    assert [each[-1] for each in after] == [1, 5]


@pytest.mark.parametrize(
    ("read", "written", "times"),
    [("%x", "%next", 1), ("%x", "%x", 5), ("%summed", "%next", 5)],
    ids=["added up", "carried elsewhere", "added to itself"],
)
def test_a_sum_that_is_only_added_up_is_made_behind_the_loop(read, written, times):
    text = looped(f"""
  %summed = f32[16] all-reduce(%w), channel_id=1, {DATA}, to_apply=%add
  %moved = f32[16] copy(%summed)
  %next = f32[16] add({read}, %moved)
  ROOT %t = (s32[], f32[16], f32[16]) tuple(%turn, {written}, %w)""")
    before, after = sent(text, sum_behind)
    assert [each[-1] for each in before] == [5]
    assert [each[-1] for each in after] == [times]


def test_a_scatter_is_added_to_behind_other_sums():
    _, after = sent(
        f"""ENTRY %main (x: f32[16], y: f32[16], i: s32[1], u: f32[1]) -> f32[16] {{
  %x = f32[16] parameter(0)
  %y = f32[16] parameter(1)
  %i = s32[1] parameter(2)
  %u = f32[1] parameter(3)
  %zero = f32[] constant(0)
  %zeros = f32[16] broadcast(%zero), dimensions={{}}
  %one = f32[16] all-reduce(%x), channel_id=1, {DATA}, to_apply=%add
  %two = f32[16] all-reduce(%y), channel_id=2, {DATA}, to_apply=%add
  %scatter = f32[16] scatter(%zeros, %i, %u), to_apply=%add, {SINGLE}
  %part = f32[16] add(%one, %scatter)
  ROOT %whole = f32[16] add(%part, %two)
}}""",
        add_first,
    )
    assert after == [("all-reduce", ("data",), 64, 1)]


@pytest.mark.parametrize(("given", "bytes_"), [("pred", 64), ("s8", 256)])
def test_whole_numbers_are_sent_as_the_floats_they_became(given, bytes_):
    _, after = sent(
        f"""ENTRY %main (x: {given}[16]) -> f32[64] {{
  %x = {given}[16] parameter(0)
  %wide = f32[16] convert(%x)
  ROOT %g = f32[64] all-gather(%wide), channel_id=1, {DATA}, dimensions={{0}}
}}""",
        narrow,
    )
    assert after == [("all-gather", ("data",), bytes_, 1)]


def test_nothing_is_made_of_nothing():
    assert list(rewrite_for_tpu((), MESH)) == []
