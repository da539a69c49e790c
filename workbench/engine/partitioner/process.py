"""The warm process: `python -m workbench.engine.partitioner.process FD` answers questions on connection FD until its end.

A question is a pickled `(plan, target)`, an answer a pickled `("answer", Partitioned)` or `("refused", message, ways out)`. It keeps
nothing that matters: JAX imported, a CPU client of XLA for each size of mesh, and what XLA's libraries hold. It calls nothing of the
program's own, so that it needs none of the user's modules.
"""

import os
import pickle
import sys
from contextlib import suppress
from multiprocessing.connection import Connection
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from workbench.engine.partitioner.libtpu import Libtpu

_POLITE = 5  # how much the process gives way to the page and the browser on the same machine


def main(descriptor: int) -> None:
    """Answer until the connection ends."""
    with suppress(OSError):
        os.nice(_POLITE)
    with Connection(descriptor) as connection:
        _warm_up()
        connection.send_bytes(pickle.dumps(("ready", os.getpid())))
        libtpu = _libtpu()
        with suppress(EOFError, OSError):
            while True:
                connection.send_bytes(_answer(connection.recv_bytes(), libtpu))
                _forget_words()


def _warm_up() -> None:
    """What the first question would wait for: imports, a client, and one compilation, which brings in XLA's own tables."""
    import jax

    from workbench.spmd.ask import ask
    from workbench.spmd.partition import ask_partitioner

    assert callable(ask_partitioner)
    text = jax.jit(lambda x: x + 1).trace(jax.ShapeDtypeStruct((8,), "float32")).lower(lowering_platforms=("cpu",)).as_text()
    ask(text.encode(), 8, (True,))


def _libtpu() -> "Libtpu":
    from workbench.engine.partitioner.libtpu import Libtpu

    return Libtpu()


def _answer(question: bytes, libtpu: "Libtpu") -> bytes:
    """That of libtpu, where the target is hardware, comes as it is."""
    from workbench.hardware import Hardware

    plan, target = pickle.loads(question)  # noqa: S301 - our own starter wrote it
    if not isinstance(target, Hardware):
        return pickle.dumps(_partitioned(plan, target))
    answer = libtpu.answer(question, target)
    if isinstance(answer, bytes):
        return answer
    return pickle.dumps(("refused", f"The process that asks libtpu ended {answer}.", ("the planned figures stand",)))


def _partitioned(plan: Any, platform: str) -> tuple[Any, ...]:
    from workbench.errors import WorkbenchError
    from workbench.spmd.partition import ask_partitioner

    try:
        return "answer", ask_partitioner(plan, platform)
    except WorkbenchError as error:
        return "refused", error.message, error.ways_out
    except Exception as error:  # noqa: BLE001 - whatever MLIR's bindings or XLA raise is said, and the process goes on
        return "refused", f"XLA's partitioner could not be asked: {type(error).__name__}: {error}"[:500], ("the planned figures stand",)


def _forget_words() -> None:
    """Standard error is a file of our starter's, for last words: what was said of plans answered is no longer needed."""
    with suppress(OSError):
        os.ftruncate(2, 0)
        os.lseek(2, 0, os.SEEK_SET)


if __name__ == "__main__":
    main(int(sys.argv[1]))
