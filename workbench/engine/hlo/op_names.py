"""Parse the name of an instruction, `jit(step)/jvp(mlp)/dot_general`: the scope and the primitive it comes from, as JAX wrote them."""

import re

from workbench.propagation.module.location import readable_path
from workbench.spmd.hlo_instruction import HloInstruction

_DOT = re.compile(r"(?:dot_general|conv_general_dilated)$")
_INDEXING = re.compile(
    r"(?:^|/)(?:dynamic_index_in_dim|dynamic_update_index_in_dim|dynamic_slice|dynamic_update_slice|squeeze|broadcast_in_dim)$"
)
_SCAN_SLICE = re.compile(r"/jit\(dynamic_(?:update_)?index_in_dim\)")


def path_of(instruction: HloInstruction) -> str:
    """The path in the planner's form, `mlp/dot_general`; empty if the compiler itself added the instruction."""
    return readable_path(instruction.op_name)


def path_of_value(instruction: HloInstruction) -> str:
    """The path without the slicing operations of a scan; empty where no scope is named."""
    return readable_path(_SCAN_SLICE.sub("", instruction.op_name)) if "/" in instruction.op_name else ""


def is_of_dot(instruction: HloInstruction) -> bool:
    """Whether it comes from a `dot_general`, whatever its opcode is."""
    return _DOT.search(instruction.op_name) is not None


def is_indexing(path: str) -> bool:
    """Whether a path says that a value was only sliced out of another or written into one."""
    return _INDEXING.search(path) is not None
