"""Converts Shardy's and MLIR's attributes to and from plain Python: axes per dimension, dtype names, local sizes."""

import functools
import math
import re
from collections.abc import Iterable
from typing import Any

from jax.extend.mlir import ir
from jax.extend.mlir.dialects import sdy

from workbench.core.mesh import Mesh
from workbench.core.sharding import Sharding, SubAxis, axis_size
from workbench.core.tensor import itemsize
from workbench.propagation.module.mlir_context import producer

Dims = tuple[tuple[str, ...], ...]  # mesh axes of each dimension

_DTYPES = {"i1": "bool", "bf16": "bfloat16", "f16": "float16", "f32": "float32", "f64": "float64", "f4E2M1FN": "float4_e2m1fn"}


@functools.cache
def dtype_name(element_type: str) -> str:
    """NumPy's name of an MLIR element type.

    >>> [dtype_name(each) for each in ("f32", "i1", "ui8", "i4", "complex<f32>", "f8E4M3FN")]
    ['float32', 'bool', 'uint8', 'int4', 'complex64', 'float8_e4m3fn']
    """
    if element_type in _DTYPES:
        return _DTYPES[element_type]
    if element_type.startswith("ui"):
        return f"uint{element_type[2:]}"
    if element_type.startswith("i"):
        return f"int{element_type[1:]}"
    if element_type.startswith("complex"):
        return "complex128" if "f64" in element_type else "complex64"
    return element_type.lower().replace("f8", "float8_", 1)


def local_shape(shape: tuple[int, ...], dims: Dims, mesh: Mesh) -> tuple[int, ...]:
    """The shape of one device's shard: `ceil(size / parts)` in each dimension."""
    if not any(dims):
        return shape
    return tuple(
        -(-size // math.prod([axis_size(axis, mesh) for axis in axes])) if axes else size for size, axes in zip(shape, dims, strict=True)
    )


def local_bytes(kind: ir.Type, dims: Dims, mesh: Mesh) -> int:
    """Bytes of one device's shard of a value of this type."""
    shape, element_bytes = _shape_and_itemsize(kind)
    return math.ceil(math.prod(local_shape(shape, dims, mesh)) * element_bytes)


@functools.lru_cache(maxsize=4096)
def _shape_and_itemsize(kind: ir.Type) -> tuple[tuple[int, ...], float]:
    ranked = ir.RankedTensorType(kind)
    return tuple(ranked.shape), itemsize(dtype_name(str(ranked.element_type)))


def read_shardings(attribute: ir.Attribute) -> tuple[Dims, ...]:
    """The shardings of an `sdy.sharding` attribute: one, or one for each result."""
    if sdy.TensorShardingPerValueAttr.isinstance(attribute):
        return tuple(_read_dims(sdy.TensorShardingAttr(sharding)) for sharding in sdy.TensorShardingPerValueAttr(attribute).shardings)
    return (_read_dims(sdy.TensorShardingAttr(attribute)),)


def _read_dims(sharding: Any) -> Dims:
    return tuple(tuple(_axis_text(axis) for axis in sdy.DimensionShardingAttr(dim).axes) for dim in sharding.dimension_shardings)


def read_annotation(attribute: ir.Attribute) -> Sharding:
    """The full content of an `sdy.sharding`, including open dimensions, priorities, replicated and unreduced axes."""
    sharding = sdy.TensorShardingAttr(attribute)
    dims = [sdy.DimensionShardingAttr(dim) for dim in sharding.dimension_shardings]
    return Sharding(
        tuple(tuple(map(_axis_text, dim.axes)) for dim in dims),
        tuple(not dim.is_closed for dim in dims),
        tuple(dim.priority or 0 for dim in dims),
        tuple(map(_axis_text, sharding.replicated_axes)),
        tuple(map(_axis_text, sharding.unreduced_axes)),
    )


def read_annotations(attribute: ir.Attribute) -> tuple[Sharding, ...]:
    """The full shardings (`read_annotation`) of a per-value attribute."""
    return tuple(map(read_annotation, sdy.TensorShardingPerValueAttr(attribute).shardings))


def _axis_text(attribute: Any) -> str:
    reference = sdy.AxisRefAttr(attribute)
    part = reference.sub_axis_info
    if part is None:
        return reference.name
    info = sdy.SubAxisInfoAttr(part)
    return str(SubAxis(reference.name, info.pre_size, info.size))


@functools.lru_cache(maxsize=1024)
def axis_names(text: str) -> tuple[str, ...]:
    """The axes and sub-axes that a collective's attribute names, each once.

    >>> axis_names('[{"x"}, {"y":(1)2, "x"}]')
    ('x', 'y:(1)2')
    """
    return tuple(dict.fromkeys(name + part for name, part in re.findall(r'"([^"]+)"(:\(\d+\)\d+)?', text)))


def sharding_text(dims: Dims) -> str:
    """A sharding as Shardy writes it.

    >>> sharding_text((("x:(2)4", "y"), ()))
    '<@mesh, [{"x":(2)4, "y"}, {}]>'
    """
    return f"<@mesh, [{', '.join('{' + axes_text(axes) + '}' for axes in dims)}]>"


def axes_text(axes: Iterable[str]) -> str:
    """Axes and sub-axes as Shardy writes them: `x:(2)4` is `"x":(2)4`."""
    return ", ".join(f'"{axis}"' if ":" not in axis else '"{}":{}'.format(*axis.split(":")) for axis in axes)


# Shardings after propagation, before reshards are explicit.

_SHARDING = "sdy.sharding"


class ShardingReader:
    """Reads shardings after propagation, each attribute once, as MLIR shares equal ones."""

    def __init__(self, main: ir.Operation) -> None:
        self._arguments = ir.ArrayAttr(main.attributes["arg_attrs"])
        self._known: dict[ir.Attribute, tuple[Dims, ...]] = {}

    def read_attribute(self, attribute: ir.Attribute) -> tuple[Dims, ...]:
        if attribute not in self._known:
            self._known[attribute] = read_shardings(attribute)
        return self._known[attribute]

    def dims_of(self, value: ir.Value) -> Dims:
        """The propagated sharding of a value; empty if it has none."""
        owner = producer(value)
        if owner is not None and owner.name == "sdy.reshard":
            return self.read_attribute(owner.attributes["sharding"])[0]
        if owner is not None:
            has_sharding = _SHARDING in owner.attributes
            return self.read_attribute(owner.attributes[_SHARDING])[ir.OpResult(value).result_number] if has_sharding else ()
        number, parent = ir.BlockArgument(value).arg_number, value.owner.owner.operation
        if parent.name == "func.func":
            entries = ir.DictAttr(self._arguments[number])
            return self.read_attribute(entries[_SHARDING])[0] if _SHARDING in entries else ()
        has_sharding = parent.name == "stablehlo.while" and _SHARDING in parent.attributes
        return self.read_attribute(parent.attributes[_SHARDING])[number] if has_sharding else ()
