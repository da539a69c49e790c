"""Adapters (`ADAPTERS`) that trace models of other frameworks, each imported only when one of its models is traced."""

from collections.abc import Callable
from typing import NamedTuple

from workbench.adapters.equinox_model import from_equinox as from_equinox
from workbench.adapters.flax_model import from_flax as from_flax
from workbench.adapters.haiku_model import from_haiku as from_haiku
from workbench.adapters.keras_model import from_keras as from_keras
from workbench.adapters.torch_model import from_torch as from_torch
from workbench.adapters.traced_model import AdapterError as AdapterError
from workbench.core.program import Program


class Adapter(NamedTuple):
    """A framework adapter; `extra` is the workbench extra that installs the framework, if any."""

    framework: str
    distribution: str
    module: str
    trace: Callable[..., Program]
    extra: str = ""


ADAPTERS = (
    Adapter("Flax", "flax", "flax", from_flax),
    Adapter("Equinox", "equinox", "equinox", from_equinox),
    Adapter("Keras", "keras", "keras", from_keras),
    Adapter("Haiku", "dm-haiku", "haiku", from_haiku),
    Adapter("PyTorch", "torch", "torch", from_torch, "torch"),
)
