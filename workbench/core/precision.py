"""Precision: in which floating-point types parameters are kept, a step is computed and the optimiser works (as in DeepMind's jmp).

as traced                             what the function itself says
bfloat16                              computed in bfloat16; parameters, their gradients and optimiser state stay as they are
params=bfloat16                       parameters, and what is made of them, in bfloat16
params=bfloat16,moments=float32       parameters in bfloat16; optimiser state and the update in float32
bf16 mixed, fp16 mixed                the same, and a float32 copy of the parameters in the optimiser's state: 2 + 2 + 12 bytes a parameter
                                      with Adam (Micikevicius et al. 2018, arXiv:1710.03740)
"""

from dataclasses import dataclass, fields

from workbench.errors import PrecisionError

FLOATS = ("float32", "bfloat16", "float16")
MIXED = {"bf16 mixed": "bfloat16", "fp16 mixed": "float16"}
"""Common mixes of types, by the type of the parameters."""


@dataclass(frozen=True, slots=True)
class Precision:
    """Floating-point types; `None` leaves one as it is in the traced function.

    - `compute`: floating-point arguments of the loss are cast to it where the loss is called. Gradients come back in the parameters' type,
      the loss in its own. A function that casts for itself has the last word.
    - `params`: the type the parameters are stored in.
    - `moments`: the type of the optimiser's state and of the update's arithmetic.
    - `master`: the type of a copy of the parameters that the optimiser keeps and updates; the parameters are cast from it.
    - `sums`: the type in which gradients of micro-batches are added up; at least float32 if it is left out.

    >>> print(Precision.parse("compute = bfloat16"))
    bfloat16
    >>> Precision.parse("params=bfloat16,moments=float32")
    Precision(compute=None, params='bfloat16', moments='float32', master=None, sums=None)
    >>> print(Precision.parse("bf16 mixed"))
    params=bfloat16,moments=float32,master=float32
    """

    compute: str | None = None
    params: str | None = None
    moments: str | None = None
    master: str | None = None
    sums: str | None = None

    def __post_init__(self) -> None:
        for each in fields(self):
            dtype = getattr(self, each.name)
            if dtype is not None and dtype not in FLOATS:
                raise PrecisionError(
                    f"`{str(dtype)[:80]}` is not a compute type; the choices are {', '.join(f'`{known}`' for known in FLOATS)}.",
                    ["use one of these", 'omit it for "as traced"'],
                )

    @classmethod
    def parse(cls, text: str) -> "Precision":
        """The inverse of `str`; an empty text is `as traced`. Raises `PrecisionError`."""
        words = " ".join(text.split())
        if words in ("", "as traced"):
            return cls()
        if words in MIXED:
            return cls(params=MIXED[words], moments="float32", master="float32")
        found: dict[str, str] = {}
        for part in "".join(text.split()).split(","):
            what, equals, dtype = part.partition("=")
            what, dtype = (what, dtype) if equals else ("compute", part)
            if what not in cls.__slots__ or what in found:
                raise PrecisionError(
                    f"`{part[:80]}` is not a part of a precision.",
                    [
                        'write a type for the arithmetic, "bfloat16"',
                        'a mix of types, "bf16 mixed"',
                        'or parts of "compute=bfloat16,params=bfloat16,moments=float32"',
                    ],
                )
            found[what] = dtype
        return cls(**found)

    def __str__(self) -> str:
        parts = [f"{each.name}={getattr(self, each.name)}" for each in fields(self) if getattr(self, each.name)]
        return parts[0].removeprefix("compute=") if len(parts) == 1 else ",".join(parts) or "as traced"


AS_WRITTEN = Precision()
