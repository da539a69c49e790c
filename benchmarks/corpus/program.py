"""A program that nobody here wrote: what it needs, how it is traced, and how a user would lay it out."""

import importlib.metadata
import os
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache

import workbench as wb
from benchmarks.corpus.layouts import DATA_PARALLEL, RANDOM_LAYOUTS, ZERO_3, StatedLayout, draw_layout
from benchmarks.corpus.split import Half, half_of
from workbench.core.program import Program
from workbench.hardware.catalogue import parse_hardware

LAYOUTS = ("data parallel", "tensor parallel", "zero 3", *RANDOM_LAYOUTS)
TARGET = "TPU v5e 2x4"
SETTINGS = {"KERAS_BACKEND": "jax", "USE_TF": "0", "USE_TORCH": "0", "TF_CPP_MIN_LOG_LEVEL": "3", "EQX_ON_ERROR": "nan"}
"""Environment variables that Keras, Transformers and Equinox read when they are imported; a worker process inherits them."""


@dataclass(frozen=True, slots=True)
class ThirdPartyProgram:
    """One program of a package of the Python package index, with the glue that a user of the package would write.

    - `packages`: the distributions it is from, all named in the extra `corpus`; `kind`: what sort of model it is, in words;
    - `build`: traces it; it alone imports the packages, so that this tuple can be read without them;
    - `tensor_parallel`, `data_parallel`, `zero_3`: the layouts a user would state.
    """

    name: str
    kind: str
    packages: tuple[str, ...]
    build: Callable[[], Program]
    tensor_parallel: StatedLayout
    data_parallel: StatedLayout = DATA_PARALLEL
    zero_3: StatedLayout = ZERO_3

    @property
    def half(self) -> Half:
        return half_of(self.name)

    @property
    def missing(self) -> tuple[str, ...]:
        """The packages that are not installed."""
        return tuple(each for each in self.packages if not version_of(each))

    def layout(self, name: str) -> StatedLayout:
        """One of `LAYOUTS`; for a random one the program is traced, for it depends on its dimensions."""
        stated = {"data parallel": self.data_parallel, "tensor parallel": self.tensor_parallel, "zero 3": self.zero_3}
        return stated[name] if name in stated else draw_layout(traced(self), f"{self.name}/{name}")

    def plan(self, layout: str) -> wb.Plan:
        """For `TARGET`."""
        plan = self.layout(layout).plan(traced(self), f"{self.name}/{layout}")
        return plan.updated(hardware=parse_hardware(TARGET))


@cache
def traced(program: ThirdPartyProgram) -> Program:
    for name, value in SETTINGS.items():
        os.environ.setdefault(name, value)
    return program.build()


def version_of(distribution: str) -> str:
    """The installed version; empty where there is none."""
    try:
        return importlib.metadata.version(distribution)
    except importlib.metadata.PackageNotFoundError:
        return ""
