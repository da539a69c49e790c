"""The warm process: `python -m workbench.engine.partitioner.partitioner_process FD` answers questions on connection FD until it closes.

A question is a byte that names the compiler, and a pickled `(plan, target)`; an answer a pickled `("answer", Partitioned)` or `("refused",
message, ways out)`. It holds no state that matters: JAX imported, a CPU client of XLA for each size of mesh, the caches of XLA's libraries,
and the process that runs libtpu. It calls none of the traced functions, so it needs none of the user's modules.
"""

import os
import pickle
import signal
import sys
from contextlib import suppress
from multiprocessing.connection import Connection
from typing import TYPE_CHECKING, Any

from workbench.core.child_process import end_with_parent, raise_niceness, run_when_idle

if TYPE_CHECKING:
    from workbench.engine.partitioner.libtpu_client import Libtpu

_NICENESS = 5  # niceness: the page and the browser on the same machine go first
WHEN_IDLE = "WORKBENCH_PARTITION_WHEN_IDLE"
"""The environment variable with which, once it is ready, it works only where nothing else wants the processor: a team's server."""


def main(descriptor: int) -> None:
    """Answer until the connection closes."""
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
    """Do what the first question would wait for: imports, a client, and one compilation, which initialises XLA's own tables."""
    import jax

    from workbench.spmd.ask_partitioner import ask_partitioner
    from workbench.spmd.run_partitioner import ask

    assert callable(ask_partitioner)
    text = jax.jit(lambda x: x + 1).trace(jax.ShapeDtypeStruct((8,), "float32")).lower(lowering_platforms=("cpu",)).as_text()
    ask(text.encode(), 8, (True,))


def _libtpu() -> "Libtpu":
    """The client of libtpu; a signal cancels its current question."""
    from workbench.engine.partitioner.libtpu_client import Libtpu

    libtpu = Libtpu()
    signal.signal(signal.SIGUSR1, lambda *_: libtpu.interrupt())
    return libtpu


def _answer(question: bytes, libtpu: "Libtpu") -> bytes:
    """Answer a question: libtpu's answer is passed on as it is; for a TPU that it does not know, XLA's generic partitioner answers."""
    from workbench.engine.partitioner.libtpu_client import OF_LIBTPU

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
    except Exception as error:  # noqa: BLE001 - whatever MLIR's bindings or XLA raise is said, and the process goes on
        return "refused", f"XLA's partitioner could not be run: {type(error).__name__}: {error}"[:500], ("keep the planned figures",)


def _truncate_stderr() -> None:
    """Truncate standard error, a file of our parent's for crash messages: what was written about answered plans is no longer needed."""
    with suppress(OSError):
        os.ftruncate(2, 0)
        os.lseek(2, 0, os.SEEK_SET)


if __name__ == "__main__":
    main(int(sys.argv[1]))
