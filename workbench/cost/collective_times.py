"""Seconds of a collective by the alpha-beta model: messages that wait (alpha, the latency of a link) and bytes that flow (beta).

Letters: `n` devices of a group, `V` the payload in bytes (`Collective.payload`: the larger of
operand and result on one device), `B` bytes a second of one link in one direction, `a` seconds of one hop, `t` the stride of a group: where
devices stand `t` apart, `t` groups share every link.

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
    """Seconds of one execution of a collective over these mesh axes.

    `kind` is of `collective.KINDS`; `payload` the bytes of the larger of operand and result on one device; `devices` the size of a group,
    if it is smaller than the axes together (Shardy's sub-axes). Never raises for a mesh that does not fit the hardware: where the axis
    assignment does not, the default counts, and where the mesh is larger, hardware with enough of the outermost links; a diagnostic says
    so.
    """
    return min(line.seconds(payload) for line in _lines(kind, axes, mesh, hardware, axis_assignment, devices))


@functools.lru_cache(maxsize=1 << 14)
def _lines(
    kind: str, axes: tuple[str, ...], mesh: Mesh, hardware: Hardware, axis_assignment: AxisAssignment | None, devices: int | None
) -> tuple[Line, ...]:
    """Seconds that do not depend on the payload, and seconds a byte of it: a line for each algorithm there is a choice of."""
    group = group_of(axes, mesh, hardware, axis_assignment, devices)
    if not group:
        return (Line(0.0, 0.0),)
    if hardware.chip.platform == "cuda" and kind in ("all-reduce", "all-gather", "reduce-scatter"):
        switched = _switched_group(group)
        lines = reduce_lines(switched) if kind == "all-reduce" else gather_lines(switched)
        begun = hardware.runtime.collective_step * (switched.n - 1) * (2 if kind == "all-reduce" else 1)
        return tuple(line._replace(alpha=line.alpha + begun) for line in lines)
    if kind == "all-reduce":
        once = _gather_rates(group)
        return (Line(2 * once.alpha, 2 * once.beta),)
    if kind in ("all-gather", "reduce-scatter"):
        return (_gather_rates(group),)
    return (_exchange_rates(group) if kind == "all-to-all" else _permute_rates(group),)


def _switched_group(group: "Group") -> SwitchedGroup:
    """A group of GPUs, as NCCL sees it: the innermost level is that of a node, the others lie between nodes."""
    inside = next((each for level in group for each in level if each.is_inside), None)
    outer = [each for level in group for each in level if not each.is_inside]
    return SwitchedGroup(
        inside.n if inside else 1,
        math.prod(each.n for each in outer),
        inside.link if inside else None,
        outer[0].link if outer else None,
        inside.bandwidth if inside else math.inf,
        outer[0].bandwidth if outer else math.inf,
        (outer[0] if outer else inside or group[0][0]).own,
    )


@dataclass(frozen=True, slots=True)
class Dimension:
    """The devices of a group along one physical axis: `n` of them, each `stride` from the next. `bandwidth` is what a link achieves;
    `own` what it has; `is_inside`: the axis is the innermost one, that of a node."""

    n: int
    stride: int
    shape: AxisTopology
    link: Link
    bandwidth: float
    own: float = 0.0
    is_inside: bool = False

    @property
    def latency(self) -> float:
        """Seconds for the farthest device to receive: half a ring (both ways at once), a whole line, log2(n) steps through a switch."""
        if self.shape is AxisTopology.SWITCH:
            return self.link.latency * math.ceil(math.log2(self.n))
        return self.link.latency * self.stride * (self.n // 2 if self.shape is AxisTopology.RING else self.n - 1)

    @property
    def gather(self) -> float:
        """Seconds a byte of an all-gather's result (of a reduce-scatter's operand) along this dimension alone.

        - ring, both directions at once: `floor(n/2)` hops of a shard, `floor(n/2) / (n B)`, for even n the book's `V / 2B` (part 3);
        - line: the end must receive all others' shards over one link, `(n-1) / (n B)` (part 3, problem of the all-gather on v5e);
        - switch: `(n-1) / (n B)` (part 12).
        """
        hops = self.n // 2 if self.shape is AxisTopology.RING else self.n - 1
        return hops / self.n / self._bandwidth_share

    @property
    def exchange(self) -> float:
        """Seconds a byte of an all-to-all's local array along this dimension alone.

        - ring: a chunk of `V/n` travels n/4 hops in the mean: `floor(n^2/4) / (2 n B)`, the book's quarter of an all-gather of `n V` bytes;
        - line: each half sends to the other over one link: `floor(n^2/4) / (n B)`;
        - switch: `(n-1) / (n B)`.
        """
        if self.shape is AxisTopology.SWITCH:
            return (self.n - 1) / self.n / self._bandwidth_share
        return (self.n * self.n // 4) / self.n / self._bandwidth_share / (2 if self.shape is AxisTopology.RING else 1)

    @property
    def ports(self) -> float:
        """Bytes a second that the worst-placed device can receive: over both links of a ring, over one at a line's end."""
        return self._bandwidth_share * (2 if self.shape is AxisTopology.RING else 1)

    @property
    def _bandwidth_share(self) -> float:
        """Bytes a second of a link for one group: groups whose devices stand in between share the link."""
        return self.bandwidth / (1 if self.shape is AxisTopology.SWITCH else self.stride)


