"""Seconds of collectives between GPUs, by the algorithms and protocols that NCCL chooses from: rings, trees; Simple, LL128, LL.

Letters as in `communication`; a group has `m` devices in each of `N` nodes, `n` in all. Each choice is a line, alpha + beta V, and for each
size the quickest is taken, as NCCL does by its own table of the same form.

Source: NCCL (2.18), src/graph/tuning.cc, `ncclTopoTuneModel`: steps of a ring and of a tree, `baseLat`, `hwLat`, the shares of the bandwidth
that LL128, LL and trees have, the network's overhead in every step of a ring that leaves a node.
"""

from math import ceil, inf, log2
from typing import NamedTuple

from workbench.hardware.hardware import Link


class Line(NamedTuple):
    """Seconds that do not depend on the payload, and seconds a byte of it."""

    alpha: float
    beta: float


class Protocol(NamedTuple):
    """How NCCL moves a chunk: seconds to begin, and its latency inside and between nodes and its bandwidth as shares of Simple's."""

    begins: float
    inside: float
    between: float
    bandwidth: float


PROTOCOLS = {
    "simple": Protocol(8.4e-6, 1.0, 1.0, 1.0),
    "ll128": Protocol(14e-6, 1.9 / 3.4, 4.0 / 14, 0.92),
    "ll": Protocol(6.6e-6, 0.6 / 3.4, 2.7 / 14, 0.25),
}
_TREE_SHARE = 0.92


class SwitchedGroup(NamedTuple):
    """The devices of a collective: `m` in each of `N` nodes. Bandwidths are what a device's port, and its share of the adapters, achieve."""

    m: int
    N: int
    inside: Link | None
    between: Link | None
    port: float = inf
    adapter: float = inf

    @property
    def n(self) -> int:
        return self.m * self.N

    @property
    def protocols(self) -> tuple[str, ...]:
        return (self.between or self.inside or _NO_LINK).protocols

    @property
    def seconds_a_byte(self) -> float:
        """Of what passes each device of a ring: through its port, and between nodes over the adapters of all of a node's devices."""
        return max(1 / self.port, 1 / (self.m * self.adapter))


_NO_LINK = Link("none", inf, 0.0)


def gather_lines(group: SwitchedGroup) -> tuple[Line, ...]:
    """All-gather of V bytes, and reduce-scatter backwards: a ring."""
    return tuple(_ring(group, PROTOCOLS[each], 1) for each in group.protocols)


def reduce_lines(group: SwitchedGroup) -> tuple[Line, ...]:
    """All-reduce of V bytes: two turns of a ring, or up and down a tree; or as it was measured on such a network."""
    if group.between is not None and group.between.reached:
        return (Line(PROTOCOLS["simple"].begins, 2 * (group.n - 1) / group.n / (group.m * group.adapter * group.between.reached_over(group.N))),)
    chosen = [PROTOCOLS[each] for each in group.protocols]
    return (*(_ring(group, each, 2) for each in chosen), *(_tree(group, each) for each in chosen if group.N > 1))


def _ring(group: SwitchedGroup, protocol: Protocol, turns: int) -> Line:
    """Of the n - 1 steps of a turn N go between nodes; where any does, no step is quicker than the network's overhead."""
    between = group.between or _NO_LINK
    overhead = between.overhead * protocol.between if group.N > 1 else 0.0
    inside = max((group.inside.latency if group.inside else 0.0) * protocol.inside, overhead)
    outward = min(group.N, group.n - 1) if group.N > 1 else 0
    alpha = (group.n - 1 - outward) * inside + outward * max(between.latency * protocol.between, overhead)
    return Line(protocol.begins + turns * alpha, turns * (group.n - 1) / group.n * group.seconds_a_byte / protocol.bandwidth)


def _tree(group: SwitchedGroup, protocol: Protocol) -> Line:
    """A chain inside each node, a binary tree of nodes, up and down."""
    inside = (group.inside.latency if group.inside else 0.0) * protocol.inside
    between = (group.between.latency if group.between else 0.0) * protocol.between
    alpha = 2 * ((group.m - 1) * inside + ceil(log2(group.N)) * between)
    return Line(protocol.begins + alpha, 2 * group.seconds_a_byte / _TREE_SHARE / protocol.bandwidth)
