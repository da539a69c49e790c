"""One step of one device as events on its streams: one of computation, one for each mesh axis whose links carry a collective."""

from dataclasses import dataclass

COMPUTE = "compute"


@dataclass(frozen=True, slots=True)
class Event:
    """A kernel or a collective; of a loop the events of its first iteration, and one event of kind `loop` for the other iterations.

    `start` and `seconds` are of the first execution, `count` how often it runs a step; `exposed` the seconds the device waits for it.
    """

    stream: str
    start: float
    seconds: float
    path: str
    kind: str
    count: int = 1
    exposed: float = 0.0

    @property
    def end(self) -> float:
        return self.start + self.seconds


@dataclass(frozen=True, slots=True)
class Timeline:
    """All events, by stream and start; `seconds` is the step."""

    seconds: float
    events: tuple[Event, ...]

    @property
    def streams(self) -> tuple[str, ...]:
        """The streams in order of first appearance, the compute stream in front."""
        return tuple(dict.fromkeys((COMPUTE, *(event.stream for event in self.events))))
