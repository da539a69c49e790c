"""A plan as logical axis rules and as PartitionSpecs: what Flax and JAX make of them is what the plan says."""

import flax.linen
import jax
import pytest
from jax.sharding import PartitionSpec

from tests.support.importable import regression
from tests.support.programs import mlp
from workbench.core.program import Reference
from workbench.core.sharding import Sharding
from workbench.documents import ALL_EXPORTS, program_from_reference
from workbench.documents.export_formats import export_axis_rules, export_maxtext_rules, export_partition_specs
from workbench.public_plan import Plan

LAYOUT = "batch:data+pipe; d_ff:model; layers/1/w2=[-, -]; @mlp/dot_general=[data, ?]"
MESH = "data:2 pipe:2 model:2"


def made(source: str) -> dict:
    names: dict = {}
    exec(compile(source, "exported", "exec"), names)
    return names


def spec(sharding: Sharding) -> PartitionSpec:
    return PartitionSpec(*(dim[0] if dim and len(dim) == 1 else dim or None for dim in sharding.dims))


def same(one: PartitionSpec, other: PartitionSpec) -> bool:
    """Trailing `None`s do not count."""
    first, second = list(one), list(other)
    for each in (first, second):
        while each and each[-1] is None:
            each.pop()
    return first == second


def test_flax_puts_every_tensor_without_an_override_where_the_plan_does():
    plan = Plan(mlp(), MESH, LAYOUT)
    rules = made(export_axis_rules(plan))["LOGICAL_AXIS_RULES"]
    by_rule = [each for each in zip(plan.program.arguments, plan.argument_shardings, strict=True) if not plan.layout.override(each[0].path)]
    assert len(by_rule) > 5
    for tensor, sharding in by_rule:
        assert same(flax.linen.logical_to_mesh_axes(tensor.dims, rules), spec(sharding)), tensor.path


def test_what_rules_cannot_say_stands_beside_them():
    plan = Plan(mlp(), MESH, LAYOUT)
    for text in (export_axis_rules(plan), export_maxtext_rules(plan)):
        assert "layers/1/w2=[-, -]" in text
        assert "@mlp/dot_general=[data, ?]" in text
    assert "cannot say" not in export_axis_rules(plan.updated(layout="batch:data"))


def test_the_rules_read_well(golden):
    plan = Plan(mlp(), MESH, LAYOUT)
    golden("axis_rules.txt", f"{export_axis_rules(plan)}\n{export_maxtext_rules(plan)}\n{export_partition_specs(plan)}")


@pytest.mark.parametrize("layout", ["", "batch:data+pipe; d_ff:model", "d_ff:data; w2=[model, -]; params/w1=[-, -]"])
def test_partition_specs_of_a_tree_are_those_of_the_plan(layout):
    plan = Plan(program_from_reference(Reference("tests.support.importable:regression")), MESH, layout)
    module = made(export_partition_specs(plan))
    trees = {"params": {"w1": 0, "w2": 0}, "batch": {"x": 0, "y": 0}}
    found = {
        f"{root}/{keys[0].key}": each
        for root, tree in trees.items()
        for keys, each in jax.tree_util.tree_flatten_with_path(module["partition_specs"](tree, root))[0]
    }
    for tensor, sharding in zip(plan.program.arguments, plan.argument_shardings, strict=True):
        if tensor.path in found:
            assert same(found.pop(tensor.path), spec(sharding)), tensor.path
    assert found == {}


def test_layers_of_a_list_have_their_own_specs():
    plan = Plan(mlp(), MESH, LAYOUT)
    layers = {"layers": [{"w1": 0, "w2": 0}, {"w1": 0, "w2": 0}]}
    found = made(export_partition_specs(plan))["partition_specs"](layers, "params")["layers"]
    assert same(found[0]["w2"], PartitionSpec("model"))
    assert same(found[1]["w2"], PartitionSpec())
    assert same(found[1]["w1"], PartitionSpec(None, "model"))


def test_named_shardings_are_over_the_mesh_of_the_plan():
    plan = Plan(regression(), MESH, "d_ff:model")
    mesh = jax.make_mesh(plan.mesh.sizes, plan.mesh.names, axis_types=(jax.sharding.AxisType.Auto,) * 3)
    found = made(export_partition_specs(plan))["named_shardings"](mesh, {"w1": 0, "w2": 0}, "params")
    assert found["w1"].shard_shape((8, 16)) == (8, 8)


@pytest.mark.parametrize("form", [each for each in ALL_EXPORTS if each.ending.endswith(".py")], ids=lambda each: each.key)
def test_no_name_breaks_out_of_an_export(form):
    plan = Plan(mlp(), "data:4", name='x"""\nimport os\n"""\\')
    assert "os" not in compile(form.write(plan), "exported", "exec").co_names
