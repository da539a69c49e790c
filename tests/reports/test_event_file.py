"""The file of a job's events: only added to, and never read torn."""

import json
import subprocess
import sys
import threading

import pytest

from workbench.reports.run_events import EVENT_FIELDS, EventFile


def lines(path):
    return [json.loads(line) for line in path.read_text().splitlines()]


def test_events_are_numbered_from_1_and_have_all_fields_of_their_kind(tmp_path):
    file = EventFile(tmp_path / "events.jsonl")
    file.add("started", process=0, processes=1, command="run", plan="mlp", version="1")
    file.add("progress", stage="running", step=1, of=2, loss=float("nan"), seconds=0.1)
    file.add("measured", figures={"losses": (1.0, float("inf"))})
    file.add("done", seconds=1.5)
    found = lines(tmp_path / "events.jsonl")
    assert [each["seq"] for each in found] == [1, 2, 3, 4]
    assert [set(each) for each in found] == [{"seq", "time", "kind", *EVENT_FIELDS[each["kind"]]} for each in found]
    assert (found[1]["loss"], found[2]["figures"]) == (None, {"losses": [1.0, None]})


@pytest.mark.parametrize("ending", ["done", "failed", "cancelled"])
def test_nothing_is_added_after_the_end_nor_by_the_next_writer(ending, tmp_path):
    path = tmp_path / "events.jsonl"
    for kind in (ending, "progress", "cancelled"):
        file = EventFile(path)
        file.add(kind)
        file.add("progress")
        file.close()
        file.add("done")
    assert [each["kind"] for each in lines(path)] == [ending]


def test_a_line_that_a_crash_has_torn_is_ended_and_the_numbers_go_on(tmp_path):
    path = tmp_path / "events.jsonl"
    path.write_text('{"seq": 1, "time": 1.0, "kind": "started"}\n{"seq": 2, "time": 1.0, "ki')
    EventFile(path).add("cancelled")
    assert path.read_text().splitlines()[1] == '{"seq": 2, "time": 1.0, "ki'
    last = json.loads(path.read_text().splitlines()[2])
    assert (last["seq"], last["kind"]) == (2, "cancelled")


def test_several_threads_may_add(tmp_path):
    path = tmp_path / "events.jsonl"
    file = EventFile(path)
    threads = [threading.Thread(target=lambda: [file.add("progress", stage="x" * 5000) for _ in range(20)]) for _ in range(4)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    assert [each["seq"] for each in lines(path)] == list(range(1, 81))


def test_it_needs_no_jax():
    code = "import sys, workbench.reports.run_events; sys.exit('jax' in sys.modules or 'numpy' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
