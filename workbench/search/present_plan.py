"""The plan that a search starts from: its candidate in the space, if any, and its figures."""

from collections.abc import Iterator
from dataclasses import dataclass, replace

from workbench.core.mesh import Mesh
from workbench.core.text_tables import count_text
from workbench.errors import WorkbenchError
from workbench.hardware.catalogue import read_hardware
from workbench.hardware.hardware import Hardware
from workbench.plan.mesh_edits import SetMesh
from workbench.plan.plan import Plan
from workbench.search.candidate_plans import candidate_plan, with_boundaries
from workbench.search.evaluator import Evaluator
from workbench.search.neighbours import is_of_space
from workbench.search.plan_candidate import PlanCandidate
from workbench.search.search_figures import Figures, evaluate_plan
from workbench.search.search_space import SearchSpace

_STAGE = "stage"


@dataclass(frozen=True, slots=True)
class PresentPlan:
    """Figures of the plan that a search starts from, and its candidate; `None` if it is outside the space."""

    figures: Figures
    candidate: PlanCandidate | None = None


def evaluate_present(evaluator: Evaluator, plan: Plan, candidate: PlanCandidate | None) -> PresentPlan | None:
    """Evaluate the present plan, as its candidate if it has one; `None` if it is refused or not comparable."""
    placed = move_to_searched_hardware(evaluator.space, plan)
    try:
        figures = evaluator.evaluate(candidate) if candidate is not None else evaluate_plan(placed) if placed is not None else None
    except WorkbenchError:
        return None
    return None if figures is None else PresentPlan(figures, candidate)


def move_to_searched_hardware(space: SearchSpace, plan: Plan) -> Plan | None:
    """Move the plan to the hardware of the space, so that its figures are comparable.

    A plan without hardware takes the space's hardware with as many devices (`None` if there is none); if the space has
    no hardware, the plan's is dropped; its price becomes that of the space. `None` for several devices without a mesh,
    which is no plan yet.
    """
    sizes = {size: text for text, size in space.hardware}
    if not plan.mesh.axes and 1 not in sizes:
        return None
    if not any(sizes.values()):
        return plan if plan.hardware is None else plan.updated(hardware=None, axis_assignment=None)
    if plan.hardware is not None:
        return _at_searched_price(plan, plan.hardware, sizes.get(plan.hardware.size, ""))
    return plan.updated(hardware=sizes[plan.mesh.size]) if plan.mesh.size in sizes else None


def _at_searched_price(plan: Plan, own: Hardware, text: str) -> Plan:
    searched = read_hardware(text or None)
    if searched is None or searched == own:
        return plan
    at_own_price = replace(searched, chip=replace(searched.chip, price=own.chip.price), name=own.name)
    return plan.updated(hardware=searched) if at_own_price == own else plan


def find_candidate(space: SearchSpace, plan: Plan) -> PlanCandidate | None:
    """Find the candidate of the space that equals a plan; `None` if the plan is outside the space.

    Ignores mesh axes of one device, and missing hardware. Compares the layout of each candidate with the plan's mesh,
    schedule and remat. Nothing is planned, except the blocks of a pipeline with boundaries, to find their rule.
    """
    placed = move_to_searched_hardware(space, plan)
    if placed is None:
        return None
    wanted = drop_unit_axes(placed)
    for candidate in _list_alike(space, wanted):
        try:
            opened = board_plan(space, candidate)
        except WorkbenchError:
            continue
        if _decisions(opened) == _decisions(wanted) and (rule := _find_rule(space, opened, candidate, wanted)):
            return replace(candidate, boundaries=rule)
    return None


def outside_decision(space: SearchSpace, plan: Plan) -> str:
    """Name a decision of the plan that no candidate of the space has, as "mesh axis other"; empty if it may only be the layout."""
    placed = move_to_searched_hardware(space, plan)
    if placed is None:
        return f"{count_text(plan.mesh.size, 'device')}, not {space.devices_text}" if plan.mesh.axes else "it has no mesh"
    return next(_list_outside(space, placed), "")


