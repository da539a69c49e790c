"""The kernels of a step with roofline costs (Williams, Waterman, Patterson 2009), their graph, and their timeline."""

from dataclasses import dataclass

from workbench.core.sharding import Sharding


@dataclass(frozen=True, slots=True)
class Kernel:
    """Kernels of equal scope, line and cost; `count` of them run per step.

    - `path`, `kind`, `source`: of the largest dot in it, or of the last operation fused into it, as in `Operation`;
    - `dtype`: of the dot's operands, or of the result without a dot;
    - `flops`: of its dots; `vector_flops`: of its elementwise work; `bytes`: read and written in device memory; per
      execution;
    - `arithmetic`, `memory`: seconds of computing and of memory traffic, of which the longer counts; `launch`: seconds
      until the next kernel starts;
    - `is_estimated`: whether the compiler estimates such kernels: XLA:TPU does not for gathers, scatters and sorts.
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
        return max(self.arithmetic, self.memory) + self.launch

    @property
    def total_seconds(self) -> float:
        return self.seconds * self.count

    def estimate(self, sustained: float) -> float:
        """Return the total seconds with arithmetic and memory time scaled by `sustained`; 0 if not estimated."""
        return self.is_estimated * (max(self.arithmetic, self.memory) * sustained + self.launch) * self.count

    @property
    def work(self) -> int:
        return self.flops + self.vector_flops

    @property
    def intensity(self) -> float:
        """FLOP per byte; 0 if the kernel accesses no device memory."""
        return self.work / self.bytes if self.bytes else 0.0

    @property
    def rate(self) -> float:
        return self.work / self.seconds if self.seconds else 0.0

    @property
    def bound(self) -> str:
        """The limiting resource: `memory`, `products`, `elementwise`, or `launch`."""
        if self.launch > max(self.arithmetic, self.memory):
            return "launch"
        return "memory" if self.memory > self.arithmetic else "products" if self.flops else "elementwise"


# A step as a graph of kernels and collectives, built on first use.


@dataclass(frozen=True, slots=True)
class GraphNode:
    """One kernel, or one input of the step.

    - `path`, `kind`, `source`: of the largest dot in it, or of the last operation fused into it, as in `Operation`;
      `count`: executions per step;
    - `shape`, `dtype`, `dims`, `sharding`: of its first result, over all devices;
    - `seconds`, `flops`: of all its executions on one device; `seconds` is 0 without hardware;
    - `known_as`: its path in other views, if different in a graph of several stages (`stage0/layers/1/dot_general`).
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
        return self.known_as or self.path


@dataclass(frozen=True, slots=True)
class GraphSend:
    """A collective between two nodes, by index; -1 if its operand is an argument, or its reader a result of the step.

    `sent`, `seconds`, `exposed` are of all its `count` executions on one device, as in `Collective` and `Event`.
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
    known_as: str = ""  # as in `GraphNode`

    @property
    def subject(self) -> str:
        return self.known_as or self.path


@dataclass(frozen=True, slots=True)
class Graph:
    """Nodes in program order and edges (maker, reader); loop iterations are node `count`s."""

    nodes: tuple[GraphNode, ...] = ()
    edges: tuple[tuple[int, int], ...] = ()
    sends: tuple[GraphSend, ...] = ()


# One step of one device as events: a compute stream, and a stream per mesh axis with collectives.

COMPUTE = "compute"


@dataclass(frozen=True, slots=True)
class Event:
    """A kernel or collective; a loop has events of its first iteration and one event of kind `loop` for the rest.

    `start` and `seconds` are of the first execution; `count` is executions per step; `exposed` is the seconds that the
    device waits for it.
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
    """All events by stream and start; `seconds` is the step time."""

    seconds: float
    events: tuple[Event, ...]

    @property
    def streams(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys((COMPUTE, *(event.stream for event in self.events))))
