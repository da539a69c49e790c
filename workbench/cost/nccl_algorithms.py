"""Predict the time of collectives between GPUs with NCCL's algorithms (ring, tree) and protocols (Simple, LL128, LL).

A group has `m` devices in each of `N` nodes, `n` in total; other letters as in `collective_times`. Each choice is a
line, alpha + beta V, and the fastest is taken for each size, as in NCCL's own table. Measured shares of a network
(`Link.reduces`, `Link.gathers`) replace those of a protocol.

Source: NCCL (2.18), src/graph/tuning.cc, `ncclTopoTuneModel`: steps of ring and tree, `baseLat`, `hwLat`, bandwidth
shares of LL128, LL and trees, network overhead of each ring step between nodes.
"""

from math import ceil, exp, inf, log, log2
from typing import NamedTuple

import numpy as np

from workbench.hardware.hardware import NCCL_PROTOCOLS, Link, MeasuredShares


class Line(NamedTuple):
    """Constant seconds, seconds per payload byte, and a minimum."""

    alpha: float
    beta: float
    floor: float = 0.0

    def seconds(self, payload: int) -> float:
        return max(self.alpha + self.beta * payload, self.floor)


class Protocol(NamedTuple):
    """An NCCL protocol: startup seconds, and latencies inside and between nodes and bandwidth relative to Simple."""

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
    """The devices of a collective: `m` in each of `N` nodes.

    `port` and `adapter` are the achieved bytes per second of a device's port, and of its share of the node's adapters;
    `own` is the nominal bandwidth of the slower one.
    """

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
        """The network if the group spans nodes, else the link inside."""
        return self.between or self.inside or _NO_LINK

    def seconds_per_byte(self, measured: MeasuredShares) -> float:
        """Return seconds per byte of a ring.

        Bytes pass the device's port, or between nodes the adapters of all devices of the node, as rings leave by each.
        """
        if not measured:
            return max((1 - 1 / self.m if self.N > 1 else 1) / self.port, 1 / (self.m * self.adapter))
        share = interpolate_share(self.n, measured)
        return 1 / (self.own * share * (self.m if self.between else 1))


def interpolate_share(devices: int, measured: MeasuredShares) -> float:
    """Return the bandwidth share for this number of devices, interpolated over the logarithm of measured counts.

    >>> round(interpolate_share(16, ((8, 0.8), (32, 0.2))), 6)
    0.4
    """
    counts, shares = zip(*measured, strict=True)
    return exp(np.interp(log(devices), np.log(counts), np.log(shares)))


def gather_lines(group: SwitchedGroup) -> tuple[Line, ...]:
    """Return lines for an all-gather, or a reduce-scatter, of V bytes: a ring."""
    link = group.bottleneck
    return tuple(_ring(group, PROTOCOLS[name], 1, link.gathers) for name in link.protocols)


def reduce_lines(group: SwitchedGroup) -> tuple[Line, ...]:
    """Return lines for an all-reduce of V bytes: two ring passes, or up and down a tree."""
    link = group.bottleneck
    protocols = [PROTOCOLS[name] for name in link.protocols]
    if link.reduces:  # measured with NCCL's own choice
        beta = 2 * (group.n - 1) / group.n * group.seconds_per_byte(link.reduces)
        return (Line(_tree(group, protocols[0]).alpha, beta),)
    return (*(_ring(group, protocol, 2, ()) for protocol in protocols), *(_tree(group, protocol) for protocol in protocols if group.N > 1))


def _ring(group: SwitchedGroup, protocol: Protocol, turns: int, measured: MeasuredShares) -> Line:
    """Return a ring's line; N of n - 1 steps go between nodes, which makes all wait for the network overhead."""
    between, steps = group.between or _NO_LINK, group.n - 1
    outward = min(group.N, steps) if group.N > 1 else 0
    alpha = (steps - outward) * _inside(group, protocol) + outward * between.latency * protocol.between
    beta = steps / group.n * group.seconds_per_byte(measured) / (1 if measured else protocol.bandwidth)
    return Line(protocol.begins + turns * alpha, turns * beta, turns * steps * between.overhead * protocol.between)


def _tree(group: SwitchedGroup, protocol: Protocol) -> Line:
    """Return a tree's line: a chain inside each node and a binary tree of nodes, up and down."""
    between = (group.between or _NO_LINK).latency * protocol.between
    alpha = 2 * ((group.m - 1) * _inside(group, protocol) + ceil(log2(group.N)) * between)
    return Line(protocol.begins + alpha, 2 * group.seconds_per_byte(()) / _TREE_SHARE / protocol.bandwidth)


def _inside(group: SwitchedGroup, protocol: Protocol) -> float:
    return (group.inside or _NO_LINK).latency * protocol.inside
