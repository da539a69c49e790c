"""Which results of a step become which arguments of the next step.

Structure decides: an argument is carried by the part of the result that has the same pytree with the same keys, shapes and dtypes. A bare
array, or a tuple of them, has no keys, so that a loss looks like a learning rate: it is carried only where its name, or what the result
is computed from, says so. Where neither does, the user has to state it.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from functools import cached_property, partial
from typing import Any

import jax
from jax.interpreters import partial_eval
from jax.tree_util import DictKey, GetAttrKey, KeyEntry, SequenceKey

from workbench.errors import TraceError, unknown_name
from workbench.tracing.leaves import Leaves, path_of
from workbench.tracing.model_state import first_difference

Stated = Mapping[str, int | str] | None
STATE_NAMES = ("state", "cache", "carry", "key", "rng", "count", "counter", "ema", "momentum", "memory", "buffers")


@dataclass(frozen=True, slots=True)
class StepArgument(Leaves):
    """One argument of a step: its `name` in the signature, the `root` of its paths, the index of its first leaf, and whether its name says
    that it is state."""

    name: str = ""
    root: str = ""
    first: int = 0
    is_state: bool = False

    @property
    def leaves(self) -> range:
        return range(self.first, self.first + len(self.paths))


@dataclass(frozen=True, slots=True)
class ResultPart:
    """A subtree of a step's result, the keys that lead to it, and the index of its first leaf."""

    keys: tuple[KeyEntry, ...]
    tree: Any
    first: int = 0

    @property
    def path(self) -> str:
        return path_of("", self.keys)[1:]

    @property
    def leaves(self) -> range:
        return range(self.first, self.first + len(jax.tree.leaves(self.tree)))

    def children(self) -> Iterator["ResultPart"]:
        """The subtrees one level below; a leaf has none."""
        first = self.first
        for keys, tree in jax.tree_util.tree_flatten_with_path(self.tree, is_leaf=lambda each: each is not self.tree)[0]:
            if keys:
                yield (part := ResultPart((*self.keys, *keys), tree, first))
                first = part.leaves.stop

    def walk(self) -> Iterator["ResultPart"]:
        """This subtree and all below it."""
        yield self
        for each in self.children():
            yield from each.walk()


class ResultReads:
    """The argument leaves that results of `step(*trees)` are computed from. The step is traced on first use."""

    def __init__(self, step: Callable[..., Any], trees: Sequence[Any]) -> None:
        self._step, self._trees = step, trees

    @cached_property
    def _jaxpr(self) -> Any:
        return jax.make_jaxpr(partial(self._step))(*self._trees).jaxpr

    def find(self, results: range) -> tuple[frozenset[int], bool]:
        """The argument leaves that these result leaves read, and whether anything is computed of them: a step may return an input."""
        needed = [i in results for i in range(len(self._jaxpr.outvars))]
        live, used = partial_eval.dce_jaxpr(self._jaxpr, needed)
        return frozenset(i for i, each in enumerate(used) if each), _computes(live)


class _Confidence(Enum):
    """Whether an argument without keys is carried by a result of its shape."""

    NONE = 0
    SHAPE = 1
    SURE = 2


def stated_carried(arguments: Sequence[StepArgument], result: Any, stated: Mapping[str, int | str], name: str) -> dict[int, ResultPart]:
    """The result that each argument becomes, by the index of the argument, as the user states it, `{"params": 0, "ema": "state/ema"}`.

    Raises `TraceError` for an unknown name or path, a result that is given twice, and a result that is not like its argument.
    """
    indices = {each.name: i for i, each in enumerate(arguments)}
    parts = {part.path: part for part in ResultPart((), result).walk()}
    found: dict[int, ResultPart] = {}
    for argument, place in stated.items():
        if argument not in indices:
            raise TraceError(*unknown_name("argument", argument, indices, f" of `{name}`"))
        path = "" if place == "result" else str(place).removeprefix("result/").removeprefix("/")
        if path not in parts:
            raise TraceError(*unknown_name("result", path, [each for each in parts if each], f" of `{name}`"))
        _verify_alike(arguments[indices[argument]], parts[path], name)
        _verify_free(arguments, found, parts[path], argument, name)
        found[indices[argument]] = parts[path]
    return found


