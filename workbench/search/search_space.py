"""The space of a search: which candidates there are, in words and in number. Nothing here plans."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from math import prod

from workbench.core.pipeline_spec import PipelineSpec
from workbench.core.program import Program
from workbench.core.remat import Remat
from workbench.core.schedules import schedule_named
from workbench.errors import WorkbenchError
from workbench.hardware.catalogue import read_hardware
from workbench.plan.plan import Plan
from workbench.search.axis_assignments import list_axis_assignments
from workbench.search.candidates import NO_ZERO, RECOMPUTING, WHOLE, PlanCandidate
from workbench.search.layout_choices import LayoutChoice
from workbench.units import divisors

AS_TRACED = "as traced"
REMATS: Mapping[str, Remat] = {
    AS_TRACED: Remat(),
    "none": Remat("none"),
    "selective": Remat("dots_no_batch"),
    "full": Remat("full"),
}
"""What each word keeps of a layer. In a pipeline `full` is done by the schedule: a stage keeps its inputs."""
ZEROS = (NO_ZERO, "zero_1", "zero_2", "zero_3")


@dataclass(frozen=True)
class SearchSpace:
    """All combinations of the choices below that are legal for the program.

    - `start`: the plan that the search starts from; its statements are kept in every candidate (`layout_choices` adds to them);
    - `hardware`: texts of the hardware to choose from, with their numbers of devices;
    - `axes`: names of the mesh axes, major to minor; `data` carries examples, `stage` the stages of a pipeline; `sizes`
      fixes some, `kept_axes` are those that the start's own statements use;
    - `layouts`, `zeros`, `remats`, `schedules`: the choices by name;
    - `batch`: examples of a step (0: the program has no batch, or is no training step, and is not divided into micro-batches);
    - `blocks`: blocks of the network that a boundary may separate, `layers` those of them that are alike;
    - `programs`: the start's program traced with each remat of `REMATS`, `none` for those of `RECOMPUTING` where the schedule recomputes;
    - `with_axis_assignments`: whether the axes of a mesh may lie on other links than by default;
    - `most_examples`: of a micro-batch on one replica; `most_stages`, `most_chunks`, `most_micro_batches`.
    """

    start: Plan
    hardware: tuple[tuple[str, int], ...]
    axes: tuple[str, ...]
    layouts: tuple[LayoutChoice, ...]
    programs: tuple[tuple[str, Program], ...] = ()
    zeros: tuple[str, ...] = (NO_ZERO,)
    remats: tuple[str, ...] = (AS_TRACED,)
    schedules: tuple[str, ...] = ()
    batch: int = 0
    blocks: int = 1
    layers: int = 1
    most_examples: int = 16
    most_stages: int = 64
    most_chunks: int = 64
    most_micro_batches: int = 4096
    sizes: tuple[tuple[str, tuple[int, ...]], ...] = ()
    kept_axes: tuple[str, ...] = ()
    with_axis_assignments: bool = False

    @cached_property
    def layout_by_name(self) -> Mapping[str, LayoutChoice]:
        return {each.name: each for each in self.layouts}

    def program_of(self, remat: str) -> Program:
        """The program traced with this remat."""
        return dict(self.programs).get(remat, self.start.program)

    def cores(self) -> Iterator[PlanCandidate]:
        """Every combination of mesh, layout and remat that sizes allow, without ZeRO or a schedule."""
        for hardware, devices in self.hardware:
            for mesh in self._list_meshes(devices):
                large = {axis for axis, size in mesh if size > 1} - {"data", "stage"}
                for layout in self.layouts:
                    if large - {*self.kept_axes} <= {*layout.axes} <= large:
                        for remat in self.remats_of(mesh):
                            for assignment in self.axis_assignments_of(hardware, mesh):
                                yield PlanCandidate(hardware, mesh, layout.name, remat=remat, axis_assignment=assignment)

    def remats_of(self, mesh: tuple[tuple[str, int], ...]) -> tuple[str, ...]:
        """What may be recomputed with a mesh's stages: a share of them is a whole number above none, and all of them is `full`."""
        stages = dict(mesh).get("stage", 1)
        return tuple(each for each in self.remats if (RECOMPUTING.get(each, Fraction(1)) * stages).denominator == 1)

    def axis_assignments_of(self, hardware: str, mesh: tuple[tuple[str, int], ...]) -> tuple[str, ...]:
        """How the axes of a mesh may lie on the links: by default, which is the empty text, and otherwise where that is a choice."""
        found = read_hardware(hardware or None) if self.with_axis_assignments else None
        return ("", *list_axis_assignments(mesh, found)) if found else ("",)

    def _list_meshes(self, devices: int) -> Iterator[tuple[tuple[str, int], ...]]:
        allowed = dict(self.sizes)

        def extend(left: int, axes: tuple[str, ...]) -> Iterator[tuple[tuple[str, int], ...]]:
            if not axes:
                if left == 1:
                    yield ()
                return
            axis, *others = axes
            for size in divisors(left) if others else (left,):
                if self._allows(axis, size) and size in allowed.get(axis, (size,)):
                    for more in extend(left // size, tuple(others)):
                        yield ((axis, size), *more)

        yield from extend(devices, self.axes)

    def _allows(self, axis: str, size: int) -> bool:
        if axis == "stage":
            return size <= min(self.most_stages, self.blocks) and (size == 1 or bool(self.schedules))
        return axis != "data" or not self.batch or self.batch % size == 0

    def zeros_of(self, core: PlanCandidate) -> tuple[str, ...]:
        """ZeRO's stages that have replicas to share among."""
        return self.zeros if core.size("data") > 1 else (NO_ZERO,)

    def micro_batch_counts(self, core: PlanCandidate) -> tuple[int, ...]:
        """The numbers of micro-batches that divide the batch, no replica getting more than `most_examples` at a time; one without an axis
        of stages, be there one stage."""
        if not self.batch or "stage" not in self.axes:
            return (1,)
        examples = self.batch // core.size("data")
        most = self.most_micro_batches
        return tuple(examples // each for each in divisors(examples) if each <= self.most_examples and examples // each <= most)

    def schedules_of(self, core: PlanCandidate, micro_batches: int) -> tuple[PlanCandidate, ...]:
        """The core with each schedule that these stages and micro-batches allow."""
        stages = core.size("stage")
        if stages == 1:
            return (replace(core, micro_batches=micro_batches, schedule=WHOLE if micro_batches == 1 else "1f1b"),)
        kinds = self._kinds_of(stages, micro_batches)
        return tuple(replace(core, micro_batches=micro_batches, schedule=name, chunks=chunks) for name, chunks in kinds)

    def has_schedule(self, core: PlanCandidate, micro_batches: int) -> bool:
        """Whether there is a schedule for the core's stages and so many micro-batches."""
        return core.size("stage") == 1 or bool(self._kinds_of(core.size("stage"), micro_batches))

    def _kinds_of(self, stages: int, micro_batches: int) -> tuple[tuple[str, int], ...]:
        if (stages, micro_batches) not in self._kinds:
            self._kinds[stages, micro_batches] = tuple(self._list_kinds(stages, micro_batches))
        return self._kinds[stages, micro_batches]

    @cached_property
    def _kinds(self) -> dict[tuple[int, int], tuple[tuple[str, int], ...]]:
        """Schedules with their chunks, by stages and micro-batches: what was asked once, for a large space asks a million times."""
        return {}

    def _list_kinds(self, stages: int, micro_batches: int) -> Iterator[tuple[str, int]]:
        for name in self.schedules:
            for chunks in self._chunks_of(name, stages):
                try:
                    PipelineSpec(stages, micro_batches, name, chunks)
                except WorkbenchError:
                    continue
                yield name, chunks

    def _chunks_of(self, schedule: str, stages: int) -> tuple[int, ...]:
        """As many as the schedule has, or with one that goes round every number above 1 that gives each chunk as many of the layers."""
        if not schedule_named(schedule).loops:
            chunks = schedule_named(schedule).chunks
            return (chunks,) if chunks * stages <= self.blocks else ()
        if self.layers % stages:
            return ()
        return tuple(each for each in divisors(self.layers // stages) if 1 < each <= self.most_chunks)

    def candidates(self) -> Iterator[PlanCandidate]:
        """Every candidate; some may turn out to be illegal when their plan is made."""
        for core in self.cores():
            yield from self.candidates_of(core)

    def candidates_of(self, core: PlanCandidate) -> Iterator[PlanCandidate]:
        """Every candidate of a core."""
        for zero in self.zeros_of(core):
            for count in self.micro_batch_counts(core):
                for each in self.schedules_of(core, count):
                    yield replace(each, zero=zero)

    @cached_property
    def size(self) -> int:
        """The number of candidates, those included that turn out to be illegal."""
        per_core: dict[tuple[int, int], int] = {}
        total = 0
        for core in self.cores():
            key = core.size("data"), core.size("stage")
            if key not in per_core:
                counts = self.micro_batch_counts(core)
                per_core[key] = len(self.zeros_of(core)) * sum(len(self.schedules_of(core, count)) for count in counts)
            total += per_core[key]
        return total

    def describe(self) -> str:
        """The space in words."""
        devices = " or ".join(f"{size:,}" for _, size in self.hardware)
        parts = [f"all meshes of {devices} device{'s' * (devices != '1')} over {', '.join(f'`{axis}`' for axis in self.axes)}"]
        parts += ["every order of its axes on the links"] if self.with_axis_assignments else []
        parts += [f"{len(self.layouts)} layouts"] if len(self.layouts) > 1 else []
        parts += [f"ZeRO {', '.join(each[-1] if each != NO_ZERO else '0' for each in self.zeros)}"] if len(self.zeros) > 1 else []
        parts += [f"remat {', '.join(self.remats)}"] if len(self.remats) > 1 else []
        if self.batch and "stage" in self.axes:
            parts.append(f"micro-batches of 1 to {min(self.most_examples, self.batch)} examples a replica")
        if self.schedules:
            parts.append(f"schedules {', '.join(self.schedules)} with every number of equal chunks")
        return "; ".join(parts) + f": {self.size:,} combinations"


def count_devices(mesh: tuple[tuple[str, int], ...]) -> int:
    """Devices of a mesh.

    >>> count_devices((("data", 4), ("model", 2)))
    8
    """
    return prod(size for _, size in mesh)
