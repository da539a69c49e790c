"""Resharding, settled: what XLA's partitioner sends between two shardings, how it is classed, and edits that avoid it."""

import itertools
import random
from collections import Counter
from dataclasses import replace

import jax
import jax.numpy as jnp
import pytest

from tests.support.resharding import CUBE, TABLE, UNEVEN, reproducer, resharded, settled
from workbench.analysis.analyze import analyze
from workbench.analysis.remedies import step_sends
from workbench.core.mesh import Mesh
from workbench.core.sharding import Sharding
from workbench.plan.edits import Constrain
from workbench.public_plan import Plan
from workbench.reports.reshard import REMATERIALISATION
from workbench.spmd.ask_partitioner import ask_partitioner
from workbench.spmd.match_xla_reshards import shard_counts
from workbench.spmd.replace_shardy_collectives import merge_all_to_alls
from workbench.tracing import trace


def sent_between(before, after, shape=CUBE, mesh="r:2 c:4"):
    """Kind, axes and elements of what is sent for a value that lies `before` and is needed `after`; not for the result, which may have to
    lie otherwise again."""
    report = settled(resharded(before, after, shape, mesh))
    edges = [each for each in report.reshards if (str(each.before), str(each.after), each.path) == (before, after, "sin")]
    return [(move.kind, "+".join(move.axes), move.payload // 4) for each in edges for move in each.moves]


def placements(axes):
    """All ways to put these axes, or some of them, on three dimensions."""
    for count in range(len(axes) + 1):
        for order, dims in itertools.product(itertools.permutations(axes, count), itertools.combinations_with_replacement(range(3), count)):
            yield tuple(tuple(axis for axis, place in zip(order, dims, strict=True) if place == dim) for dim in range(3))


@pytest.mark.parametrize(("before", "after", "collectives", "classes"), TABLE)
def test_the_table_of_measured_reshards_is_told(before, after, collectives, classes):
    report = settled(resharded(before, after))
    assert Counter((each.kind, each.payload // 4) for each in report.collectives) == Counter(collectives)
    edges = [each for each in report.reshards if (str(each.before), str(each.after)) == (before, after)]
    assert [each.classes for each in edges] == ([] if classes == (1,) else [classes])
    assert all([(move.kind, move.payload // 4) for move in each.moves] == collectives for each in edges)


@pytest.mark.parametrize(
    ("mesh", "before", "after", "steps"),
    [  # what XLA was seen to do, on 8 devices, where Shardy would go otherwise
        (
            "r:2 c:4",
            "[-, c, r]",
            "[-, r, -]",
            [("collective-permute", "r+c", 32_768), ("all-gather", "c", 65_536), ("all-gather", "c", 131_072)],
        ),
        ("r:2 c:4", "[r, -, c]", "[-, c, -]", [("all-gather", "r", 65_536), ("all-to-all", "c", 65_536)]),
        ("r:2 c:4", "[-, c, r]", "[c, r, -]", [("all-to-all", "c", 32_768), ("all-to-all", "r", 32_768)]),
        ("r:2 c:4", "[-, -, c]", "[-, c, r]", [("all-to-all", "c", 65_536)]),
        ("r:2 c:4", "[c, -, -]", "[-, r, -]", [("all-gather", "c", 262_144)]),
        ("x:2 y:2 z:2", "[-, y, -]", "[x, -, -]", [("all-to-all", "y", 131_072), ("collective-permute", "x+y", 131_072)]),
        ("x:2 y:2 z:2", "[x+y, -, -]", "[z, -, x]", [("all-to-all", "y", 65_536), ("collective-permute", "x+y+z", 65_536)]),
        ("x:2 y:2 z:2", "[y+x, -, z]", "[y+x, -, z]", []),
    ],
)
def test_xlas_way_is_told_where_shardy_goes_another(mesh, before, after, steps):
    assert sorted(sent_between(before, after, mesh=mesh)) == sorted(steps)


@pytest.mark.parametrize(
    ("before", "after", "payloads"),
    [
        ("[r, -, c]", "[-, -, -]", [720, 1440]),  # 9, 12 and 10 over 2 and 4: padding is sent and cut off at the end
        ("[c, r, -]", "[-, r, c]", [216]),
    ],
)
def test_the_padding_of_uneven_parts_is_sent_too(before, after, payloads):
    assert [payload for *_, payload in sent_between(before, after, (9, 12, 10))] == payloads


@pytest.mark.parametrize(("size", "before", "after", "sent"), UNEVEN)
def test_parts_that_are_not_full_fetch_what_they_lack_and_thin_ones_are_summed(size, before, after, sent):
    assert [(kind, payload // 64) for kind, _, payload in sent_between(before, after, (size, 64))] == sent


def test_a_thin_dimension_is_classed_as_gathered_though_it_is_summed():
    (edge,) = [each for each in settled(resharded("[c, -]", "[-, -]", (2, 64))).reshards if str(each.after) == "[-, -]"]
    assert edge.classes == (6,)


def test_a_full_rematerialisation_holds_the_whole_value_at_its_worst_moment():
    (edge,) = settled(resharded("[r, -, c]", "[-, c+r, -]")).reshards[:1]
    assert edge.rematerialises
    assert edge.temporary == 4 * (131_072 + 262_144)  # operand and result of the last gather


def test_the_two_line_reproducer_is_found_with_its_lines_before_anything_is_compiled():
    report = settled(reproducer())
    first = report.reshards[0]
    assert (first.classes, str(first.before), str(first.after)) == ((8,), "[r, -, c]", "[-, c+r, -]")
    assert first.source.startswith("resharding.py:")
    assert int(first.reader_source.partition(":")[2]) == int(first.source.partition(":")[2]) + 1
    (note,) = [each for each in report.diagnostics if each.kind == REMATERIALISATION]
    assert first.source in note.message
    assert first.reader_source in note.message
    assert "1.00 MiB, 64 x 64 x 64 of float32" in note.message


@pytest.fixture(scope="module")
def report():
    return settled(reproducer())


def test_the_suggested_edits_end_xlas_warning_and_send_less(report):
    (note,) = [each for each in report.diagnostics if each.kind == REMATERIALISATION]
    assert report.reshards[0].remedies
    assert all(isinstance(edit, Constrain) for edit in report.reshards[0].edits)
    assert note.edits
    for edit in (*report.reshards[0].edits, *note.edits):
        plan = report.plan.apply(edit)
        assert ask_partitioner(plan).gathered_whole == (), edit
        assert settled(plan).sent < report.sent, edit


def test_a_remedy_says_what_it_saves_of_what_xla_sends(report):
    assert [str(remedy.edit).rpartition(" → ")[2] for remedy in report.reshards[0].remedies] == ["[r, c, -]", "[-, -, c+r]"]
    for remedy in report.reshards[0].remedies:
        plan = report.plan.apply(remedy.edit)
        assert remedy.saved == report.sent - settled(plan).sent
        assert remedy.added_bytes == plan.report().memory.peak - report.memory.peak


def test_what_shardy_would_send_and_xla_does_not_is_no_resharding():
    plan = resharded("[r, -, -]", "[-, r, -]")
    answer = ask_partitioner(plan)
    assert [each.path for each in analyze(plan, answer=answer).reshards] == ["sin", "x"]
    quiet = analyze(plan, answer=replace(answer, collectives=()))
    assert [(each.path, each.is_free) for each in quiet.reshards] == [("x", True)]


def test_what_an_operation_sends_for_its_other_operand_is_not_of_the_edge():
    def updated(x, y, row):
        return jax.lax.dynamic_update_slice(x, jnp.sin(y), (row, 0))

    shapes = *(jax.ShapeDtypeStruct((rows, 32), "float32") for rows in (16, 4)), jax.ShapeDtypeStruct((), "int32")
    plan = Plan(trace(updated, *shapes, dims={"x": "b d", "y": "c d"}, name="updated"), "data:4", "x=[data, -]; y=[-, data]")
    report = settled(plan)
    sent = {each.path: [move.payload for move in each.moves] for each in report.reshards if each.moves}
    assert (sent, len(report.collectives)) == ({"sin": [4 * 32 * 4], "x": [16 * 32 * 4]}, 2)


@pytest.mark.parametrize("mesh", ["r:2 c:4", "x:2 y:2 z:2"])
def test_xla_gathers_nothing_whole_in_a_plain_step(mesh):
    places = [Sharding(dims) for dims in placements(Mesh(mesh).names)]
    pairs = [(before, after) for before in places for after in places if step_sends((64,) * 3, before, after, Mesh(mesh)) is not None]
    for before, after in random.Random(3).sample(pairs, 12):
        answer = ask_partitioner(resharded(str(before), str(after), mesh=mesh))
        assert answer.gathered_whole == (), (before, after)


def test_what_a_loop_does_not_change_is_resharded_once():
    def turned(x, w):
        return jax.lax.fori_loop(0, 6, lambda _, h: jnp.tanh(h @ w), x)

    shapes = jax.ShapeDtypeStruct((16, 32), "float32"), jax.ShapeDtypeStruct((32, 32), "float32")
    plan = Plan(trace(turned, *shapes, dims={"x": "batch d", "w": "d e"}, name="turned"), "data:4", "batch:data; w=[data, -]")
    report = settled(plan)
    (edge,) = [each for each in report.reshards if each.moves]
    assert edge.count == sum(each.count for each in ask_partitioner(plan).collectives)
    assert edge.sent == report.sent


def test_an_all_to_all_of_an_array_a_device_is_one():
    plan = resharded("[r+c, -, -]", "[-, r+c, -]")
    apart = ask_partitioner(plan).collectives
    (whole,) = merge_all_to_alls(apart, plan.mesh)
    assert (whole.payload, len({*apart})) == (sum(each.payload for each in apart), 1)


@pytest.mark.parametrize(
    ("said", "parts"),
    [
        ("{devices=[2,1,4]<=[8]}", (2, 1, 4)),
        ("{devices=[1,2,2,2]<=[2,2,2]T(2,1,0) last_tile_dim_replicate}", (1, 2, 2)),
        ("{mesh['r'=2,'c'=4], [{'r'}, {}, {'c'}]}", (2, 1, 4)),
        ("{mesh['r'=2,'c'=4], [{}, {'c', 'r'}, {'c':(1)2}]}", (1, 8, 2)),
        ("{replicated}", (1, 1, 1)),
    ],
)
def test_the_parts_of_a_sharding_are_read_as_xla_writes_it(said, parts):
    assert shard_counts(said, 3) == parts
