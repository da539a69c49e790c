"""The kernels of a step: what each costs on one device, by the roofline (Williams, Waterman, Patterson 2009), the graph of them with the
collectives in between, and their times as events."""

from dataclasses import dataclass

from workbench.core.sharding import Sharding


@dataclass(frozen=True, slots=True)
class Kernel:
    """Kernels of the same scope, line and cost; `count` of them run a step.

    - `path`, `kind`, `source`: of the largest dot in it, or of the last operation fused into it, as in `Operation`;
    - `dtype`: of the dot's operands, or of the result where there is no dot;
    - `flops`: of its dots, `vector_flops`: of its elementwise work, `bytes`: read and written in the device's memory; of one execution;
    - `arithmetic`, `memory`: seconds of computing and of memory traffic, of which the longer counts; `launch`: seconds to the next kernel;
    - `is_estimated`: whether the chip's compiler gives an estimate of such kernels: XLA:TPU does not of gathers, scatters and sorts.
    """

    path: str
    kind: str
    source: str
    dtype: str
    count: int
    flops: int
    vector_flops: int
    bytes: int
    arithmetic: float
    memory: float
    launch: float
    is_estimated: bool = True

    @property
    def seconds(self) -> float:
        """Seconds of one execution."""
        return max(self.arithmetic, self.memory) + self.launch

    @property
    def total_seconds(self) -> float:
        """Seconds of all executions of a step."""
        return self.seconds * self.count

    def estimate(self, sustained: float) -> float:
        """Seconds of all executions, arithmetic and memory time multiplied by `sustained`; 0 where the compiler gives no estimate."""
        return self.is_estimated * (max(self.arithmetic, self.memory) * sustained + self.launch) * self.count

    @property
    def work(self) -> int:
        """FLOP of one execution."""
        return self.flops + self.vector_flops

    @property
    def intensity(self) -> float:
        """FLOP per byte; 0 for a kernel that only moves data."""
        return self.work / self.bytes if self.bytes else 0.0

    @property
    def rate(self) -> float:
        """FLOP per second."""
        return self.work / self.seconds if self.seconds else 0.0

    @property
    def bound(self) -> str:
        """What bounds its time: `memory`, `products`, `elementwise`, or its `launch` where that is the longest."""
        if self.launch > max(self.arithmetic, self.memory):
            return "launch"
        return "memory" if self.memory > self.arithmetic else "products" if self.flops else "elementwise"


# A step as a graph: its kernels, which reads the results of which, and the collectives in between. Made when it is first needed.


@dataclass(frozen=True, slots=True)
class GraphNode:
    """One kernel, or one input of the step.

    - `path`, `kind`, `source`: of the largest dot in it, or of the last operation fused into it, as in `Operation`; `count`: executions
      a step;
    - `shape`, `dtype`, `dims`, `sharding`: of its first result, over all devices;
    - `seconds`, `flops`: of all its executions on one device; `seconds` is 0 without hardware;
    - `known_as`: its path in other views, where a graph of several stages has another for it (`stage0/layers/1/dot_general`).
    """

    path: str
    kind: str
    source: str
    count: int
    shape: tuple[int, ...]
    dtype: str
    dims: tuple[str, ...]
    sharding: Sharding
    seconds: float = 0.0
    flops: int = 0
    is_input: bool = False
    known_as: str = ""

    @property
    def subject(self) -> str:
        """Its path in every view."""
        return self.known_as or self.path


@dataclass(frozen=True, slots=True)
class GraphSend:
    """One collective between two nodes, by their numbers; -1 where its operand is an argument, or its reader a result of the step.

    `sent`, `seconds`, `exposed` are of all its executions on one device, as in `Collective` and `Event`; `count` says how many.
    """

    kind: str
    axes: tuple[str, ...]
    maker: int
    reader: int
    path: str
    source: str
    count: int
    sent: int
    seconds: float = 0.0
    exposed: float = 0.0
    known_as: str = ""  # as of a node

    @property
    def subject(self) -> str:
        """Its path in every view."""
        return self.known_as or self.path


@dataclass(frozen=True, slots=True)
class Graph:
    """Nodes in program order, and edges (maker, reader) between them; loops are no nodes, their iterations are `count`s."""

    nodes: tuple[GraphNode, ...] = ()
    edges: tuple[tuple[int, int], ...] = ()
    sends: tuple[GraphSend, ...] = ()


# One step of one device as events on its streams: one of computation, one for each mesh axis whose links carry a collective.

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
