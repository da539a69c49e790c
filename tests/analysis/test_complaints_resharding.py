"""What users of GSPMD complained of about resharding and uneven sizes (DOMAIN section 6): what the workbench says there, and suggests."""

import jax
import jax.numpy as jnp
import pytest

from tests.support.resharding import reproducer, settled
from workbench.errors import LayoutError
from workbench.plan.edits import Override, ShardDim
from workbench.public_plan import Plan
from workbench.reports.reshard import REMATERIALISATION
from workbench.tracing import trace


def planned(function, shapes, dims, mesh, layout):
    specs = [jax.ShapeDtypeStruct(shape, dtype) for shape, dtype in shapes]
    return Plan(trace(function, *specs, dims=dims, name="complaint"), mesh, layout)


def notes(plan, kind):
    return [each for each in plan.report().diagnostics if each.kind == kind]


def test_an_involuntary_rematerialisation_has_a_line_bytes_and_a_way_out():
    """jax#21562, xla#15207, jax#18591: a warning without a source line."""
    (note,) = [each for each in settled(reproducer()).diagnostics if each.kind == REMATERIALISATION]
    assert "resharding.py:" in note.message
    assert "are held at the peak" in note.message
    mended = settled(reproducer().apply(note.edits[0]))
    assert [each for each in mended.diagnostics if each.kind == REMATERIALISATION] == []


def test_a_shuffle_within_the_batch_sends_nothing():
    """jax#20381: a batched shuffle gathered the batch."""
    plan = planned(
        lambda x, i: jnp.take_along_axis(x, i, axis=1),
        [((64, 512), "float32"), ((64, 512), "int32")],
        {"x": "batch item", "i": "batch item"},
        "data:8",
        "batch:data",
    )
    assert plan.report().collectives == ()
    assert [each for each in plan.report().reshards if not each.is_free] == []


def test_setting_a_few_rows_of_a_split_array_is_told_to_gather_it_and_how_not_to():
    """jax#23052: `.at[0:3].set` gathers the whole array."""
    plan = planned(
        lambda x, y: x.at[0:3].set(y),
        [((64, 512), "float32"), ((3, 512), "float32")],
        {"x": "row column", "y": "three column"},
        "data:8",
        "row:data",
    )
    (edge,) = [each for each in plan.report().reshards if each.moves]
    assert (edge.path, edge.classes, [move.kind for move in edge.moves]) == ("x", (6,), ["all-gather"])
    assert edge.reader_source.startswith("test_complaints_resharding.py:")
    assert ShardDim("row") in edge.edits
    other = planned(
        lambda x, y: x.at[0:3].set(y),
        [((64, 512), "float32"), ((3, 512), "float32")],
        {"x": "row column", "y": "three column"},
        "data:8",
        "column:data",
    )
    assert other.report().sent == 0


@pytest.fixture(scope="module")
def micro_batches():
    def micro(x, w):
        return jax.lax.scan(lambda total, rows: (total + jnp.sum(jnp.tanh(rows @ w)), None), 0.0, x.reshape(4, 16, 32))[0]

    return planned(micro, [((64, 32), "float32"), ((32, 32), "float32")], {"x": "batch d", "w": "d e"}, "data:8", "batch:data")


def test_a_reshape_into_micro_batches_that_splits_the_wrong_dimension_is_told(micro_batches):
    """xla#13306, xla#19166: gradient accumulation over the leading dimension of a reshape."""
    (note,) = notes(micro_batches, "split reshape")
    assert "the major one takes the axis first" in note.message
    assert micro_batches.report().flops.duplication == 4
    (edit,) = note.edits
    mended = micro_batches.apply(edit).report()
    assert mended.flops.duplication == 1
    assert [each.kind for each in mended.diagnostics if each.kind == "split reshape"] == []


