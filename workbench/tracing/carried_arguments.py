"""Determines which results of a step become which arguments of the next step.

An argument is carried by the subtree of the result with the same pytree structure, keys, shapes and dtypes. A bare
array or a tuple of arrays has no keys, and a loss looks like a learning rate: it is carried only if its name, or the
inputs of the result, say so. Otherwise the user has to state it.
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
    """One argument of a step; `root` begins its paths, `first` is its first leaf, `is_state` is by name."""

    name: str = ""
    root: str = ""
    first: int = 0
    is_state: bool = False

    @property
    def leaves(self) -> range:
        return range(self.first, self.first + len(self.paths))


@dataclass(frozen=True, slots=True)
class ResultPart:
    """A subtree of a step's result, with the keys that lead to it and the index of its first leaf."""

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
        """The subtrees one level below; none for a leaf."""
        first = self.first
        for keys, tree in jax.tree_util.tree_flatten_with_path(self.tree, is_leaf=lambda each: each is not self.tree)[0]:
            if keys:
                yield (part := ResultPart((*self.keys, *keys), tree, first))
                first = part.leaves.stop

    def walk(self) -> Iterator["ResultPart"]:
        yield self
        for child in self.children():
            yield from child.walk()


class ResultReads:
    """The argument leaves that results of `step(*trees)` depend on. The step is traced on first use."""

    def __init__(self, step: Callable[..., Any], trees: Sequence[Any]) -> None:
        self._step, self._trees = step, trees

    @cached_property
    def _jaxpr(self) -> Any:
        return jax.make_jaxpr(partial(self._step))(*self._trees).jaxpr

    def find(self, results: range) -> tuple[frozenset[int], bool]:
        """The argument leaves that these result leaves read, and whether anything is computed from them."""
        needed = [i in results for i in range(len(self._jaxpr.outvars))]
        live, used = partial_eval.dce_jaxpr(self._jaxpr, needed)
        return frozenset(i for i, is_used in enumerate(used) if is_used), _computes(live)


class _Confidence(Enum):
    """Return whether an argument without keys is carried by a result of its shape."""

    NONE = 0
    SHAPE = 1
    SURE = 2


def stated_carried(arguments: Sequence[StepArgument], result: Any, stated: Mapping[str, int | str], name: str) -> dict[int, ResultPart]:
    """The result that each argument becomes, as the user states it: `{"params": 0, "ema": "state/ema"}`.

    Raises `TraceError` for an unknown name or path, a result that is given twice, and a result unlike its argument.
    """
    indices = {item.name: i for i, item in enumerate(arguments)}
    parts = {part.path: part for part in ResultPart((), result).walk()}
    carried: dict[int, ResultPart] = {}
    for argument, stated_path in stated.items():
        if argument not in indices:
            raise TraceError(*unknown_name("argument", argument, indices, f" of `{name}`"))
        path = "" if stated_path == "result" else str(stated_path).removeprefix("result/").removeprefix("/")
        if path not in parts:
            raise TraceError(*unknown_name("result", path, [item for item in parts if item], f" of `{name}`"))
        _verify_alike(arguments[indices[argument]], parts[path], name)
        _verify_free(arguments, carried, parts[path], argument, name)
        carried[indices[argument]] = parts[path]
    return carried


def find_carried(arguments: Sequence[StepArgument], result: Any, reads: ResultReads, name: str) -> dict[int, ResultPart]:
    """The result that each carried argument becomes in the next step, by argument index.

    Raises `TraceError` if that is ambiguous, and if a state argument's keys are returned with other shapes or dtypes.
    """
    parts = list(_topmost_matches(ResultPart((), result), arguments))
    carried: dict[int, ResultPart] = {}
    for index, argument in enumerate(arguments):
        matches = [item for item in parts if _is_alike(argument, item) and item not in carried.values()]
        if index in carried or not matches:
            continue
        if _has_keys(argument.structure):
            group = [i for i, item in enumerate(arguments) if i not in carried and _is_alike(item, matches[0])]
            carried |= _match_in_order(arguments, group, matches, reads, name)
        elif (part := _match_keyless(index, argument, matches, reads, name)) is not None:
            carried[index] = part
    for index, argument in enumerate(arguments if carried else ()):
        if index not in carried and argument.is_state:
            _verify_not_changed(argument, result, carried, name)
    return carried


def _computes(jaxpr: Any) -> bool:
    """Return whether a jaxpr computes anything, beyond calling jitted functions that only return their arguments."""
    return any(eqn.primitive.name not in ("jit", "pjit") or _computes(eqn.params["jaxpr"].jaxpr) for eqn in jaxpr.eqns)


def _topmost_matches(part: ResultPart, arguments: Sequence[StepArgument]) -> Iterator[ResultPart]:
    """The topmost subtrees like an argument: an optimizer's moments further down are like the parameters too."""
    if any(_is_alike(argument, part) for argument in arguments):
        yield part
    else:
        for child in part.children():
            yield from _topmost_matches(child, arguments)


def _is_alike(argument: StepArgument, part: ResultPart) -> bool:
    return argument.structure == jax.tree.structure(part.tree) and not first_difference(argument, part.tree, argument.root)


def _has_keys(structure: Any) -> bool:
    """Return whether a pytree contains a dictionary, a class or a named tuple."""
    kind = structure.node_data()
    if kind is None:
        return False
    return kind[0] not in (tuple, list, type(None)) or any(map(_has_keys, structure.children()))


