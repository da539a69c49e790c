"""Equations of a jaxpr: their inputs, dependencies, FLOP and bytes, and parts of a jaxpr as new jaxprs."""

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import reduce
from operator import or_
from typing import Any

from jax.extend import core as jex_core

from workbench.core.program import Program, RemovedValue
from workbench.propagation import readable_path
from workbench.propagation.module.source_location import is_library, short_line

JITTED = ("jit", "pjit")
"""Primitives that call a `jax.jit` function; their parameters are `name` and `jaxpr`."""

CALLS = (*JITTED, "closed_call", "core_call", "eval_jaxpr")
"""Primitives that only call another jaxpr; from JAX 0.11 on `closed_call` is `eval_jaxpr`."""

PARAMETERS, BATCH, BOTH = 1, 2, 3


def variables(atoms: Iterable[Any]) -> list[Any]:
    return [atom for atom in atoms if not isinstance(atom, jex_core.Literal)]


def scope_of(eqn: Any) -> str:
    """The readable named scope of an inlined equation."""
    return readable_path(f"jit(loss)/{eqn.source_info.name_stack}").removesuffix("/")


def select_needed(eqns: Sequence[Any], outputs: Sequence[Any]) -> list[Any]:
    """The equations that the outputs depend on, in order."""
    read = set(variables(outputs))
    needed = []
    for eqn in reversed(eqns):
        if any(var in read for var in eqn.outvars):
            needed.append(eqn)
            read.update(variables(eqn.invars))
    return needed[::-1]


def parts_of(atoms: Iterable[Any], part: Mapping[Any, int]) -> list[int]:
    """The parts that each atom depends on (`classify_equations`); 0 for literals and unknown variables."""
    return [0 if isinstance(atom, jex_core.Literal) else part.get(atom, 0) for atom in atoms]


def classify_equations(eqns: Iterable[Any], part: dict[Any, int]) -> list[int]:
    """For each equation, whether it depends on parameters (1), the batch (2) or both (3); extends `part`, by variable."""
    kinds = []
    for eqn in eqns:
        kind = reduce(or_, parts_of(eqn.invars, part), 0)
        part.update(dict.fromkeys(eqn.outvars, kind))
        kinds.append(kind)
    return kinds


def scan_widths(scan: Any) -> tuple[int, int]:
    """The numbers of constant and of carried arguments of a scan; its other arguments are sliced.

    Derived from the ranks: a slice has one dimension less than its argument or result. (JAX has `num_consts` and
    `num_carry` below 0.11 and trees from there on, and guarantees neither.)
    """
    body = scan.params["jaxpr"]
    carried = _count_equal_ranks(scan.outvars, body.out_avals)
    return _count_equal_ranks(scan.invars, body.in_avals) - carried, carried


def _count_equal_ranks(atoms: Sequence[Any], avals: Sequence[Any]) -> int:
    return sum(len(atom.aval.shape) == len(aval.shape) for atom, aval in zip(atoms, avals, strict=True))


def closed_jaxpr(base: Any, constants: Mapping[Any, Any], invars: Sequence[Any], eqns: Sequence[Any], outvars: Sequence[Any]) -> Any:
    """A closed jaxpr of effect-free equations from the jaxpr `base`; `constants` maps variables to values."""
    jaxpr = base.replace(
        constvars=list(constants),
        invars=list(invars),
        outvars=list(outvars),
        eqns=list(eqns),
        effects=set(),
        debug_info=base.debug_info.with_unknown_names(),
    )
    return jex_core.ClosedJaxpr(jaxpr, list(constants.values()))


def function_of(closed: Any) -> Callable[..., list[Any]]:
    """The function of arrays that evaluates a closed jaxpr."""
    function: Callable[..., list[Any]] = jex_core.jaxpr_as_fun(closed)
    return function


def source_line(eqn: Any) -> str:
    """The innermost user line of an equation, `gpt.py:42`; empty if there is none."""
    traceback = eqn.source_info.traceback
    frames = traceback.frames if traceback is not None else ()
    return next((short_line(frame.file_name, frame.line_num) for frame in frames if not is_library(frame.file_name)), "")


def calls_library(eqn: Any) -> bool:
    """Return whether an equation calls a library's jitted function, whose inner lines are those of its first caller."""
    filename = eqn.params["jaxpr"].jaxpr.debug_info.func_filename if eqn.primitive.name in JITTED else None
    return filename is not None and is_library(filename)


