"""The worker process: events, endings, and deaths told in the user's terms. Every death here is a real one."""

import errno
import fcntl
import os
import re
import resource
import signal
import tempfile
import time

import jax.numpy as jnp
import pytest

from tests.support.run_programs import batch_of, loss, plan
from workbench.core.child_process import file_for_last_words
from workbench.core.operating_system import try_lock
from workbench.engine import run_plan, start_compile, start_run
from workbench.errors import EngineError
from workbench.reports.measurement import Measurement
from workbench.reports.run_events import Cancelled, Failed, Progress, RunDone, StepDone

pytestmark = [pytest.mark.compile, pytest.mark.worker, pytest.mark.cold]


def dies_in_step(step, how):
    """A plan whose data function does `how` when it is asked for that step."""

    def data(i):
        if i == step:
            how()
        return batch_of(i)

    return plan(data=data)


def run(of, **options):
    """The events of a run, and the error it ends with."""
    events = []
    with pytest.raises(EngineError) as caught:
        run_plan(of, on_progress=events.append, **options)
    assert events[-1] == Failed.of(caught.value)
    assert events[-1].text == str(caught.value)
    assert "Traceback" not in str(caught.value)
    return events, caught.value


def test_a_run_tells_its_stages_and_steps_and_then_its_measurement(capfd):
    def talkative(params, batch):
        print("tracing", '{"event": "error"}')
        return loss(params, batch)

    events = []
    measured = run_plan(plan(loss=talkative), steps=3, on_progress=events.append, check=True, time_limit=300)
    assert isinstance(measured, Measurement)
    assert measured.devices == 8
    assert measured.shards_agree
    assert measured.max_error < 1e-5
    assert [each.step for each in events if isinstance(each, StepDone)] == [1, 2, 3]
    assert [each.stage for each in events if isinstance(each, Progress)][-3:] == [
        "profiling",
        "checking against one device",
        "calibrating",
    ]
    assert events[-1] == RunDone(measured)
    assert "tracing" in capfd.readouterr().out


def test_a_mesh_of_more_devices_than_this_process_has_is_imitated_there():
    assert run_plan(plan(mesh="data:4 model:4"), steps=1).devices == 16


def test_a_mesh_that_cannot_be_imitated_is_explained():
    _, error = run(plan(mesh="data:16 model:16"))
    assert "data 16 x model 16 = 256 devices, and 64 cpu devices are attached" in error.message


def test_a_user_function_that_raises_is_a_message_with_its_line():
    def fail():
        raise ValueError("bad record 7")

    events, error = run(dies_in_step(1, fail), steps=3)
    assert error.message.startswith("The run of mlp stopped while running in `fail` (test_worker.py:")
    assert error.message.endswith("ValueError: bad record 7")
    assert any(getattr(each, "stage", "") == "running" for each in events)


def test_a_killed_worker_may_have_run_out_of_memory_or_been_killed_by_hand():
    _, error = run(dies_in_step(1, lambda: os.kill(os.getpid(), signal.SIGKILL)), steps=3)
    assert error.message.startswith(
        "Something killed the run of mlp while running (SIGKILL): Linux does this when memory runs out, or a person"
    )
    assert {"run again", "make the batch smaller"} < {*error.ways_out}


@pytest.mark.parametrize("steps", ["3", 2.5, True, None, 0, -3])
def test_steps_that_are_no_number_are_refused_before_a_worker_starts(steps):
    with pytest.raises(EngineError, match=re.escape(f"`steps` is {steps!r}; it should be a whole number from 1.")):
        start_run(plan(), steps)


@pytest.mark.parametrize("time_limit", ["60", True, 0, -1.0, float("nan"), float("inf")])
def test_a_time_limit_that_is_no_time_is_refused_before_a_worker_starts(time_limit):
    with pytest.raises(EngineError, match="it should be a number of seconds above 0"):
        start_compile(plan(), time_limit=time_limit)


def test_a_segmentation_fault_is_told_with_its_stage():
    def crash():
        import faulthandler

        faulthandler._sigsegv()

    _, error = run(dies_in_step(0, crash), steps=3)
    assert error.message.startswith("The worker process of mlp died while compiling, by SIGSEGV")