def _is_called(part: ResultPart, name: str) -> bool:
    """Return whether the result is a top-level entry with this name; nested metrics may repeat an input's name."""
    return len(part.keys) == 1 and isinstance(part.keys[0], DictKey | GetAttrKey) and part.path == name


def _is_aligned(index: int, part: ResultPart) -> bool:
    return part.keys == (SequenceKey(index),) or (index == 0 and not part.keys)


def _match_in_order(
    arguments: Sequence[StepArgument], group: Sequence[int], parts: Sequence[ResultPart], reads: ResultReads, name: str
) -> dict[int, ResultPart]:
    """Match arguments and results of one structure: by name, then by order, position, or what a result reads.

    Raises `TraceError` if a result reads several, such as a student and its teacher.
    """
    matched = {i: part for i in group for part in parts if _is_called(part, arguments[i].name)}
    indices, rest = [i for i in group if i not in matched], [item for item in parts if item not in matched.values()]
    if len(indices) == len(rest):
        return matched | dict(zip(indices, rest, strict=True))
    if len(indices) > len(rest):
        matched |= {i: part for part in rest if (i := _only_one_read(arguments, indices, part, reads)) is not None}
    else:
        matched |= {i: part for i in indices for part in rest if _is_aligned(i, part)}
    indices, rest = [i for i in indices if i not in matched], [item for item in rest if item not in matched.values()]
    if indices and rest:
        raise _ambiguous([arguments[i] for i in indices], rest, name)
    return matched


def _only_one_read(arguments: Sequence[StepArgument], indices: Sequence[int], part: ResultPart, reads: ResultReads) -> int | None:
    leaves, _ = reads.find(part.leaves)
    read = [i for i in indices if leaves.intersection(arguments[i].leaves)]
    return read[0] if len(read) == 1 else None


def _match_keyless(index: int, argument: StepArgument, parts: Sequence[ResultPart], reads: ResultReads, name: str) -> ResultPart | None:
    """The result that a bare array, or a tuple of arrays, becomes; `None` for an input that is new in each step."""
    same_name = [candidate for candidate in parts if _is_called(candidate, argument.name)]
    if same_name:
        return same_name[0]
    candidates = [candidate for candidate in parts if all(isinstance(key, SequenceKey) for key in candidate.keys)]
    confidence = [_weigh(index, argument, candidate, reads) for candidate in candidates]
    certain = [candidate for candidate, weight in zip(candidates, confidence, strict=True) if weight is _Confidence.SURE]
    aligned = [candidate for candidate in certain if _is_aligned(index, candidate)]
    if aligned or len(certain) == 1:
        return (aligned or certain)[0]
    is_scalar = all(not spec.shape for spec in argument.specs)  # e.g. a temperature is not state, unless its position says so
    possible = [
        candidate
        for candidate, weight in zip(candidates, confidence, strict=True)
        if weight is not _Confidence.NONE and (not is_scalar or _is_aligned(index, candidate))
    ]
    if possible:
        raise _ambiguous([argument], possible, name)
    return None


def _weigh(index: int, argument: StepArgument, part: ResultPart, reads: ResultReads) -> _Confidence:
    """Estimate whether a result is the argument's next value.

    No if it does not depend on the argument or returns it unchanged (a learning rate among the metrics), except an
    array that is first in both; yes if it depends on the argument alone (a counter, key or schedule).
    """
    if not argument.paths:
        return _Confidence.SURE if _is_aligned(index, part) else _Confidence.NONE
    leaves_read, is_computed = reads.find(part.leaves)
    is_array = any(spec.shape for spec in argument.specs)
    is_first = index == 0 and _is_aligned(index, part) and is_array
    if not leaves_read.intersection(argument.leaves) or not (is_computed or argument.is_state or is_first):
        return _Confidence.NONE
    is_key = all(jax.dtypes.issubdtype(spec.dtype, jax.dtypes.prng_key) for spec in argument.specs)
    is_sure = argument.is_state or is_first or is_key or leaves_read.issubset(argument.leaves)
    return _Confidence.SURE if is_sure else _Confidence.SHAPE


def _ambiguous(arguments: Sequence[StepArgument], parts: Sequence[ResultPart], name: str) -> TraceError:
    takes = ", ".join(f"`{item.name}`" for item in arguments)
    returns = ", ".join(f"`{item.path or 'result'}`" for item in parts)
    first, result_path = arguments[0].name, parts[0].path
    result_text = result_path if result_path.isdigit() else f'"{result_path}"'
    return TraceError(
        f"`{name}` takes {takes} and returns {returns} of the same structure, shapes and dtypes; it is ambiguous whether one becomes the "
        "other in the next step.",
        [
            f'state everything that is carried, `carried={{"{first}": {result_text}, ...}}`',
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
    used_leaves = {leaf for part in found.values() for leaf in part.leaves}
    for part in ResultPart((), result).walk():
        is_free = _has_keys(argument.structure) and argument.paths and not used_leaves.intersection(part.leaves)
        if is_free and jax.tree.structure(part.tree) == argument.structure:
            raise TraceError(
                f"`{argument.name}` of `{name}` is state, and result `{part.path}` has its structure, but "
                f"{first_difference(argument, part.tree, argument.root)}.",
                ["cast it back, `.astype(...)`", "state what is carried, `carried={...}`, if it is not state"],
            )