def user_functions(jaxpr: Any) -> Iterator[str]:
    """The names of jitted functions called in a jaxpr that are the user's or of unknown origin."""
    called = (eqn for eqn, _ in equations_below(jaxpr) if eqn.primitive.name in JITTED)
    return (eqn.params["name"] for eqn in called if not calls_library(eqn))


def equations_below(jaxpr: Any, around: tuple[Any, ...] = ()) -> Iterator[tuple[Any, tuple[Any, ...]]]:
    """All equations of a jaxpr and its inner jaxprs, each with the equations around it, the outermost first."""
    for eqn in jaxpr.eqns:
        yield eqn, around
        for inner in jaxprs_in(eqn):
            yield from equations_below(inner, (*around, eqn))


def equations_inside(eqn: Any) -> Iterator[Any]:
    """All equations of an equation's inner jaxprs."""
    return (inner_eqn for inner in jaxprs_in(eqn) for inner_eqn, _ in equations_below(inner))


def jaxprs_in(eqn: Any) -> Iterator[Any]:
    """The jaxprs among the parameters of an equation."""
    inner_jaxprs: Iterator[Any] = jex_core.jaxprs_in_params(eqn.params)
    return inner_jaxprs


def rewrite_inside(eqn: Any, rewrite: Callable[[Any], Any]) -> Any:
    """An equation with each of its inner jaxprs rewritten; constants of closed ones stay."""

    def rewrite_value(value: Any) -> Any:
        if isinstance(value, tuple):
            return tuple(map(rewrite_value, value))
        if isinstance(value, jex_core.ClosedJaxpr):
            return jex_core.ClosedJaxpr(rewrite(value.jaxpr), value.consts)
        return rewrite(value) if isinstance(value, jex_core.Jaxpr) else value

    return eqn.replace(params={name: rewrite_value(value) for name, value in eqn.params.items()})


def path_of_equation(eqn: Any, scope: str) -> tuple[str, str]:
    """The path of an equation in reports, and the raw scope of its inner jaxprs."""
    stack = "/".join(word for word in (scope, str(eqn.source_info.name_stack)) if word)
    path = readable_path("/".join(word for word in ("jit(step)", stack, eqn.primitive.name) if word))
    if eqn.primitive.name == "shard_map":  # JAX lowers its body with separate scopes
        return path, ""
    name = eqn.params.get("name") if eqn.primitive.name in JITTED else ""
    return path, "/".join(word for word in (stack, f"jit({name})" if name else "") if word)


# FLOP and bytes of one equation, from shapes alone: enough to balance blocks before any hardware is chosen.

_MOVES = ("reshape", "squeeze", "broadcast_in_dim", "transpose", "convert_element_type", "copy", "slice", "concatenate", "iota", "name")
"""Primitives that compute nothing."""


def size_of(aval: Any) -> int:
    """Bytes of a value; a random key's are those of its words."""
    itemsize = getattr(aval.dtype, "itemsize", 4)
    return math.prod(aval.shape) * int(itemsize)


def flops_of(eqn: Any) -> int:
    """FLOP: 2 m n k of a dot (8 m n k if complex), else one per element; a loop's body times its trip count."""
    name, params = eqn.primitive.name, eqn.params
    inner = list(jaxprs_in(eqn))
    if name in ("dot_general", "ragged_dot_general"):  # the latter multiplies each row by the matrix of its group
        numbers = params.get("dimension_numbers") or params["ragged_dot_dimension_numbers"].dot_dimension_numbers
        (contracted, _), _ = numbers
        shape = eqn.invars[0].aval.shape
        return _multiply_add(eqn) * math.prod(eqn.outvars[0].aval.shape) * math.prod(shape[i] for i in contracted)
    if name == "conv_general_dilated":
        kernel, numbers = eqn.invars[1].aval.shape, params["dimension_numbers"].rhs_spec
        return _multiply_add(eqn) * math.prod(eqn.outvars[0].aval.shape) * math.prod(kernel) // kernel[numbers[0]]
    if inner:
        bodies = [max(inner, key=lambda item: sum(map(flops_of, item.eqns)))] if name == "cond" else inner
        return int(params.get("length", 1)) * sum(flops_of(eqn_inside) for body in bodies[:1] for eqn_inside in body.eqns)
    if name in _MOVES:
        return 0
    return max((math.prod(atom.aval.shape) for atom in (*eqn.invars, *eqn.outvars)), default=0)


def _multiply_add(eqn: Any) -> int:
    return 8 if eqn.outvars[0].aval.dtype.kind == "c" else 2


