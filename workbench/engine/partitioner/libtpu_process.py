"""The libtpu process: `python -m workbench.engine.partitioner.libtpu_process FD` answers questions on connection FD.

For each question it forks a child, which compiles until the program is scheduled (`spmd.compile_to_schedule`); a fork
inherits the imported modules within milliseconds. To be safe to fork, this process starts no thread, opens no device
and parses no module; it reads the files that children leave. It ends with its parent, and its children with it.
"""

import ctypes
import gc
import json
import os
import pickle
import signal
import sys
import time
import warnings
from collections.abc import Callable
from contextlib import suppress
from multiprocessing.connection import Connection
from pathlib import Path
from types import FrameType
from typing import Any

from workbench.core.child_process import end_with_parent
from workbench.core.public_error_text import process_end_text
from workbench.errors import opening_text
from workbench.hardware.hardware import Hardware
from workbench.plan.plan import Plan

_REFUSED = "refused"  # file with the reason if there is no program, or it does not fit into memory
_STANDS = ("keep the planned figures",)

_children: list[int] = []  # the compiling child, if any


def main(descriptor: int) -> None:
    signal.signal(signal.SIGUSR1, _end_child)
    end_with_parent(descriptor)
    _import_all()
    with Connection(descriptor) as connection, suppress(EOFError, OSError):
        while True:
            answer = _answer(connection.recv_bytes())
            connection.send_bytes(b"" if answer is None else pickle.dumps(answer))


def _import_all() -> None:
    import libtpu

    from workbench.engine.partitioner.read_scheduled import read_answer
    from workbench.spmd.compile_to_schedule import compile_until_code

    assert callable(read_answer)
    assert callable(compile_until_code)
    ctypes.CDLL(libtpu.get_library_path())
    warnings.filterwarnings("ignore", message="os.fork")  # from JAX, which does not know that this process has no threads
    gc.collect()
    gc.freeze()  # garbage collection in a child would write to, and therefore copy, every visited page


def _answer(question: bytes) -> tuple[Any, ...] | None:
    """Answer a question; `None` if libtpu does not know the hardware, or the question was cancelled."""
    from workbench.errors import WorkbenchError

    try:
        plan, hardware = pickle.loads(question)  # noqa: S301 - our own parent wrote it
        return _ask(plan, hardware)
    except WorkbenchError as error:
        return "refused", *error.parts
    except Exception as error:  # noqa: BLE001 - any error is reported, and the process continues
        return "refused", f"XLA:TPU could not be run: {type(error).__name__}: {error}"[:500], _STANDS


def _ask(plan: Plan, hardware: Hardware) -> tuple[Any, ...] | None:
    from workbench.engine.compile.read_memory import stderr_offset, stderr_since
    from workbench.engine.partitioner.read_scheduled import read_answer
    from workbench.spmd.compile_to_schedule import folder_for_programs, read_dumped_program

    begun = time.perf_counter()
    with folder_for_programs() as folder:
        stderr_start = stderr_offset()
        status = _run_in_child(lambda: _compile(plan, hardware, folder))
        refused = folder / _REFUSED
        refusal = json.loads(refused.read_text()) if refused.exists() else {}
        program = read_dumped_program(folder) if status == 0 and (not refusal or refusal.get("no_room")) else None
        if program is not None:
            return "answer", read_answer(program, plan, hardware, begun, refusal.get("no_room", ""), stderr_since(stderr_start))
    if refusal:
        return None if refusal.get("unknown") else ("refused", refusal["message"], tuple(refusal["ways_out"]), refusal.get("detail", ""))
    if status == 0:
        return "refused", f"XLA:TPU wrote no program of {plan.name}.", _STANDS
    how = process_end_text(status)
    return "refused", f"XLA:TPU ended {how} while it compiled {plan.name}.", ("revert the layout", *_STANDS)


def _run_in_child(work: Callable[[], None]) -> int:
    """Run in a fork of this process, and return its exit code, or the negative number of its signal."""
    child = os.fork()
    if child == 0:
        status = 1
        try:
            signal.signal(signal.SIGUSR1, signal.SIG_DFL)
            end_with_parent()
            work()
            status = 0
        finally:
            os._exit(status)  # skips this process's exit handlers
    _children.append(child)
    status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    _children.clear()
    return status


def _end_child(_signal: int, _frame: FrameType | None) -> None:
    for child in _children:
        with suppress(ProcessLookupError):
            os.kill(child, signal.SIGKILL)


def _compile(plan: Plan, hardware: Hardware, folder: Path) -> None:
    from workbench.errors import EngineError, WorkbenchError
    from workbench.spmd.compile_to_schedule import NO_ROOM

    try:
        _compile_until_code(plan, hardware, folder)
    except EngineError:  # libtpu does not know the slice by our name
        refusal: dict[str, Any] = {"unknown": True}
    except WorkbenchError as error:
        refusal = {"message": error.message, "ways_out": list(error.ways_out)}
    except Exception as error:  # noqa: BLE001 - libtpu may raise anything
        first = opening_text(str(error), 500) or type(error).__name__
        refusal = {"message": f"XLA:TPU refuses this plan: {first}", "ways_out": ["revert the layout", *_STANDS], "detail": str(error)}
        if NO_ROOM in first:
            refusal["no_room"] = first
    else:
        return
    (folder / _REFUSED).write_text(json.dumps(refusal))


def _compile_until_code(plan: Plan, hardware: Hardware, folder: Path) -> None:
    from workbench.engine.compile.compile_targets import open_target
    from workbench.propagation import module_of
    from workbench.propagation.module.insert_statements import result_shardings
    from workbench.spmd.compile_to_schedule import compile_until_code

    result_specs = result_shardings(plan)
    open_results = [number not in result_specs for number in range(len(plan.program.results))]
    devices = list(open_target(plan, hardware).mesh.devices.flat)
    compile_until_code(module_of(plan, compiles=True), devices, open_results, folder)


if __name__ == "__main__":
    main(int(sys.argv[1]))
