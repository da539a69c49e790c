"""HLO text made into the module that readers are given; the parser is XLA's own, so that the text must be whole."""

import re

from jaxlib import xla_client

from workbench.spmd.hlo_module import HloInstruction, HloModule, read_module

_FIRST_COMPUTATION = re.compile(r"^(?:%|ENTRY)", re.MULTILINE)
_ADD = """%add (left: f32[], right: f32[]) -> f32[] {
  %left = f32[] parameter(0)
  %right = f32[] parameter(1)
  ROOT %sum_of_both = f32[] add(%left, %right)
}

"""


def module_from(text: str) -> HloModule:
    """The module that a text says; `%add`, which reductions apply, need not stand in it."""
    start = _FIRST_COMPUTATION.search(text).start() if "to_apply=%add" in text else 0
    whole = text[:start] + _ADD + text[start:] if start else text
    return read_module(xla_client.hlo.hlo_module_from_text(whole).as_serialized_hlo_module_proto())


def instruction_from(line: str, *operands: str) -> HloInstruction:
    """One instruction over parameters of these shapes: `f32[8] all-reduce(%p0), replica_groups={}, to_apply=%add`."""
    parameters = "".join(f"  %p{number} = {shape} parameter({number})\n" for number, shape in enumerate(operands))
    module = module_from(f"HloModule one\n\nENTRY %main {{\n{parameters}  ROOT %found = {line}\n}}\n")
    return module.computations[module.entry]["found"]
