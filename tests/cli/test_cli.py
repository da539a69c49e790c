import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.importable import regression
from workbench.analysis.verify_plan import PIPELINED_REASON
from workbench.cli import commands
from workbench.cli.main import main
from workbench.core.layout import Layout
from workbench.public_plan import Plan, load
from workbench.reports.measurement import Measurement

pytestmark = pytest.mark.compile

ROOT = Path(__file__).parents[2]
MODEL = ["--model", "tests.support.importable:regression", "-a", "width=32"]
LAYOUT = ["--mesh", "data:4 model:2", "--layout", "batch:data; d_ff:model"]


@pytest.fixture(autouse=True)
def never_calibrated(tmp_path, monkeypatch):
    """As on a machine that nobody has measured: what is kept of this one is a person's."""
    monkeypatch.setattr("workbench.engine.spmd.kept_calibration._path", lambda devices: tmp_path / "calibrated" / f"{devices}.toml")


@pytest.fixture
def plan_file(tmp_path) -> str:
    path = tmp_path / "regression.plan.json"
    from workbench.core.program import Reference
    from workbench.documents import program_from_reference

    Plan(program_from_reference(Reference("tests.support.importable:regression", {})), "data:4 model:2", "batch:data").save(path)
    return str(path)


def test_report_prints_the_report(capsys):
    assert main(["report", *MODEL, *LAYOUT]) == 0
    printed = capsys.readouterr().out
    plan = Plan(regression(width=32), "data:4 model:2", "batch:data; d_ff:model")
    assert printed == f"{plan.report('partitioned')}\n"
    assert main(["report", *MODEL, *LAYOUT, "--planned"]) == 0
    assert capsys.readouterr().out == f"{plan.report()}\n"


def test_a_plan_that_stays_planned_says_why_in_one_line(capsys):
    pipelined = ["--model", "gpt", "-a", "layers=4", "--mesh", "stage:2 data:2", "--pipeline", "stages:2 micro_batches:2 axis:stage"]
    assert main(["report", *pipelined]) == 0
    assert capsys.readouterr().out.splitlines()[-1] == f"These are planned figures. {PIPELINED_REASON}"
    refused = ["--model", "two_layer", "-a", "batch=4096", "--mesh", "data:4096", "--layout", "batch:data", "--json"]
    assert main(["report", *refused]) == 0
    record = json.loads(capsys.readouterr().out)
    assert record["tier"] == "planned"
    assert record["why_planned"] == "XLA's partitioner answers here for at most 2,048 devices; the mesh has 4,096."


def test_report_as_json_has_the_figures_of_the_report(capsys):
    assert main(["report", *MODEL, *LAYOUT, "--json"]) == 0
    record = json.loads(capsys.readouterr().out)
    report = Plan(regression(width=32), "data:4 model:2", "batch:data; d_ff:model").report()
    assert record["mesh"] == [["data", 4], ["model", 2]]
    assert record["memory"]["peak"] == report.memory.peak
    assert record["sent"] == report.sent > 0
    assert (record["tier"], record["why_planned"]) == ("partitioned", None)
    assert [each["local_shape"] for each in record["arguments"]] == [list(each.local_shape) for each in report.arguments]


