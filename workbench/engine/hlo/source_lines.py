"""The user's source line that each instruction of a compiled program comes from.

A module keeps call stacks in four tables, numbered from 1; an instruction names its innermost frame, a frame its location and the frame
that called it. Where a compiler keeps no tables, file and line are in the instruction's metadata.
"""

from functools import cache

from workbench.propagation.module.location import is_library, short_line
from workbench.spmd.hlo_instruction import HloInstruction
from workbench.spmd.hlo_module import HloModule


class SourceLines:
    """Looks up source lines of one module, each frame once."""

    def __init__(self, module: HloModule) -> None:
        self._tables = module.fields.stack_frame_index
        self._line = cache(self._user_line)

    def of(self, instruction: HloInstruction) -> str:
        """`gpt.py:42`, the innermost line in the user's code; empty if there is none."""
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
