"""Resharding, compiled: XLA emits between two shardings what a settled plan says, and warns where it says so."""

import random
from collections import Counter

import pytest

from tests.support.choosing import parametrize_drawn
from tests.support.resharding import TABLE, UNEVEN, WEIGHT_UPDATES, reproducer, resharded, settled, weight_update
from workbench.analysis.tier_comparison import compare_collectives
from workbench.engine.compile.read_memory import parse_rematerialisations
from workbench.engine.hlo.compiled_collectives import collectives_of
from workbench.engine.spmd.compiled_step import compile_step
from workbench.reports.compiled import payload_by_axis_and_kind
from workbench.spmd.compile_to_schedule import module_of
from workbench.spmd.match_xla_reshards import shard_counts

pytestmark = pytest.mark.compile

PLACES = (
    "[r, -, -]",
    "[-, c, r]",
    "[c+r, -, -]",
    "[-, -, c]",
    "[c, r, -]",
    "[-, r+c, -]",
    "[r, -, c]",
    "[-, c, -]",
    "[c, -, r]",
    "[-, -, -]",
)
PAIRS = random.Random(5).sample([(before, after) for before in PLACES for after in PLACES if before != after], 12)


def compiled_collectives(plan):
    return collectives_of(module_of(compile_step(plan).compiled), plan.mesh)


def pytest_generate_tests(metafunc):
    """A third is compiled in every run. What the partitioner answers of the whole table, and of all parts that are not full, is in
    `tests/spmd/test_edges.py`."""
    parametrize_drawn(metafunc, "measured", TABLE, lambda row: row[-1], lambda row: f"{row[0]} {row[1]}")
    parametrize_drawn(metafunc, "pair", PAIRS, lambda _: (), " ".join)
    parametrize_drawn(metafunc, "part", UNEVEN, lambda row: [kind for kind, _ in row[-1]], lambda row: " ".join(map(str, row[:3])))


def test_what_is_compiled_is_the_table(measured):
    before, after, collectives, _ = measured
    found = compiled_collectives(resharded(before, after))
    assert Counter((each.kind, each.payload // 4) for each in found) == Counter(collectives)


def test_a_resharding_sends_what_the_settled_plan_says(pair):
    plan = resharded(*pair)
    rows = compare_collectives(settled(plan), payload_by_axis_and_kind(compiled_collectives(plan)))
    assert [row for row in rows if not row.agrees] == []


def test_parts_that_are_not_full_send_what_the_settled_plan_says(part):
    size, before, after, _ = part
    plan = resharded(before, after, (size, 64))
    rows = compare_collectives(settled(plan), payload_by_axis_and_kind(compiled_collectives(plan)))
    assert [row for row in rows if not row.agrees] == []


@pytest.mark.parametrize(("layout", "arguments", "sent"), WEIGHT_UPDATES)
def test_weight_update_sharding_sends_and_holds_what_was_measured(layout, arguments, sent):
    del sent  # `tests/propagation/test_resharding.py` has it; here the plan's figures are held against the compiler's
    plan = weight_update(layout)
    step = compile_step(plan)
    rows = compare_collectives(plan.report(), payload_by_axis_and_kind(collectives_of(module_of(step.compiled), plan.mesh)))
    assert [row for row in rows if not row.agrees] == []
    assert step.compiled.memory_analysis().argument_size_in_bytes == 4 * arguments


def test_the_reproducer_is_warned_of_and_the_suggested_edit_ends_it():
    plan = reproducer()
    predicted, compiled = settled(plan), plan.compile(keep=False)
    (warned,) = compiled.rematerialised
    assert warned.path == predicted.reshards[0].path
    assert [shard_counts(each, 3) for each in (warned.before, warned.after)] == [(2, 1, 4), (1, 8, 1)]
    assert "Gathered whole (compiler warning" in str(compiled)
    assert compiled.memory.temporary == pytest.approx(predicted.reshards[0].temporary, rel=0.01)
    mended = plan.apply(predicted.reshards[0].edits[0])
    assert mended.compile(keep=False).rematerialised == ()
    assert settled(mended).sent < predicted.sent


def test_a_warning_is_read_from_among_other_words():
    text = (
        "I0000 other words\nW1121 10:38:30.268620   12654 spmd_partitioner.cc:656] [SPMD] Involuntary full rematerialization. The compiler "
        "cannot go from sharding {devices=[2,1,4]<=[8]} to {devices=[1,8,1]<=[2,4]T(1,0)} efficiently for HLO operation %mul.3 = "
        'f32[32,64,16]{2,1,0} copy(%sin.0), metadata={op_name="jit(step)/mlp/mul" stack_frame_id=8}. As the last resort'
    )
    (found,) = parse_rematerialisations(text + "\n" + text)
    assert (found.path, found.name, found.shape) == ("mlp/mul", "mul.3", "f32[32,64,16]")
    assert parse_rematerialisations("nothing of the kind") == ()
