"""The corpus of `accuracy.py`: programs of the zoo, layouts from none to two-dimensional with sharded weights, targets from CPU to TPU v6e.

Nothing is left out because it is hard. A case is named `program/layout/target`.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cache, partial

import jax
import jax.numpy as jnp
import optax

import workbench as wb
from workbench.core.program import Program
from workbench.models import build, gpt
from workbench.models.gpt_config import PRESETS

MEDIUM = replace(
    PRESETS["gpt2-small"],
    vocab=8192,
    layers=3,
    d_model=1024,
    heads=16,
    d_ff=4096,
    seq=512,
    batch=16,
    biases=False,
    compute="bfloat16",
    optimizer="adam",
)
"""Large enough that products fill a matrix unit on each of eight devices, small enough to compile in seconds."""


def _training(*, scan: bool, remat: bool = False, compute: str = "bfloat16") -> Program:
    config = replace(MEDIUM, compute=compute)
    start = partial(gpt.init, config=config, scan=scan)
    tokens = jax.ShapeDtypeStruct((config.batch, config.seq), jnp.int32)
    return wb.trace_training(
        gpt.make_loss(config, remat=remat),
        jax.eval_shape(lambda: start(jax.random.key(0))),
        {"tokens": tokens, "targets": tokens},
        optimizer=optax.adam(1e-4),
        dims=gpt.dims(config, scan=scan),
        init=start,
        name="gpt medium",
    )


def _forward(*, scan: bool) -> Program:
    params = jax.eval_shape(lambda: gpt.init(jax.random.key(0), MEDIUM, scan=scan))
    tokens = jax.ShapeDtypeStruct((MEDIUM.batch, MEDIUM.seq), jnp.int32)
    given = gpt.dims(MEDIUM, scan=scan)
    dims = {"tokens": "batch seq", **{path: names for path, names in given.items() if not path.startswith("batch/")}}

    def forward(params, tokens):
        return gpt.apply(params, tokens, MEDIUM)

    return wb.trace(forward, params, tokens, dims=dims, name="gpt medium forward")


PROGRAMS: dict[str, Callable[[], Program]] = {
    "scanned": lambda: _training(scan=True),
    "unrolled": lambda: _training(scan=False),
    "remat": lambda: _training(scan=True, remat=True),
    "float32": lambda: _training(scan=True, compute="float32"),
    "forward": lambda: _forward(scan=True),
    "forward unrolled": lambda: _forward(scan=False),
    "gpt2": lambda: build("gpt", preset="gpt2-small", layers=3),
    "tiny": lambda: build("gpt"),
    "mnist": lambda: build("mnist"),
    "two_layer": lambda: build("two_layer"),
}

_FSDP = "@embedding/add=[{}, ?, ?]"
LAYOUTS: dict[str, tuple[str, str]] = {
    "replicated": ("data:8", ""),
    "data": ("data:8", "batch:data"),
    "model": ("model:8", "d_ff:model; heads:model; vocab:model"),
    "data x model": ("data:4 model:2", "batch:data; d_ff:model; heads:model"),
    "data x model, vocab": ("data:2 model:4", "batch:data; d_ff:model; heads:model; vocab:model"),
    "sequence": ("data:4 model:2", "batch:data; seq:model"),
    "fsdp": ("data:8", "batch:data; d_model:data; " + _FSDP.format("data")),
    "2d weights": ("data:4 model:2", "batch:data; d_model:data; d_ff:model; heads:model; vocab:model; " + _FSDP.format("data")),
    "3 axes": (
        "data:2 fsdp:2 model:2",
        "batch:data+fsdp; d_model:fsdp; d_ff:model; heads:model; vocab:model; " + _FSDP.format("data+fsdp"),
    ),
    "16 fsdp": ("data:16", "batch:data; d_model:data; " + _FSDP.format("data")),
    "16 2d weights": ("data:4 model:4", "batch:data; d_model:data; d_ff:model; heads:model; vocab:model; " + _FSDP.format("data")),
    "64": ("data:16 model:4", "batch:data; d_ff:model; heads:model; vocab:model"),
    "rows x cols": ("rows:2 cols:4", "batch:rows; hidden:cols"),
    "batch x hidden": ("data:4 model:2", "batch:data; hidden:model"),
}

TARGETS: dict[str, tuple[str, str, str]] = {  # the slices of 8, 16 and 64 devices
    "TPU v3": ("2x2", "2x4", "4x8"),
    "TPU v4": ("2x2x2", "2x2x4", "4x4x4"),
    "TPU v5e": ("2x4", "4x4", "8x8"),
    "TPU v5p": ("2x2x2", "2x2x4", "4x4x4"),
    "TPU v6e": ("2x4", "4x4", "8x8"),
    "CPU": ("8", "16", "64"),
    "H100": ("8", "2 nodes of 8", "8 nodes of 8"),
}

_EVERYWHERE = (
    ("scanned", "data"),
    ("scanned", "data x model"),
    ("scanned", "fsdp"),
    ("scanned", "2d weights"),
    ("unrolled", "data x model"),
    ("unrolled", "2d weights"),
    ("forward", "fsdp"),
    ("forward", "data x model"),
    ("remat", "2d weights"),
    ("two_layer", "rows x cols"),
)
_ONCE = (
    ("scanned", "replicated", "TPU v5e"),
    ("scanned", "model", "TPU v4"),
    ("scanned", "sequence", "TPU v5e"),
    ("scanned", "data x model, vocab", "TPU v3"),
    ("scanned", "3 axes", "TPU v5p"),
    ("scanned", "16 fsdp", "TPU v5e"),
    ("scanned", "16 2d weights", "TPU v6e"),
    ("scanned", "64", "TPU v4"),
    ("unrolled", "fsdp", "TPU v4"),
    ("unrolled", "sequence", "TPU v6e"),
    ("unrolled", "3 axes", "TPU v4"),
    ("unrolled", "16 2d weights", "TPU v5e"),
    ("float32", "2d weights", "TPU v5e"),
    ("forward unrolled", "2d weights", "TPU v5p"),
    ("gpt2", "data x model", "TPU v5p"),
    ("gpt2", "data", "TPU v3"),
    ("tiny", "2d weights", "TPU v5e"),
    ("tiny", "sequence", "CPU"),
    ("mnist", "batch x hidden", "TPU v5e"),
    ("mnist", "batch x hidden", "CPU"),
)


@dataclass(frozen=True, slots=True)
class Case:
    """One plan for one target."""

    program: str
    layout: str
    target: str

    @property
    def hardware(self) -> str:
        """The slice its mesh fills, as the catalogue names it."""
        sizes = {"16": 1, "64": 2}
        shape = TARGETS[self.target][sizes.get(self.layout.split()[0], 0)]
        return f"{self.target} {shape}" if self.target.startswith("TPU") else f"{shape} {self.target}"

    def plan(self) -> wb.Plan:
        return wb.Plan(_program(self.program), *LAYOUTS[self.layout], name=str(self))

    def __str__(self) -> str:
        return f"{self.program}/{self.layout}/{self.target}"


@cache
def _program(name: str) -> Program:
    return PROGRAMS[name]()


FITTED = ("scanned", "two_layer", "float32", "tiny")
"""Programs that `fit_estimates.py` fits the numbers of a TPU on. What `accuracy.py` says of all others is a test of them."""

CASES = (*(Case(*pair, target) for pair in _EVERYWHERE for target in TARGETS), *(Case(*each) for each in _ONCE))
QUICK = tuple(each for each in CASES if each.program in ("two_layer", "mnist") and each.target in ("TPU v5e", "CPU"))
