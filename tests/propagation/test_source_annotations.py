"""What a function says of shardings by itself is read and told: constraints, explicit types, manual regions."""

import jax
import jax.numpy as jnp
from jax.sharding import AbstractMesh, AxisType, NamedSharding
from jax.sharding import PartitionSpec as P

from workbench.core.sharding import Sharding
from workbench.public_plan import Plan
from workbench.tracing import trace

AUTO = AbstractMesh((4, 2), ("data", "model"), axis_types=(AxisType.Auto,) * 2)
EXPLICIT = AbstractMesh((4, 2), ("data", "model"), axis_types=(AxisType.Explicit,) * 2)


def spec(*shape, at=None):
    return jax.ShapeDtypeStruct(shape, "float32", sharding=at)


def constrained(x, w):
    with jax.named_scope("mlp"):
        h = jax.lax.with_sharding_constraint(jnp.tanh(x @ w), NamedSharding(AUTO, P("data", P.UNCONSTRAINED)))
    with jax.named_scope("manual"):
        inside = jax.shard_map(jnp.sin, mesh=AUTO, in_specs=P(None, "model"), out_specs=P(None, "model"), axis_names={"model"})
        return inside(h)


def typed(x, w):
    h = jnp.einsum("bi,io->bo", x, w, out_sharding=P("data", "model"))
    return jax.reshard(h, P("data", None))


def test_constraints_and_manual_regions_are_read_with_their_lines():
    own = Plan(trace(constrained, spec(8, 16), spec(16, 32)), "data:4 model:2").report().source_annotations
    (constraint,) = own.constraints
    assert (constraint.path, constraint.shape, str(constraint.sharding)) == ("mlp", (8, 32), "[data, ?]")
    assert constraint.source.startswith("test_source_annotations.py:")
    (region,) = own.regions
    assert (region.path, region.axes) == ("manual/shard_map", ("model",))
    assert region.incoming == region.outgoing == (Sharding.parse("[?, model?]"),)
    assert own.mesh == (("data", 4), ("model", 2))


def test_the_types_of_explicit_mode_are_read():
    x, w = (spec(*shape, at=NamedSharding(EXPLICIT, at)) for shape, at in (((8, 16), P("data")), ((16, 32), P(None, "model"))))
    with jax.sharding.use_abstract_mesh(EXPLICIT):
        program = trace(typed, x, w)
    own = Plan(program, "data:4 model:2").report().source_annotations
    assert [(each.path, str(each.sharding)) for each in own.types] == [("x", "[data, -]"), ("w", "[-, model]")]
    assert [str(each.sharding) for each in own.constraints] == ["[data, model]", "[data, -]"]


def test_arrays_that_happen_to_lie_somewhere_say_nothing():
    program = trace(jnp.tanh, spec(8, 16, at=NamedSharding(AUTO, P("data"))))
    report = Plan(program, "x:2").report()
    assert not report.source_annotations
    assert "Sharded by the function itself" not in str(report)


def test_the_report_has_a_section_for_them():
    text = str(Plan(trace(constrained, spec(8, 16), spec(16, 32)), "data:4 model:2").report())
    assert "Sharded by the function itself, over data:4 model:2" in text
    assert "manual model" in text
    assert "[?, model?] → [?, model?]" in text
