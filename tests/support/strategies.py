"""Hypothesis strategies: meshes, shardings, tensors, layouts."""

from hypothesis import strategies as st

from workbench.core.layout import Layout
from workbench.core.layout_text import DIRECTIONS
from workbench.core.mesh import Mesh
from workbench.core.sharding import Sharding
from workbench.core.tensor import Role, Tensor

AXES = ("data", "model", "pipe", "x_1", "y.z")
DIMS = ("batch", "seq", "d_model", "d_ff", "heads", "vocab")
WORDS = st.sampled_from(("params", "layers", "0", "12", "mlp", "w1", "w_2", "*", "**", "h?ad", "opt state", "a.b"))


def meshes(max_axes: int = 4, max_size: int = 8) -> st.SearchStrategy[Mesh]:
    """Meshes of distinct axes; sizes of 1 and odd ones included."""
    axes = st.lists(st.sampled_from(AXES), unique=True, max_size=max_axes)
    return axes.flatmap(lambda names: st.tuples(*(st.tuples(st.just(name), st.integers(1, max_size)) for name in names))).map(Mesh)


@st.composite
def shardings(
    draw: st.DrawFn, rank: int | None = None, *, names: tuple[str, ...] = AXES, can_be_open: bool = True, is_plain: bool = True
) -> Sharding:
    """Each axis on at most one dimension; some dimensions open. One that is not plain has open axes, priorities, replicated and unreduced
    axes besides."""
    rank = draw(st.integers(0, 4)) if rank is None else rank
    dims: list[list[str] | None] = [None if can_be_open and draw(st.booleans()) else [] for _ in range(rank)]
    rest = []
    for name in draw(st.permutations(names)):
        place = draw(st.integers(-1, rank - 1))
        if place >= 0 and (dim := dims[place]) is not None:
            dim.append(name)
        else:
            rest.append(name)
    placed = tuple(None if dim is None else tuple(dim) for dim in dims)
    if is_plain:
        return Sharding(placed)
    flags = tuple(draw(st.booleans()) for _ in placed)
    rounds = tuple(draw(st.integers(0, 3)) if dim != () or is_open else 0 for dim, is_open in zip(placed, flags, strict=True))
    cut, end = sorted((draw(st.integers(0, len(rest))), draw(st.integers(0, len(rest)))))
    return Sharding(placed, flags, rounds, tuple(rest[:cut]), tuple(rest[cut:end]))


@st.composite
def tensors(draw: st.DrawFn) -> Tensor:
    dims = tuple(draw(st.lists(st.sampled_from(DIMS), unique=True, max_size=4)))
    shape = tuple(draw(st.integers(1, 64)) for _ in dims)
    return Tensor("params/w", shape, draw(st.sampled_from(("float32", "bfloat16", "int8"))), dims, Role.PARAMETER)


def patterns() -> st.SearchStrategy[str]:
    return st.lists(WORDS, min_size=1, max_size=4).map("/".join)


def places() -> st.SearchStrategy[str]:
    """Where a group or a barrier stands: an argument, or with `@` an intermediate value."""
    return st.tuples(st.sampled_from(("", "@")), patterns() | st.just("gpt.py:42")).map("".join)


@st.composite
def layouts(draw: st.DrawFn, *, names: tuple[str, ...] = AXES) -> Layout:
    """Statements of every kind, legal in themselves but perhaps for no program."""
    axes = st.lists(st.sampled_from(names), unique=True, max_size=2).map(tuple)
    rules = draw(st.dictionaries(st.sampled_from(DIMS), axes, max_size=4))
    priorities = tuple((dim, draw(st.integers(0, 3))) for dim, each in rules.items() if each)
    entries = st.lists(st.tuples(patterns(), shardings(names=names, is_plain=False)), max_size=3).map(tuple)
    groups = st.lists(st.lists(places(), min_size=2, max_size=3, unique=True).map(tuple), max_size=2).map(tuple)
    barriers = st.lists(st.tuples(places(), st.sampled_from(DIRECTIONS)), max_size=2).map(tuple)
    turns = st.lists(st.tuples(st.sampled_from(["solve/while", "while", "gpt.py:42"]), st.integers(1, 999_999_999)), max_size=2).map(tuple)
    return Layout(tuple(rules.items()), draw(entries), draw(entries), priorities, draw(groups), draw(barriers), draw(turns))
