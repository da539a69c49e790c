"""Models of frameworks, which are objects with state, keys and steps of their own, put in as programs. A framework is imported when one of
its models is given; `ADAPTERS` is all of them."""

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
    """A framework, the distribution it comes with, the module that is imported, the function that puts its models in, and the extra that
    brings it, if there is one."""

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
