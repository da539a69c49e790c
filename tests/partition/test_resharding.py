"""Resharding, predicted: what XLA will emit between two shardings, how it is classed, and edits that avoid it."""

from collections import Counter

import pytest

from tests.resharding import CUBE, MESH, TABLE, UNEVEN, WEIGHT_UPDATES, reproducer, resharded, weight_update
from workbench.collective import collective_class
from workbench.edits import Constrain
from workbench.mesh import Mesh
from workbench.partition.xla_reshard import way
from workbench.sharding import Sharding


@pytest.mark.parametrize(("before", "after", "collectives", "classes"), TABLE)
def test_the_table_of_measured_reshards_is_predicted(before, after, collectives, classes):
    report = resharded(before, after).report()
    assert Counter((each.kind, each.payload // 4) for each in report.collectives) == Counter(collectives)
    edges = [each for each in report.reshards if (str(each.before), str(each.after)) == (before, after)]
    assert [each.classes for each in edges] == ([] if classes == (1,) else [classes])
    assert all([(move.kind, move.payload // 4) for move in each.moves] == collectives for each in edges)


def test_a_full_rematerialisation_holds_the_whole_value_at_its_worst_moment():
    (edge,) = resharded("[r, -, c]", "[-, c+r, -]").report().reshards[:1]
    assert edge.rematerialises
    assert edge.temporary == 4 * (131_072 + 262_144)  # operand and result of the last gather


def test_the_two_line_reproducer_is_found_with_its_lines_before_anything_is_compiled():
    report = reproducer().report()
    first = report.reshards[0]
    assert (first.classes, str(first.before), str(first.after)) == ((8,), "[r, -, c]", "[-, c+r, -]")
    assert first.source.startswith("resharding.py:")
    assert int(first.reader_source.partition(":")[2]) == int(first.source.partition(":")[2]) + 1
    (note,) = [each for each in report.diagnostics if each.kind == "involuntary full rematerialisation"]
    assert first.source in note.message
    assert first.reader_source in note.message
    assert "1.00 MiB, 64 x 64 x 64 of float32" in note.message


def test_every_suggested_edit_avoids_the_rematerialisation_and_sends_less():
    plan = reproducer()
    report = plan.report()
    (note,) = [each for each in report.diagnostics if each.kind == "involuntary full rematerialisation"]
    assert report.reshards[0].is_avoidable
    assert all(isinstance(edit, Constrain) for edit in report.reshards[0].edits)
    for edit in (*report.reshards[0].edits, *note.edits):
        after = plan.apply(edit).report()
        assert not any(each.rematerialises for each in after.reshards), edit
        assert after.sent < report.sent, edit


def test_a_remedy_says_what_it_saves():
    plan = reproducer()
    report = plan.report()
    for remedy in report.reshards[0].remedies:
        after = plan.apply(remedy.edit).report()
        assert remedy.saved == report.sent - after.sent
        assert remedy.held == after.memory.peak - report.memory.peak


def test_alike_reshards_in_a_loop_are_one_with_their_executions_counted():
    import jax
    import jax.numpy as jnp

    from workbench.plan import Plan
    from workbench.tracing import trace

    def layers(x, stack):
        return jax.lax.scan(lambda h, w: (jnp.tanh(h @ w), None), x, stack)[0]

    program = trace(
        layers,
        jax.ShapeDtypeStruct((16, 32), "float32"),
        jax.ShapeDtypeStruct((6, 32, 32), "float32"),
        dims={"x": "batch d", "stack": "layer d e"},
    )
    reshards = Plan(program, "data:4 model:2", "batch:data; stack=[-, data, -]").report().reshards
    gathered = [each for each in reshards if each.moves and each.count == 6]
    assert [(each.moves[0].kind, each.moves[0].axes) for each in gathered] == [("all-gather", ("data",))]
    assert gathered[0].sent == 6 * gathered[0].moves[0].sent


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
def test_xlas_way_is_told_where_shardy_would_go_another(mesh, before, after, steps):
    found = way(CUBE, Sharding.parse(before).dims, Sharding.parse(after).dims, Mesh(mesh))
    assert sorted(
        (step.kind, "+".join(each.partition(":")[0] for each in step.axes), step.payload) for step in found.collectives
    ) == sorted(steps)


@pytest.mark.parametrize(
    ("before", "after", "payloads"),
    [
        ("[r, -, c]", "[-, -, -]", [720, 1440]),  # 9, 12 and 10 over 2 and 4: padding is sent and cut off at the end
        ("[c, r, -]", "[-, r, c]", [216]),
    ],
)
def test_the_padding_of_uneven_parts_is_sent_too(before, after, payloads):
    found = way((9, 12, 10), Sharding.parse(before).dims, Sharding.parse(after).dims, Mesh(MESH))
    assert [step.payload for step in found.collectives] == payloads


@pytest.mark.parametrize(("size", "before", "after", "sent"), UNEVEN)
def test_parts_that_are_not_full_fetch_what_they_lack_and_thin_ones_are_summed(size, before, after, sent):
    found = way((size, 64), Sharding.parse(before).dims, Sharding.parse(after).dims, Mesh(MESH))
    assert [(step.kind, step.payload // 64) for step in found.collectives] == sent


def test_a_thin_dimension_is_classed_as_gathered_though_it_is_summed():
    (edge,) = [each for each in resharded("[c, -]", "[-, -]", (2, 64)).report().reshards if str(each.after) == "[-, -]"]
    assert edge.classes == (6,)


@pytest.mark.parametrize("mesh", ["data:32 model:64", "data:64 fsdp:32 model:16"])
def test_a_way_over_thousands_of_devices_is_that_over_a_few(mesh):
    first, *_, last = Mesh(mesh).names
    gathers = way((8192, 8192), ((first,), (last,)), ((), ()), Mesh(mesh))
    assert [(step.kind, step.axes) for step in gathers.collectives] == [("all-gather", (last,)), ("all-gather", (first,))]
    swaps = way((8192, 8192), ((first,), ()), ((), (first,)), Mesh(mesh))
    assert [(step.kind, step.axes) for step in swaps.collectives] == [("all-to-all", (first,))]


@pytest.mark.parametrize(("layout", "arguments", "sent"), WEIGHT_UPDATES)
def test_the_volumes_of_weight_update_sharding_are_those_measured(layout, arguments, sent):
    report = weight_update(layout).report()
    assert sum(each.local_bytes for each in report.arguments) == 4 * arguments
    found: Counter[str] = Counter()
    for each in report.collectives:
        if each.payload > 4:  # the loss itself is one element
            found[collective_class(each.kind)] += each.payload // 4
    assert found == sent


def test_seconds_are_told_when_the_hardware_is():
    plan = resharded("[r, -, -]", "[-, r, -]")
    assert plan.report().reshards[0].seconds == 0
    timed = plan.updated(hardware="TPU v5e 2x4").report().reshards
    assert [each.seconds > 0 for each in timed if each.moves] == [True]
