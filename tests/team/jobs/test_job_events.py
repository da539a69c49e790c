"""The reader of events: what it takes, what it leaves out, a file that grows."""

import json
import os
import subprocess
import sys
from pathlib import Path

import jsonschema
import pytest
from hypothesis import given
from hypothesis import strategies as st

import workbench.team.jobs.job_events as module
from workbench.reports.run_events import EVENT_FIELDS, EventFile
from workbench.team.jobs.job_events import EventReader, parse_event, read_events
from workbench.team.jobs.job_folder import read_tail

SCHEMA = json.loads(Path(module.__file__).with_name("events.schema.json").read_text())
VALUES = {
    "process": 0,
    "processes": 2,
    "command": "run",
    "plan": "mlp",
    "version": "1",
    "stage": "running",
    "fraction": 0.5,
    "step": 1,
    "of": 2,
    "loss": None,
    "seconds": 0.1,
    "figures": {"losses": [1.0]},
    "message": "No.",
    "document": "{}",
    "ways_out": ["try again"],
}


def event(kind, **fields):
    return {"seq": 1, "time": 1.0, "kind": kind, **{name: VALUES[name] for name in EVENT_FIELDS[kind]}, **fields}


@pytest.mark.parametrize("kind", EVENT_FIELDS)
def test_the_reader_and_the_schema_take_an_event_of_every_kind(kind):
    jsonschema.validate(event(kind), SCHEMA)
    assert parse_event(json.dumps(event(kind)).encode()).record() == event(kind)


WRONG = [
    b"",
    b"null",
    b"[1]",
    b"[" * 100_000,
    b'{"seq": 1, "ti',
    json.dumps(event("done", seconds="1")).encode(),
    json.dumps(event("done", more=1)).encode(),
    json.dumps(event("explode") if "explode" in EVENT_FIELDS else {**event("done"), "kind": "explode"}).encode(),
    json.dumps({**event("done"), "kind": ["done"]}).encode(),
    json.dumps(event("done", seq=True)).encode(),
    json.dumps(event("done", seq=-1)).encode(),
    json.dumps(event("done", time=None)).encode(),
    json.dumps(event("progress", loss=float("nan"))).encode(),
    json.dumps(event("progress", step=1.5)).encode(),
    json.dumps(event("measured", figures=[])).encode(),
    json.dumps(event("measured", figures={"a": float("inf")})).encode(),
    json.dumps(event("failed", ways_out="x")).encode(),
    json.dumps(event("failed", message=None)).encode(),
    b'{"seq": 1, "time": 1e999, "kind": "cancelled"}',
    b'{"seq": ' + b"1" * 5000 + b', "time": 1.0, "kind": "cancelled"}',
]


@pytest.mark.parametrize("line", WRONG, ids=range(len(WRONG)))
def test_what_is_no_event_is_left_out(line):
    assert parse_event(line) is None


@given(st.binary(max_size=200))
def test_no_bytes_break_the_reader(line):
    assert parse_event(line) is None or json.loads(line)


@given(st.lists(st.integers(1, 60), min_size=1, max_size=40))
def test_a_file_that_grows_by_any_pieces_gives_each_event_once_and_none_torn(tmp_path_factory, sizes):
    folder = tmp_path_factory.mktemp("events")
    whole, path = folder / "whole.jsonl", folder / "events.jsonl"
    file = EventFile(whole)
    for step in range(6):
        file.add("progress", step=step)
    file.add("done")
    content, reader, found = whole.read_bytes(), EventReader(path), []
    while content:
        size = sizes[len(content) % len(sizes)]
        with path.open("ab") as growing:
            growing.write(content[:size])
        content = content[size:]
        found += reader.read()
        assert all(each.seq == number for number, each in enumerate(found, 1))
    assert [each.seq for each in found] == [1, 2, 3, 4, 5, 6, 7]
    assert [each.seq for each in read_events(path, 5)] == [6, 7]


def test_a_file_that_is_not_there_has_no_events(tmp_path):
    assert read_events(tmp_path / "events.jsonl") == ()


@pytest.mark.parametrize("make", [lambda path, secret: path.symlink_to(secret), lambda path, _: os.mkfifo(path)], ids=["link", "pipe"])
def test_links_and_pipes_that_a_job_has_made_are_not_followed(make, tmp_path):
    secret = tmp_path / "secret"
    secret.write_text(json.dumps(event("done")) + "\n")
    for name in ("events.jsonl", "stdout"):
        make(tmp_path / name, secret)
    assert (read_events(tmp_path / "events.jsonl"), read_tail(tmp_path, "stdout")) == ((), "")


@pytest.mark.parametrize("name", ["../secret", "spec.json", "stdout/../secret", "stderr/x"])
def test_nothing_but_output_is_read_as_output(name, tmp_path):
    (tmp_path / "spec.json").write_text("x")
    assert read_tail(tmp_path, name) == ""


def test_following_jobs_needs_no_jax():
    code = (
        "import sys, workbench.team.jobs.dispatcher, workbench.team.team_setup, workbench.team.jobs.job_supervisor\n"
        "sys.exit(sorted({'jax', 'numpy', 'ray', 'submitit', 'yaml', 'workbench.plan'} & set(sys.modules)).__repr__().strip('[]'))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.stderr == "\n"
