"""The process that plans with a registered program: a fresh one, in a sandbox, which talks over one socket."""

from workbench.team.programs.registry import ProgramRegistry, module_of
from workbench.team.sandbox.command import SandboxedCommand
from workbench.team.sandbox.limits import ResourceLimits
from workbench.team.store.tables import RegisteredProgram

PLANNER = "workbench.team.planning.planner_main"


def sandboxed_planner_command(
    registry: ProgramRegistry, program: RegisteredProgram, descriptor: int, limits: ResourceLimits | None = None
) -> SandboxedCommand:
    """`python -P -m planner_main DESCRIPTOR MODULE`, with the program's files on its path; its files are verified first.

    Raises `ProgramRegistryError` for a program that is not approved, and where its files have been changed.
    """
    tree, root = registry.code_of(program)
    command = SandboxedCommand.python(
        *("-m", PLANNER, str(descriptor), module_of(program)), code=(root,), limits=limits, descriptors=(descriptor,)
    )
    return command.with_readable(tree)
