"""Host callbacks in a traced function: some can be planned, the others are refused with an alternative.

A print (`jax.debug.print`, `jax.debug.callback`) is planned as compiled: its operands are gathered on one device. A
callback that returns a value, or has an effect that must not be lost, stops every device in every step, and is refused.
"""

from collections.abc import Iterator
from typing import Any, NamedTuple

from workbench.errors import TraceError
from workbench.tracing.jaxpr.equations import equations_below, size_of, source_line
from workbench.units import format_bytes

_CALLS = ("pure_callback", "io_callback")
_PRINTS = ("debug_print", "debug_callback")
_EQUINOX = "equinox."
_MOST_NAMED = 3
_WAYS_OUT = {
    "pure_callback": "write what `pure_callback` computes in JAX, or compute it before the step and give it as an argument",
    "io_callback": "return what `io_callback` is given from the step, and call the function outside of it; `jax.debug.callback` can stay",
    "eqx.error_if": "set `EQX_ON_ERROR=nan` or `EQX_ON_ERROR=off` where the program is traced, which takes `eqx.error_if` out",
    "an ordered print": "leave `ordered=True` out: JAX has ordered effects on one device only",
}


class _HostCall(NamedTuple):
    kind: str
    source: str
    bytes: int

    def __str__(self) -> str:
        where = f" ({self.source})" if self.source else ""
        return f"`{self.kind}`{where}" if " " not in self.kind else f"{self.kind}{where}"


def verify_no_host_calls(jaxpr: Any, name: str) -> None:
    """Raise `TraceError` for host callbacks that cannot be planned, each with its line and the bytes it would gather."""
    largest: dict[tuple[str, str], _HostCall] = {}  # per line, as Equinox makes several callbacks for one check
    for call in _find_calls(jaxpr):
        largest[call[:2]] = max(call, largest.get(call[:2], call))
    if not (calls := list(largest.values())):
        return
    described = ", ".join(f"{call}, whose operands of {format_bytes(call.bytes)} one device would gather" for call in calls[:_MOST_NAMED])
    more = f", and {len(calls) - _MOST_NAMED} more" if len(calls) > _MOST_NAMED else ""
    ways_out = [_WAYS_OUT[kind] for kind in dict.fromkeys(call.kind for call in calls)]
    raise TraceError(f"`{name}` calls back to the host in every step: {described}{more}.", ways_out)


def _find_calls(jaxpr: Any) -> Iterator[_HostCall]:
    for eqn, around in equations_below(jaxpr):
        if (kind := _kind_of(eqn)) is not None:
            source = next(filter(None, map(source_line, (eqn, *reversed(around)))), "")
            yield _HostCall(kind, source, sum(size_of(atom.aval) for atom in eqn.invars))


def _kind_of(eqn: Any) -> str | None:
    primitive = eqn.primitive.name
    if primitive in _PRINTS:
        return "an ordered print" if eqn.params.get("ordered") else None
    if primitive not in _CALLS:
        return None
    function = getattr(eqn.params["callback"], "callback_func", None)
    return "eqx.error_if" if str(getattr(function, "__module__", "")).startswith(_EQUINOX) else primitive