Group = tuple[tuple[Dimension, ...], ...]  # from the inside out: dimensions that work at once (a torus) stand together


def group_of(
    axes: tuple[str, ...], mesh: Mesh, hardware: Hardware, axis_assignment: AxisAssignment | None = None, devices: int | None = None
) -> Group:
    """The devices that one collective over these mesh axes joins; empty if there is only one."""
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
        beside = levels[-1][-1] if levels else None
        if (
            beside
            and beside.shape is not AxisTopology.SWITCH
            and axis.shape is not AxisTopology.SWITCH
            and beside.link.name == axis.link.name
        ):
            levels[-1].append(dimension)
        else:
            levels.append([dimension])
    whole = tuple(map(tuple, levels))
    return whole if devices is None else _shrink_group(whole, devices)


def closest_spans(mesh: Mesh, hardware: Hardware, axis_assignment: AxisAssignment | None = None) -> PhysicalSpans:
    """Where each axis of the mesh runs; by default if the axis assignment does not fit, and on enlarged hardware if the mesh is too
    large."""
    for attempt in (axis_assignment, None):
        try:
            return physical_spans(mesh, hardware, attempt)
        except HardwareError:
            continue
    outermost = replace(hardware.axes[0], size=mesh.size)
    return physical_spans(mesh, replace(hardware, axes=(outermost, *hardware.axes[1:])))


def _dimension(axis_spans: Sequence[PhysicalSpan], hardware: Hardware) -> Dimension:
    """The spans of a group on one physical axis as one: so many devices, with a common stride."""
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
    """The innermost `devices` of a group: what is outside is left out, and a part of a ring is a line."""
    kept_levels: list[tuple[Dimension, ...]] = []
    for level in group:
        dimensions = []
        for each in level:
            n = min(each.n, devices)
            devices = math.ceil(devices / n)
            if n > 1:
                dimensions.append(each if n == each.n else replace(each, n=n, shape=_part_shape(each.shape)))
        if dimensions:
            kept_levels.append(tuple(dimensions))
    return tuple(kept_levels)


def _part_shape(shape: AxisTopology) -> AxisTopology:
    return AxisTopology.LINE if shape is AxisTopology.RING else shape


def _gather_rates(group: Group) -> Line:
    """All-gather, and reduce-scatter backwards: outer levels move what is not yet gathered inside, `V` divided by the devices inside.

    Levels that are switched pipeline, as in NCCL, and the slowest counts (part 12); over a torus inside slices, one follows the other.
    Dimensions of a torus work at once, each on its part of the data (part 3: `V / (W axes)`), but no device receives more than its ports.
    """
    betas, inside = [], 1
    for level in group:
        n = math.prod(each.n for each in level)
        at_once = 1 / sum(1 / each.gather for each in level)
        received = (n - 1) / n / sum(each.ports for each in level)
        betas.append(max(at_once, received) / inside)
        inside *= n
    return Line(_latency(group), _combine_levels(group, betas))


def _exchange_rates(group: Group) -> Line:
    """All-to-all: every byte crosses each dimension on its way, all dimensions of a torus at once; the busiest counts."""
    return Line(_latency(group), _combine_levels(group, [max(each.exchange for each in level) for level in group]))


def _permute_rates(group: Group) -> Line:
    """Each device sends its payload to the next one; the slowest link of the group counts."""
    each = max((dimension for level in group for dimension in level), key=lambda dimension: dimension.stride / dimension.bandwidth)
    hops = 1 if each.shape is AxisTopology.SWITCH else each.stride
    return Line(max(dimension.link.latency for level in group for dimension in level) * hops, hops / each.bandwidth)


def _latency(group: Group) -> float:
    return sum(each.latency for level in group for each in level)


def _combine_levels(group: Group, betas: Sequence[float]) -> float:
    """Seconds a byte of all levels: of switched ones the slowest, the others one after another."""
    switched = [beta for level, beta in zip(group, betas, strict=True) if level[0].shape is AxisTopology.SWITCH]
    return max(switched, default=0.0) + sum(betas) - sum(switched)
