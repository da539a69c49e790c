from dataclasses import replace

import pytest

from tests.support.pipelines import chain
from tests.support.programs import batch, mlp_report, parameter, program
from tests.support.traces import measured_trace, timed_report
from workbench.core.tensor import Role
from workbench.core.text_tables import WIDTH, table_text
from workbench.models.registry import build
from workbench.public_plan import Plan
from workbench.reports.device_memory import Memory
from workbench.reports.measurement import Measurement, ShardCheck, measurement_text
from workbench.reports.placement import Placement
from workbench.reports.report import Report
from workbench.reports.step_time import Flops
from workbench.units import format_bytes

MEASUREMENT = Measurement(
    device_kind="cpu",
    devices=8,
    processes=2,
    compile_seconds=0.31,
    step_seconds=(0.010, 0.011, 0.0105),
    losses=(4.2, 3.1, 2.0),
    shards=(ShardCheck("params/w", (4, 2), (4, 2)), ShardCheck("params/v", (4, 2), (8, 2))),
    compiled={(("data",), "all-reduce"): 2048, (("model",), "all-gather"): 77},
    compiled_peak=5000,
    device_peak=6000,
    predicted_seconds=0.008,
    max_error=1e-6,
    trace=measured_trace(),
)


def test_a_report_is_a_table_worth_reading(golden):
    golden("report.txt", str(mlp_report()))


def test_a_measurement_stands_beside_its_report(golden):
    golden("measurement.txt", measurement_text(MEASUREMENT, timed_report()))


def test_a_measurement_alone_says_what_was_measured():
    text = str(MEASUREMENT)
    assert "10.5 ms" in text
    assert "planned " not in text.partition("Shards")[0].replace("as planned", "")


def test_one_step_has_no_spread():
    text = str(replace(MEASUREMENT, step_seconds=(1.09,)))
    assert text.startswith("1 step on")
    assert "one step" in text
    assert "8 of 10" not in text


@pytest.mark.parametrize(("steps", "spread"), [(2, "between 10.0 ms"), (9, "between 10.0 ms"), (10, "8 of 10 steps between 10.9 ms")])
def test_fewer_than_ten_steps_are_told_whole(steps, spread):
    text = str(replace(MEASUREMENT, step_seconds=tuple(0.010 + 0.001 * i for i in range(steps))))
    (line,) = (line for line in text.splitlines() if "step time, median" in line)
    last = 10.0 + steps - 1 - (0.9 if steps >= 10 else 0)
    assert f"ms   {spread} and {last:.1f} ms" in line


def test_a_pipelines_run_stands_beside_its_stages_and_not_beside_the_program_whole():
    report = Plan(chain(), "stage:2 data:2", "batch:data", pipeline="stages:2 micro_batches:4").report()
    text = measurement_text(replace(MEASUREMENT, compiled={}), report)
    assert report.peak == report.memory.peak != Plan(chain(), "stage:2 data:2", "batch:data").report().peak
    assert f"as compiled · planned {format_bytes(report.peak)}" in text
    heaviest = max((dict(report.pipeline.payload(stage)) for stage in range(2)), key=lambda each: sum(each.values()))
    assert all(format_bytes(count) in text for count in heaviest.values())


def test_no_line_is_longer_than_the_page_and_none_ends_in_spaces():
    long = "params/" + "/".join(f"a_rather_long_component_{i}" for i in range(12))
    dims = {f"a_dimension_with_a_long_name_{i}": 8 for i in range(6)}
    plan = Plan(program(parameter(long, **dims), batch("batch/x", batch=8)), "data:8", f"{next(iter(dims))}:data", name="name " * 60)
    placements = tuple(Placement(tensor, at, plan.mesh) for tensor, at in zip(plan.program.arguments, plan.argument_shardings, strict=True))
    report = Report(plan, placements, (), (), Memory(dict.fromkeys(Role, 10**12)), Flops(1, 1, 8), 0)
    for text in (str(report), str(mlp_report()), measurement_text(MEASUREMENT, mlp_report())):
        assert max(map(len, text.splitlines())) <= WIDTH
        assert text == "\n".join(line.rstrip() for line in text.splitlines())
        assert "\x1b" not in text


@pytest.mark.parametrize("variable", ["FORCE_COLOR", "COLUMNS", "TTY_COMPATIBLE"])
def test_the_text_does_not_depend_on_the_terminal(variable, monkeypatch):
    plain = str(mlp_report())
    monkeypatch.setenv(variable, "20")
    assert str(mlp_report()) == plain


def test_layers_that_lie_alike_are_one_row_and_others_are_not():
    alike = str(mlp_report())
    assert "params/layers/*/w1 ×2" in alike
    apart = str(mlp_report("batch:data; d_ff:model; params/layers/1/w1=[model, -]"))
    assert "params/layers/*/w1 ×2" not in apart
    assert "params/layers/0/w1" in apart
    assert "params/layers/1/w1" in apart


def test_optimizer_state_is_folded_only_where_it_lies_as_its_parameter():
    assert "4 more in optimizer state" in str(mlp_report())
    text = str(mlp_report("batch:data; d_ff:model; opt_state/**/layers/0/w1=[model, -]"))
    assert "3 more in optimizer state" in text
    assert "opt_state/0/mu/layers/0/w1" in text


def test_a_plan_that_sends_nothing_says_so():
    assert "Shardy inserts no collective." in str(replace(mlp_report(), collectives=()))


def test_the_bytes_of_the_arguments_are_all_accounted_for():
    report = mlp_report()
    total = sum(each.local_bytes for each in report.arguments)
    assert total == 2048 + 4 + 2048 + 128
    assert [line.split()[-2:] for line in str(report).splitlines() if "layers/*/w1" in line and "float32" in line] == [["1.00", "KiB"]]


def test_brackets_are_text_and_not_markup():
    assert "[red]x[/red]" in table_text(["a", "b>"], [["[red]x[/red]", "[data, -]"]])


def test_devices_of_the_hardware_that_the_mesh_leaves_idle_are_told():
    def used(mesh):
        text = str(Plan(build("two_layer"), mesh, "batch:data", hardware="TPU v5e 4x4").report())
        return [" ".join(line.split()) for line in text.splitlines() if "devices used" in line]

    assert used("data:8") == ["devices used 8 of 16 the other 8 of TPU v5e 4x4 are idle"]
    assert used("data:16") == []
