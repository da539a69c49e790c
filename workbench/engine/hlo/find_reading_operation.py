"""Find the operation that reads the value a collective produces.

From JAX 0.11 on XLA's partitioner names a collective that reshards a value after the operation that *made* the value, and marks it
`is_spmd_generated`; before, after the operation that required the new sharding. The reader is the cause of the collective: a gather, a
window, a dot.
"""

from collections.abc import Iterator

from workbench.spmd.hlo_instruction import Computation, HloInstruction, parameter_of
from workbench.spmd.hlo_module import HloModule
from workbench.spmd.locate_xla_collectives import Users, users_of

_GENERATED = "is_spmd_generated"
_FORWARDING_OPCODES = (  # these forward a value, whatever they are named after
    *("bitcast", "copy", "copy-start", "copy-done", "get-tuple-element", "reshape", "transpose", "convert", "tuple"),
    *("all-gather", "all-gather-start", "all-gather-done", "all-to-all", "all-to-all-start", "all-to-all-done"),
    *("collective-permute", "collective-permute-start", "collective-permute-done"),
)


class Readers:
    """Finds, for the collectives of one module, the operations that read the values they produce."""

    def __init__(self, module: HloModule) -> None:
        self._module = module
        self._users: dict[int, Users] = {}

    def path_of(self, computation: Computation, collective: HloInstruction) -> str:
        """The `op_name` of the first operation that does more with the value than forward it, inside of fusions too; empty where the
        compiler names the collective after that itself, or where a loop or the program's end takes the value."""
        if collective.fields.frontend_attributes.map.get(_GENERATED) != "true" or collective.opcode not in _FORWARDING_OPCODES:
            return ""  # a reduction is named after what it adds up
        return next((each.op_name for each in self._find_readers(computation, collective.name) if each.op_name), "")

    def _find_readers(self, computation: Computation, name: str) -> Iterator[HloInstruction]:
        for user in self._users_in(computation).get(name, ()):
            if user.opcode in _FORWARDING_OPCODES:
                yield from self._find_readers(computation, user.name)
            elif user.opcode == "fusion":
                yield from self._find_inner_readers(user, user.operands.index(name)) or self._find_readers(computation, user.name)
            elif user.opcode != "while":
                yield user

    def _find_inner_readers(self, fusion: HloInstruction, number: int) -> tuple[HloInstruction, ...]:
        """The readers of a fusion's operand inside of it; none where it only forwards the value."""
        bodies = (self._module.computations[callee] for callee in self._module.callees(fusion))
        parameters = ((body, parameter_of(body, number)) for body in bodies)
        return tuple(each for body, parameter in parameters if parameter for each in self._find_readers(body, parameter.name))

    def _users_in(self, computation: Computation) -> Users:
        if id(computation) not in self._users:
            self._users[id(computation)] = users_of(computation)
        return self._users[id(computation)]
