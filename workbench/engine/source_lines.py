"""The user's line each instruction of a compiled program comes from.

XLA prints call stacks as four numbered tables before the computations; an instruction names its innermost frame:

    FileNames            FunctionNames    FileLocations                                   StackFrames
    1 "/home/me/gpt.py"  1 "attention"    1 {file_name_id=1 function_name_id=1 line=42 …  1 {file_location_id=1 parent_frame_id=1}

    %dot.98 = f32[256,64]{1,0} dot(…), metadata={op_name="jit(step)/mlp/dot_general" stack_frame_id=51}

A frame's parent is printed one higher than it is: 1 is no parent, 2 is frame 1 (jax 0.10.2). Where a compiler prints no tables it prints
`source_file="…" source_line=42` with the instruction.
"""

import re
from functools import cache
from pathlib import Path

from workbench.partition.location import is_library

_FRAME = re.compile(r"stack_frame_id=(\d+)")
_INLINE = re.compile(r'source_file="([^"]*)" source_line=(\d+)')
_ROW = re.compile(r"(\d+) (.+)")
_NUMBER = re.compile(r"(\w+)=(\d+)")
_TABLES = ("FileNames", "FunctionNames", "FileLocations", "StackFrames")


class SourceLines:
    """Reads `compiled.as_text()` once; asked for the `metadata` of one instruction after the other."""

    def __init__(self, hlo_text: str) -> None:
        self._tables = _read_tables(hlo_text)
        self._line = cache(self._user_line)

    def of(self, attributes: str) -> str:
        """`gpt.py:42`, the innermost line that is the user's; empty if there is none."""
        if found := _INLINE.search(attributes):
            return "" if is_library(found[1]) else f"{Path(found[1]).name}:{found[2]}"
        frame = _FRAME.search(attributes)
        return self._line(int(frame[1])) if frame else ""

    def _user_line(self, frame_id: int) -> str:
        files, locations, frames = (self._tables[name] for name in ("FileNames", "FileLocations", "StackFrames"))
        while frame := dict(_NUMBER.findall(frames.get(frame_id, ""))):
            location = dict(_NUMBER.findall(locations.get(int(frame["file_location_id"]), "")))
            name = files.get(int(location.get("file_name_id", 0)), "").strip('"')
            if name and not is_library(name):
                return f"{Path(name).name}:{location['line']}"
            parent = int(frame.get("parent_frame_id", 1)) - 1
            if parent >= frame_id:
                break
            frame_id = parent
        return ""


def _read_tables(hlo_text: str) -> dict[str, dict[int, str]]:
    """The numbered rows under each table's head; they end where the first computation opens."""
    tables: dict[str, dict[int, str]] = {name: {} for name in _TABLES}
    rows: dict[int, str] = {}
    for line in hlo_text.splitlines():
        if line in tables:
            rows = tables[line]
        elif found := _ROW.fullmatch(line):
            rows[int(found[1])] = found[2]
        elif line.endswith("{") and not line.startswith("HloModule"):
            break
    return tables
