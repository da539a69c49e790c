"""What the planner says of a plan: placements, collectives, memory, flops, time and what to mind. A value; `print` it."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from math import ceil, prod
from typing import TYPE_CHECKING

from workbench.core.mesh import Mesh
from workbench.core.sharding import Sharding
from workbench.core.source_annotations import OwnAnnotations
from workbench.core.tensor import Tensor, itemsize
from workbench.errors import WorkbenchError
from workbench.hardware.hardware import Hardware
from workbench.reports.collective import Collective
from workbench.reports.compiled import Compiled, Scheduled
from workbench.reports.graph import Graph
from workbench.reports.kernel import Kernel
from workbench.reports.memory import Alive, Memory, MemoryCurve
from workbench.reports.padding import Padding
from workbench.reports.partitioned import Partitioned
from workbench.reports.propagation import EMPTY, Propagation
from workbench.reports.reshard import Reshard
from workbench.reports.step_time import Flops, Product, StepTime
from workbench.reports.timeline import Timeline

if TYPE_CHECKING:
    from workbench.pipeline.report import PipelineReport
    from workbench.plan.edits import Edit
    from workbench.plan.plan import Plan


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


NO_ROOM = "does not fit"
"""The kind of the diagnostic that a plan holds more than a device has."""
UNKNOWN_TURNS = "unknown trip count"
"""The kind of the diagnostic that a loop runs as often as data say: what happens in it is counted once."""


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
    hardware: Hardware | None = None  # what time and capacity are of
    step_time: StepTime | None = None
    partitioned: Partitioned | None = None  # XLA's answer, where the collectives are of that
    compiled: Compiled | Scheduled | None = None  # for the hardware, where memory and step time are of that
    predicted: "Report | None" = field(default=None, compare=False, repr=False)  # the report before it was compiled, see `prediction`
    list_values: Callable[[], tuple[Value, ...]] = field(default=tuple, compare=False, repr=False)
    make_memory_curve: Callable[[], MemoryCurve] = field(default=lambda: MemoryCurve((), {}), compare=False, repr=False)
    list_alive: Callable[[], tuple[Alive, ...]] = field(default=tuple, compare=False, repr=False)
    list_alive_at: Callable[[int], tuple[Alive, ...]] = field(default=lambda _: (), compare=False, repr=False)
    list_products: Callable[[], tuple[Product, ...]] = field(default=tuple, compare=False, repr=False)
    make_timeline: Callable[[], Timeline | None] = field(default=lambda: None, compare=False, repr=False)
    list_kernels: Callable[[], tuple[Kernel, ...]] = field(default=tuple, compare=False, repr=False)
    make_graph: Callable[[], Graph] = field(default=Graph, compare=False, repr=False)
    make_pipeline: "Callable[[], PipelineReport | None]" = field(default=lambda: None, compare=False, repr=False)
    make_run: "Callable[[], Report | None]" = field(default=lambda: None, compare=False, repr=False)
    read_own: Callable[[], OwnAnnotations] = field(default=OwnAnnotations, compare=False, repr=False)
    list_reshards: Callable[[], tuple[Reshard, ...]] = field(default=tuple, compare=False, repr=False)
    list_padding: Callable[[], tuple[Padding, ...]] = field(default=tuple, compare=False, repr=False)
    make_propagation: Callable[[], Propagation] = field(default=lambda: EMPTY, compare=False, repr=False)

    @property
    def tier(self) -> str:
        """Who says it: `planned`, Shardy in this process; `partitioned`, XLA's own partitioner what is sent, and what follows from it;
        `compiled`, the hardware's compiler memory and kernel times, besides."""
        return "compiled" if self.compiled is not None else "planned" if self.partitioned is None else "partitioned"

    @property
    def is_compiled(self) -> bool:
        """Whether its compiler has gone all the way, code included, and not only scheduled it."""
        return isinstance(self.compiled, Compiled)

    @property
    def is_scheduled(self) -> bool:
        """Whether what is sent is its compiler's own, too: it was asked for its scheduled program."""
        return self.partitioned is not None and self.partitioned.scheduled is not None

    @property
    def has_compiled_times(self) -> bool:
        """Whether its kernels are as long as the compiler estimates them: XLA:TPU does, others say nothing of time."""
        return self.compiled is not None and self.compiled.compute_seconds is not None

    @property
    def prediction(self) -> "Report":
        """All as it was worked out before the plan was compiled; this report if it was not."""
        return self.predicted or self

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
        from workbench.analysis.remedies import find_remedies

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
        from workbench.text.propagation import explanation_text

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
    def as_run(self) -> "Report":
        """Of the one program that all devices run: of a pipeline in step (`engine:spmd`) the shifting buffer's, else this one. Made when
        first asked for.

        Raises `PipelineError` where the layers cannot be pipelined in step.
        """
        return self.make_run() or self

    @cached_property
    def _cut(self) -> "PipelineReport | None":
        try:
            return self.pipeline
        except WorkbenchError:
            return None

    @property
    def peak(self) -> int:
        """Bytes of the fullest device at its worst moment: of a pipeline one of its fullest stage, else `memory.peak`, as all devices."""
        return max(self._cut.simulated.peaks) if self._cut else self.memory.peak

    @property
    def seconds(self) -> float | None:
        """Of a step, of a pipeline if there is one; `None` without hardware."""
        if self.step_time is None:
            return None
        return self._cut.seconds if self._cut else self.step_time.total

    @cached_property
    def notes(self) -> tuple[Diagnostic, ...]:
        """The diagnostics, those of the pipeline first: its stages are what must fit. Made when first asked for."""
        if self.plan.pipeline is None:
            return self.diagnostics
        from workbench.analysis.pipeline_notes import with_pipeline

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
        from workbench.text.report import report_text

        return report_text(self)

    def _repr_html_(self) -> str:
        from workbench.text.tables import html_of

        return html_of(lambda: str(self))

    def __repr__(self) -> str:
        return f"Report({self.plan!r})"
