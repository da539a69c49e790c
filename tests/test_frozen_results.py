"""What is made of plans reads as it did: a comparison, a diff, a search, fleets, a run and its events (`tests/golden/results`)."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.support import scripted
from tests.support.fleets import ToldRunner, three_models, times_of
from tests.support.frozen_blocks import frozen_json, frozen_text
from tests.support.searches import front_result
from workbench.analysis.plan_diff import PlanDiff
from workbench.analysis.tier_comparison import Comparison
from workbench.cli.main import main
from workbench.cli.search_command import search_record
from workbench.documents import comparison_record, compiled_record, measurement_record, plan_diff_record
from workbench.models import build
from workbench.multimodel.fleet_forecast import forecast
from workbench.public_plan import Plan
from workbench.reports.measurement import measurement_text
from workbench.widgets.fleet.fleet_board import FleetView

pytestmark = [pytest.mark.compile, pytest.mark.worker]

GRID = """
devices = 2
[[models]]
name = "fit"
program = "tests.support.importable:regression"
mini_batches = 3
grid = { width = [8, 16] }
"""
RUNS = {
    "run": ["--model", "two_layer", "-a", "batch=16", "-a", "io=64", "-a", "hidden=32", "--mesh", "data:2 model:2"],
    "pipelined_run": ["--model", "tests.support.pipelines:chain", "--mesh", "stage:2", "--pipeline", "stages:2 micro_batches:2"],
}
MEASURED = ("seconds", "peak", "error", "overhead")
"""Endings of the names of figures that a machine measures: they are left out of golden files."""


@pytest.fixture(autouse=True)
def surroundings(tmp_path, monkeypatch):
    """Programs of the tests are allowed, and this machine was never calibrated."""
    monkeypatch.setenv("WORKBENCH_ALLOW", "tests")
    monkeypatch.setattr("workbench.engine.spmd.kept_calibration._path", lambda devices: tmp_path / "calibrated" / f"{devices}.toml")


@pytest.fixture
def plan() -> Plan:
    return Plan(build("gpt", layers=2), "data:4 model:2", "batch:data; d_ff:model; heads:model", hardware="8 H100")


def freeze(text: str, record: Any) -> str:
    """The text and the record of one result."""
    return f"{frozen_text(text)}\n\n== --json\n{frozen_json(record)}"


def test_a_comparison_with_what_was_compiled_and_measured(plan, golden):
    comparison = Comparison(plan.report(), scripted.compiled(plan, widened=2), scripted.measurement(plan, wrong=1))
    golden("results/comparison.txt", freeze(str(comparison), comparison_record(comparison)))


def test_what_a_compiler_made(plan, golden):
    compiled = scripted.compiled(plan)
    golden("results/compiled.txt", freeze(str(compiled), compiled_record(compiled)))


@pytest.mark.parametrize("pipeline", [None, "stages:2 micro_batches:4"], ids=["whole", "pipelined"])
def test_a_measurement_beside_its_report(pipeline, golden):
    mesh = "data:4" if pipeline is None else "stage:2 data:2"
    plan = Plan(build("gpt", layers=2), mesh, "batch:data", pipeline=pipeline)
    measurement = scripted.measurement(plan)
    name = "measurement" if pipeline is None else "pipelined_measurement"
    golden(f"results/{name}.txt", freeze(measurement_text(measurement, plan.report()), measurement_record(measurement)))


def test_a_diff(plan, golden):
    other = Plan(build("gpt", layers=2), "data:8", "batch:data", hardware="TPU v5e 2x4").recipe("zero_1")
    diff = PlanDiff(plan.report(), other.report())
    golden("results/diff.txt", freeze(str(diff), plan_diff_record(diff)))


def test_the_result_of_a_search(golden):
    result = front_result()
    golden("results/search.txt", freeze(str(result), search_record(result)))


def test_recipes_and_conflicts(plan, golden, tmp_path, capsys):
    path = str(tmp_path / "frozen.plan.json")
    plan.save(path)
    commands = (["recipe", path], ["explain", path], ["explain", path, "mlp/up/dot_general"])
    shown = [freeze(printed(command, capsys), json.loads(printed([*command, "--json"], capsys))) for command in commands]
    golden("results/recipes_and_conflicts.txt", "\n\n".join(shown))


def printed(command: list[str], capsys: pytest.CaptureFixture[str]) -> str:
    """What a command prints."""
    assert main(command) == 0
    return capsys.readouterr().out


@pytest.mark.parametrize("hardware", ["8 H100", "TPU v5e 2x2"])
def test_a_simulated_fleet(hardware, golden, tmp_path, capsys):
    path = tmp_path / "grid.toml"
    path.write_text(GRID, encoding="utf-8")
    command = ["fleet", "simulate", str(path), "--hardware", hardware, "--policy", "all"]
    name = hardware.lower().replace(" ", "_")
    golden(f"results/fleet_{name}.txt", freeze(printed(command, capsys), json.loads(printed([*command, "--json"], capsys))))


def test_the_board_of_a_fleet(golden):
    fleet = three_models(memory=12 * 1024)
    view = FleetView(fleet, ToldRunner(), times_of(forecast(fleet)), path="grid.toml")
    timeline = {name: value for name, value in view.parts["table"]["timeline"].items() if name != "of"}  # a hash, of this process alone
    states = {**view.parts, "table": {**view.parts["table"], "timeline": timeline}}
    golden("results/fleet_board.txt", "\n\n".join(f"== {name}\n{frozen_json(state)}" for name, state in sorted(states.items())))
    view.close()


@pytest.mark.share(2)
@pytest.mark.parametrize("name", RUNS)
def test_the_events_of_a_run(name, golden, tmp_path, capsys):
    events = tmp_path / "events.jsonl"
    printed(["run", *RUNS[name], "--steps", "2", "--no-profile", "--json", "--events", str(events)], capsys)
    golden(f"results/{name}_events.jsonl", "\n".join(event_line(json.loads(line)) for line in Path(events).read_text().splitlines()))


def event_line(event: dict[str, Any]) -> str:
    """An event without what a machine measures; losses to three digits."""
    return json.dumps({name: unmeasured(name, value) for name, value in event.items() if name not in ("time", "version")})


def unmeasured(name: str, value: Any) -> Any:
    """A field of an event: a word in place of a measured figure."""
    if isinstance(value, Mapping):
        return {inner: unmeasured(inner, entry) for inner, entry in value.items()}
    if value is not None and name.endswith(MEASURED):
        return "measured"
    if name == "losses":
        return [float(f"{loss:.3g}") for loss in value]
    return float(f"{value:.3g}") if isinstance(value, float) else value
