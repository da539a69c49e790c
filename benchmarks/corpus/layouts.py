"""How a third-party program is laid out over eight devices: as a user would, and at random by a rule that depends on its name alone."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from hashlib import sha256
from math import prod

import workbench as wb
from workbench.core.layout import Layout, fits_state
from workbench.core.mesh import Mesh
from workbench.core.path_patterns import matches
from workbench.core.program import Program
from workbench.core.tensor import Role, Tensor
from workbench.errors import LayoutError
from workbench.plan.layout_legality import layout_errors

MESHES = ("a:8", "a:2 b:4", "a:4 b:2", "a:2 b:2 c:2")
"""Of the random layouts: eight devices on one to three axes."""
MOST_RULES, MOST_OVERRIDES, TRIES = 3, 4, 24
SMALL = 4096
"""Elements below which no argument is drawn, nor a dimension that only such have: most would be biases and decide nothing."""
RANDOM_LAYOUTS = ("random 1", "random 2", "random 3")


@dataclass(frozen=True, slots=True)
class StatedLayout:
    """A mesh, recipes in the order in which they are applied, and statements before them."""

    mesh: str
    statements: str = ""
    recipes: tuple[str, ...] = ()

    def plan(self, program: Program, name: str) -> wb.Plan:
        plan = wb.Plan(program, self.mesh, self.statements, name=name)
        for recipe in self.recipes:
            plan = plan.recipe(recipe)
        return plan


DATA_PARALLEL = StatedLayout("data:8", recipes=("data_parallel",))
ZERO_3 = StatedLayout("data:8", recipes=("data_parallel", "zero_3"))
MEGATRON = StatedLayout("data:2 model:4", recipes=("data_parallel", "megatron"))


class Draws:
    """Numbers from the SHA-256 of a seed and a count: the same with every version of Python."""

    def __init__(self, seed: str) -> None:
        self._seed = seed
        self._count = 0

    def below(self, limit: int) -> int:
        self._count += 1
        return int.from_bytes(sha256(f"{self._seed}/{self._count}".encode()).digest()) % limit

    def one_of(self, choices: Sequence[str]) -> str:
        return choices[self.below(len(choices))]


def draw_layout(program: Program, seed: str) -> StatedLayout:
    """A legal layout for the program, drawn by its seed.

    First the mesh; then up to three dimensions of the program get rules, and up to four arguments with dimensions overrides, each the first
    of `TRIES` draws that is legal beside what was drawn before. A parameter's override is its optimizer state's too.
    """
    draws = Draws(seed)
    mesh = draws.one_of(MESHES)
    statements: list[str] = []
    for propose, most in ((_propose_rule, MOST_RULES), (_propose_override, MOST_OVERRIDES)):
        for _ in range(1 + draws.below(most)):
            found = next(_legal(program, mesh, statements, (propose(program, mesh, draws) for _ in range(TRIES))), None)
            statements += [found] if found else []
    return StatedLayout(mesh, "; ".join(statements))


def _legal(program: Program, mesh: str, before: Sequence[str], proposed: Iterator[str]) -> Iterator[str]:
    """Those of the proposed statements that split something and may stand beside the earlier ones."""
    for statement in proposed:
        target = statement.partition("=")[0].partition(":")[0]
        if statement and not any(each.startswith((f"{target}:", f"{target}=")) for each in before):
            try:
                layout = Layout("; ".join([*before, statement]))
            except LayoutError:  # a path that no statement can name
                continue
            if _fits_all_state(program, layout) and next(layout_errors(program, Mesh(mesh), layout), None) is None:
                yield statement


def _fits_all_state(program: Program, layout: Layout) -> bool:
    """Whether each override is about all that its pattern matches, factors of a moment included: the recorded layouts were drawn so."""
    pairs = ((sharding, tensor) for pattern, sharding in layout.overrides for tensor in program.arguments if matches(pattern, tensor.path))
    return all(fits_state(sharding, tensor) for sharding, tensor in pairs)


def _propose_rule(program: Program, mesh: str, draws: Draws) -> str:
    """A dimension of the program on axes that divide all its sizes; empty where none of those drawn does."""
    dim = draws.one_of(list(dict.fromkeys(dim for tensor in _large(program) for dim in tensor.dims)))
    axes = _draw_axes(Mesh(mesh).names, draws)
    return f"{dim}:{'+'.join(axes)}" if _divides(axes, Mesh(mesh), program.dims[dim]) else ""


def _propose_override(program: Program, mesh: str, draws: Draws) -> str:
    """An argument with each dimension split or not, an axis at most once; empty where nothing of it is."""
    arguments = _large(program)
    tensor = arguments[draws.below(len(arguments))]
    free = list(Mesh(mesh).names)
    words = []
    for size in tensor.shape:
        axes = _draw_axes(free, draws) if free and draws.below(2) else ()
        axes = axes if _divides(axes, Mesh(mesh), (size,)) else ()
        free = [each for each in free if each not in axes]
        words.append("+".join(axes) or "-")
    return f"{_pattern(tensor)}=[{', '.join(words)}]" if set(words) != {"-"} else ""


def _large(program: Program) -> list[Tensor]:
    """The arguments that are worth splitting, all but scalars where none is; the optimizer's state lies as its parameters do."""
    arguments = [each for each in program.arguments if each.shape and each.role is not Role.OPTIMIZER_STATE]
    return [each for each in arguments if each.elements >= SMALL] or arguments


def _pattern(tensor: Tensor) -> str:
    """Of a parameter, its path below the root: what the optimizer keeps of it has a path that ends so."""
    return tensor.path.partition("/")[2] or tensor.path if tensor.role is Role.PARAMETER else tensor.path


def _draw_axes(names: Sequence[str], draws: Draws) -> tuple[str, ...]:
    """One axis of these, or with one chance in three two of them."""
    first = draws.one_of(names)
    others = [each for each in names if each != first]
    return (first, draws.one_of(others)) if others and draws.below(3) == 0 else (first,)


def _divides(axes: Sequence[str], mesh: Mesh, sizes: Sequence[int]) -> bool:
    return all(size and size % prod(mesh[axis] for axis in axes) == 0 for size in sizes)
