"""Plans of candidates: the statements of the start, then each decision as the edits that a person would make."""

from collections.abc import Callable
from dataclasses import replace
from functools import partial

from workbench.core.mesh import Mesh
from workbench.core.pipeline_spec import PipelineSpec, first_remat
from workbench.hardware.catalogue import read_hardware
from workbench.hardware.hardware import Hardware
from workbench.pipeline.staged_program import staged_program
from workbench.plan.mesh_edits import SetMesh
from workbench.plan.plan import Plan
from workbench.search.layout_choices import RecipeMove
from workbench.search.per_stage.choose_stages import choose_stages
from workbench.search.plan_candidate import NO_ZERO, WHOLE, PlanCandidate
from workbench.search.search_space import SearchSpace
from workbench.search.uneven_boundaries import BY_TIME, choose_boundaries


def core_plan(space: SearchSpace, core: PlanCandidate) -> Plan:
    """The plan of a core: mesh, batch sharding and layout, with the program of the start.

    A layout chosen per operation is applied to the program as the core traces it. Raises `WorkbenchError` if the plan
    is illegal.
    """
    layout = space.find_layout(core.layout)
    program = space.program_of(core.traced_as) if layout.is_chosen else space.start.program
    plan = space.start.updated(program=program, pipeline=None, axis_assignment=None, hardware=read_hardware(core.hardware or None))
    plan = SetMesh(Mesh(core.mesh)).apply(plan).updated(axis_assignment=core.axis_assignment or None)
    if core.size("data") > 1:
        plan = RecipeMove("data_parallel", ("data",)).apply(plan)
    return layout.apply(plan)


def candidate_plan(space: SearchSpace, candidate: PlanCandidate, is_cancelled: Callable[[], bool] = lambda: False) -> Plan:
    """The plan of a candidate.

    Raises `WorkbenchError` if it is illegal and `EngineError` if it is cancelled, which is checked between the plans of
    a per-stage layout.
    """
    if of_stages := space.find_layout(candidate.layout).of_stages:
        alike = [replace(candidate, layout=layout_of_stage.name) for layout_of_stage in of_stages]
        plans = [partial(candidate_plan, space, layout_of_stage) for layout_of_stage in alike]
        return choose_stages(plans, _most_memory(space, read_hardware(candidate.hardware or None)), is_cancelled)
    return complete_plan(space, core_plan(space, candidate), candidate)


def complete_plan(space: SearchSpace, plan: Plan, candidate: PlanCandidate) -> Plan:
    """The plan of a core with the candidate's ZeRO stage, schedule and boundaries."""
    if candidate.zero != NO_ZERO:
        plan = RecipeMove(candidate.zero, ("data",)).apply(plan)
    return with_boundaries(space, with_schedule(space, plan, candidate), candidate.boundaries)


def with_boundaries(space: SearchSpace, plan: Plan, rule: str) -> Plan:
    """Name the stage boundaries of a pipelined plan by a rule of `BOUNDARIES`, using block estimates. `BY_TIME` names
    none.
    """
    if rule == BY_TIME:
        return plan
    return plan.updated(pipeline=choose_boundaries(staged_program(plan), rule, _most_memory(space, plan.hardware)))


def _most_memory(space: SearchSpace, hardware: Hardware | None) -> float:
    """The memory limit of a device, bytes."""
    return min(hardware.chip.memory, space.most_memory) if hardware else space.most_memory


def with_schedule(space: SearchSpace, plan: Plan, candidate: PlanCandidate) -> Plan:
    """The plan with the candidate's program and pipeline."""
    if candidate.schedule == WHOLE:
        return plan.updated(program=space.program_of(candidate.traced_as))
    return plan.updated(program=space.program_of(candidate.staged_as), pipeline=pipeline_of(candidate))


def pipeline_of(candidate: PlanCandidate) -> PipelineSpec:
    """The pipeline of a candidate with stages."""
    remat = first_remat(candidate.recomputing_stages, candidate.size("stage"))
    return PipelineSpec(candidate.size("stage"), candidate.micro_batches, candidate.schedule, candidate.chunks, remat=remat)