def find_carried(arguments: Sequence[StepArgument], result: Any, reads: ResultReads, name: str) -> dict[int, ResultPart]:
    """The result that each carried argument becomes in the next step, by the index of the argument.

    Raises `TraceError` where more than one answer is possible, and where a result has the keys of an argument that is called state, but
    other shapes or dtypes.
    """
    parts = list(_topmost_matches(ResultPart((), result), arguments))
    found: dict[int, ResultPart] = {}
    for index, argument in enumerate(arguments):
        alike = [each for each in parts if _is_alike(argument, each) and each not in found.values()]
        if index in found or not alike:
            continue
        if _has_keys(argument.structure):
            group = [i for i, each in enumerate(arguments) if i not in found and _is_alike(each, alike[0])]
            found |= _match_in_order(arguments, group, alike, reads, name)
        elif (part := _match_keyless(index, argument, alike, reads, name)) is not None:
            found[index] = part
    for index, argument in enumerate(arguments if found else ()):
        if index not in found and argument.is_state:
            _verify_not_changed(argument, result, found, name)
    return found


def _computes(jaxpr: Any) -> bool:
    """Whether a jaxpr does more than return what it is given; a call of a jitted function that does not is no computation."""
    return any(eqn.primitive.name not in ("jit", "pjit") or _computes(eqn.params["jaxpr"].jaxpr) for eqn in jaxpr.eqns)


def _topmost_matches(part: ResultPart, arguments: Sequence[StepArgument]) -> Iterator[ResultPart]:
    """The subtrees that are like an argument, and not within another such subtree: the moments of an optimiser are like the parameters."""
    if any(_is_alike(each, part) for each in arguments):
        yield part
    else:
        for child in part.children():
            yield from _topmost_matches(child, arguments)


def _is_alike(argument: StepArgument, part: ResultPart) -> bool:
    return argument.structure == jax.tree.structure(part.tree) and not first_difference(argument, part.tree, argument.root)


def _has_keys(structure: Any) -> bool:
    """Whether a pytree says more than an order of arrays: it has a dictionary, a class, or a named tuple in it."""
    kind = structure.node_data()
    if kind is None:
        return False
    return kind[0] not in (tuple, list, type(None)) or any(map(_has_keys, structure.children()))


def _is_called(part: ResultPart, name: str) -> bool:
    """Whether the step returns `{"params": ...}` with the argument's own name. Metrics further down may repeat the name of an input."""
    return len(part.keys) == 1 and isinstance(part.keys[0], DictKey | GetAttrKey) and part.path == name


def _is_aligned(index: int, part: ResultPart) -> bool:
    """Whether argument and result are at the same position."""
    return part.keys == (SequenceKey(index),) or (index == 0 and not part.keys)


def _match_in_order(
    arguments: Sequence[StepArgument], group: Sequence[int], parts: Sequence[ResultPart], reads: ResultReads, name: str
) -> dict[int, ResultPart]:
    """Arguments of one structure with the results of that structure: by name, then in order. Of more results than arguments those at the
    same position count; of more arguments than results the only one that a result reads. Raises `TraceError` where it reads several: online
    and target parameters, a student and its teacher."""
    found = {i: part for i in group for part in parts if _is_called(part, arguments[i].name)}
    indices, left = [i for i in group if i not in found], [each for each in parts if each not in found.values()]
    if len(indices) == len(left):
        return found | dict(zip(indices, left, strict=True))
    if len(indices) > len(left):
        found |= {i: part for part in left if (i := _only_one_read(arguments, indices, part, reads)) is not None}
    else:
        found |= {i: part for i in indices for part in left if _is_aligned(i, part)}
    indices, left = [i for i in indices if i not in found], [each for each in left if each not in found.values()]
    if indices and left:
        raise _ambiguous([arguments[i] for i in indices], left, name)
    return found


def _only_one_read(arguments: Sequence[StepArgument], indices: Sequence[int], part: ResultPart, reads: ResultReads) -> int | None:
    """The index of the argument that a result is computed from, if it reads one of them alone."""
    leaves, _ = reads.find(part.leaves)
    read = [i for i in indices if leaves.intersection(arguments[i].leaves)]
    return read[0] if len(read) == 1 else None


