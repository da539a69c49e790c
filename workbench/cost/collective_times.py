"""Predict the time of a collective by the alpha-beta model: latency per message (alpha) and time per byte (beta).

Letters: `n` devices per group, `V` payload in bytes (`Collective.payload`: the larger of
operand and result on one device), `B` bytes per second of one link in one direction, `a` seconds per hop, `t` the stride of a group:
with devices `t` apart, `t` groups share every link.

Sources: Austin et al., How to Scale Your Model (the scaling book), parts 3 (TPU) and 12 (GPU); Chan et al., Collective communication:
theory, practice, and experience, 2007, for lines and tori; Thakur, Rabenseifner, Gropp, Optimization of Collective Communication Operations
in MPICH, 2005, for log2(n) steps on a switch.
"""

import functools
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

from workbench.core.mesh import Mesh
from workbench.cost.nccl_algorithms import Line, SwitchedGroup, gather_lines, reduce_lines
from workbench.errors import HardwareError
from workbench.hardware.axis_assignment_text import AxisAssignment
from workbench.hardware.axis_placement import PhysicalSpan, PhysicalSpans, physical_spans
from workbench.hardware.hardware import AxisTopology, Hardware, Link


def collective_seconds(
    kind: str,
    axes: tuple[str, ...],
    payload: int,
    mesh: Mesh,
    hardware: Hardware,
    axis_assignment: AxisAssignment | None = None,
    devices: int | None = None,
) -> float:
    """Return the seconds of one execution of a collective over these mesh axes.

    `kind` is in `collective.KINDS`; `payload` is bytes of the larger of operand and result on one device; `devices` is
    the group size, if smaller than the product of the axes (Shardy's sub-axes). Never raises if the mesh does not fit
    the hardware: the default axis assignment is used, or hardware enlarged along its outermost axis; a diagnostic
    reports it.
    """
    return min(line.seconds(payload) for line in _lines(kind, axes, mesh, hardware, axis_assignment, devices))


@functools.lru_cache(maxsize=1 << 14)
def _lines(
    kind: str, axes: tuple[str, ...], mesh: Mesh, hardware: Hardware, axis_assignment: AxisAssignment | None, devices: int | None
) -> tuple[Line, ...]:
    """Return a line (seconds, seconds per byte) for each available algorithm."""
    group = group_of(axes, mesh, hardware, axis_assignment, devices)
    if not group:
        return (Line(0.0, 0.0),)
    if hardware.chip.platform == "cuda" and kind in ("all-reduce", "all-gather", "reduce-scatter"):
        switched = _switched_group(group)
        lines = reduce_lines(switched) if kind == "all-reduce" else gather_lines(switched)
        overhead = hardware.runtime.collective_step * (switched.n - 1) * (2 if kind == "all-reduce" else 1)
        return tuple(line._replace(alpha=line.alpha + overhead) for line in lines)
    if kind == "all-reduce":
        gather_line = _gather_rates(group)
        return (Line(2 * gather_line.alpha, 2 * gather_line.beta),)
    if kind in ("all-gather", "reduce-scatter"):
        return (_gather_rates(group),)
    return (_exchange_rates(group) if kind == "all-to-all" else _permute_rates(group),)


def _switched_group(group: "Group") -> SwitchedGroup:
    """Return a group of GPUs as NCCL sees it: the innermost level is a node, the others connect nodes."""
    inside = next((dimension for level in group for dimension in level if dimension.is_inside), None)
    outer = [dimension for level in group for dimension in level if not dimension.is_inside]
    return SwitchedGroup(
        inside.n if inside else 1,
        math.prod(dimension.n for dimension in outer),
        inside.link if inside else None,
        outer[0].link if outer else None,
        inside.bandwidth if inside else math.inf,
        outer[0].bandwidth if outer else math.inf,
        (outer[0] if outer else inside or group[0][0]).own,
    )


