"""The plan described by a command line."""

import argparse
import json
import sys
from collections.abc import Iterable
from functools import reduce
from typing import Any

from workbench import engine
from workbench.cli.catalogue_command import use_hardware_file
from workbench.cli.shared_arguments import DEFAULT_MESH, DEFAULT_MODEL, allowed_modules
from workbench.core.layout import Layout
from workbench.core.mesh import Mesh
from workbench.core.offload import Offload
from workbench.core.pipeline_spec import PipelineSpec
from workbench.core.precision import Precision
from workbench.core.program import Reference
from workbench.core.remat import Remat
from workbench.documents import load_plan, program_from_reference
from workbench.errors import HardwareError
from workbench.hardware.axis_assignment_text import parse_axis_assignment
from workbench.hardware.catalogue import parse_hardware
from workbench.hardware.hardware import Hardware
from workbench.hardware.hardware_options import set_link
from workbench.pipeline.balance import apply_edit, verify_partition
from workbench.plan.edits import SetAxisAssignment, SetHardware, SetLayout, SetOffload, SetPipeline, SetPrecision, SetRemat
from workbench.plan.mesh_edits import SetMesh
from workbench.plan.plan import Plan
from workbench.reports.run_events import Progress, RunEvent
from workbench.tracing.jax_backends import force_cpu_backend

ATTACHED = "attached"
"""Value of `--hardware` for the devices of this machine."""


def plan_on_the_cpu(options: argparse.Namespace) -> Plan:
    """The plan, with this process kept off the accelerators: a worker process needs their memory."""
    force_cpu_backend()
    return plan_of(options)


def plan_of(options: argparse.Namespace) -> Plan:
    """The plan of a document with the changes of the command line, or a new plan of a model."""
    use_hardware_file(options)
    if options.plan and (options.model or options.argument):
        options.parser.error("give a PLAN.json or a --model with its arguments, not both")
    if not options.plan and not options.model and options.command.name != "serve":
        options.parser.error("give a PLAN.json, or a model with --model NAME")
    if options.plan:
        plan = load_plan(options.plan, allowed_modules(options))
        mesh, layout = options.mesh, options.layout
    else:
        reference = Reference(options.model or DEFAULT_MODEL, dict(_argument(text, options.parser) for text in options.argument))
        plan = Plan(program_from_reference(reference), "")
        mesh, layout = options.mesh or DEFAULT_MESH, options.layout
    plan = plan if options.remat is None else apply_edit(plan, SetRemat(Remat.parse(options.remat)))
    plan = plan if options.precision is None else apply_edit(plan, SetPrecision(Precision.parse(options.precision)))
    plan = plan if options.offload is None else apply_edit(plan, SetOffload(Offload.parse(options.offload)))
    plan = plan if mesh is None else apply_edit(plan, SetMesh(Mesh(mesh)))
    if (options.hardware is not None or options.link) and not names_attached(options):
        plan = apply_edit(plan, SetHardware(hardware_of(options, plan.hardware)))
    plan = plan if layout is None else apply_edit(plan, SetLayout(Layout(layout)))
    plan = plan if options.pipeline is None else _set_pipeline(plan, PipelineSpec.parse(options.pipeline))
    if names_attached(options):
        plan = apply_edit(plan, SetHardware(_attached(plan, options.link)))
    return plan if options.axis_assignment is None else apply_edit(plan, SetAxisAssignment(parse_axis_assignment(options.axis_assignment)))


def names_attached(options: argparse.Namespace) -> bool:
    """Whether `--hardware` names this machine."""
    return (options.hardware or "").strip().casefold() == ATTACHED


def _attached(plan: Plan, links: Iterable[str]) -> Hardware:
    """This machine with as many devices as the mesh, measured now if necessary, with `--link` applied."""

    def tell(event: RunEvent) -> None:
        if isinstance(event, Progress):
            print(f"{event.stage} ...", file=sys.stderr)

    return reduce(set_link, links, engine.attached_hardware(plan, tell))


def hardware_of(options: argparse.Namespace, now: Hardware | None) -> Hardware | None:
    """The hardware of the command line, else `now`, with `--link` applied."""
    hardware = now if options.hardware is None else parse_hardware(options.hardware)
    for text in options.link:
        if hardware is None:
            raise HardwareError(
                f"`--link {text[:80]}` overrides a link, but no hardware is given.", ['add --hardware "32 nodes of 8 H100"']
            )
        hardware = set_link(hardware, text)
    return hardware


def _set_pipeline(plan: Plan, spec: PipelineSpec) -> Plan:
    """Add a pipeline. Raises `PipelineError` if it cannot partition the program."""
    plan = apply_edit(plan, SetPipeline(spec))
    verify_partition(plan.program, spec)
    return plan


def _argument(text: str, parser: argparse.ArgumentParser) -> tuple[str, Any]:
    """Parse `layers=2`: the value is JSON if it parses as JSON, else text."""
    name, equals, value = text.partition("=")
    if not equals:
        parser.error(f"--argument {text}: write NAME=VALUE")
    try:
        return name, json.loads(value)
    except ValueError:
        return name, value
