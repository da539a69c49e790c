"""`workbench search`: what it prints, writes and refuses."""

import json
import re
import signal
import time
from types import SimpleNamespace

import pytest

from workbench.cli import search_command
from workbench.cli.main import main
from workbench.documents import load_plan

pytestmark = pytest.mark.compile

QUIET = ["--workers", "0", "--verify", "0"]
TWO_LAYER = ["search", "--model", "two_layer", "--devices", "8", "--hardware", "TPU v5e", *QUIET]
GPT = ["search", "--model", "gpt", "--devices", "4", "--hardware", "TPU v5e", *QUIET, "--within", "10m", "--pin", "remat=none"]


def test_a_kind_of_hardware_and_a_number_of_devices_are_enough(tmp_path, capsys):
    file = tmp_path / "best.plan.json"
    assert main([*TWO_LAYER, "-o", str(file), "--why"]) == 0
    printed = capsys.readouterr()
    assert re.search(r"the best is\s+proved", printed.out)
    assert "Space: all meshes of 8 devices" in printed.out
    assert "What if\n  with " in printed.out
    assert "proved" in printed.err
    best = load_plan(file)
    assert (best.hardware.name, best.mesh.size) == ("TPU v5e 2x4", 8)


def test_the_time_limit_begins_before_jax_is_imported(monkeypatch, capsys):
    """It began with the imports of the command: `--within 10s` ran two seconds longer."""
    monkeypatch.setattr("workbench.cli.main._warn_if_untested", lambda: capsys.readouterr().err.startswith("Loading JAX") or 1 / 0)
    monkeypatch.setattr("workbench.cli.main.time", SimpleNamespace(perf_counter=lambda: time.perf_counter() - 60))
    assert main([*TWO_LAYER, "--json", "--within", "60s"]) == 0
    record = json.loads(capsys.readouterr().out)
    assert (record["ending"], record["evaluated"]) == ("out of time", 1)


def test_json_has_the_front_and_the_proof(capsys):
    assert main([*GPT, "--json", "--pin", "stage=1", "--pin", "micro_batches=1", "--at-most", "memory=2.2 MiB"]) == 0
    record = json.loads(capsys.readouterr().out)
    assert record["proved"]
    assert record["front_proved"]
    assert record["gap"] == 0.0
    assert record["requirements"] == ["at most 2.20 MiB a device", "remat none", "stage 1", "micro batches 1"]
    assert all(each["memory"] <= 2.2 * 2**20 for each in record["front"])
    assert [each["seconds"] for each in record["front"]] == sorted(each["seconds"] for each in record["front"])


def test_the_present_plan_stands_beside_the_front_and_the_search_may_end_with_the_proof(capsys):
    plan = ["--mesh", "data:8", "--layout", "batch:data", "--until", "proved"]
    assert main([*TWO_LAYER, *plan]) == 0
    assert re.search(r"  the present plan +\d+ µs +.*iB, [\d.]+ times the step time of the best found", capsys.readouterr().out)
    assert main([*TWO_LAYER, *plan, "--json"]) == 0
    record = json.loads(capsys.readouterr().out)
    assert record["proved"]
    assert record["present"]["plan"] == "data:8, replicated, no ZeRO, remat none"
    assert record["present"]["seconds"] > record["front"][0]["seconds"]


def test_precisions_are_chosen_from_where_they_are_named(tmp_path, capsys):
    file = tmp_path / "best.plan.json"
    assert main([*TWO_LAYER, "--precisions", "as traced|bfloat16", "--json", "-o", str(file)]) == 0
    record = json.loads(capsys.readouterr().out)
    assert "precision as traced or bfloat16" in record["space"]
    assert record["front"][0]["plan"].endswith("precision bfloat16")
    assert str(load_plan(file).program.precision) == "bfloat16"


def test_remats_are_chosen_from_where_they_are_named(tmp_path, capsys):
    file = tmp_path / "best.plan.json"
    one = ["--pin", "stage=1", "--pin", "micro_batches=1", "--pin", "remat=full_1/2", "--within", "10m"]
    assert main([*GPT[:11], "--remats", "none|full_1/2", *one, "--json", "-o", str(file)]) == 0
    record = json.loads(capsys.readouterr().out)
    assert "remat none, full_1/2" in record["space"]
    assert "remat full on 1 of every 2 layers" in record["front"][0]["plan"]
    assert str(load_plan(file).program.remat) == "full layers:1/2"


