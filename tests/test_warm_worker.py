"""A fork of the warm process is to those who asked for it what a process that was started is."""

import os
import signal

import pytest

from tests.support.run_programs import batch_of, plan
from tests.support.warm_worker import shared_start
from workbench.engine import start_run
from workbench.errors import EngineError

pytestmark = pytest.mark.compile


def ending(how):
    """The number of the process, and what is said of its end, when the data of the second step do `how`."""

    def data(step):
        if step == 1:
            how()
        return batch_of(step)

    handle = start_run(plan(data=data), steps=3)
    with pytest.raises(EngineError) as caught:
        handle.wait()
    return handle._process.pid, caught.value.message


def test_its_death_is_told_and_the_next_one_is_another():
    killed, said = ending(lambda: os.kill(os.getpid(), signal.SIGKILL))
    assert said.startswith("Something killed the run of mlp while running (SIGKILL)")
    left, said = ending(lambda: os._exit(3))
    assert said.startswith("The worker process of mlp died while running, with exit code 3")
    assert len({killed, left, os.getpid()}) == 3
    for pid in (killed, left):
        with pytest.raises(ProcessLookupError):
            os.kill(pid, 0)


def test_what_is_read_while_jax_is_imported_a_fork_cannot_be_told():
    assert shared_start().fits({**os.environ, "PYTHONPATH": shared_start().path, "JAX_NUM_CPU_DEVICES": "3", "XLA_FLAGS": "--any"})
    assert not shared_start().fits({**os.environ, "PYTHONPATH": shared_start().path, "JAX_ENABLE_X64": "1"})
    assert not shared_start().fits({**os.environ, "PYTHONPATH": "elsewhere"})