def test_a_function_that_leaves_the_process_is_told():
    _, error = run(dies_in_step(1, lambda: os._exit(3)), steps=3)
    assert error.message.startswith("The worker process of mlp died while running, with exit code 3")


def test_running_out_of_memory_is_told_with_what_the_arguments_need():
    here = os.getpid()

    def hungry(params, batch):
        if os.getpid() != here:  # it is traced here, too, where the limit would hold for all later tests
            resource.setrlimit(resource.RLIMIT_AS, (8 << 30, 8 << 30))
        wide = jnp.broadcast_to(batch["x"][:, :, None, None], (16, 16, 8192, 8192))  # 64 GiB
        return loss(params, batch) + jnp.sort(wide, axis=-1)[..., 0].sum()

    _, error = run(plan("", loss=hungry), steps=1)
    assert error.message.startswith("Out of memory while ")
    assert "The arguments alone are 14.0 KiB on each of 8 devices." in error.message
    assert "run on devices with more memory" in error.ways_out


def test_cancelling_ends_a_run_even_while_it_compiles():
    def slow_to_trace(params, batch):
        if os.environ.get("JAX_NUM_CPU_DEVICES"):  # in the worker, not here
            time.sleep(600)
        return loss(params, batch)

    events = []
    handle = start_run(plan(loss=slow_to_trace), on_event=events.append)
    while not any(getattr(each, "stage", "") == "compiling" for each in events):
        time.sleep(0.05)
    start = time.monotonic()
    handle.cancel()
    with pytest.raises(EngineError, match="was cancelled"):
        handle.wait()
    assert time.monotonic() - start < 5
    assert events[-1] == Cancelled()
    handle.cancel()  # a second time, nothing happens
    assert events[-1] == Cancelled()


def test_a_data_loader_that_forks_neither_hangs_a_cancel_nor_survives_it(tmp_path):
    held, forked = tmp_path / "held", tmp_path / "forked"

    def forks_and_sleeps():
        if os.fork() == 0:
            file = os.open(held, os.O_CREAT | os.O_RDWR)
            fcntl.flock(file, fcntl.LOCK_EX)
            forked.touch()
        time.sleep(600)

    handle = start_run(dies_in_step(0, forks_and_sleeps))
    wait_until(forked.exists)
    start = time.monotonic()
    handle.cancel()
    with pytest.raises(EngineError, match="was cancelled"):
        handle.wait()
    assert time.monotonic() - start < 5
    with held.open() as file:
        wait_until(lambda: try_lock(file.fileno()))


def wait_until(condition, seconds=60):
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.02)


def test_where_nothing_can_be_written_the_last_words_of_a_worker_are_kept_in_memory_or_it_is_said(monkeypatch):
    def fails():
        raise FileNotFoundError(errno.ENOENT, "No usable temporary directory found in ['/tmp']")

    monkeypatch.setattr(tempfile, "TemporaryFile", fails)
    if hasattr(os, "memfd_create"):
        with file_for_last_words() as file:
            file.write(b"words")
        monkeypatch.delattr(os, "memfd_create")
    with pytest.raises(EngineError) as caught:
        start_run(plan())
    assert str(caught.value) == (
        "A worker process needs a temporary file, and none can be written: No usable temporary directory found in ['/tmp'].\n"
        "  Try: free space on the disk · set TMPDIR to a folder in which you may write."
    )


def test_a_time_limit_ends_a_run_and_says_where_it_was():
    _, error = run(dies_in_step(1, lambda: time.sleep(600)), steps=3, time_limit=8)
    assert error.message == "The run of mlp passed its time limit of 8.00 s while running."
    assert "raise the time limit" in error.ways_out


def test_functions_that_cannot_travel_are_refused_before_anything_starts():
    import threading

    lock = threading.Lock()

    def data(step):
        with lock:
            return batch_of(step)

    with pytest.raises(EngineError, match="mlp cannot be sent to a worker process: TypeError: cannot pickle"):
        run_plan(plan(data=data))


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_a_listener_that_raises_ends_the_run_instead_of_hanging_it():
    def listener(_):
        raise KeyError("widget gone")

    with pytest.raises(EngineError, match="its event listener raised"):
        start_run(plan(), steps=1000, on_event=listener).wait()
