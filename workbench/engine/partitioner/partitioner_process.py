"""The warm process: `python -m workbench.engine.partitioner.partitioner_process FD` answers questions on connection FD
until it closes.

A question is a byte that selects the compiler, and a pickled `(plan, target)`; an answer is a pickled `("answer",
Partitioned)` or `("refused", message, ways out)`. The process has only replaceable state: imported JAX, a CPU client of
XLA for each mesh size, caches of XLA's libraries, and the libtpu process. It calls no traced function, so it needs none
of the user's modules.
"""

import os
import pickle
import signal
import sys
from contextlib import suppress
from multiprocessing.connection import Connection
from typing import TYPE_CHECKING, Any

from workbench.core.child_process import end_with_parent, raise_niceness, run_when_idle
from workbench.engine.partitioner.partitioner_connection import OF_LIBTPU

if TYPE_CHECKING:
    from workbench.engine.partitioner.libtpu_client import Libtpu

_NICENESS = 5  # yields to the page and the browser on the same machine
WHEN_IDLE = "WORKBENCH_PARTITION_WHEN_IDLE"
"""Environment variable that makes the ready process use only idle processor time, for a team server."""


def main(descriptor: int) -> None:
    end_with_parent(descriptor)
    raise_niceness(_NICENESS)
    with Connection(descriptor) as connection:
        _warm_up()
        if WHEN_IDLE in os.environ:
            run_when_idle()
        connection.send_bytes(pickle.dumps(("ready", os.getpid())))
        libtpu = _libtpu()
        with suppress(EOFError, OSError):
            while True:
                connection.send_bytes(_answer(connection.recv_bytes(), libtpu))
                _truncate_stderr()


def _warm_up() -> None:
    """Do the slow work of the first question: imports, a client, and one compilation."""
    import jax

    from workbench.spmd.ask_partitioner import ask_partitioner
    from workbench.spmd.run_partitioner import ask

    assert callable(ask_partitioner)
    text = jax.jit(lambda x: x + 1).trace(jax.ShapeDtypeStruct((8,), "float32")).lower(lowering_platforms=("cpu",)).as_text()
    ask(text.encode(), 8, (True,))


def _libtpu() -> "Libtpu":
    from workbench.engine.partitioner.libtpu_client import Libtpu

    libtpu = Libtpu()
    signal.signal(signal.SIGUSR1, lambda *_: libtpu.interrupt())
    return libtpu


def _answer(question: bytes, libtpu: "Libtpu") -> bytes:
    """Forward libtpu's answer; for other questions and unknown TPUs, ask XLA's generic partitioner."""
    if not question.startswith(OF_LIBTPU):
        return pickle.dumps(_partition(question[1:]))
    answer = libtpu.answer(question[1:])
    if isinstance(answer, str):
        return pickle.dumps(("refused", f"The process that runs libtpu ended {answer}.", ("keep the planned figures",)))
    return answer or pickle.dumps(_partition(question[1:]))


def _partition(question: bytes) -> tuple[Any, ...]:
    from workbench.errors import WorkbenchError
    from workbench.spmd.ask_partitioner import ask_partitioner

    try:
        plan, target = pickle.loads(question)  # noqa: S301 - our own parent wrote it
        return "answer", ask_partitioner(plan, target if isinstance(target, str) else target.chip.platform)
    except WorkbenchError as error:
        return "refused", *error.parts
    except Exception as error:  # noqa: BLE001 - any error of MLIR's bindings or XLA is reported, and the process continues
        return "refused", f"XLA's partitioner could not be run: {type(error).__name__}: {error}"[:500], ("keep the planned figures",)


def _truncate_stderr() -> None:
    """Truncate standard error, the parent's file for crash messages, after an answered question."""
    with suppress(OSError):
        os.ftruncate(2, 0)
        os.lseek(2, 0, os.SEEK_SET)


if __name__ == "__main__":
    main(int(sys.argv[1]))
