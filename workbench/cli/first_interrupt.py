"""Ctrl-C as a wish to stop: the first one is kept for whoever asks, the second one leaves at once."""

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager


@contextmanager
def first_interrupt(say: Callable[[], None]) -> Iterator[Callable[[], bool]]:
    """Within it, whether Ctrl-C was pressed; `say` is called when it is. Only the main thread hears of it: in another it is never pressed.

    A second Ctrl-C raises `KeyboardInterrupt`, as the first does after it.
    """
    heard = threading.Event()

    def hear(number: int, _frame: object) -> None:
        signal.signal(number, signal.default_int_handler)
        heard.set()
        say()

    if threading.current_thread() is not threading.main_thread():
        yield heard.is_set
        return
    before = signal.signal(signal.SIGINT, hear)
    try:
        yield heard.is_set
    finally:
        signal.signal(signal.SIGINT, before)
