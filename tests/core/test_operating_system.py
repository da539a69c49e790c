"""What is different on macOS and Windows, as far as it can be seen on Linux: with what they lack taken away."""

import json
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from workbench.core import operating_system
from workbench.core.operating_system import has_ended, wait_for_signal
from workbench.errors import EngineError

SIMULATED = Path(__file__).parents[1] / "support" / "windows.py"


SCRIPT = """
import importlib, json, pkgutil, sys
import workbench as wb
from workbench.errors import EngineError, PartitionError

failed = {}
def names(package):
    for each in pkgutil.iter_modules(package.__path__, package.__name__ + "."):
        if each.name == "workbench.team" or each.name.endswith("__main__"):
            continue
        try:
            module = importlib.import_module(each.name)
        except Exception as error:
            failed[each.name] = repr(error)
            continue
        if each.ispkg:
            names(module)
names(wb)
imported = sum(name.startswith("workbench.") for name in sys.modules)

plan = wb.Plan(wb.models.build("gpt"), "data:4 model:2", "batch:data; d_ff:model", hardware="8 H100")
report = plan.report()
plan.save("gpt.plan.json")
shown = wb.Workbench(plan)._repr_mimebundle_()
result = plan.search(devices=8, within=2)
refused = []
for attempt in (lambda: plan.run(steps=1), lambda: plan.report("partitioned")):
    try:
        attempt()
    except (EngineError, PartitionError) as error:
        refused.append(str(error))
print(json.dumps([failed, imported, [
    str(wb.load("gpt.plan.json").layout), report.step_time.total, len(report.propagation.steps), str(result.best.mesh), refused,
    sorted(shown[0]) if isinstance(shown, tuple) else sorted(shown),
]]))
"""


@pytest.fixture(scope="module")
def without_posix(tmp_path_factory):
    """The output of `SCRIPT` where Python has what it has on Windows."""
    folder = tmp_path_factory.mktemp("windows")
    (folder / "script.py").write_text(SCRIPT, encoding="utf-8")
    command = [sys.executable, str(SIMULATED), str(folder / "script.py")]
    ran = subprocess.run(command, check=False, capture_output=True, text=True, cwd=folder, timeout=300)
    assert ran.returncode == 0, ran.stderr[-4000:]
    return json.loads(ran.stdout.splitlines()[-1])


def test_every_module_but_those_of_the_team_server_can_be_imported_on_windows(without_posix):
    failed, imported, _ = without_posix
    assert failed == {}
    assert imported > 500


def test_a_plan_is_made_reported_explained_searched_saved_and_shown_on_windows(without_posix):
    *_, (layout, seconds, steps, best, refused, shown) = without_posix
    assert layout == "batch:data; d_ff:model"
    assert 0 < seconds < 1
    assert steps > 10
    assert best
    assert len(refused) == 2
    assert [each for each in refused if "Windows Subsystem for Linux" not in each] == []
    assert "text/html" in shown


def test_a_signal_is_waited_for_without_sigtimedwait(monkeypatch):
    monkeypatch.delattr(signal, "sigtimedwait")
    before = signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGUSR2])
    try:
        assert wait_for_signal([signal.SIGUSR2], 0) is None
        signal.pthread_kill(threading.get_ident(), signal.SIGUSR2)
        begun = time.monotonic()
        assert wait_for_signal([signal.SIGUSR2, signal.SIGCHLD], 30) == signal.SIGUSR2
        assert time.monotonic() - begun < 10
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


@pytest.mark.parametrize("has_proc", [True, False])
def test_a_process_has_ended_or_runs_also_without_proc(has_proc, monkeypatch):
    exists = Path.exists
    monkeypatch.setattr(Path, "exists", lambda path: (has_proc or not str(path).startswith("/proc")) and exists(path))
    child = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    assert not has_ended(child.pid)
    assert not has_ended(1)  # another user's, as a rule
    child.communicate()
    assert has_ended(child.pid)


def test_what_needs_worker_processes_says_what_to_use_instead(monkeypatch):
    monkeypatch.setattr(operating_system, "CAN_START", False)
    with pytest.raises(EngineError, match="On Windows the workbench cannot serve boards"):
        operating_system.require_processes("serve boards")