def traffic_of(eqn: Any) -> int:
    """Bytes read and written without fusion."""
    return sum(size_of(atom.aval) for atom in (*eqn.invars, *eqn.outvars))


# A jaxpr with its calls inlined.


def inline(closed: Any) -> tuple[list[Any], dict[Any, Any], list[Any]]:
    """The equations of a jaxpr with its calls inlined, the values of constants, and the results."""
    inlined = Inlining()
    outvars = inlined.block(closed, closed.jaxpr.invars, None)
    return inlined.eqns, inlined.constants, outvars


@dataclass(slots=True)
class Inlining:
    """Replaces each call by its callee, with new variables, as JAX shares one jaxpr among identical calls."""

    eqns: list[Any] = field(default_factory=list)
    constants: dict[Any, Any] = field(default_factory=dict)

    def block(self, closed: Any, arguments: Sequence[Any], stack: Any) -> list[Any]:
        jaxpr = closed.jaxpr
        replacements = dict(zip(jaxpr.invars, arguments, strict=True))
        for var, value in zip(jaxpr.constvars, closed.consts, strict=True):
            replacements[var] = jex_core.Var(var.aval)
            self.constants[replacements[var]] = value
        for eqn in jaxpr.eqns:
            scope = eqn.source_info.name_stack if stack is None else stack + eqn.source_info.name_stack
            invars = substituted(eqn.invars, replacements)
            if eqn.primitive.name in CALLS and (inner := _called_jaxpr(eqn)) is not None:
                results = self.block(inner, invars, scope)
                replacements.update(zip(eqn.outvars, results, strict=True))
                continue
            outvars = [jex_core.Var(var.aval) for var in eqn.outvars]
            replacements.update(zip(eqn.outvars, outvars, strict=True))
            self.eqns.append(eqn.replace(invars=invars, outvars=outvars, source_info=eqn.source_info.replace(name_stack=scope)))
        return substituted(jaxpr.outvars, replacements)


def substituted(atoms: Iterable[Any], known: Mapping[Any, Any]) -> list[Any]:
    """Atoms with replacements from `known`."""
    return [atom if isinstance(atom, jex_core.Literal) else known.get(atom, atom) for atom in atoms]


def _called_jaxpr(eqn: Any) -> Any:
    inner = eqn.params.get("jaxpr", eqn.params.get("call_jaxpr"))
    return inner if isinstance(inner, jex_core.ClosedJaxpr) else None


# Values of a traced function that its step lacks: values that no result needs, and values the planner prunes as irrelevant.

_DEAD = "no result depends on it, so JAX removes it"
_PRUNED = "it does not affect sharding, so the planner removes it"


def removed_values(jaxpr: Any, program: Program) -> tuple[RemovedValue, ...]:
    """The values of a traced function that are not among the program's operations, in order of appearance."""
    present = {op.path for op in program.operations}
    removed: dict[tuple[str, str], RemovedValue] = {}
    for path, source, is_live in _walk_values(jaxpr, ""):
        if path not in present:
            ways_out = (
                ("annotate its user", "annotate its operand") if is_live else ("return a value that depends on it", "remove the statement")
            )
            removed.setdefault((path, source), RemovedValue(path, source, _PRUNED if is_live else _DEAD, ways_out))
    return tuple(removed.values())


def _walk_values(jaxpr: Any, scope: str, *, is_live: bool = True, called: str = "") -> Iterator[tuple[str, str, bool]]:
    """Path, source line and liveness of each value; inside a library's function, the line of its call (`called`)."""
    live = _find_live(jaxpr)
    for eqn, needed in zip(jaxpr.eqns, live, strict=True):
        path, inner = path_of_equation(eqn, scope)
        source = called or source_line(eqn)
        yield path, source, is_live and needed
        within = source if called or calls_library(eqn) else ""
        for inner_jaxpr in jaxprs_in(eqn):
            yield from _walk_values(inner_jaxpr, inner, is_live=is_live and needed, called=within)


def _find_live(jaxpr: Any) -> list[bool]:
    needed = {atom for atom in jaxpr.outvars if not isinstance(atom, jex_core.Literal)}
    flags = []
    for eqn in reversed(jaxpr.eqns):
        is_live = bool(eqn.effects) or any(var in needed for var in eqn.outvars)
        flags.append(is_live)
        if is_live:
            needed.update(atom for atom in eqn.invars if not isinstance(atom, jex_core.Literal))
    return flags[::-1]
