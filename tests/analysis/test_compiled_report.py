"""A compiled plan's report: memory and kernel times are the compiler's, all else is as it was predicted."""

from dataclasses import replace

import pytest

from tests.support.machines import flat
from workbench.analysis.compiled_report import compiled_memory, with_compiled
from workbench.core.tensor import Role
from workbench.models.registry import build
from workbench.public_plan import Plan
from workbench.reports.compiled import Compiled, CompiledKernel, CompiledMemory
from workbench.reports.device_memory import Memory
from workbench.units import format_bytes, format_seconds
from workbench.widgets.tabs.board_tabs import Facts, table_state

GIB = 1 << 30
HARDWARE = flat("test", flops=1e12, memory_bandwidth=1e11, sent_bandwidth=1e10, latency=1e-6, memory=16 * GIB)


def found(arguments=0, outputs=0, aliased=0, temporary=0, seconds=None):
    kernels = () if seconds is None else (CompiledKernel("fusion", "fusion", 2, "", "", seconds / 2, 0, 0),)
    memory = CompiledMemory(arguments=arguments, outputs=outputs, aliased=aliased, temporary=temporary)
    return Compiled("test", 8, 1.0, memory, (), kernels, compiler="XLA of a test")


@pytest.fixture(scope="module")
def report():
    return Plan(build("two_layer"), "data:4 model:2", "batch:data", hardware=HARDWARE).report()


def test_the_peak_is_the_compilers_and_arguments_are_shared_out_as_predicted():
    predicted = Memory({Role.PARAMETER: 100, Role.OPTIMIZER_STATE: 300, Role.ACTIVATION: 50}, capacity=1000)
    memory = compiled_memory(predicted, found(arguments=801, outputs=90, aliased=80, temporary=7))
    assert memory.by_role == {Role.PARAMETER: 201, Role.OPTIMIZER_STATE: 600, Role.ACTIVATION: 7, Role.OUTPUT: 10}
    assert memory.peak == 801 + 90 - 80 + 7
    assert memory.capacity == 1000


def test_kernels_take_the_compilers_time_and_communication_what_it_did(report):
    settled = with_compiled(report, found(arguments=1, seconds=0.25))
    before, now = report.step_time, settled.step_time
    assert now.estimate == pytest.approx(0.25)
    assert now.exposed == before.exposed
    assert now.total == pytest.approx(now.compute + now.launch + now.exposed)
    assert now.mfu * now.total == pytest.approx(before.mfu * before.total)
    assert settled.collectives == report.collectives
    assert (settled.tier, settled.prediction) == ("compiled", report)


def test_a_compiler_that_gives_no_times_leaves_them(report):
    assert with_compiled(report, found(arguments=1)).step_time == report.step_time


def test_compiled_twice_it_is_as_compiled_last(report):
    twice = with_compiled(with_compiled(report, found(arguments=1, seconds=0.5)), found(arguments=2, seconds=0.25))
    assert twice == with_compiled(report, found(arguments=2, seconds=0.25))


def test_whether_it_fits_is_the_compilers_to_say(report):
    full = with_compiled(report, found(arguments=17 * GIB))
    assert not full.memory.fits
    note = next(each for each in full.notes if each.kind == "does not fit")
    assert "17.0 GiB" in note.message
    tight = replace(report, memory=replace(report.memory, by_role={Role.ACTIVATION: 20 * GIB}), diagnostics=full.diagnostics)
    assert not [each for each in with_compiled(tight, found(arguments=GIB)).notes if each.kind == "does not fit"]


def test_a_report_of_the_compiled_tier_is_one_call():
    plan = Plan(build("two_layer"), "data:4 model:2", "batch:data")
    report = plan.report("compiled")
    assert report.memory.peak == report.compiled.memory.peak
    assert report.partitioned is not None
    assert "XLA:CPU" in str(report)


@pytest.mark.parametrize("tab", ["memory", "step", "timeline", "kernels", "roofline", "graph"])
def test_a_view_of_the_prediction_says_so_where_the_compilers_figure_is_at_the_top(report, tab):
    settled = with_compiled(report, found(arguments=GIB, seconds=0.25))
    note = table_state(Facts(settled), tab)["blocks"][0]["note"]
    one = settled.memory.peak if tab == "memory" else settled.step_time.total
    other = report.memory.peak if tab == "memory" else report.step_time.total
    show = format_bytes if tab == "memory" else format_seconds
    assert show(one) != show(other)
    assert f"a {'peak' if tab == 'memory' else 'step'} of {show(other)}" in note
    assert f"{show(one)} at the top" in note
    assert "at the top" not in table_state(Facts(report), tab)["blocks"][0]["note"]
    assert "at the top" not in table_state(Facts(settled), "devices")["blocks"][0]["note"]
