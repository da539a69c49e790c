"""The space of a search: which candidates there are, in words and in number, and in which ways the axes of a mesh lie on the hardware's
links. Nothing here plans."""

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
    """All combinations of the choices below that are legal for the program.

    - `start`: the plan that the search starts from; its statements are kept in every candidate (`layout_choices` adds to them);
    - `hardware`: texts of the hardware to choose from, with their numbers of devices;
    - `axes`: names of the mesh axes, major to minor; `data` carries examples, `stage` the stages of a pipeline; `sizes`
      fixes some, `kept_axes` are those that the start's own statements use;
    - `layouts`, `zeros`, `remats`, `precisions`, `offloads`, `schedules`: the choices by name; no pipeline has activations or the
      optimiser's state on the host;
    - `batch`: examples of a step (0: the program has no batch, or is no training step, and is not divided into micro-batches);
    - `blocks`: blocks of the network that a boundary may separate, `layers` those of them that are alike;
    - `programs`: the start's program traced in all these ways, with remat `none` for those of `RECOMPUTING` where the schedule recomputes;
    - `with_axis_assignments`: whether the axes of a mesh may lie on other links than by default;
    - `boundaries`: rules of `BOUNDARIES` for the stages of a schedule with one chunk a device, `most_memory`: bytes of a device that `fit`
      keeps to, at most all that the device has;
    - `most_examples`: of a micro-batch on one replica; `most_stages`, `most_chunks`, `most_micro_batches`.
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
        return {each.name: each for each in self.layouts}

    def find_layout(self, name: str) -> LayoutChoice:
        """The layout of this name, be it only one that a stage may have."""
        return self._all_layouts[name]

    @cached_property
    def _all_layouts(self) -> Mapping[str, LayoutChoice]:
        return {each.name: each for layout in self.layouts for each in layout.of_stages} | dict(self.layout_by_name)

    def program_of(self, traced: TracedAs) -> Program:
        """The program traced so."""
        return dict(self.programs).get(traced, self.start.program)

    def cores(self) -> Iterator[PlanCandidate]:
        """Every combination of mesh, layout and ways to trace the program that sizes allow, without ZeRO or a schedule."""
        for hardware, devices in self.hardware:
            for mesh in self._list_meshes(devices):
                for layout in self.layouts:
                    if self.fits_mesh(layout, mesh):
                        core = PlanCandidate(hardware, mesh, layout.name)
                        for offload, precision, remat in product(self.offloads_of(mesh), self.precisions, self.remats_of(mesh)):
                            for assignment in self.axis_assignments_of(hardware, mesh):
                                yield replace(core, remat=remat, precision=precision, offload=offload, axis_assignment=assignment)

    def fits_mesh(self, layout: LayoutChoice, mesh: tuple[tuple[str, int], ...]) -> bool:
        """Whether a layout uses the axes of a mesh that have several devices, and no other."""
        large = {axis for axis, size in mesh if size > 1} - {"data", "stage"}
        has_stages = dict(mesh).get("stage", 1) > 1
        if (layout.is_chosen and has_stages) or (layout.is_per_stage and not has_stages):
            return False
        return large - {*self.kept_axes} <= {*layout.axes} <= large

    def remats_of(self, mesh: tuple[tuple[str, int], ...]) -> tuple[str, ...]:
        """What may be recomputed with a mesh's stages: a share of them is a whole number above none, and all of them is `full`. Several
        stages keep no activations on the host, unless there is no choice, and all such plans are refused."""
        stages = dict(mesh).get("stage", 1)
        found = tuple(each for each in self.remats if (RECOMPUTING.get(each, Fraction(1)) * stages).denominator == 1)
        return found if stages == 1 else tuple(each for each in found if each != ACTIVATIONS_ON_HOST) or found

    def offloads_of(self, mesh: tuple[tuple[str, int], ...]) -> tuple[str, ...]:
        """What the host may keep with a mesh's stages: nothing with several, unless there is no choice, and all such plans are refused."""
        return tuple(each for each in self.offloads if each == ON_DEVICE or dict(mesh).get("stage", 1) == 1) or self.offloads

    def axis_assignments_of(self, hardware: str, mesh: tuple[tuple[str, int], ...]) -> tuple[str, ...]:
        """How the axes of a mesh may lie on the links: by default, which is the empty text, and otherwise where that is a choice."""
        found = read_hardware(hardware or None) if self.with_axis_assignments else None
        return ("", *list_axis_assignments(mesh, found)) if found else ("",)

    def sizes_of(self, axis: str) -> tuple[int, ...]:
        """The sizes that a mesh axis has in some mesh of the space."""
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
        """ZeRO's stages that have replicas to share among."""
        return self.zeros if core.size("data") > 1 else (NO_ZERO,)

    def micro_batch_counts(self, core: PlanCandidate) -> tuple[int, ...]:
        """The numbers of micro-batches that divide the batch, no replica getting more than `most_examples` at a time. One without an axis
        of stages, be there one stage, or where the layout is chosen for each operation of a step; one where the host keeps something,
        unless there is no choice."""
        if not self.batch or "stage" not in self.axes or self.find_layout(core.layout).is_chosen:
            return (1,)
        examples = self.batch // core.size("data")
        most = 1 if self._needs_whole_step(core) else self.most_micro_batches
        return tuple(examples // each for each in divisors(examples) if each <= self.most_examples and examples // each <= most)

    def _needs_whole_step(self, core: PlanCandidate) -> bool:
        """Whether the host keeps something of a core, which others of the space need not."""
        on_host = core.offload != ON_DEVICE and len(self.offloads) > 1
        return on_host or (core.remat == ACTIVATIONS_ON_HOST and len(self.remats) > 1)

    def schedules_of(self, core: PlanCandidate, micro_batches: int) -> tuple[PlanCandidate, ...]:
        """The core with each schedule that these stages and micro-batches allow."""
        stages = core.size("stage")
        if stages == 1:
            return (replace(core, micro_batches=micro_batches, schedule=WHOLE if micro_batches == 1 else "1f1b"),)
        kinds = self._kinds_of_core(core, micro_batches)
        return tuple(replace(core, micro_batches=micro_batches, schedule=name, chunks=chunks) for name, chunks in kinds)

    def has_schedule(self, core: PlanCandidate, micro_batches: int) -> bool:
        """Whether there is a schedule for the core's stages and so many micro-batches."""
        return core.size("stage") == 1 or bool(self._kinds_of_core(core, micro_batches))

    def _kinds_of_core(self, core: PlanCandidate, micro_batches: int) -> tuple[tuple[str, int], ...]:
        """With one chunk a device where each stage has a layout of its own."""
        kinds = self._kinds_of(core.size("stage"), micro_batches)
        return tuple(each for each in kinds if each[1] == 1) if self.find_layout(core.layout).is_per_stage else kinds

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

    def boundaries_of(self, candidate: PlanCandidate) -> tuple[str, ...]:
        """The rules for boundaries where there is a choice: several stages, of one chunk a device, and more blocks than stages. Where each
        stage has a layout of its own, boundaries are chosen with it."""
        has_choice = 1 < candidate.size("stage") < self.blocks and candidate.chunks == 1
        is_chosen = not has_choice or self.find_layout(candidate.layout).is_per_stage
        return (BY_TIME,) if is_chosen else self.boundaries

    def candidates(self) -> Iterator[PlanCandidate]:
        """Every candidate; some may turn out to be illegal when their plan is made."""
        for core in self.cores():
            yield from self.candidates_of(core)

    def candidates_of(self, core: PlanCandidate) -> Iterator[PlanCandidate]:
        """Every candidate of a core."""
        for zero in self.zeros_of(core):
            for count in self.micro_batch_counts(core):
                for each in self.schedules_of(core, count):
                    for boundaries in self.boundaries_of(each):
                        yield replace(each, zero=zero, boundaries=boundaries)

    @cached_property
    def size(self) -> int:
        """The number of candidates, those included that turn out to be illegal."""
        per_core: dict[tuple[object, ...], int] = {}
        total = 0
        for core in self.cores():
            layout = self.layout_by_name[core.layout]
            key = core.size("data"), core.size("stage"), self._needs_whole_step(core), layout.is_chosen, layout.is_per_stage
            if key not in per_core:
                staged = [each for count in self.micro_batch_counts(core) for each in self.schedules_of(core, count)]
                per_core[key] = len(self.zeros_of(core)) * sum(len(self.boundaries_of(each)) for each in staged)
            total += per_core[key]
        return total

    @property
    def devices_text(self) -> str:
        """`4, 8 or 16 devices`."""
        *others, last = [f"{size:,}" for _, size in self.hardware]
        devices = f"{', '.join(others)} or {last}" if others else last
        return f"{devices} device{'s' * (devices != '1')}"

    def describe(self) -> str:
        """The space in words."""
        parts = [f"all meshes of {self.devices_text} over {', '.join(f'`{axis}`' for axis in self.axes)}"]
        parts += ["every order of its axes on the links"] if self.with_axis_assignments else []
        parts += [f"{len(self.layouts)} layouts"] if len(self.layouts) > 1 else []
        parts += [f"ZeRO {', '.join(each[-1] if each != NO_ZERO else '0' for each in self.zeros)}"] if len(self.zeros) > 1 else []
        parts += [f"remat {', '.join(self.remats)}"] if len(self.remats) > 1 else []
        parts += [f"precision {' or '.join(self.precisions)}"] if len(self.precisions) > 1 else []
        parts += [f"offloaded {' or '.join(each.replace('_', ' ') for each in self.offloads)}"] if len(self.offloads) > 1 else []
        if self.batch and "stage" in self.axes:
            most = min(self.most_examples, self.batch)
            parts.append(f"micro-batches of {f'1 to {most} examples' if most > 1 else '1 example'} a replica")
        if self.schedules:
            parts.append(f"schedules {', '.join(self.schedules)} with every number of equal chunks")
        parts += [f"boundaries {', '.join(self.boundaries)}"] if len(self.boundaries) > 1 else []
        return "; ".join(parts) + f": {self.size:,} combinations"


# Ways to lay the axes of a mesh on the links of the hardware.


@lru_cache(maxsize=1 << 12)
def list_axis_assignments(mesh: tuple[tuple[str, int], ...], hardware: Hardware) -> tuple[str, ...]:
    """The assignments of a mesh's axes to the hardware's that differ, each as text: in every order one axis after the other takes the
    best links that are left (`default_axis_assignment`, whose own is left out, lets the minor one choose first).

    >>> from workbench.hardware.catalogue import parse_hardware
    >>> list_axis_assignments((("data", 4), ("model", 2)), parse_hardware("8 H100"))
    ('model:device; data:device',)
    """
    large = tuple(axis for axis in mesh if axis[1] > 1)
    try:
        seen = {_places(large, hardware, None)}
    except HardwareError:
        return ()
    found = []
    for order in permutations(large):
        try:
            assignment = complete_axis_assignment(Mesh(order), hardware)
        except HardwareError:
            continue
        places = _places(large, hardware, assignment)
        if places not in seen:
            seen.add(places)
            found.append(str(assignment))
    return tuple(found)


def _places(mesh: tuple[tuple[str, int], ...], hardware: Hardware, assignment: AxisAssignment | None) -> tuple[object, ...]:
    return tuple(sorted(physical_spans(Mesh(mesh), hardware, assignment).items()))
