"""Equations of a jaxpr: what they read, which of them some variables depend on, and parts of a jaxpr as a jaxpr again."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

from jax.extend import core as jex_core

from workbench.propagation import readable_path
from workbench.propagation.module.location import is_library, short_line

JITTED = ("jit", "pjit")
"""Primitives that call what `jax.jit` made; their parameters are `name` and `jaxpr`."""

CALLS = (*JITTED, "closed_call", "core_call", "eval_jaxpr")
"""Primitives that only call another jaxpr; from JAX 0.11 on `closed_call` is `eval_jaxpr`."""

PARAMETERS, BATCH, BOTH = 1, 2, 3


def variables(atoms: Iterable[Any]) -> list[Any]:
    return [atom for atom in atoms if not isinstance(atom, jex_core.Literal)]


def scope_of(eqn: Any) -> str:
    """The named scope of a flat equation, as the user reads it."""
    return readable_path(f"jit(loss)/{eqn.source_info.name_stack}").removesuffix("/")


def select_needed(eqns: Sequence[Any], outputs: Sequence[Any]) -> list[Any]:
    """The equations that the outputs depend on, in their order."""
    read = set(variables(outputs))
    found = []
    for eqn in reversed(eqns):
        if any(var in read for var in eqn.outvars):
            found.append(eqn)
            read.update(variables(eqn.invars))
    return found[::-1]


def classify_equations(eqns: Iterable[Any], part: dict[Any, int]) -> list[int]:
    """For each equation, whether it depends on parameters (1), the batch (2) or both (3); `part` says so of variables, and is completed."""
    kinds = []
    for eqn in eqns:
        kind = 0
        for var in variables(eqn.invars):
            kind |= part.get(var, 0)
        part.update(dict.fromkeys(eqn.outvars, kind))
        kinds.append(kind)
    return kinds


def scan_widths(scan: Any) -> tuple[int, int]:
    """How many of a scan's arguments are constants, and how many are carried; the others are read a slice in each iteration.

    Read off the ranks: a slice has one dimension less than its argument or result. (JAX tells it by `num_consts` and `num_carry` below
    0.11 and by trees from there on, and promises neither.)
    """
    body = scan.params["jaxpr"]
    carried = _count_equal_ranks(scan.outvars, body.out_avals)
    return _count_equal_ranks(scan.invars, body.in_avals) - carried, carried


def _count_equal_ranks(atoms: Sequence[Any], avals: Sequence[Any]) -> int:
    return sum(len(atom.aval.shape) == len(aval.shape) for atom, aval in zip(atoms, avals, strict=True))


def closed_jaxpr(base: Any, constants: Mapping[Any, Any], invars: Sequence[Any], eqns: Sequence[Any], outvars: Sequence[Any]) -> Any:
    """Equations without effects, taken from those of the jaxpr `base`, as one of their own; `constants` are variables with their values."""
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
    """The innermost line of an equation that is the user's, `gpt.py:42`; empty if there is none."""
    traceback = eqn.source_info.traceback
    frames = traceback.frames if traceback is not None else ()
    return next((short_line(frame.file_name, frame.line_num) for frame in frames if not is_library(frame.file_name)), "")


def calls_library(eqn: Any) -> bool:
    """Whether an equation calls a jitted function that is not the user's, such as `jnp.where`. JAX keeps what it traced of one, with the
    source lines of whoever called it first: what is inside lies where it is called."""
    filename = _filename_of_callee(eqn)
    return filename is not None and is_library(filename)


def users_functions(jaxpr: Any) -> Iterator[str]:
    """The names of the jitted functions that are called in a jaxpr and are the user's, or nobody's that JAX knows."""
    for eqn in jaxpr.eqns:
        if eqn.primitive.name in JITTED and not calls_library(eqn):
            yield eqn.params["name"]
        for inner in jaxprs_in(eqn):
            yield from users_functions(inner)


def jaxprs_in(eqn: Any) -> Iterator[Any]:
    """The jaxprs among the parameters of an equation."""
    for each in eqn.params.values():
        for part in each if isinstance(each, tuple) else (each,):
            if isinstance(part, jex_core.ClosedJaxpr | jex_core.Jaxpr):
                yield getattr(part, "jaxpr", part)


def _filename_of_callee(eqn: Any) -> str | None:
    return eqn.params["jaxpr"].jaxpr.debug_info.func_filename if eqn.primitive.name in JITTED else None


def path_of_equation(eqn: Any, scope: str) -> tuple[str, str]:
    """The path of an equation as a report shows it, and the raw scope of the jaxprs inside it."""
    stack = "/".join(word for word in (scope, str(eqn.source_info.name_stack)) if word)
    path = readable_path("/".join(word for word in ("jit(step)", stack, eqn.primitive.name) if word))
    if eqn.primitive.name == "shard_map":  # JAX lowers what is inside with scopes of its own
        return path, ""
    name = eqn.params.get("name") if eqn.primitive.name in JITTED else ""
    return path, "/".join(word for word in (stack, f"jit({name})" if name else "") if word)
