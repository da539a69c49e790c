"""The space of a search: its candidates, their number and description, and the axis assignments of a mesh. No planning."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property, lru_cache
from itertools import permutations, product
from math import inf

from workbench.core.mesh import Mesh
from workbench.core.pipeline_spec import PipelineSpec
from workbench.core.program import Program
from workbench.core.schedules import schedule_named
from workbench.errors import HardwareError, WorkbenchError
from workbench.hardware.axis_assignment_text import AxisAssignment
from workbench.hardware.axis_placement import complete_axis_assignment, physical_spans
from workbench.hardware.catalogue import read_hardware
from workbench.hardware.hardware import Hardware
from workbench.plan.plan import Plan
from workbench.search.layout_choices import LayoutChoice
from workbench.search.plan_candidate import NO_ZERO, RECOMPUTING, WHOLE, PlanCandidate
from workbench.search.traced_programs import ACTIVATIONS_ON_HOST, AS_TRACED, ON_DEVICE, TracedAs, TracedPrograms
from workbench.search.uneven_boundaries import BY_TIME
from workbench.units import divisors

ZEROS = (NO_ZERO, "zero_1", "zero_2", "zero_3")


@dataclass(frozen=True)
class SearchSpace:
    """All combinations of choices that are legal for the program.

    - `start`: the plan that the search starts from; every candidate keeps its statements (`layout_choices` adds to
      them);
    - `hardware`: texts of the hardware to choose from, with their numbers of devices;
    - `axes`: mesh axes, major to minor; `data` shards examples, `stage` the pipeline; `sizes` fixes some, `kept_axes`
      are used by the start's own statements;
    - `layouts`, `zeros`, `remats`, `precisions`, `offloads`, `schedules`: the choices by name; pipelines keep no
      activations and no optimizer state on the host;
    - `batch`: examples of a step; 0 if there are no micro-batches, because the program has no batch or is no training
      step;
    - `blocks`: blocks of the network that a boundary may separate, `layers`: how many of them are identical;
    - `programs`: the start's program traced in all these ways, with remat `none` for those of `RECOMPUTING` where the
      schedule recomputes;
    - `with_axis_assignments`: whether mesh axes may use other links than the default;
    - `boundaries`: rules of `BOUNDARIES` for stages of schedules with one chunk per device; `most_memory`: limit of
      `fit` in bytes per device, at most the memory of the device;
    - `most_examples`: limit on the examples of a micro-batch on one replica; `most_stages`, `most_chunks`,
      `most_micro_batches`: limits.
    """

    start: Plan
    hardware: tuple[tuple[str, int], ...]
    axes: tuple[str, ...]
    layouts: tuple[LayoutChoice, ...]
    programs: TracedPrograms = ()
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
    boundaries: tuple[str, ...] = (BY_TIME,)
    most_memory: float = inf
    precisions: tuple[str, ...] = (AS_TRACED,)
    offloads: tuple[str, ...] = (ON_DEVICE,)

    @cached_property
    def layout_by_name(self) -> Mapping[str, LayoutChoice]:
        return {layout.name: layout for layout in self.layouts}

    def find_layout(self, name: str) -> LayoutChoice:
        return self._all_layouts[name]

    @cached_property
    def _all_layouts(self) -> Mapping[str, LayoutChoice]:
        return {choice.name: choice for layout in self.layouts for choice in layout.of_stages} | dict(self.layout_by_name)

    def program_of(self, traced: TracedAs) -> Program:
        return dict(self.programs).get(traced, self.start.program)

    def cores(self) -> Iterator[PlanCandidate]:
        """Iterate over the combinations of mesh, layout and tracing that fit in size, without ZeRO or a schedule."""
        for hardware, devices in self.hardware:
            for mesh in self._list_meshes(devices):
                for layout in self.layouts:
                    if self.fits_mesh(layout, mesh):
                        core = PlanCandidate(hardware, mesh, layout.name)
                        for offload, precision, remat in product(self.offloads_of(mesh), self.precisions, self.remats_of(mesh)):
                            for assignment in self.axis_assignments_of(hardware, mesh):
                                yield replace(core, remat=remat, precision=precision, offload=offload, axis_assignment=assignment)

    def fits_mesh(self, layout: LayoutChoice, mesh: tuple[tuple[str, int], ...]) -> bool:
        """Whether a layout uses exactly those mesh axes that have several devices, except data, stage and kept axes."""
        large = {axis for axis, size in mesh if size > 1} - {"data", "stage"}
        has_stages = dict(mesh).get("stage", 1) > 1
        if (layout.is_chosen and has_stages) or (layout.is_per_stage and not has_stages):
            return False
        return large - {*self.kept_axes} <= {*layout.axes} <= large

    def remats_of(self, mesh: tuple[tuple[str, int], ...]) -> tuple[str, ...]:
        """The remats for a mesh: partial ones must recompute a whole number of stages. Several stages keep no
        activations on the host, unless that is the only choice and all such plans are refused.
        """
        stages = dict(mesh).get("stage", 1)
        remats = tuple(remat for remat in self.remats if (RECOMPUTING.get(remat, Fraction(1)) * stages).denominator == 1)
        return remats if stages == 1 else tuple(remat for remat in remats if remat != ACTIVATIONS_ON_HOST) or remats

    def offloads_of(self, mesh: tuple[tuple[str, int], ...]) -> tuple[str, ...]:
        """The offloads for a mesh: nothing with several stages, unless that is no choice and all are refused."""
        return tuple(offload for offload in self.offloads if offload == ON_DEVICE or dict(mesh).get("stage", 1) == 1) or self.offloads

    def axis_assignments_of(self, hardware: str, mesh: tuple[tuple[str, int], ...]) -> tuple[str, ...]:
        """List the axis assignments of a mesh: the default (empty text), and others if they are a choice."""
        machine = read_hardware(hardware or None) if self.with_axis_assignments else None
        return ("", *list_axis_assignments(mesh, machine)) if machine else ("",)

    def sizes_of(self, axis: str) -> tuple[int, ...]:
        meshes = (dict(mesh) for _, devices in self.hardware for mesh in self._list_meshes(devices))
        return tuple(sorted({mesh[axis] for mesh in meshes}))

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
        return self.zeros if core.size("data") > 1 else (NO_ZERO,)

    def micro_batch_counts(self, core: PlanCandidate) -> tuple[int, ...]:
        """The counts that divide the batch, with at most `most_examples` per replica. Only 1 without a stage axis, with
        a per-operation layout, or with host offload unless that is the only choice.
        """
        if not self.batch or "stage" not in self.axes or self.find_layout(core.layout).is_chosen:
            return (1,)
        examples = self.batch // core.size("data")
        most = 1 if self._needs_whole_step(core) else self.most_micro_batches
        return tuple(examples // divisor for divisor in divisors(examples) if divisor <= self.most_examples and examples // divisor <= most)

    def _needs_whole_step(self, core: PlanCandidate) -> bool:
        """Whether the core uses host memory and the space also has choices without."""
        on_host = core.offload != ON_DEVICE and len(self.offloads) > 1
        return on_host or (core.remat == ACTIVATIONS_ON_HOST and len(self.remats) > 1)

    def schedules_of(self, core: PlanCandidate, micro_batches: int) -> tuple[PlanCandidate, ...]:
        """List the core with each schedule that its stages and micro-batches allow."""
        stages = core.size("stage")
        if stages == 1:
            return (replace(core, micro_batches=micro_batches, schedule=WHOLE if micro_batches == 1 else "1f1b"),)
        kinds = self._kinds_of_core(core, micro_batches)
        return tuple(replace(core, micro_batches=micro_batches, schedule=name, chunks=chunks) for name, chunks in kinds)

    def has_schedule(self, core: PlanCandidate, micro_batches: int) -> bool:
        return core.size("stage") == 1 or bool(self._kinds_of_core(core, micro_batches))

    def _kinds_of_core(self, core: PlanCandidate, micro_batches: int) -> tuple[tuple[str, int], ...]:
        """Schedules of a core; per-stage layouts need one chunk per device."""
        kinds = self._kinds_of(core.size("stage"), micro_batches)
        return tuple(kind for kind in kinds if kind[1] == 1) if self.find_layout(core.layout).is_per_stage else kinds

    def _kinds_of(self, stages: int, micro_batches: int) -> tuple[tuple[str, int], ...]:
        if (stages, micro_batches) not in self._kinds:
            self._kinds[stages, micro_batches] = tuple(self._list_kinds(stages, micro_batches))
        return self._kinds[stages, micro_batches]

    @cached_property
    def _kinds(self) -> dict[tuple[int, int], tuple[tuple[str, int], ...]]:
        """Cache of schedules with their chunks, by stages and micro-batches; large spaces need it a million times."""
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
        """Chunk counts: the schedule's own, or if it loops, each above 1 that divides the layers of a stage."""
        if not schedule_named(schedule).loops:
            chunks = schedule_named(schedule).chunks
            return (chunks,) if chunks * stages <= self.blocks else ()
        if self.layers % stages:
            return ()
        return tuple(count for count in divisors(self.layers // stages) if 1 < count <= self.most_chunks)

    def boundaries_of(self, candidate: PlanCandidate) -> tuple[str, ...]:
        """Boundary rules for stages of one chunk and more blocks; per-stage layouts choose their own."""
        has_choice = 1 < candidate.size("stage") < self.blocks and candidate.chunks == 1
        is_chosen = not has_choice or self.find_layout(candidate.layout).is_per_stage
        return (BY_TIME,) if is_chosen else self.boundaries

    def candidates(self) -> Iterator[PlanCandidate]:
        """Iterate over all candidates; some may turn out to be illegal when planned."""
        for core in self.cores():
            yield from self.candidates_of(core)

    def candidates_of(self, core: PlanCandidate) -> Iterator[PlanCandidate]:
        for zero in self.zeros_of(core):
            for count in self.micro_batch_counts(core):
                for scheduled in self.schedules_of(core, count):
                    for boundaries in self.boundaries_of(scheduled):
                        yield replace(scheduled, zero=zero, boundaries=boundaries)

    @cached_property
    def size(self) -> int:
        per_core: dict[tuple[object, ...], int] = {}
        total = 0
        for core in self.cores():
            layout = self.layout_by_name[core.layout]
            key = core.size("data"), core.size("stage"), self._needs_whole_step(core), layout.is_chosen, layout.is_per_stage
            if key not in per_core:
                staged = [scheduled for count in self.micro_batch_counts(core) for scheduled in self.schedules_of(core, count)]
                per_core[key] = len(self.zeros_of(core)) * sum(len(self.boundaries_of(scheduled)) for scheduled in staged)
            total += per_core[key]
        return total

    @property
    def devices_text(self) -> str:
        """`4, 8 or 16 devices`."""
        *others, last = [f"{size:,}" for _, size in self.hardware]
        devices = f"{', '.join(others)} or {last}" if others else last
        return f"{devices} device{'s' * (devices != '1')}"

    def describe(self) -> str:
        parts = [f"all meshes of {self.devices_text} over {', '.join(f'`{axis}`' for axis in self.axes)}"]
        parts += ["every order of its axes on the links"] if self.with_axis_assignments else []
        parts += [f"{len(self.layouts)} layouts"] if len(self.layouts) > 1 else []
        parts += [f"ZeRO {', '.join(zero[-1] if zero != NO_ZERO else '0' for zero in self.zeros)}"] if len(self.zeros) > 1 else []
        parts += [f"remat {', '.join(self.remats)}"] if len(self.remats) > 1 else []
        parts += [f"precision {' or '.join(self.precisions)}"] if len(self.precisions) > 1 else []
        parts += [f"offloaded {' or '.join(name.replace('_', ' ') for name in self.offloads)}"] if len(self.offloads) > 1 else []
        if self.batch and "stage" in self.axes:
            most = min(self.most_examples, self.batch)
            parts.append(f"micro-batches of {f'1 to {most} examples' if most > 1 else '1 example'} a replica")
        if self.schedules:
            parts.append(f"schedules {', '.join(self.schedules)} with every number of equal chunks")
        parts += [f"boundaries {', '.join(self.boundaries)}"] if len(self.boundaries) > 1 else []
        return "; ".join(parts) + f": {self.size:,} combinations"


# Assignments of mesh axes to the links of the hardware.


@lru_cache(maxsize=1 << 12)
def list_axis_assignments(mesh: tuple[tuple[str, int], ...], hardware: Hardware) -> tuple[str, ...]:
    """List the distinct assignments of mesh axes to hardware axes as text.

    For every order of the axes, one axis after the other takes the best remaining links. The default assignment, in
    which the minor axis chooses first (`default_axis_assignment`), is left out.

    >>> from workbench.hardware.catalogue import parse_hardware
    >>> list_axis_assignments((("data", 4), ("model", 2)), parse_hardware("8 H100"))
    ('model:device; data:device',)
    """
    large = tuple(axis for axis in mesh if axis[1] > 1)
    try:
        seen = {_places(large, hardware, None)}
    except HardwareError:
        return ()
    assignments = []
    for order in permutations(large):
        try:
            assignment = complete_axis_assignment(Mesh(order), hardware)
        except HardwareError:
            continue
        places = _places(large, hardware, assignment)
        if places not in seen:
            seen.add(places)
            assignments.append(str(assignment))
    return tuple(assignments)


def _places(mesh: tuple[tuple[str, int], ...], hardware: Hardware, assignment: AxisAssignment | None) -> tuple[object, ...]:
    return tuple(sorted(physical_spans(Mesh(mesh), hardware, assignment).items()))