def test_a_reshape_with_the_split_dimension_first_sends_no_batch(micro_batches):
    def micro(x, w):
        rows = x.reshape(16, 4, 32).swapaxes(0, 1)
        return jax.lax.scan(lambda total, each: (total + jnp.sum(jnp.tanh(each @ w)), None), 0.0, rows)[0]

    plan = planned(micro, [((64, 32), "float32"), ((32, 32), "float32")], {"x": "batch d", "w": "d e"}, "data:8", "batch:data")
    assert notes(plan, "split reshape") == []
    assert plan.report().sent < micro_batches.report().sent


def test_an_uneven_argument_is_refused_with_its_name_its_arithmetic_and_sizes():
    """jax#27808: `IndivisibleError` names an axis number."""
    with pytest.raises(LayoutError, match=r"puts `row` \(9\) on mesh axis `data` \(8\), and 9 % 8 = 1") as raised:
        planned(lambda x: x * 2, [((9, 4), "float32")], {"x": "row column"}, "data:8", "row:data")
    assert "pad `row` to 16" in raised.value.ways_out


def test_a_vocabulary_that_does_not_divide_is_never_silently_replicated():
    """jax#26946: an odd vocabulary was replicated without a word."""
    with pytest.raises(LayoutError, match=r"`vocab` \(50257\) on mesh axis `model` \(4\)") as raised:
        planned(
            lambda tokens, table: table[tokens],
            [((16, 8), "int32"), ((50_257, 64), "float32")],
            {"tokens": "batch seq", "table": "vocab d"},
            "data:2 model:4",
            "batch:data; vocab:model",
        )
    assert "pad `vocab` to 50260" in raised.value.ways_out


def test_logits_over_an_odd_vocabulary_are_told_with_what_padding_wastes():
    """jax#15788: an intermediate may be uneven; what it costs is said."""
    plan = planned(
        lambda x, table: jax.nn.softmax(x @ table),
        [((16, 8), "float32"), ((8, 9), "float32")],
        {"x": "batch d", "table": "d vocab"},
        "data:2 model:4",
        "batch:data; @dot_general=[data, model]",
    )
    (note,) = notes(plan, "padding")
    assert "9 over `model` (4): 4 parts of 3, 12 slots for 9" in note.message
    assert "8 or 12 divide by 4" in note.message
    assert all(notes(plan.apply(edit), "padding") == [] for edit in note.edits)


def test_a_concatenation_along_the_split_dimension_shows_its_moves_and_a_layout_without_them():
    """jax#39301: concatenation along a sharded dimension."""
    plan = planned(
        lambda a, b: jnp.concatenate([a, b], 0) * 2,
        [((64, 32), "float32"), ((64, 32), "float32")],
        {"a": "row column", "b": "row column"},
        "data:8",
        "row:data",
    )
    report = plan.report()
    moved = [each for each in report.reshards if each.moves]
    assert {(each.path, each.classes) for each in moved} == {("a", (4,)), ("b", (4,)), ("concatenate", (4,))}
    (first,) = [each for each in moved if each.path == "a"]
    assert {type(edit) for edit in first.edits} <= {Override, ShardDim}
    assert all(plan.apply(edit).report().sent < report.sent for edit in first.edits)
    assert first.remedies


def test_what_a_loop_does_not_change_is_counted_once_in_notes_too():
    """The shares of two gathers that stand before the loop add up to the whole."""

    def turns(a, b, x):
        left, right = jnp.sin(a), jnp.cos(b)
        return jax.lax.scan(lambda c, _: (jnp.tanh(c @ left) @ right, None), x, None, length=16)[0]

    square = jax.ShapeDtypeStruct((1024, 1024), "float32")
    program = trace(turns, square, square, jax.ShapeDtypeStruct((64, 1024), "float32"), dims={"x": "batch d"})
    report = Plan(program, "data:8", "batch:data; a=[data, -]; b=[data, -]").report()
    assert [(each.path, each.count) for each in report.reshards] == [("cos", 1), ("sin", 1)]
    assert sum(each.sent for each in report.reshards) == report.sent
    assert [each.message.rpartition(", ")[2] for each in report.notes] == ["50% of all bytes a device sends."] * 2
