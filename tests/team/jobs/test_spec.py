"""What a job may be, and the command line that it is."""

import json
from functools import cache
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.team_jobs import DIGEST
from workbench.cli.parser import make_parser
from workbench.team.jobs.job_spec import ENVIRONMENT, JobError, JobSpec, command_line, own_port, parse_spec

REFUSED = {
    "steps": ({"steps": 0}, "`steps` is 0; it should be a whole number from 1 to 1,000,000."),
    "steps as text": ({"steps": "3"}, "`steps` is '3'; it should be a whole number from 1 to 1,000,000."),
    "minutes": ({"minutes": float("nan")}, "`minutes` is nan; it should be above 0, and at most 30 days."),
    "memory": ({"memory": 5}, "`memory` is 5; it should be bytes, a MiB or more."),
    "kind": ({"kind": "rm"}, "`rm` is not a kind of job."),
    "compile": ({"kind": "compile", "processes": 2, "devices": 2}, "A compilation uses one process; 1 x 2 were requested."),
    "share": ({"devices": 8, "hosts": 3}, "8 devices cannot be shared evenly by 3 hosts x 1 processes: 8 % 3 = 2."),
    "variable": ({"environment": {"LD_PRELOAD": "x"}}, "There is no variable that a job may set `LD_PRELOAD`; there are "),
    "allow": ({"environment": {"WORKBENCH_ALLOW": "os"}}, "There is no variable that a job may set `WORKBENCH_ALLOW`; there are "),
    "file": (
        {"environment": {"XLA_FLAGS": "--xla_dump_to=/x"}},
        "`XLA_FLAGS` names a file, `--xla_dump_to=/x`; variables of a job must not.",
    ),
    "option": ({"options": {"partition": "a\nrm -rf"}}, "The option `partition='a\\nrm -rf'` has invalid characters."),
    "options": ({"options": ["a"]}, "`options` must map names to strings."),
    "plan": ({"plan": "../../etc"}, "A job needs the digests of its plan and program, 64 hexadecimal digits each."),
    "module": ({"module": "mine; rm"}, "`mine; rm` is not a name of a module."),
    "port": ({"port": -1}, "`port` is -1; it should be a port, or 0 for any."),
    "field": ({"command": "rm"}, "There is no field of a job `command`; there are "),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_cannot_be_is_refused_in_words(case):
    fields, message = REFUSED[case]
    with pytest.raises(JobError) as caught:
        parse_spec({"plan": DIGEST, **fields})
    assert caught.value.message.startswith(message)
    assert caught.value.ways_out


SPECS = st.builds(
    JobSpec,
    plan=st.just(DIGEST),
    program=st.none() | st.just(DIGEST),
    module=st.sampled_from(["", "mine", "mine.models"]),
    steps=st.integers(1, 1000),
    check=st.booleans(),
    hosts=st.integers(1, 4),
    devices=st.just(12),
    minutes=st.floats(0.1, 1000),
    memory=st.none() | st.integers(1 << 20, 1 << 40),
    environment=st.dictionaries(st.sampled_from(ENVIRONMENT), st.text("abc=1 -", max_size=5), max_size=3),
    options=st.dictionaries(st.sampled_from(["partition", "image"]), st.text("abc-/:", max_size=5), max_size=2),
)


@given(SPECS)
def test_a_spec_is_read_back_from_its_record(spec):
    assert parse_spec(json.loads(json.dumps(spec.record()))) == spec


def test_a_search_says_what_is_fixed_and_ends_before_its_minutes():
    command = command_line(JobSpec("a" * 64, "search", minutes=2.0, options={"model": "4", "stage": "1"}), Path("/data/jobs/abc"), "python")
    options = parser().parse_args(command[3:])
    assert (options.pin, options.within, options.until, options.workers) == (["model=4", "stage=1"], 96.0, "proved", 1)


@cache
def parser():
    return make_parser()


@pytest.mark.compile
@given(SPECS)
def test_the_command_line_is_one_of_the_workbench(spec):
    command = command_line(spec, Path("/data/jobs/abc"), "python")
    assert command[:3] == ["python", "-m", "workbench.cli"]
    options = parser().parse_args(command[3:])
    assert (options.plan, options.events, options.steps) == ("/data/jobs/abc/plan.json", "/data/jobs/abc/events.jsonl", spec.steps)
    assert options.allow == ([spec.module] if spec.module else [])


def test_a_compilation_has_the_time_that_its_job_has():
    command = command_line(JobSpec(plan=DIGEST, kind="compile", minutes=2), Path("/data/jobs/abc"))
    assert parser().parse_args(command[3:]).time_limit == 120.0


def test_jobs_have_ports_of_their_own():
    assert len({own_port(str(number)) for number in range(100)}) > 95
