"""Define the floating-point types of parameters, computation and optimizer (as in DeepMind's jmp).

- `as traced`: the types of the traced function.
- `bfloat16`: compute in bfloat16; parameters, gradients and optimizer state keep their types.
- `params=bfloat16`: parameters and values computed from them in bfloat16.
- `params=bfloat16,moments=float32`: parameters in bfloat16; optimizer state and update in float32.
- `bf16 mixed`, `fp16 mixed`: the same, with a float32 master copy of the parameters: 2 + 2 + 12 bytes per parameter
  with Adam (Micikevicius et al. 2018, arXiv:1710.03740).
"""

from dataclasses import dataclass, fields

from workbench.errors import PrecisionError

FLOATS = ("float32", "bfloat16", "float16")
WIDE_MOMENTS = "params=bfloat16,moments=float32"
FLOAT8 = {"float8": "tensorwise", "float8 rowwise": "rowwise"}
"""How products in float8 scale their operands, by what is written."""
SCALED_PRODUCT = "scaled_product"
"""The scope of a product in float8 and of what undoes its scales: one call of a library (cublasLtMatmul, `_scaled_mm`)."""
MIXED = {"bf16 mixed": "bfloat16", "fp16 mixed": "float16"}
"""Parameter type of each common mixed precision."""


@dataclass(frozen=True, slots=True)
class Precision:
    """Floating-point types; `None` keeps the type of the traced function.

    - `compute`: the type to which floating-point arguments of the loss are cast. Gradients are returned in the
      parameters' type, the loss in its own. Casts inside the function take precedence.
    - `params`: the type of the stored parameters.
    - `moments`: the type of the optimizer state and of the update's arithmetic.
    - `master`: the type of the optimizer's copy of the parameters, from which the parameters are cast after each
      update.
    - `sums`: the type in which gradients of micro-batches are accumulated; default: at least float32.

    >>> print(Precision.parse("compute = bfloat16"))
    bfloat16
    >>> Precision.parse("params=bfloat16,moments=float32")
    Precision(compute=None, params='bfloat16', moments='float32', master=None, sums=None, products=None)
    >>> print(Precision.parse("bf16 mixed"))
    params=bfloat16,moments=float32,master=float32
    >>> print(Precision.parse("float8"), Precision.parse("bf16 mixed, float8 rowwise"))
    float8 params=bfloat16,moments=float32,master=float32,float8 rowwise
    """

    compute: str | None = None
    params: str | None = None
    moments: str | None = None
    master: str | None = None
    sums: str | None = None
    products: str | None = None

    def __post_init__(self) -> None:
        for field in fields(self):
            dtype = getattr(self, field.name)
            choices = (*FLOAT8.values(),) if field.name == "products" else FLOATS
            if dtype is not None and dtype not in choices:
                raise PrecisionError(
                    f"`{str(dtype)[:80]}` is not a compute type; the choices are {', '.join(f'`{known}`' for known in choices)}.",
                    ["use one of these", 'omit it for "as traced"'],
                )

    @classmethod
    def parse(cls, text: str) -> "Precision":
        """Parse the text form; empty text means `as traced`. Raises `PrecisionError`."""
        if " ".join(text.split()) in ("", "as traced"):
            return cls()
        types: dict[str, str] = {}
        for part in (" ".join(each.split()) for each in text.split(",")):
            if part in MIXED and not types:
                types |= {"params": MIXED[part], "moments": "float32", "master": "float32"}
                continue
            part_name, equals, dtype = (each.strip() for each in part.partition("="))
            part_name, dtype = (part_name, dtype) if equals else ("products", FLOAT8[part]) if part in FLOAT8 else ("compute", part)
            if part_name not in cls.__slots__ or part_name in types:
                raise PrecisionError(
                    f"`{part[:80]}` is not a part of a precision.",
                    [
                        'write a type for the arithmetic, "bfloat16"',
                        'a mix of types, "bf16 mixed"',
                        'or parts of "compute=bfloat16,params=bfloat16,moments=float32"',
                    ],
                )
            types[part_name] = dtype
        return cls(**types)

    def __str__(self) -> str:
        parts = [
            f"{field.name}={getattr(self, field.name)}" for field in fields(self) if getattr(self, field.name) and field.name != "products"
        ]
        parts += [word for word, scaling in FLOAT8.items() if scaling == self.products]
        return parts[0].removeprefix("compute=") if len(parts) == 1 else ",".join(parts) or "as traced"


AS_WRITTEN = Precision()
