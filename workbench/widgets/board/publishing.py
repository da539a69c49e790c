"""The parts that a board shows. What changes while a gesture is answered is published after the answer."""

from collections.abc import Callable, Mapping
from typing import Any, Literal

Part = Literal["board", "table", "live"]
Publish = Callable[[Part, dict[str, Any]], None]


class Publisher:
    """Makes parts and publishes them; the answer to a gesture publishes the board once, at its end, and the tables after it."""

    def __init__(self, publish: Publish, makers: Mapping[Part, Callable[[], dict[str, Any]]]) -> None:
        self._publish, self._makers = publish, makers
        self._owed: set[Part] = set()
        self.answering = False

    def owes(self, part: Part) -> bool:
        """Whether a part has changed, and is not published yet."""
        return part in self._owed

    def owe(self, *parts: Part) -> None:
        """Publish these later."""
        self._owed |= set(parts)

    def show(self, *parts: Part) -> None:
        """Publish these now, or after the answer."""
        for part in parts:
            if self.answering:
                self._owed |= {part} - {"board"}
            else:
                self._publish(part, self._makers[part]())

    def show_owed(self) -> None:
        """Publish what the last answers left for later: the user waits for the board, and for the tables after it."""
        owed, self._owed = self._owed, set()
        self.show(*sorted(owed, reverse=True))  # the tables first
