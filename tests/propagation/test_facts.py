"""Facts about Shardy and JAX that the planner rests on. One that changes with a release is told here first."""

import re

import jax
import jax.numpy as jnp
import pytest
from jax.extend.mlir import ir, passmanager
from jax.sharding import AbstractMesh, AxisType, NamedSharding
from jax.sharding import PartitionSpec as P

from workbench.propagation.module.mlir_context import context, main_function, module_bytes, parse_module, run_passes
from workbench.propagation.propagate import _PASSES
from workbench.public_plan import Plan
from workbench.tracing import trace


def lowered(fn, *specs):
    return jax.jit(fn).trace(*specs).lower(lowering_platforms=("tpu",)).compiler_ir("stablehlo")


def test_a_lowering_needs_no_device_and_its_context_has_every_dialect():
    module = lowered(lambda x: jnp.sin(x) @ x, jax.ShapeDtypeStruct((4, 4), jnp.float32))
    again = parse_module(module_bytes(module))
    assert "stablehlo.dot_general" in str(again)
    assert context().is_registered_operation("sdy.mesh")


def test_an_abstract_mesh_of_any_size_lowers_without_devices():
    mesh = AbstractMesh((1024, 64), ("x", "y"), axis_types=(AxisType.Auto,) * 2)
    spec = jax.ShapeDtypeStruct((65536, 8), jnp.float32, sharding=NamedSharding(mesh, P(("x", "y"))))
    assert '"x"=1024, "y"=64' in str(lowered(lambda x: x + 1, spec))


def test_our_passes_are_those_of_the_propagation_pipeline_in_its_order():
    with context():
        pipeline = str(passmanager.PassManager.parse("any(sdy-propagation-pipeline)"))
    theirs = re.findall(r"sdy-[a-z-]+", pipeline)
    ours = [name for name in re.findall(r"sdy-[a-z-]+", ",".join(_PASSES)) if name not in ("sdy-reshard-to-collectives", "sdy-collective")]
    places = [theirs.index(name) for name in ours]
    assert places == sorted(places)


def test_an_operation_keeps_the_number_it_was_given():
    program = trace(
        lambda x, w: jnp.tanh(x @ w) @ w.T, jax.ShapeDtypeStruct((8, 4), jnp.float32), jax.ShapeDtypeStruct((4, 6), jnp.float32)
    )
    module = parse_module(program.module)
    run_passes(module.operation, "canonicalize{enable-patterns={sdy-collective}}")
    numbers = [each.operation.attributes["wb_id"].value for each in main_function(module.operation).regions[0].blocks[0].operations]
    assert numbers == list(range(len(program.operations)))


@pytest.mark.parametrize(
    ("layout", "collective"),
    [
        ("a=[x+y+z, -]", "all-gather"),  # Y20: 16x2 [{x,y,z},{}] -> [{x},{}] is an all-gather over y and z
    ],
)
def test_a_golden_reshard_of_shardys_documentation(layout, collective):
    program = trace(lambda a: a * 1.5, jax.ShapeDtypeStruct((16, 2), jnp.float32), dims={"a": "row column"})
    plan = Plan(program, "x:2 y:2 z:2", layout + "; @mul=[x, -]")
    assert [(each.kind, each.axes, each.payload) for each in plan.report().collectives] == [(collective, ("y", "z"), 8 * 2 * 4)]


def test_dense_integer_attributes_are_read():
    with context(), ir.Location.unknown():
        attribute = ir.Attribute.parse("dense<7> : tensor<i32>")
    assert isinstance(attribute, ir.DenseIntElementsAttr)
    assert int(attribute[0]) == 7


@pytest.mark.parametrize(
    ("dtype", "size"), [("bool", 1), ("int8", 1), ("bfloat16", 2), ("complex64", 8), ("float8_e4m3fn", 1), ("uint32", 4)]
)
def test_values_of_every_type_have_their_true_size(dtype, size):
    program = trace(lambda x: (jnp.concatenate([x, x]),), jax.ShapeDtypeStruct((64,), dtype))
    report = Plan(program, "x:2", f"{program.arguments[0].dims[0]}:x").report()
    assert report.arguments[0].local_bytes == 32 * size
    assert sum(report.memory.by_role.values()) >= (32 + 64) * size
    assert {each.payload % size for each in report.collectives} <= {0}
    assert all(each.payload <= 128 * size for each in report.collectives)
