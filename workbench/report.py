"""What the planner says of a plan: placements, collectives, memory, flops, time and what to mind. A value; `print` it."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from math import ceil, prod
from typing import TYPE_CHECKING

from workbench.graph import Graph
from workbench.kernel import Kernel
from workbench.mesh import Mesh
from workbench.own_annotations import OwnAnnotations
from workbench.padding import Padding
from workbench.propagation import EMPTY, Propagation
from workbench.reshard import Reshard
from workbench.sharding import Sharding
from workbench.tensor import Role, Tensor, itemsize
from workbench.timeline import Timeline

if TYPE_CHECKING:
    from workbench.edits import Edit
    from workbench.pipeline.report import PipelineReport
    from workbench.plan import Plan

KINDS = ("all-reduce", "reduce-scatter", "all-gather", "all-to-all", "collective-permute")


def collective_class(kind: str) -> str:
    """All-reduce and reduce-scatter are one class, `reduce`: a compiler that forms no reduce-scatter all-reduces as much and slices."""
    return "reduce" if kind in ("all-reduce", "reduce-scatter") else kind


@dataclass(frozen=True, slots=True)
class Placement:
    """One argument or result and where it lies."""

    tensor: Tensor
    sharding: Sharding
    mesh: Mesh

    @property
    def local_shape(self) -> tuple[int, ...]:
        """The shape on one device."""
        return self.sharding.local_shape(self.tensor.shape, self.mesh)

    @property
    def local_bytes(self) -> int:
        """Bytes on one device, padding included."""
        return ceil(prod(self.local_shape) * itemsize(self.tensor.dtype))


@dataclass(frozen=True, slots=True)
class Value:
    """Intermediate values that are alike: same scope, operation, shape and sharding; `count` of them are computed a step."""

    path: str
    kind: str
    dtype: str
    shape: tuple[int, ...]
    dims: tuple[str, ...]
    sharding: Sharding
    local_shape: tuple[int, ...]
    count: int
    source: str


@dataclass(frozen=True, slots=True)
class Collective:
    """One communication of the step.

    - `payload`: bytes of the larger of operand and result on one device, for one execution;
    - `sent`: bytes that leave each device for one execution on a ring (all-reduce `2V(n-1)/n`,
      all-gather and reduce-scatter `V(n-1)/n`, all-to-all `V(n-1)/n`, permute `V`; V the payload);
    - `count`: executions a step, loops multiplied by their trip counts;
    - `seconds`: of one execution on the hardware of the report, 0 without any.
    """

    kind: str
    axes: tuple[str, ...]
    payload: int
    sent: int
    count: int
    path: str
    source: str
    seconds: float = 0.0

    @property
    def total_payload(self) -> int:
        """Payload bytes a device and step."""
        return self.payload * self.count

    @property
    def total_sent(self) -> int:
        """Bytes that leave each device a step."""
        return self.sent * self.count


@dataclass(frozen=True, slots=True)
class Memory:
    """Bytes on one device at the peak of the step, by role; their sum is the peak.

    `host` are bytes it keeps in the host's memory, `capacity` what a device of the report's hardware has; 0 without any.
    """

    by_role: Mapping[Role, int]
    host: int = 0
    capacity: int = 0

    @property
    def fits(self) -> bool:
        """Whether a device has as much; without hardware, any has."""
        return not self.capacity or self.peak <= self.capacity

    @property
    def peak(self) -> int:
        return sum(self.by_role.values())


@dataclass(frozen=True, slots=True)
class Alive:
    """Values of one named scope that are alive at the peak: `count` of them, `bytes` together, on one device."""

    path: str
    role: Role
    bytes: int
    count: int


@dataclass(frozen=True, slots=True)
class Product:
    """Matrix products and convolutions that are alike: `count` executions a step.

    `flops` are those of one execution over all devices, `per_device` what one device does of them; `axes` the mesh axes that share them.
    """

    path: str
    source: str
    count: int
    flops: int
    per_device: int
    axes: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class MemoryCurve:
    """Bytes on one device over the step.

    - `paths`: the operation at each place of main, a loop at its own with the worst moment inside it;
    - `by_role`: bytes at each place; the largest sum over the roles is `Memory.peak`.
    """

    paths: tuple[str, ...]
    by_role: Mapping[Role, tuple[int, ...]]

    def near(self, place: int) -> str:
        """The operation at a place, or the last one before it: some places are of operations that came to nothing."""
        return next((path for path in reversed(self.paths[: place + 1]) if path), "the start")


@dataclass(frozen=True, slots=True)
class Flops:
    """Floating-point operations of matrix products and convolutions in one step (2 for a multiply-add), loops multiplied out.

    - `unique`: what the program computes, `per_device` what one device does: Mesh-TensorFlow's `einsum_unique` and `einsum` counters;
    - `model`: `unique` without what rematerialisation computes again;
    - `six_nd`: the convention of 6 x parameters x tokens for a training step, 2 x for a forward pass; 0 where no tokens are read.
    """

    unique: int
    per_device: int
    devices: int
    model: int = 0
    six_nd: int = 0

    @property
    def duplication(self) -> float:
        """How often the same work is done because a mesh axis is unused; 1 is none."""
        return self.per_device * self.devices / self.unique if self.unique else 1.0


@dataclass(frozen=True, slots=True)
class StepTime:
    """Seconds of one step on `hardware`, on one device.

    - `arithmetic`, `memory`: time in kernels that are bound by arithmetic, and by memory traffic (roofline);
    - `launch`: time between kernels;
    - `exposed`: communication during which the device computes nothing; `hidden`: communication behind computation;
    - `mfu`: model FLOPs utilisation, `Flops.model` over what all devices could have done in `total`, each product at the peak of its own
      type (PaLM, appendix B); `hfu`, hardware FLOPs utilisation, counts what is computed again and what is duplicated too;
    - `sustained`: the share of the compiler's own estimate of kernels that such a device reaches when it runs; counted in all of the above.
    """

    hardware: str
    arithmetic: float
    memory: float
    launch: float
    exposed: float
    hidden: float
    mfu: float = 0.0
    hfu: float = 0.0
    sustained: float = 1.0

    @property
    def compute(self) -> float:
        """Seconds in kernels."""
        return self.arithmetic + self.memory

    @property
    def estimate(self) -> float:
        """Seconds in kernels and between them as the compiler would estimate them."""
        return self.compute * self.sustained + self.launch

    @property
    def communication(self) -> float:
        """Seconds of communication, hidden or not."""
        return self.exposed + self.hidden

    @property
    def total(self) -> float:
        return self.arithmetic + self.memory + self.launch + self.exposed


@dataclass(frozen=True, slots=True)
class Diagnostic:
    """Something to mind in a plan: its subject, what is so, and edits that would mend it."""

    kind: str
    subject: str
    message: str
    edits: "tuple[Edit, ...]" = ()


@dataclass(frozen=True)
class Report:
    """All the planner's facts about a plan. Same plan, same report."""

    plan: "Plan"
    arguments: tuple[Placement, ...]
    results: tuple[Placement, ...]
    collectives: tuple[Collective, ...]
    memory: Memory
    flops: Flops
    traffic: int  # bytes one device reads and writes in its memory in a step
    kernels: int = 0  # fused operations one device runs in a step
    host_traffic: int = 0  # bytes one device sends to the host's memory and fetches back in a step
    diagnostics: tuple[Diagnostic, ...] = ()
    step_time: StepTime | None = None
    list_values: Callable[[], tuple[Value, ...]] = field(default=tuple, compare=False, repr=False)
    make_memory_curve: Callable[[], MemoryCurve] = field(default=lambda: MemoryCurve((), {}), compare=False, repr=False)
    list_alive: Callable[[], tuple[Alive, ...]] = field(default=tuple, compare=False, repr=False)
    list_alive_at: Callable[[int], tuple[Alive, ...]] = field(default=lambda _: (), compare=False, repr=False)
    list_products: Callable[[], tuple[Product, ...]] = field(default=tuple, compare=False, repr=False)
    make_timeline: Callable[[], Timeline | None] = field(default=lambda: None, compare=False, repr=False)
    list_kernels: Callable[[], tuple[Kernel, ...]] = field(default=tuple, compare=False, repr=False)
    make_graph: Callable[[], Graph] = field(default=Graph, compare=False, repr=False)
    make_pipeline: "Callable[[], PipelineReport | None]" = field(default=lambda: None, compare=False, repr=False)
    read_own: Callable[[], OwnAnnotations] = field(default=OwnAnnotations, compare=False, repr=False)
    list_reshards: Callable[[], tuple[Reshard, ...]] = field(default=tuple, compare=False, repr=False)
    list_padding: Callable[[], tuple[Padding, ...]] = field(default=tuple, compare=False, repr=False)
    make_propagation: Callable[[], Propagation] = field(default=lambda: EMPTY, compare=False, repr=False)

    @property
    def mesh(self) -> Mesh:
        return self.plan.mesh

    @cached_property
    def values(self) -> tuple[Value, ...]:
        """The intermediate values, alike ones together; made when first asked for."""
        return self.list_values()

    @cached_property
    def reshards(self) -> tuple[Reshard, ...]:
        """Where shardings turn into others: what XLA gathers whole first, then by bytes sent; made when first asked for."""
        from workbench.remedies import find_remedies

        return tuple(replace(each, find_remedies=partial(find_remedies, self)) for each in self.list_reshards())

    @cached_property
    def padding(self) -> tuple[Padding, ...]:
        """Values whose dimensions do not divide, the most wasteful first; made when first asked for."""
        return self.list_padding()

    @cached_property
    def propagation(self) -> Propagation:
        """How the shardings spread, step by step, and the wishes that lost; made when first asked for."""
        return self.make_propagation()

    def explain(self, value: str = "", dim: "int | str | None" = None) -> str:
        """Why a value lies as it does, in words: an argument, a result or an intermediate value by its path or a pattern, a source line.

        `dim` is a dimension by its place or name, all if left out. Without a value: every conflict, and what decides it the other way.
        Raises `PropagationError` for what does not exist.
        """
        from workbench.propagation_text import explanation_text

        return explanation_text(self, value, dim)

    @cached_property
    def memory_curve(self) -> MemoryCurve:
        """Memory over the step; made when first asked for."""
        return self.make_memory_curve()

    @cached_property
    def alive(self) -> tuple[Alive, ...]:
        """What is in memory at the peak, by named scope, the largest first; made when first asked for."""
        return self.list_alive()

    @cached_property
    def products(self) -> tuple[Product, ...]:
        """The matrix products of a step, the largest on one device first; made when first asked for."""
        return self.list_products()

    def alive_at(self, place: int) -> tuple[Alive, ...]:
        """What is in memory at a place of `memory_curve`, the largest first; `IndexError` for a place that it does not have."""
        if not 0 <= place < len(self.memory_curve.paths):
            raise IndexError(f"The step has {len(self.memory_curve.paths)} places; {place} is none of them.")
        return self.list_alive_at(place)

    @cached_property
    def kernel_costs(self) -> tuple[Kernel, ...]:
        """What each kernel takes, the longest first; made when first asked for, empty without hardware."""
        return self.list_kernels()

    @cached_property
    def graph(self) -> Graph:
        """What the kernels hand to each other; made when first asked for."""
        return self.make_graph()

    @cached_property
    def own_annotations(self) -> OwnAnnotations:
        """What the traced function says of shardings by itself: constraints, explicit types, manual regions; read when first asked for."""
        return self.read_own()

    @cached_property
    def timeline(self) -> Timeline | None:
        """The simulated step as events; `None` without hardware."""
        return self.make_timeline()

    @cached_property
    def pipeline(self) -> "PipelineReport | None":
        """The stages, and the step simulated over them; `None` for a plan without a pipeline. Made when first asked for.

        Raises `PipelineError` where the program cannot be cut as the pipeline says.
        """
        return self.make_pipeline()

    @cached_property
    def notes(self) -> tuple[Diagnostic, ...]:
        """The diagnostics, those of the pipeline first: its stages are what must fit. Made when first asked for."""
        if self.plan.pipeline is None:
            return self.diagnostics
        from workbench.pipeline_notes import with_pipeline

        return with_pipeline(self)

    @cached_property
    def sent(self) -> int:
        """Bytes that leave each device a step."""
        return sum(each.total_sent for each in self.collectives)

    @cached_property
    def by_axis_and_kind(self) -> Mapping[tuple[tuple[str, ...], str], int]:
        """Payload bytes per device and step, for each set of mesh axes and each kind of collective."""
        totals: dict[tuple[tuple[str, ...], str], int] = {}
        for each in self.collectives:
            key = (each.axes, each.kind)
            totals[key] = totals.get(key, 0) + each.total_payload
        return totals

    def __str__(self) -> str:
        from workbench.text import report_text

        return report_text(self)

    def _repr_html_(self) -> str:
        from workbench.tables import html_of

        return html_of(lambda: str(self))

    def __repr__(self) -> str:
        return f"Report({self.plan!r})"
