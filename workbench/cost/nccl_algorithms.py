"""Seconds of collectives between GPUs, by the algorithms and protocols that NCCL chooses from: rings, trees; Simple, LL128, LL.

Letters as in `communication`; a group has `m` devices in each of `N` nodes, `n` in all. Each choice is a line, alpha + beta V, and for each
size the quickest is taken, as NCCL does by its own table of the same form. Where a network's shares were measured (`Link.reduces`,
`Link.gathers`), they count instead of a protocol's.

Source: NCCL (2.18), src/graph/tuning.cc, `ncclTopoTuneModel`: steps of a ring and of a tree, `baseLat`, `hwLat`, the shares of the
bandwidth that LL128, LL and trees have, the network's overhead in every step of a ring that leaves a node.
"""

from math import ceil, exp, inf, log, log2
from typing import NamedTuple

import numpy as np

from workbench.hardware.hardware import NCCL_PROTOCOLS, Link, MeasuredShares


class Line(NamedTuple):
    """Seconds that do not depend on the payload, seconds a byte of it, and the least it takes however small the payload is."""

    alpha: float
    beta: float
    floor: float = 0.0

    def seconds(self, payload: int) -> float:
        return max(self.alpha + self.beta * payload, self.floor)


class Protocol(NamedTuple):
    """How NCCL moves a chunk: seconds to begin, and its latency inside and between nodes and its bandwidth as shares of Simple's."""

    begins: float
    inside: float
    between: float
    bandwidth: float


_SIMPLE = Protocol(8.4e-6, 1.0, 1.0, 1.0)
_LL128 = Protocol(14e-6, 1.9 / 3.4, 4.0 / 14, 0.92)
_LL = Protocol(6.6e-6, 0.6 / 3.4, 2.7 / 14, 0.25)
PROTOCOLS = dict(zip(NCCL_PROTOCOLS, (_SIMPLE, _LL128, _LL), strict=True))
_TREE_SHARE = 0.92
_NO_LINK = Link("none", inf, 0.0)


class SwitchedGroup(NamedTuple):
    """The devices of a collective: `m` in each of `N` nodes. `port` and `adapter` are bytes a second that a device's port, and its share of
    its node's adapters, achieve in general; `own` what the slower of the two has."""

    m: int
    N: int
    inside: Link | None
    between: Link | None
    port: float = inf
    adapter: float = inf
    own: float = inf

    @property
    def n(self) -> int:
        return self.m * self.N

    @property
    def bottleneck(self) -> Link:
        """The network if the group leaves a node, else the link inside it."""
        return self.between or self.inside or _NO_LINK

    def seconds_a_byte(self, measured: MeasuredShares) -> float:
        """Of what passes each device of a ring: through its port, unless its step goes to another node; and between nodes over the adapters
        of all of a node's devices, each of which some ring leaves by."""
        if not measured:
            return max((1 - 1 / self.m if self.N > 1 else 1) / self.port, 1 / (self.m * self.adapter))
        share = share_over(self.n, measured)
        return 1 / (self.own * share * (self.m if self.between else 1))


def share_over(devices: int, measured: MeasuredShares) -> float:
    """The share of the bandwidth that so many devices reach: between measured counts in proportion of the logarithms, beyond them as at the
    nearest.

    >>> round(share_over(16, ((8, 0.8), (32, 0.2))), 6)
    0.4
    """
    counts, shares = zip(*measured, strict=True)
    return exp(np.interp(log(devices), np.log(counts), np.log(shares)))


def gather_lines(group: SwitchedGroup) -> tuple[Line, ...]:
    """All-gather of V bytes, and reduce-scatter backwards: a ring."""
    link = group.bottleneck
    return tuple(_ring(group, PROTOCOLS[each], 1, link.gathers) for each in link.protocols)


def reduce_lines(group: SwitchedGroup) -> tuple[Line, ...]:
    """All-reduce of V bytes: two turns of a ring, or up and down a tree."""
    link = group.bottleneck
    chosen = [PROTOCOLS[each] for each in link.protocols]
    if link.reduces:  # by what NCCL chose then
        whole = 2 * (group.n - 1) / group.n * group.seconds_a_byte(link.reduces)
        return (Line(_tree(group, chosen[0]).alpha, whole),)
    return (*(_ring(group, each, 2, ()) for each in chosen), *(_tree(group, each) for each in chosen if group.N > 1))


def _ring(group: SwitchedGroup, protocol: Protocol, turns: int, measured: MeasuredShares) -> Line:
    """Of the n - 1 steps of a turn N go between nodes; where any does, none is quicker than the network's overhead."""
    between, steps = group.between or _NO_LINK, group.n - 1
    outward = min(group.N, steps) if group.N > 1 else 0
    alpha = (steps - outward) * _inside(group, protocol) + outward * between.latency * protocol.between
    beta = steps / group.n * group.seconds_a_byte(measured) / (1 if measured else protocol.bandwidth)
    return Line(protocol.begins + turns * alpha, turns * beta, turns * steps * between.overhead * protocol.between)


def _tree(group: SwitchedGroup, protocol: Protocol) -> Line:
    """A chain inside each node, a binary tree of nodes, up and down."""
    between = (group.between or _NO_LINK).latency * protocol.between
    alpha = 2 * ((group.m - 1) * _inside(group, protocol) + ceil(log2(group.N)) * between)
    return Line(protocol.begins + alpha, 2 * group.seconds_a_byte(()) / _TREE_SHARE / protocol.bandwidth)


def _inside(group: SwitchedGroup, protocol: Protocol) -> float:
    return (group.inside or _NO_LINK).latency * protocol.inside
