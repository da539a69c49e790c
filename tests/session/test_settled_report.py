"""A report that has XLA's own answer: what follows from the collectives follows from those that XLA makes."""

from dataclasses import replace
from functools import cache

import pytest

from tests.support.resharding import reproducer
from workbench.analysis.analyze import analyze
from workbench.errors import WorkbenchError
from workbench.models import build
from workbench.plan.edits import Constrain
from workbench.public_plan import Plan
from workbench.reports.partitioned import GatheredWhole, Partitioned, PartitionedCollective
from workbench.reports.reshard import REMATERIALISATION
from workbench.spmd.ask_partitioner import ask_partitioner


@cache
def gpt():
    return Plan(build("gpt"), "data:4 model:2", "batch:data; d_ff:model; heads:model")


def warned(report):
    return [each for each in report.diagnostics if each.kind == REMATERIALISATION]


def answer_with(plan, *collectives, gathered=()):
    return Partitioned("", plan.mesh.size, "XLA", collectives, gathered)


def test_a_plan_that_the_planner_has_right_settles_without_a_change():
    planned, settled = gpt().report(), analyze(gpt(), answer=ask_partitioner(gpt()))
    assert (planned.tier, settled.tier) == ("planned", "partitioned")
    assert settled.by_axis_and_kind == planned.by_axis_and_kind
    assert settled.sent == planned.sent


def test_bytes_sent_and_seconds_waited_for_are_those_of_xlas_collectives():
    plan = gpt().updated(hardware="TPU v5e 2x4")
    quiet = analyze(plan, answer=answer_with(plan))
    assert (quiet.sent, quiet.step_time.communication) == (0, 0)
    place = next(number for number, each in enumerate(plan.program.operations) if "layers" in each.path and each.kind == "dot_general")
    busy = analyze(plan, answer=answer_with(plan, PartitionedCollective("all-reduce", ("model",), 1 << 30, 1 << 30, 4, place, -1)))
    assert busy.by_axis_and_kind == {(("model",), "all-reduce"): 4 << 30}
    assert busy.step_time.exposed > 4 * (1 << 30) / plan.hardware.chip.memory_bandwidth
    assert busy.step_time.compute == quiet.step_time.compute


def test_executions_are_those_of_xla_where_it_moves_a_collective_out_of_the_loop():
    inside = next(number for number, each in enumerate(gpt().program.operations) if "layers" in each.path and each.kind == "dot_general")
    for count in (1, 4):
        settled = analyze(gpt(), answer=answer_with(gpt(), PartitionedCollective("all-gather", ("data",), 4096, 4096, count, -1, inside)))
        assert [each.count for each in settled.collectives] == [count]


def test_the_notes_say_what_xla_warned_of_and_no_more():
    plan = reproducer()
    answer = ask_partitioner(plan)
    assert warned(plan.report()) == []
    settled = analyze(plan, answer=answer)
    (note,) = warned(settled)
    (place,) = [each for each in settled.reshards if each.rematerialises]
    assert (note.subject, [type(each) for each in note.edits]) == (place.path, [Constrain])
    silent = analyze(plan, answer=replace(answer, gathered_whole=()))
    assert (warned(silent), [each.rematerialises for each in silent.reshards]) == ([], [False])


def test_of_a_warning_at_an_operation_only_what_is_gathered_there_is_marked():
    plan = reproducer()
    (warning,) = ask_partitioner(plan).gathered_whole
    elsewhere = replace(warning, operation=-1, shape="f32[8,8]")
    (note,) = warned(analyze(plan, answer=replace(ask_partitioner(plan), gathered_whole=(elsewhere,))))
    assert note.message.startswith("XLA's partitioner warns that it finds no method for a value from")


def test_a_warning_where_nothing_is_resharded_is_told_in_xlas_words():
    gathered = (GatheredWhole(40, "f32[8,16]", "{devices=[2,1]<=[2]}", "{devices=[1,2]<=[2]}"),)
    (note,) = warned(analyze(gpt(), answer=answer_with(gpt(), gathered=gathered)))
    assert "from {devices=[2,1]<=[2]} to {devices=[1,2]<=[2]}: every device gathers f32[8,16] whole" in note.message


def test_a_tier_that_does_not_exist_is_refused():
    with pytest.raises(WorkbenchError, match="There is no tier `guessed`; there are `planned`, `partitioned`"):
        gpt().report("guessed")
