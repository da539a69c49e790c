"""A process of this package on whichever machine of a cluster has room: the actor that starts it there, and passes on its bytes."""

import os
import socket
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence

from workbench.core.child_process import start_child

MOST_BYTES = 1 << 20  # that are passed on at a time
MOST_WORDS = 1 << 16  # bytes of standard error, the last ones


class RemoteProcess:
    """`python -m MODULE DESCRIPTOR ARGUMENTS`, which writes to the descriptor what `read` returns. What is written to it comes on its
    standard input, or, without one, on the descriptor too. It ends with the actor: its standard input or its connection is closed then.
    """

    def __init__(self, module: str, arguments: Sequence[str], environment: Mapping[str, str], *, has_stdin: bool) -> None:
        self._words = tempfile.TemporaryFile()  # noqa: SIM115 - it ends with the actor
        self._socket, theirs = socket.socketpair()
        with theirs:
            self._process = start_child(
                [sys.executable, "-P", "-m", module, str(theirs.fileno()), *arguments],
                stdin=subprocess.PIPE if has_stdin else subprocess.DEVNULL,
                stderr=self._words,
                pass_fds=(theirs.fileno(),),
                env={**os.environ, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path), **environment},
                start_new_session=True,
            )

    def write(self, content: bytes) -> None:
        """Write all of it. Nothing happens where the process has ended: `ending` says how."""
        try:
            if self._process.stdin is None:
                self._socket.sendall(content)
            else:
                self._process.stdin.write(content)
                self._process.stdin.flush()
        except OSError:
            pass

    def read(self) -> bytes:
        """What it wrote next; nothing once it has ended."""
        try:
            return self._socket.recv(MOST_BYTES)
        except OSError:
            return b""

    def ending(self) -> tuple[int, bytes]:
        """Its return code, negative for a signal, and the end of its standard error."""
        code = self._process.wait()
        size = self._words.seek(0, os.SEEK_END)
        self._words.seek(max(size - MOST_WORDS, 0))
        return code, self._words.read()
