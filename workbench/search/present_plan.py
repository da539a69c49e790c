"""Where the plan that a search starts from lies: which candidate it is, if it is one, and its figures."""

from collections.abc import Iterator
from dataclasses import dataclass, replace

from workbench.core.mesh import Mesh
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
    """The figures of the plan that a search starts from, and the candidate that it is; `None` where it lies outside the space."""

    figures: Figures
    candidate: PlanCandidate | None = None


def evaluate_present(evaluator: Evaluator, plan: Plan, candidate: PlanCandidate | None) -> PresentPlan | None:
    """The present plan with its figures, as the search has them for the candidate that it is; `None` where it is refused, or cannot be
    compared."""
    placed = on_searched_hardware(evaluator.space, plan)
    try:
        figures = evaluator.evaluate(candidate) if candidate is not None else evaluate_plan(placed) if placed is not None else None
    except WorkbenchError:
        return None
    return None if figures is None else PresentPlan(figures, candidate)


def on_searched_hardware(space: SearchSpace, plan: Plan) -> Plan | None:
    """The plan with figures that compare with those of the space: one without hardware is taken on that of as many devices, `None` if the
    space has none; any without hardware, where the space is; and at the price that is searched with. One without a mesh, on several
    devices, is no plan yet: `None`."""
    sizes = {size: text for text, size in space.hardware}
    if not plan.mesh.axes and 1 not in sizes:
        return None
    if not any(sizes.values()):
        return plan if plan.hardware is None else plan.updated(hardware=None, axis_assignment=None)
    if plan.hardware is not None:
        return _at_searched_price(plan, plan.hardware, sizes.get(plan.hardware.size, ""))
    return plan.updated(hardware=sizes[plan.mesh.size]) if plan.mesh.size in sizes else None


def _at_searched_price(plan: Plan, own: Hardware, text: str) -> Plan:
    """The plan on the hardware of the space, if that is its own at another price."""
    searched = read_hardware(text or None)
    if searched is None or searched == own:
        return plan
    at_own_price = replace(searched, chip=replace(searched.chip, price=own.chip.price), name=own.name)
    return plan.updated(hardware=searched) if at_own_price == own else plan


def find_candidate(space: SearchSpace, plan: Plan) -> PlanCandidate | None:
    """The candidate whose plan is this one, but for mesh axes of one device and for hardware where it names none; `None` where the plan
    lies outside the space.

    Each candidate on the plan's mesh with its schedule and remat is laid out, and its layout compared. Nothing is planned for that, but
    the blocks of a pipeline that names boundaries: which rule they are by.
    """
    placed = on_searched_hardware(space, plan)
    if placed is None:
        return None
    wanted = drop_small_axes(placed)
    for each in _list_alike(space, wanted):
        try:
            found = opened_plan(space, each)
        except WorkbenchError:
            continue
        if _decisions(found) == _decisions(wanted) and (rule := _find_rule(space, found, each, wanted)):
            return replace(each, boundaries=rule)
    return None


def _find_rule(space: SearchSpace, found: Plan, candidate: PlanCandidate, wanted: Plan) -> str | None:
    """The rule by which the wanted plan has its boundaries, being the candidate's but for them; `None` where it is none of the space."""
    if found.pipeline == wanted.pipeline:
        return candidate.boundaries
    rules = space.boundaries_of(candidate)
    return next((rule for rule in rules if with_boundaries(space, found, rule).pipeline == wanted.pipeline), None)


def opened_plan(space: SearchSpace, candidate: PlanCandidate) -> Plan:
    """The plan of a candidate as a board opens it, without mesh axes of one device. Raises `WorkbenchError` where it is illegal."""
    return drop_small_axes(candidate_plan(space, candidate))


def drop_small_axes(plan: Plan) -> Plan:
    """The plan without mesh axes of one device, but for the stages' of a pipeline, which may be one stage."""
    staged = plan.pipeline.axis if plan.pipeline else ""
    large = tuple((axis, size) for axis, size in plan.mesh.axes if size > 1 or axis == staged)
    return SetMesh(Mesh(large)).apply(plan) if large and large != plan.mesh.axes else plan


def _list_alike(space: SearchSpace, plan: Plan) -> Iterator[PlanCandidate]:
    """The candidates with the plan's hardware, mesh, schedule and micro-batches."""
    sizes, pipeline = dict(plan.mesh.axes), plan.pipeline
    if plan.axis_assignment is not None or not {axis for axis, size in plan.mesh.axes if size > 1} <= {*space.axes}:
        return
    hardware = next((text for text, _ in space.hardware if read_hardware(text or None) == plan.hardware), None)
    if hardware is None or (pipeline is not None and pipeline.axis != _STAGE):
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
    """Whether the plan may be the candidate's where its layout is chosen for each operation or stage, which takes seconds to find out: one
    of each operation is of one program, and names arguments or values; one of each stage names all boundaries."""
    layout = space.find_layout(candidate.layout)
    if layout.is_per_stage:
        return plan.pipeline is not None and len(plan.pipeline.boundaries) == plan.pipeline.virtual_stages - 1
    if not layout.is_chosen:
        return True
    is_alike = space.program_of(candidate.traced_as).identity == plan.program.identity
    return is_alike and bool(plan.layout.overrides or plan.layout.constraints)


def _decisions(plan: Plan) -> tuple[object, ...]:
    """What two plans of one program have in common where they are the same but in name, and in the boundaries of their stages."""
    layout = plan.layout
    statements = dict(layout.rules), dict(layout.overrides), dict(layout.constraints), dict(layout.priorities)
    pipeline = plan.pipeline and replace(plan.pipeline, boundaries=())
    return plan.program.identity, plan.mesh.axes, statements, {*layout.groups}, {*layout.barriers}, pipeline
