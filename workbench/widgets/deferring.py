"""How work reaches the event loop of a board's host."""

from collections.abc import Callable

Defer = Callable[[Callable[[], None]], None]
"""Moves work from any thread to the host's event loop, after what runs there."""


def at_once(work: Callable[[], None]) -> None:
    """Call it at once: no deferring."""
    work()
