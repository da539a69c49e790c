"""What the name of an instruction tells, `jit(step)/jvp(mlp)/dot_general`: the scope and the primitive it comes from, as JAX wrote them."""

import re

from workbench.propagation.module.location import readable_path
from workbench.spmd.module import HloInstruction

_DOT = re.compile(r"(?:dot_general|conv_general_dilated)$")
_INDEXING = re.compile(
    r"(?:^|/)(?:dynamic_index_in_dim|dynamic_update_index_in_dim|dynamic_slice|dynamic_update_slice|squeeze|broadcast_in_dim)$"
)
_SCAN_SLICE = re.compile(r"/jit\(dynamic_(?:update_)?index_in_dim\)")


def path_of(instruction: HloInstruction) -> str:
    """As the planner writes it, `mlp/dot_general`; empty if the compiler made the instruction of its own."""
    return readable_path(instruction.op_name)


def path_of_value(instruction: HloInstruction) -> str:
    """The same without what a scan names its slices; empty where no scope is named."""
    return readable_path(_SCAN_SLICE.sub("", instruction.op_name)) if "/" in instruction.op_name else ""


def is_of_dot(instruction: HloInstruction) -> bool:
    """Whether it serves a product, of whatever opcode it is."""
    return _DOT.search(instruction.op_name) is not None


def is_indexing(path: str) -> bool:
    """Whether a path says that a value was only taken out of another or put into one."""
    return _INDEXING.search(path) is not None