def _list_outside(space: SearchSpace, plan: Plan) -> Iterator[str]:
    """The decisions, apart from the layout, that no candidate has."""
    large = {axis: size for axis, size in plan.mesh.axes if size > 1}
    unknown, program, pipeline = [axis for axis in large if axis not in space.axes], plan.program, plan.pipeline
    if _hardware_text(space, plan) is None:
        yield f"hardware `{plan.hardware}`"
    if plan.axis_assignment is not None:
        yield f"axis assignment `{plan.axis_assignment}`"
    if unknown:
        yield f"mesh axis `{unknown[0]}`"
    elif [*large] != [axis for axis in space.axes if axis in large] or not all(large[axis] in space.sizes_of(axis) for axis in large):
        yield f"mesh `{plan.mesh}`"
    if pipeline is not None and pipeline.axis != _STAGE:
        yield f"pipeline axis `{pipeline.axis}`"
    if pipeline is not None and pipeline.schedule not in (*space.schedules, "1f1b"):
        yield f"schedule `{pipeline.schedule}`"
    examples, count = space.batch // large.get("data", 1), pipeline.micro_batches if pipeline else 1
    if pipeline is not None and (examples % count or examples // count > space.most_examples):
        yield count_text(count, "micro-batch", "micro-batches")
    if str(program.precision) not in space.precisions:
        yield f"precision `{program.precision}`"
    if str(program.offload) not in space.offloads:
        yield f"offload `{program.offload}`"
    if program not in (space.start.program, *(traced for _, traced in space.programs)):
        yield f"remat `{program.remat}`"


def _hardware_text(space: SearchSpace, plan: Plan) -> str | None:
    return next((text for text, _ in space.hardware if read_hardware(text or None) == plan.hardware), None)


def _find_rule(space: SearchSpace, found: Plan, candidate: PlanCandidate, wanted: Plan) -> str | None:
    """The boundary rule of the wanted plan on an otherwise equal candidate; `None` if there is none."""
    if found.pipeline == wanted.pipeline:
        return candidate.boundaries
    rules = space.boundaries_of(candidate)
    return next((rule for rule in rules if with_boundaries(space, found, rule).pipeline == wanted.pipeline), None)


def board_plan(space: SearchSpace, candidate: PlanCandidate) -> Plan:
    """The candidate's plan without axes of one device, as boards open it. Raises `WorkbenchError`."""
    return drop_unit_axes(candidate_plan(space, candidate))


def drop_unit_axes(plan: Plan) -> Plan:
    """Remove mesh axes of one device, except the axis of pipeline stages."""
    staged = plan.pipeline.axis if plan.pipeline else ""
    large = tuple((axis, size) for axis, size in plan.mesh.axes if size > 1 or axis == staged)
    return SetMesh(Mesh(large)).apply(plan) if large and large != plan.mesh.axes else plan


def _list_alike(space: SearchSpace, plan: Plan) -> Iterator[PlanCandidate]:
    sizes, pipeline = dict(plan.mesh.axes), plan.pipeline
    hardware = _hardware_text(space, plan)
    if hardware is None or next(_list_outside(space, plan), ""):
        return
    mesh = tuple((axis, sizes.get(axis, 1)) for axis in space.axes)
    start = PlanCandidate(hardware, mesh, "", micro_batches=pipeline.micro_batches if pipeline else 1)
    start = replace(start, precision=str(plan.program.precision), offload=str(plan.program.offload))
    start = replace(start, schedule=pipeline.schedule, chunks=pipeline.chunks) if pipeline else start
    for layout in space.layouts:
        for remat in space.remats:
            for zero in space.zeros:
                candidate = replace(start, layout=layout.name, remat=remat, zero=zero)
                candidate = replace(candidate, boundaries=space.boundaries_of(candidate)[0])
                if is_of_space(space, candidate) and _may_be_found(space, candidate, plan):
                    yield candidate


def _may_be_found(space: SearchSpace, candidate: PlanCandidate, plan: Plan) -> bool:
    """Whether the candidate's layout can be the plan's; a cheap test that avoids layout searches, which take seconds. A
    per-operation layout belongs to one program and names arguments or values; a per-stage layout names all
    boundaries.
    """
    layout = space.find_layout(candidate.layout)
    if layout.is_per_stage:
        return plan.pipeline is not None and len(plan.pipeline.boundaries) == plan.pipeline.virtual_stages - 1
    if not layout.is_chosen:
        return True
    is_same_program = space.program_of(candidate.traced_as).identity == plan.program.identity
    return is_same_program and bool(plan.layout.overrides or plan.layout.constraints)


def _decisions(plan: Plan) -> tuple[object, ...]:
    """Key of a plan that ignores names and stage boundaries."""
    layout = plan.layout
    statements = dict(layout.rules), dict(layout.overrides), dict(layout.constraints), dict(layout.priorities)
    pipeline = plan.pipeline and replace(plan.pipeline, boundaries=())
    return plan.program.identity, plan.mesh.axes, statements, {*layout.groups}, {*layout.barriers}, pipeline
