"""The worker process: `python -m workbench.engine.worker FD` runs the one plan it is sent and tells what happens on pipe FD.

A plan arrives on standard input as an eight-byte length and that many bytes of pickle; standard input then stays open, and the worker
ends when it closes, so that it does not outlive whoever started it. Events leave as one JSON object a line. Standard output stays the
user's own; standard error is read for last words if the process dies.
"""

import base64
import json
import os
import pickle
import sys
import threading
from collections.abc import Mapping
from typing import Any, BinaryIO, TextIO

from workbench.errors import WorkbenchError


def main(descriptor: int) -> None:
    """Run the plan on standard input; every ending but a crash is an event."""
    with os.fdopen(descriptor, "w", buffering=1) as pipe:
        try:
            options = _receive(sys.stdin.buffer)
            threading.Thread(target=_end_with_parent, args=(sys.stdin.buffer,), daemon=True).start()
            _tell(pipe, {"event": "done", "measurement": _run(options, pipe)})
        except WorkbenchError as error:
            _tell(pipe, {"event": "error", "message": error.message, "ways_out": error.ways_out})


def _receive(stream: BinaryIO) -> dict[str, Any]:
    """The outer pickle holds plain values, and JAX's settings are set before the plan inside it makes arrays."""
    size = int.from_bytes(stream.read(8), "big")
    options: dict[str, Any] = pickle.loads(stream.read(size))  # noqa: S301 - our own parent wrote it
    import jax

    for name, value in options.pop("jax_config").items():
        jax.config.update(name, value)
    try:
        options["plan"] = pickle.loads(options["plan"])  # noqa: S301
    except Exception as error:  # a user's module runs when it is imported here
        raise WorkbenchError(
            f"The worker process could not load the plan's functions: {type(error).__name__}: {error}",
            ["keep them in a module it can import", "define them in the notebook or script itself"],
        ) from error
    return options


def _run(options: dict[str, Any], pipe: TextIO) -> str:
    from workbench.engine.execute import execute

    measurement = execute(options["plan"], options["steps"], lambda event: _tell(pipe, event), check=options["check"])
    return base64.b64encode(pickle.dumps(measurement)).decode()


def _tell(pipe: TextIO, event: Mapping[str, Any]) -> None:
    pipe.write(json.dumps(event) + "\n")


def _end_with_parent(stream: BinaryIO) -> None:
    stream.read(1)
    os._exit(1)


if __name__ == "__main__":
    main(int(sys.argv[1]))
