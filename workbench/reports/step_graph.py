"""A step as a graph: its kernels, which reads the results of which, and the collectives in between. Made when it is first needed."""

from dataclasses import dataclass

from workbench.core.sharding import Sharding


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
