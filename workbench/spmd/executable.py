"""The module of a compiled function, for attached or absent devices: in serialised form, and as HLO text for people."""

import jax
from jaxlib import xla_client

from workbench.spmd.hlo_module import HloModule, read_module


def serialize_module(compiled: jax.stages.Compiled) -> bytes:
    """The scheduled program as an `HloModuleProto`; one serves the whole mesh."""
    found: bytes = compiled.runtime_executable().hlo_modules()[0].as_serialized_hlo_module_proto()
    return found


def module_of(compiled: jax.stages.Compiled) -> HloModule:
    """The same, parsed."""
    return read_module(serialize_module(compiled))


def module_text(serialized: bytes) -> str:
    """A serialised module as HLO text: `compiled.as_text()` but for its first line, which says less, and how stack frames are numbered."""
    found: str = xla_client.hlo.HloModule.from_serialized_hlo_module_proto(serialized).to_string()
    return found
