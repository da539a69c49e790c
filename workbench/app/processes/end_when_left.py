"""How a process that is a fork ends with its server: the kernel would tell it of the end of the process that forked it."""

import os
import select
import time
from multiprocessing.connection import Connection

GRACE = 1.0
"""Seconds that such a process has to end by itself."""


def end_when_left(connection: Connection) -> None:
    """Wait until nobody holds the other end of a connection, and end this process a moment later, whatever it is at.

    An end that sends nothing more still listens: a server that closes gracefully is not gone.
    """
    hung_up = select.poll()
    hung_up.register(connection, 0)
    hung_up.poll()
    time.sleep(GRACE)
    os._exit(1)