@dataclass(frozen=True, slots=True)
class Dimension:
    """`n` devices along one physical axis; `bandwidth` is achieved, `own` nominal (bytes/s); `is_inside`: in a node."""

    n: int
    stride: int
    shape: AxisTopology
    link: Link
    bandwidth: float
    own: float = 0.0
    is_inside: bool = False

    @property
    def latency(self) -> float:
        """Seconds until the farthest device receives: half a ring, a whole line, or log2(n) switch steps."""
        if self.shape is AxisTopology.SWITCH:
            return self.link.latency * math.ceil(math.log2(self.n))
        return self.link.latency * self.stride * (self.n // 2 if self.shape is AxisTopology.RING else self.n - 1)

    @property
    def gather(self) -> float:
        """Seconds per byte of an all-gather's result (a reduce-scatter's operand) along this dimension alone.

        - ring, both directions: `floor(n/2)` hops of a shard, `floor(n/2) / (n B)`, for even n the book's `V / 2B`
          (part 3);
        - line: the end receives all other shards over one link, `(n-1) / (n B)` (part 3, problem of the all-gather on
          v5e);
        - switch: `(n-1) / (n B)` (part 12).
        """
        hops = self.n // 2 if self.shape is AxisTopology.RING else self.n - 1
        return hops / self.n / self._bandwidth_share

    @property
    def exchange(self) -> float:
        """Seconds per byte of an all-to-all's local array along this dimension alone.

        - ring: a chunk of `V/n` travels n/4 hops on average: `floor(n^2/4) / (2 n B)`, the book's quarter of an
          all-gather of `n V` bytes;
        - line: each half sends to the other over one link: `floor(n^2/4) / (n B)`;
        - switch: `(n-1) / (n B)`.
        """
        if self.shape is AxisTopology.SWITCH:
            return (self.n - 1) / self.n / self._bandwidth_share
        return (self.n * self.n // 4) / self.n / self._bandwidth_share / (2 if self.shape is AxisTopology.RING else 1)

    @property
    def ports(self) -> float:
        """Bytes per second that the worst-placed device can receive: both links of a ring, one at a line's end."""
        return self._bandwidth_share * (2 if self.shape is AxisTopology.RING else 1)

    @property
    def _bandwidth_share(self) -> float:
        """Bytes per second of a link for one group; interleaved groups share the link."""
        return self.bandwidth / (1 if self.shape is AxisTopology.SWITCH else self.stride)


Group = tuple[tuple[Dimension, ...], ...]  # levels from innermost to outermost; dimensions of one torus share a level


def group_of(
    axes: tuple[str, ...], mesh: Mesh, hardware: Hardware, axis_assignment: AxisAssignment | None = None, devices: int | None = None
) -> Group:
    """Return the devices joined by one collective over these mesh axes; empty for a single device."""
    spans = closest_spans(mesh, hardware, axis_assignment)
    group_spans = [
        physical_span for name in dict.fromkeys(axes) if name in spans for physical_span in spans[name] if physical_span.size > 1
    ]
    levels: list[list[Dimension]] = []
    for axis in reversed(hardware.axes):
        axis_spans = [physical_span for physical_span in group_spans if physical_span.physical.name == axis.name]
        if not axis_spans:
            continue
        dimension = _dimension(axis_spans, hardware)
        previous = levels[-1][-1] if levels else None
        if (
            previous
            and previous.shape is not AxisTopology.SWITCH
            and axis.shape is not AxisTopology.SWITCH
            and previous.link.name == axis.link.name
        ):
            levels[-1].append(dimension)
        else:
            levels.append([dimension])
    group = tuple(map(tuple, levels))
    return group if devices is None else _shrink_group(group, devices)


def closest_spans(mesh: Mesh, hardware: Hardware, axis_assignment: AxisAssignment | None = None) -> PhysicalSpans:
    """Return the spans of each mesh axis, by the default assignment or on enlarged hardware if they do not fit."""
    for attempt in (axis_assignment, None):
        try:
            return physical_spans(mesh, hardware, attempt)
        except HardwareError:
            continue
    outermost = replace(hardware.axes[0], size=mesh.size)
    return physical_spans(mesh, replace(hardware, axes=(outermost, *hardware.axes[1:])))


def _dimension(axis_spans: Sequence[PhysicalSpan], hardware: Hardware) -> Dimension:
    axis = axis_spans[0].physical
    n = math.prod(physical_span.size for physical_span in axis_spans)
    span = max(physical_span.size * physical_span.stride for physical_span in axis_spans)
    closed = axis.shape is AxisTopology.RING and span == axis.size
    shape = axis.shape if closed or axis.shape is AxisTopology.SWITCH else AxisTopology.LINE
    chip = hardware.chip
    reached = chip.efficiency_of(axis.link.name) if axis.link.name in chip.efficiency else chip.efficiency_of("link")
    own = axis.link.bandwidth_of_device(hardware.axes[-1].size)
    return Dimension(n, max(span // n, 1), shape, axis.link, own * reached, own, axis.name == hardware.axes[-1].name)


def _shrink_group(group: Group, devices: int) -> Group:
    """Return the innermost `devices` of a group; a part of a ring is a line."""
    kept_levels: list[tuple[Dimension, ...]] = []
    for level in group:
        dimensions = []
        for dimension in level:
            n = min(dimension.n, devices)
            devices = math.ceil(devices / n)
            if n > 1:
                dimensions.append(dimension if n == dimension.n else replace(dimension, n=n, shape=_part_shape(dimension.shape)))
        if dimensions:
            kept_levels.append(tuple(dimensions))
    return tuple(kept_levels)


def _part_shape(shape: AxisTopology) -> AxisTopology:
    return AxisTopology.LINE if shape is AxisTopology.RING else shape


def _gather_rates(group: Group) -> Line:
    """Return the rates of an all-gather or reduce-scatter; outer levels move `V` divided by the devices inside.

    Switched levels are pipelined, as in NCCL, so the slowest counts (part 12); over a torus inside slices they run one
    after the other. Torus dimensions run at once, each on its part of the data (part 3: `V / (W axes)`), limited by
    each device's ports.
    """
    betas, inside = [], 1
    for level in group:
        n = math.prod(dimension.n for dimension in level)
        at_once = 1 / sum(1 / dimension.gather for dimension in level)
        received = (n - 1) / n / sum(dimension.ports for dimension in level)
        betas.append(max(at_once, received) / inside)
        inside *= n
    return Line(_latency(group), _combine_levels(group, betas))


def _exchange_rates(group: Group) -> Line:
    """Return the rates of an all-to-all, limited by the busiest dimension, since torus dimensions run at once."""
    return Line(_latency(group), _combine_levels(group, [max(dimension.exchange for dimension in level) for level in group]))


def _permute_rates(group: Group) -> Line:
    """Return the rates of sending the payload to the next device over the slowest link."""
    slowest = max((dimension for level in group for dimension in level), key=lambda dimension: dimension.stride / dimension.bandwidth)
    hops = 1 if slowest.shape is AxisTopology.SWITCH else slowest.stride
    return Line(max(dimension.link.latency for level in group for dimension in level) * hops, hops / slowest.bandwidth)


def _latency(group: Group) -> float:
    return sum(dimension.latency for level in group for dimension in level)


def _combine_levels(group: Group, betas: Sequence[float]) -> float:
    """Return seconds per byte over all levels: the slowest switched one, plus all others."""
    switched = [beta for level, beta in zip(group, betas, strict=True) if level[0].shape is AxisTopology.SWITCH]
    return max(switched, default=0.0) + sum(betas) - sum(switched)
