"""Plans that nobody made by hand: programs of the zoo, laid out at random over eight devices. The same seed is the same plan.

Every dimension's rule, an argument in five, and up to two intermediate values are drawn; what is not legal is drawn again.
"""

import random
from collections.abc import Callable, Mapping
from functools import cache
from math import prod

import workbench as wb
from workbench.core.mesh import Mesh
from workbench.core.program import Operation, Program
from workbench.core.sharding import Sharding
from workbench.errors import WorkbenchError
from workbench.models import build

MESHES = ("x:8", "x:4 y:2", "x:2 y:4", "x:2 y:2 z:2")
PROGRAMS: dict[str, Callable[[], Program]] = {
    "gpt unrolled": lambda: build("gpt", scan=False, layers=2),
    "gpt": lambda: build("gpt"),
    "gpt remat": lambda: build("gpt", remat=True),
    "two_layer": lambda: build("two_layer"),
    "mnist": lambda: build("mnist"),
    "mixture": lambda: build("mixture", preset="tiny-top2"),
    "decoder": lambda: build("decoder"),
    "t5": lambda: build("t5"),
    "unet": lambda: build("unet"),
    "conformer": lambda: build("conformer"),
}
_TRIES = 1000


def random_plan(program: str, seed: int) -> wb.Plan:
    """The plan of that number."""
    rng = random.Random(f"{program} {seed}")  # noqa: S311 - not for secrets
    for _ in range(_TRIES):
        try:
            return _drawn(built(program), rng, f"{program} {seed}")
        except WorkbenchError:  # an axis twice in a tensor, a part that is not full
            continue
    raise AssertionError(f"no legal layout of {program} in {_TRIES} tries")


@cache
def built(program: str) -> Program:
    return PROGRAMS[program]()


def _drawn(program: Program, rng: random.Random, name: str) -> wb.Plan:
    mesh = Mesh(rng.choice(MESHES))
    overrides = [(each.path, _sharding(each.shape, mesh, rng)) for each in program.arguments if rng.random() < 0.2]
    values = [each for each in program.operations if _can_be_constrained(each)]
    chosen = rng.sample(values, min(rng.choice((0, 0, 1, 2)), len(values)))
    constraints = [(each.path, _sharding(each.shape, mesh, rng)) for each in chosen]
    return wb.Plan(program, mesh, wb.Layout(_rules(program.dims, mesh, rng), tuple(overrides), tuple(constraints)), name=name)


def _rules(dims: Mapping[str, tuple[int, ...]], mesh: Mesh, rng: random.Random) -> dict[str, tuple[str, ...]]:
    rules = {}
    for dim, sizes in dims.items():
        axes = tuple(rng.sample(mesh.names, rng.choice((0, 0, 1, 1, min(2, len(mesh.names))))))
        if axes and all(size % prod(mesh[axis] for axis in axes) == 0 for size in sizes):
            rules[dim] = axes
    return rules


def _sharding(shape: tuple[int, ...], mesh: Mesh, rng: random.Random) -> Sharding:
    free, dims = rng.sample(mesh.names, len(mesh.names)), []
    for size in shape:
        axes: list[str] = []
        while free and rng.random() < 0.45 and size % prod(mesh[axis] for axis in [*axes, free[-1]]) == 0:
            axes.append(free.pop())
        dims.append(tuple(axes))
    return Sharding(tuple(dims))


def _can_be_constrained(operation: Operation) -> bool:
    """Not what becomes an operation only when JAX lowers the function (the slice that a scan takes): `jit` cannot constrain it."""
    return bool(operation.path and operation.shape) and not operation.path.rpartition("/")[2].startswith(
        ("dynamic_", "broadcast", "select")
    )
