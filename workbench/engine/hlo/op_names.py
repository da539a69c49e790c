"""Parse instruction names such as `jit(step)/jvp(mlp)/dot_general`: scope and primitive as written by JAX."""

import re
from functools import cache

from workbench.propagation.module.source_location import is_library, readable_path, short_line
from workbench.spmd.hlo_module import HloInstruction, HloModule

_DOT = re.compile(r"(?:dot_general|conv_general_dilated)$")
_INDEXING = re.compile(
    r"(?:^|/)(?:dynamic_index_in_dim|dynamic_update_index_in_dim|dynamic_slice|dynamic_update_slice|squeeze|broadcast_in_dim)$"
)
_SCAN_SLICE = re.compile(r"/jit\(dynamic_(?:update_)?index_in_dim\)")


def path_of(instruction: HloInstruction) -> str:
    """Return the path in the planner's form, `mlp/dot_general`; empty if the compiler added the instruction."""
    return readable_path(instruction.op_name)


def path_of_value(instruction: HloInstruction) -> str:
    """Return the path without a scan's slicing operations; empty without a scope."""
    return readable_path(_SCAN_SLICE.sub("", instruction.op_name)) if "/" in instruction.op_name else ""


def is_of_dot(instruction: HloInstruction) -> bool:
    """Return whether the instruction comes from a `dot_general`, whatever its opcode."""
    return _DOT.search(instruction.op_name) is not None


def is_indexing(path: str) -> bool:
    """Return whether a path only slices a value from another or writes it into one."""
    return _INDEXING.search(path) is not None


# Source lines in the user's code of a compiled program's instructions.
#
# A module has call stacks in four tables, numbered from 1; an instruction names its innermost frame, a frame its location and the frame
# that called it. Without such tables, file and line are in the instruction's metadata.


class SourceLines:
    """Looks up source lines of one module, each frame once."""

    def __init__(self, module: HloModule) -> None:
        self._tables = module.fields.stack_frame_index
        self._line = cache(self._user_line)

    def of(self, instruction: HloInstruction) -> str:
        """Return `gpt.py:42`, the innermost line in the user's code; empty if there is none."""
        metadata = instruction.fields.metadata
        if metadata.source_file:
            return "" if is_library(metadata.source_file) else short_line(metadata.source_file, metadata.source_line)
        return self._line(metadata.stack_frame_id)

    def _user_line(self, frame_id: int) -> str:
        tables = self._tables
        while 0 < frame_id <= len(tables.stack_frames):
            frame = tables.stack_frames[frame_id - 1]
            location = tables.file_locations[frame.file_location_id - 1]
            name = tables.file_names[location.file_name_id - 1]
            if not is_library(name):
                return short_line(name, location.line)
            if frame.parent_frame_id >= frame_id:
                break
            frame_id = frame.parent_frame_id
        return ""