def test_a_plan_document_can_be_tried_on_another_mesh_and_layout(plan_file, capsys):
    assert main(["report", plan_file, "--planned", "--mesh", "data:8", "--json"]) == 0
    record = json.loads(capsys.readouterr().out)
    assert (record["mesh"], record["layout"]) == ([["data", 8]], "batch:data")
    assert main(["report", plan_file, "--planned", "--layout", "d_ff:model", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["layout"] == "d_ff:model"


def test_remat_and_precision_can_be_tried(capsys):
    model = ["--model", "tests.support.layered:stack", "--mesh", "data:4"]
    assert main(["report", *model, "--planned", "--remat", "save:mixed", "--precision", "bfloat16", "--json"]) == 0
    record = json.loads(capsys.readouterr().out)
    assert (record["remat"], record["precision"]) == ("save:mixed", "bfloat16")
    assert main(["report", *model, "--planned", "--remat", "save:mixd"]) == 1
    assert "Did you mean `mixed`?" in capsys.readouterr().err
    assert main(["export", *model, "--remat", "full"]) == 0
    assert 'program.variant(remat=Remat.parse("full"))' in capsys.readouterr().out


def test_compare_sets_the_compiled_figures_beside_the_predicted_ones(plan_file, tmp_path, capsys, monkeypatch):
    monkeypatch.setenv("WORKBENCH_CACHE", str(tmp_path))
    assert main(["compare", str(plan_file), "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert {each["name"] for each in told["figures"]} >= {"peak memory", "arguments", "products"}
    assert all(row["predicted"] == row["compiled"] for row in told["collectives"])
    assert all(each["predicted"] == each["compiled"] for each in told["differences"])
    assert main(["compare", str(plan_file)]) == 0
    assert "The compiled program sends the planned bytes in a different form" in capsys.readouterr().out


def test_export_writes_a_plan_file_that_is_the_plan(plan_file, tmp_path):
    assert main(["export", plan_file, "--planned", "-o", str(tmp_path / "again.plan.json")]) == 0
    assert (tmp_path / "again.plan.json").read_text() == Path(plan_file).read_text()


def test_export_writes_the_script(plan_file, tmp_path, capsys):
    script = load(plan_file).export()
    assert main(["export", plan_file]) == 0
    assert capsys.readouterr().out == script
    assert main(["export", plan_file, "-o", str(tmp_path / "out.py")]) == 0
    assert (tmp_path / "out.py").read_text(encoding="utf-8") == script


def test_diff_sets_two_plans_side_by_side(plan_file, tmp_path, capsys):
    other = str(tmp_path / "other.plan.json")
    load(plan_file).updated(layout=Layout("batch:data; d_ff:model")).save(other)
    assert main(["diff", plan_file, other, "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["changes"] == [{"kind": "rule", "subject": "d_ff", "before": None, "after": ["model"]}]
    assert next(each for each in told["figures"] if each["name"] == "peak memory")["delta"] < 0
    assert main(["diff", plan_file, other, "--hardware", "8 H100"]) == 0
    printed = capsys.readouterr().out
    assert "whole   model" in printed
    assert "waiting for communication" in printed
    assert main(["diff", plan_file, plan_file]) == 0
    assert "are identical" in capsys.readouterr().out
    assert main(["diff", plan_file, "no such file.json"]) == 1


def test_a_report_is_for_the_hardware_and_the_wiring_that_are_given(plan_file, capsys):
    assert main(["report", plan_file, "--planned", "--hardware", "TPU v5e 4x4", "--json"]) == 0
    record = json.loads(capsys.readouterr().out)
    assert (record["hardware"], record["axis_assignment"]) == ("TPU v5e 4x4", "data:y; model:x")
    assert record["step_time"]["hardware"] == "TPU v5e 4x4"
    assert main(["report", plan_file, "--planned", "--hardware", "tpu v5e 4x4", "--axis-assignment", "data:x; model:y"]) == 0
    printed = " ".join(capsys.readouterr().out.split())
    assert "data over x (4, a line) · model over y (2, a line)" in printed
    assert "on TPU v5e 4x4" in printed


def test_a_link_of_the_hardware_can_have_another_speed(plan_file, tmp_path, capsys):
    nodes = ["--planned", "--hardware", "2 nodes of 4 H100", "--json"]
    assert main(["report", plan_file, *nodes]) == 0
    sold = json.loads(capsys.readouterr().out)
    assert main(["report", plan_file, *nodes, "--link", "node=2 Gb/s", "--link", "nvlink=100 GB/s, 5 us"]) == 0
    slow = json.loads(capsys.readouterr().out)
    assert slow["hardware"] == "2 nodes of 4 H100, node=2 Gb/s, device=100 GB/s 5 us"
    assert slow["step_time"]["total"] > sold["step_time"]["total"]
    other = str(tmp_path / "other.plan.json")
    load(plan_file).updated(layout=Layout("batch:data; d_ff:model"), hardware=slow["hardware"]).save(other)
    assert load(other).hardware.axes[0].link.bandwidth == 2e9 / 8
    assert main(["diff", plan_file, other, "--hardware", "2 nodes of 4 H100", "--link", "node=2 Gb/s"]) == 0
    assert "waiting for communication" in capsys.readouterr().out
    assert main(["report", plan_file, "--planned", "--link", "node=200 Gb/s"]) == 1
    assert "overrides a link, but no hardware is given" in capsys.readouterr().err
    assert main(["report", plan_file, *nodes, "--link", "nod=200 Gb/s"]) == 1
    assert "Did you mean `node`?" in capsys.readouterr().err


def test_a_former_option_is_read_with_a_note(plan_file, capsys):
    assert main(["report", plan_file, "--planned", "--hardware", "TPU v5e 4x4", "--wiring", "data:x; model:y"]) == 0
    found = capsys.readouterr()
    assert "data over x (4, a line) · model over y (2, a line)" in " ".join(found.out.split())
    assert found.err.strip() == "--wiring is deprecated: use --axis-assignment."


def test_hardware_lists_the_catalogue_and_tells_all_of_one_kind(capsys):
    from workbench.hardware.catalogue import load_catalogue

    assert main(["hardware"]) == 0
    printed = capsys.readouterr().out
    assert all(f" {name} " in printed for name in load_catalogue().entries)
    assert main(["hardware", "TPU v5p 8x8x16"]) == 0
    printed = capsys.readouterr().out
    assert "1,024 devices" in printed
    assert "a ring" in printed
    assert "cloud.google.com/tpu/docs/v5p: 459 TFLOP/s bf16" in printed
    assert main(["hardware", "TPU v5"]) == 0  # as JAX names a v5p
    assert capsys.readouterr().out.startswith("TPU v5p, one JAX device")


def test_a_file_of_ones_own_hardware_counts(plan_file, tmp_path, capsys, monkeypatch):
    from workbench.hardware.catalogue import HARDWARE_FILE_VARIABLE
    from workbench.hardware.catalogue_entry import SHIPPED_FILE

    monkeypatch.setenv(HARDWARE_FILE_VARIABLE, "")  # so that what the command sets is taken back
    own = tmp_path / "own.toml"
    own.write_text(SHIPPED_FILE.read_text(encoding="utf-8").replace('["B200"', '["B2000"'), encoding="utf-8")
    assert main(["report", plan_file, "--planned", "--hardware", "8 B2000", "--hardware-file", str(own), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["hardware"] == "8 B2000"
    monkeypatch.setenv(HARDWARE_FILE_VARIABLE, "")
    assert main(["report", plan_file, "--planned", "--hardware", "8 B2000"]) == 1
    assert "Did you mean `B200`?" in capsys.readouterr().err


def test_models_lists_the_zoo(capsys):
    from workbench.models import ALL_MODELS

    assert main(["models"]) == 0
    printed = capsys.readouterr().out
    assert all(f" {model.name} " in printed for model in ALL_MODELS)


def test_models_tells_every_argument_of_one(capsys):
    from workbench.models import ALL_MODELS

    for model in ALL_MODELS:
        assert main(["models", model.name]) == 0
        rows = [line.split() for line in capsys.readouterr().out.splitlines()]
        assert {*model.arguments} <= {row[0] for row in rows if row}
    assert main(["models", "decoder", "llama3-8b"]) == 0
    rows = {line.split()[0]: line.split()[1:] for line in capsys.readouterr().out.splitlines() if line.strip()}
    assert (rows["d_ff"], rows["norm"]) == (["14336", "a", "whole", "number", "from", "1"], ["rms", "one", "of", "rms,", "layer"])
    assert main(["models", "decoder", "llama-3-8b"]) == 1
    assert "Did you mean `llama3-8b`?" in capsys.readouterr().err


def test_a_published_model_is_given_by_its_widths(capsys):
    llama = (
        "d_model=4096 layers=32 kv_heads=8 q_per_kv=4 d_head=128 d_ff=14336 vocab=128256 seq=8192 batch=8 params=float32 compute=bfloat16"
    )
    given = [*llama.split(), "fused=attention loss", "recompute=attention"]
    arguments = [word for each in given for word in ("-a", each)]
    assert main(["report", "--model", "decoder", *arguments, "--mesh", "data:8", "--layout", "batch:data", "--planned", "--json"]) == 0
    record = json.loads(capsys.readouterr().out)
    state = 3 * 4 * 8_030_261_248  # float32 parameters and AdamW's two moments
    assert record["memory"]["by_role"]["parameter"] + record["memory"]["by_role"]["optimizer state"] == pytest.approx(state, rel=1e-6)
    assert main(["report", "--model", "decoder", "-a", "d_modle=4096"]) == 1
    assert "Did you mean `d_model`?" in capsys.readouterr().err


@pytest.mark.parametrize(
    "arguments",
    [
        ["report", "--model", "gtp"],
        ["report", *MODEL, "--mesh", "data"],
        ["report", *MODEL, "--layout", "d_f:model"],
        ["report", "no such file.json"],
        ["report", *MODEL, "--hardware", "TPU v5p 8x8"],
        ["report", *MODEL, "--axis-assignment", "data:x"],
        ["report", *MODEL, "--hardware", "8 H100", "--axis-assignment", "data:x"],
        ["report", *MODEL, "--hardware-file", "no such file.toml"],
        ["hardware", "TPU v9"],
        ["export", *MODEL, "-o", "no such folder/x.py"],
        ["run", "no such file.json"],
    ],
)
def test_what_can_be_mended_is_said_on_stderr_with_code_1(arguments, capsys):
    assert main(arguments) == 1
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.startswith("workbench: ")
    assert "Try: " in captured.err or "Did you mean" in captured.err
    assert "Traceback" not in captured.err


@pytest.mark.parametrize(
    "arguments",
    [
        ["fly"],
        ["report"],
        ["report", "a.json", "--model", "gpt"],
        ["run", "a.json", "--steps", "0"],
        ["report", "--model", "gpt", "-a", "layers"],
    ],
)
def test_wrong_usage_is_code_2(arguments, capsys):
    with pytest.raises(SystemExit) as caught:
        main(arguments)
    assert caught.value.code == 2
    assert "usage: workbench" in capsys.readouterr().err


@pytest.mark.parametrize("command", ["serve", "report", "run", "export"])
def test_help_explains_the_words_and_gives_an_example(command, capsys):
    with pytest.raises(SystemExit) as caught:
        main([command, "--help"])
    assert caught.value.code == 0
    printed = capsys.readouterr().out
    assert f"workbench {command}" in printed.partition("example:")[2]
    assert "mesh     the devices as a grid with named axes" in printed


def test_ctrl_c_ends_with_a_message_and_code_130(monkeypatch, capsys):
    def interrupted(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(commands, "report", interrupted)
    assert main(["report", *MODEL]) == 130
    assert capsys.readouterr().err == "workbench: stopped.\n"


def test_run_trains_in_a_worker_and_prints_the_measurement(plan_file, capsys):
    assert main(["run", plan_file, "--steps", "3", "--check", "--json"]) == 0
    captured = capsys.readouterr()
    record = json.loads(captured.out)
    assert (record["devices"], len(record["step_seconds"]), record["shards_agree"]) == (8, 3, True)
    assert record["losses"][-1] < record["losses"][0]
    assert record["max_error"] < 1e-4
    assert "step 3 of 3" in captured.err


def test_run_of_a_wrong_result_exits_with_1_and_says_where_it_begins(plan_file, monkeypatch, capsys):
    import workbench.engine

    wrong = {"max_error": 0.5, "explained_error": 1e-5, "first_wrong": "grad/conv (model.py:3)"}
    measured = Measurement("cpu", 8, 1, 0.1, (0.1,), (), (), {}, 0, **wrong)
    monkeypatch.setattr(workbench.engine, "run_plan", lambda *_given, **_options: measured)
    said = (
        "WRONG RESULT: this plan and the unsharded step differ: the largest relative error is 5.0e-01, and rounding "
        "explains up to 1.0e-05. The first wrong value is grad/conv (model.py:3)."
    )
    assert main(["run", plan_file, "--check"]) == 1
    captured = capsys.readouterr()
    assert said in " ".join(captured.out.split())
    assert "workbench: This plan computes a wrong result." in captured.err
    assert "shard fewer dimensions of the first wrong value" in captured.err
    assert main(["run", plan_file, "--check", "--json"]) == 1
    assert json.loads(capsys.readouterr().out)["wrong_text"] == said


LAUNCHES = [({}, False), ({"SLURM_NTASKS": "1"}, False), ({"SLURM_NTASKS": "2"}, True), ({"OMPI_COMM_WORLD_SIZE": "4"}, True)]


@pytest.mark.parametrize("launch", LAUNCHES, ids=str)
@pytest.mark.parametrize("process", [0, 1])
def test_under_a_launcher_the_processes_join_and_the_first_one_speaks(launch, process, plan_file, monkeypatch, capsys):
    variables, joined = launch
    measured = Measurement("cpu", 8, 2, 0.1, (0.1,), (), (), {}, 0)
    calls = []
    monkeypatch.setattr("workbench.engine.start_distributed", lambda: calls.append("join") or process)
    monkeypatch.setattr("workbench.engine.execute", lambda *_, **__: calls.append("execute") or measured)
    monkeypatch.setattr("workbench.engine.run_plan", lambda *_, **__: calls.append("worker") or measured)
    for name in commands.LAUNCHERS:
        monkeypatch.delenv(name, raising=False)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    assert main(["run", plan_file]) == 0
    assert calls == (["join", "execute"] if joined else ["worker"])
    assert bool(capsys.readouterr().out) is (process == 0 or not joined)


def test_functions_are_found_in_the_folder_the_command_is_used_in(tmp_path):
    (tmp_path / "my_module.py").write_text(
        "import jax.numpy as jnp\nimport workbench as wb\n\n"
        "def build() -> wb.Program:\n    return wb.trace(lambda x: x * 2, jnp.ones((8, 4)), dims={'x': 'batch d'})\n"
    )
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    command = [sys.executable, "-m", "workbench.cli", "report", "--model", "my_module:build", "--mesh", "data:4", "--layout", "batch:data"]
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0
    assert done.stderr.strip().startswith("Step times need hardware")
    assert "batch=8 d=4" in done.stdout


def test_a_reader_that_stops_reading_is_no_error(tmp_path):
    command = f"{sys.executable} -m workbench.cli report --model two_layer --hardware 'TPU v5e 2x4' | head -n 1"
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(
        ["bash", "-o", "pipefail", "-c", command], env=environment, capture_output=True, text=True, timeout=120, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.count("\n") == 1


def test_a_server_runs_so_many_plans_at_once_and_for_so_long(monkeypatch):
    asked = {}
    monkeypatch.setattr("workbench.app.page.serve.serve", lambda _make, **options: asked.update(options))
    arguments = ["serve", "--model", "two_layer", "--mesh", "data:2", "--no-open"]
    assert main([*arguments, "--jobs", "3", "--time-limit", "60"]) == 0
    assert (asked["jobs"], asked["time_limit"]) == (3, 60.0)
    assert main(arguments) == 0
    assert (asked["jobs"], asked["time_limit"]) == (None, None)


@pytest.mark.parametrize("port", ["99999999", "65536", "-1"])
def test_a_port_that_cannot_be_is_refused_before_anything_is_traced(port, capsys, monkeypatch):

    monkeypatch.setattr(commands, "plan_on_the_cpu", lambda _: pytest.fail("traced"))
    assert main(["serve", "--port", port, "--no-open"]) == 1
    assert "65535" in capsys.readouterr().err
