"""`--events FILE` of `workbench run` and `workbench compile`."""

import argparse
import json
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.engine.test_compile import needs_libtpu
from workbench.cli.event_log import TERMINATED, event_log
from workbench.cli.main import main
from workbench.errors import EngineError
from workbench.models import build
from workbench.public_plan import Plan

pytestmark = [pytest.mark.compile, pytest.mark.worker]


@pytest.fixture(scope="module")
def plan_file(tmp_path_factory):
    path = tmp_path_factory.mktemp("plans") / "two_layer.plan.json"
    Plan(build("two_layer"), "data:2 model:2", "batch:data; hidden:model").save(path)
    return str(path)


def kinds(path):
    return [each["kind"] for each in events(path)]


def events(path):
    return [json.loads(line) for line in Path(path).read_text().splitlines()]


def test_a_run_adds_its_steps_and_what_it_measured(plan_file, tmp_path, capsys):
    file = tmp_path / "events.jsonl"
    assert main(["run", plan_file, "--steps", "3", "--no-profile", "--json", "--events", str(file)]) == 0
    printed = json.loads(capsys.readouterr().out)
    found = events(file)
    assert (found[0]["kind"], found[0]["command"], found[0]["processes"]) == ("started", "run", 1)
    steps = [each for each in found if each["kind"] == "progress" and each["step"]]
    assert [(each["step"], each["of"], each["seconds"]) for each in steps] == [(i + 1, 3, s) for i, s in enumerate(printed["step_seconds"])]
    assert [each["kind"] for each in found[-2:]] == ["measured", "done"]
    assert found[-2]["figures"]["losses"] == printed["losses"]
    assert "trace" not in found[-2]["figures"]


def test_a_compilation_adds_what_its_compiler_made(plan_file, tmp_path, capsys):
    file = tmp_path / "events.jsonl"
    assert main(["compile", plan_file, "--json", "--events", str(file)]) == 0
    printed = json.loads(capsys.readouterr().out)
    assert kinds(file)[-2:] == ["compiled", "done"]
    assert events(file)[-2]["figures"]["memory"] == printed["memory"]
    assert events(file)[-2]["figures"]["step_seconds"] is None, "XLA:CPU gives no times of kernels"


@needs_libtpu
def test_a_compiler_that_times_its_kernels_says_how_long_a_step_takes(tmp_path, capsys):
    file, plan = tmp_path / "events.jsonl", tmp_path / "tpu.plan.json"
    Plan(build("two_layer"), "data:4", "batch:data", hardware="TPU v5e 2x2").save(plan)
    assert main(["compile", str(plan), "--json", "--events", str(file)]) == 0
    capsys.readouterr()
    found = events(file)[-2]["figures"]
    assert found["step_seconds"] >= found["compute_seconds"] > 0


def test_a_plan_that_cannot_be_read_ends_the_events_with_its_error(tmp_path, capsys):
    file = tmp_path / "events.jsonl"
    (tmp_path / "broken.plan.json").write_text("{}")
    assert main(["run", str(tmp_path / "broken.plan.json"), "--events", str(file)]) == 1
    (only,) = events(file)
    assert only["kind"] == "failed"
    assert only["message"].splitlines()[0] in capsys.readouterr().err


def test_a_file_that_cannot_be_written_is_said_before_anything_runs(plan_file, tmp_path, capsys):
    assert main(["run", plan_file, "--events", str(tmp_path / "nowhere" / "events.jsonl")]) == 1
    assert "The events cannot be written" in capsys.readouterr().err


@pytest.mark.parametrize(("process", "name"), [(0, "events.jsonl"), (2, "events.2.jsonl")])
def test_each_process_has_a_file_of_its_own(process, name, tmp_path):
    with event_log(argparse.Namespace(events=str(tmp_path / "events.jsonl")), process) as log:
        log.started("run", "mlp", process, 3)
    assert [each.name for each in tmp_path.iterdir()] == [name]


@pytest.mark.parametrize(
    ("error", "last"),
    [(KeyboardInterrupt(), ("cancelled", None)), (EngineError("No."), ("failed", "No.")), (ValueError("x"), ("failed", "ValueError: x"))],
    ids=repr,
)
def test_the_end_is_written_whatever_happens(error, last, tmp_path):
    file = tmp_path / "events.jsonl"

    def leave():
        with event_log(argparse.Namespace(events=str(file))):
            raise error

    with pytest.raises(type(error)):
        leave()
    (found,) = events(file)
    assert found["kind"] == last[0]
    assert last[1] is None or last[1] in found["message"]


WAITS = """
import argparse, ctypes, sys
from workbench.cli.event_log import event_log
mutex, lock = ctypes.create_string_buffer(64), ctypes.CDLL(None).pthread_mutex_lock
with event_log(argparse.Namespace(events=sys.argv[1])) as log:
    log.started("run", "mlp")
    lock(mutex), lock(mutex)  # for ever, and no signal ends it: as a collective waits whose peers are gone
"""


@pytest.mark.skipif(sys.platform != "linux", reason="a mutex of zeros")
def test_sigterm_is_cancelled_also_while_the_main_thread_waits_outside_of_python(tmp_path):
    file = tmp_path / "events.jsonl"
    with subprocess.Popen([sys.executable, "-c", WAITS, str(file)]) as process:
        while not file.exists() or not file.read_text():
            assert process.poll() is None
            time.sleep(0.02)
        process.send_signal(signal.SIGTERM)
        assert process.wait(timeout=60) == TERMINATED
    assert kinds(file) == ["started", "cancelled"]
