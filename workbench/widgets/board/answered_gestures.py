"""Which gesture of which view was answered last. A host may lose a message: the page then asks again, and nothing is done twice."""

from typing import Any

from workbench.widgets.gestures.gesture import Message
from workbench.widgets.gestures.running import RefreshGesture


class Answers:
    """Identifies the gesture that a state answers: `last`, and `revision`, which counts how often the same state was sent again."""

    def __init__(self) -> None:
        self.last: dict[str, Any] = {"view": "", "seq": 0}
        self.revision = 0
        self._done: dict[str, int] = {}  # the last gesture of each view

    def begin(self, message: Message) -> bool:
        """Begin to answer this gesture; whether there is something to do for it, or the present state is only to be sent again."""
        self.last = {"view": str(message.get("view", ""))[:40], "seq": message.get("seq", 0)}
        view, number = self.last["view"], self.last["seq"]
        if message.get("verb") == RefreshGesture.verb or (message.get("again") and self._done.get(view) == number):
            self.revision += 1
            return False
        self._done[view] = number
        return True