def test_remats_offloads_and_boundaries_are_chosen_from_where_they_are_named(tmp_path, capsys):
    file, gpt = tmp_path / "best.plan.json", GPT[:11]
    few = ["--pin", "stage=1", "--pin", "model=1", "--within", "10m", "--json", "-o", str(file)]
    choices = ["--remats", "offloaded|none", "--offloads", "nothing|optimizer_state", "--boundaries", "time|fit", "--objective", "memory"]
    assert main([*gpt, *few, *choices]) == 0
    record = json.loads(capsys.readouterr().out)
    assert "remat offloaded, none; offloaded nothing or optimizer state" in record["space"]
    assert "boundaries time, fit" in record["space"]
    assert any("remat with activations on the host" in each["plan"] for each in record["front"])
    assert load_plan(file).program.offload.optimizer_state
    assert main([*gpt, "--remats", "hosted"]) == 1
    assert "There is no remat `hosted`" in capsys.readouterr().err


def test_layouts_are_chosen_from_where_they_are_named(tmp_path, capsys):
    file = tmp_path / "best.plan.json"
    assert main([*TWO_LAYER, "--layouts", "replicated|per operation", "--json", "-o", str(file)]) == 0
    record = json.loads(capsys.readouterr().out)
    assert "; 2 layouts" in record["space"]
    assert record["front"][0]["plan"] == "model:8, per operation, no ZeRO, remat none"
    assert "model" in str(load_plan(file).layout)
    assert main([*TWO_LAYER, "--layouts", "mine"]) != 0
    assert "There is no layout `mine`; there are `replicated`, `megatron`, `io`, `per operation`." in capsys.readouterr().err


def test_what_no_plan_keeps_is_told_with_the_ways_out(capsys):
    assert main([*TWO_LAYER, "--at-most", "memory=1 KiB", "--json"]) == 1
    printed = capsys.readouterr()
    assert "workbench: No plan meets `at most 1.00 KiB a device`." in printed.err
    assert json.loads(printed.out)["clash"].startswith("No plan meets `at most 1.00 KiB a device`.\nWith `at most ")
    assert main([*TWO_LAYER, "--at-most", "memory=1 KiB", "-o", "nowhere.plan.json"]) == 1
    assert "Try: allow at most " in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (["--devices", "0"], "0 is not a whole number from 1"),
        (["--workers", "many"], "many is not a whole number"),
        (["--within", "soon"], "soon is not a time above 0, such as 60s or 5m"),
        (["--pin", "zero"], "zero: write NAME=VALUE"),
        (["--objective", "beauty"], "invalid choice: 'beauty'"),
        (["--until", "bored"], "invalid choice: 'bored'"),
    ],
)
def test_arguments_that_cannot_be_are_refused(arguments, text, capsys):
    with pytest.raises(SystemExit):
        main([*TWO_LAYER, *arguments])
    assert text in capsys.readouterr().err


def test_a_missing_price_is_an_error_with_the_ways_out(capsys):
    assert (
        main(["search", "--model", "two_layer", "--devices", "8", "--hardware", "TPU v7", "--at-most", "dollars=3", "--workers", "0"]) == 1
    )
    assert "The hourly cost of TPU v7 1x2x2 is unknown" in capsys.readouterr().err


def test_the_fastest_plans_are_verified_beside_what_was_planned(capsys):
    assert main([*TWO_LAYER, "--verify", "1"]) == 0
    printed = capsys.readouterr()
    assert re.search(r"\n 0 +model:8, .* step +[\d.]+ µs +[\d.]+ µs +\S+ +[\d.]+ µs +\S+\n", printed.out)
    assert "Percentages: difference from the planned figure." in printed.out
    assert re.search(r"\nmodel:8, .*: partitioned .*iB \(\S+\); compiled .*iB \(\S+\)\n", printed.err)


def test_json_has_the_verified_figures_where_they_are_asked_for(capsys):
    assert main([*TWO_LAYER, "--verify", "1", "--json"]) == 0
    record = json.loads(capsys.readouterr().out)
    (verified,) = record["verified"]
    assert verified["plan"] == record["front"][0]["plan"]
    assert record["front"][0]["memory"] == verified["compiled"]["memory"], "each figure is of the best tier known"
    assert record["front"][0]["tier"] == "compiled"
    assert record["front"][0]["seconds"] == verified["compiled"]["seconds"]
    assert verified["compiled"]["difference"]["memory"] == verified["compiled"]["memory"] / verified["planned"]["memory"] - 1
    assert main([*TWO_LAYER, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["verified"] is None


def test_ctrl_c_ends_the_search_and_what_was_found_follows(monkeypatch, capsys):
    shown = []

    def interrupt_once(_printer, state):
        if state.best is not None and not shown:
            shown.append(state)
            signal.raise_signal(signal.SIGINT)

    monkeypatch.setattr(search_command._Printer, "show", interrupt_once)
    before = signal.getsignal(signal.SIGINT)
    assert main([*GPT, "--json"]) == 0
    printed = capsys.readouterr()
    record = json.loads(printed.out)
    assert record["front"]
    assert not record["proved"]
    assert record["ending"] == "cancelled"
    assert "Stopping; the plans found so far follow (press Ctrl-C again to quit immediately)." in printed.err
    assert signal.getsignal(signal.SIGINT) is before