def _match_keyless(index: int, argument: StepArgument, parts: Sequence[ResultPart], reads: ResultReads, name: str) -> ResultPart | None:
    """The result that a bare array, or a tuple of arrays, becomes; `None` for an input that is new in each step."""
    named = [each for each in parts if _is_called(each, argument.name)]
    if named:
        return named[0]
    places = [each for each in parts if all(isinstance(key, SequenceKey) for key in each.keys)]
    confidence = [_weigh(index, argument, each, reads) for each in places]
    sure = [each for each, weight in zip(places, confidence, strict=True) if weight is _Confidence.SURE]
    aligned = [each for each in sure if _is_aligned(index, each)]
    if aligned or len(sure) == 1:
        return (aligned or sure)[0]
    is_scalar = all(not spec.shape for spec in argument.specs)  # a temperature that the loss reads is no state; its place would say so
    possible = [
        each
        for each, weight in zip(places, confidence, strict=True)
        if weight is not _Confidence.NONE and (not is_scalar or _is_aligned(index, each))
    ]
    if possible:
        raise _ambiguous([argument], possible, name)
    return None


def _weigh(index: int, argument: StepArgument, part: ResultPart, reads: ResultReads) -> _Confidence:
    """How strongly a result looks like the argument's next value.

    It does not where it reads the argument not at all or returns it as it is (a learning rate among the metrics), unless it is an array,
    the first argument and the first result; it does where it is computed from the argument alone: a counter, a key, a schedule.
    """
    if not argument.paths:
        return _Confidence.SURE if _is_aligned(index, part) else _Confidence.NONE
    read, is_computed = reads.find(part.leaves)
    is_array = any(spec.shape for spec in argument.specs)
    is_first = index == 0 and _is_aligned(index, part) and is_array
    if not read.intersection(argument.leaves) or not (is_computed or argument.is_state or is_first):
        return _Confidence.NONE
    is_key = all(jax.dtypes.issubdtype(spec.dtype, jax.dtypes.prng_key) for spec in argument.specs)
    is_sure = argument.is_state or is_first or is_key or read.issubset(argument.leaves)
    return _Confidence.SURE if is_sure else _Confidence.SHAPE


def _ambiguous(arguments: Sequence[StepArgument], parts: Sequence[ResultPart], name: str) -> TraceError:
    takes = ", ".join(f"`{each.name}`" for each in arguments)
    returns = ", ".join(f"`{each.path or 'result'}`" for each in parts)
    first, place = arguments[0].name, parts[0].path
    shown = place if place.isdigit() else f'"{place}"'
    return TraceError(
        f"`{name}` takes {takes} and returns {returns} of the same structure, shapes and dtypes; it is ambiguous whether one becomes the "
        "other in the next step.",
        [
            f'state everything that is carried, `carried={{"{first}": {shown}, ...}}`',
            f"state what else is carried, without `{first}`, if it is new in each step",
            "return the results as a dict with the names of the arguments",
        ],
    )


def _verify_alike(argument: StepArgument, part: ResultPart, name: str) -> None:
    if difference := first_difference(argument, part.tree, argument.root):
        raise TraceError(
            f"`{argument.name}` of `{name}` cannot be carried by its result `{part.path or 'result'}`: {difference}.",
            ["return every leaf in the shape and dtype it was given", f"leave `{argument.name}` out of `carried`"],
        )


def _verify_free(arguments: Sequence[StepArgument], found: Mapping[int, ResultPart], part: ResultPart, argument: str, name: str) -> None:
    for index, other in found.items():
        if set(other.leaves).intersection(part.leaves):
            raise TraceError(
                f"`carried` gives result `{part.path or 'result'}` of `{name}` to `{arguments[index].name}` and to `{argument}`.",
                ["use a different result for each argument"],
            )


def _verify_not_changed(argument: StepArgument, result: Any, found: Mapping[int, ResultPart], name: str) -> None:
    """Raises `TraceError` for state whose keys are returned with another shape or dtype."""
    taken = {leaf for part in found.values() for leaf in part.leaves}
    for part in ResultPart((), result).walk():
        is_free = _has_keys(argument.structure) and argument.paths and not taken.intersection(part.leaves)
        if is_free and jax.tree.structure(part.tree) == argument.structure:
            raise TraceError(
                f"`{argument.name}` of `{name}` is state, and result `{part.path}` has its structure, but "
                f"{first_difference(argument, part.tree, argument.root)}.",
                ["cast it back, `.astype(...)`", "state what is carried, `carried={...}`, if it is not state"],
            )
