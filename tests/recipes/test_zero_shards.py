"""ZeRO beyond one axis that divides everything: padded shards, context parallelism, experts, replicas of shards."""

import pytest

import workbench as wb
from workbench.analysis.analyze import analyze
from workbench.core.tensor import Role
from workbench.errors import LayoutError
from workbench.spmd.ask_partitioner import ask_partitioner


def plan_of(model, mesh, *recipes, layout="", hardware="6 A100, eager", **choices):
    plan = wb.Plan(wb.models.build(model, **choices), mesh, layout, hardware=hardware)
    for name in recipes:
        plan = plan.recipe(name)
    return plan


def state_bytes(report):
    return report.memory.by_role[Role.OPTIMIZER_STATE]


def test_replicas_that_divide_nothing_shard_padded_state_and_xla_agrees():
    whole, padded = (plan_of("decoder", "data:3", "data_parallel", *zero, batch=12) for zero in ((), ("zero_1",)))
    report = padded.report()
    assert state_bytes(report) == pytest.approx(state_bytes(whole.report()) / 3, rel=0.03)
    assert state_bytes(analyze(padded, answer=ask_partitioner(padded))) == state_bytes(report)


def test_what_is_padded_needs_a_runtime_that_pads():
    padded = plan_of("decoder", "data:3", "data_parallel", "zero_1", batch=12)
    with pytest.raises(LayoutError, match=r"256 % 3 = 1\. JAX requires equal parts"):
        padded.updated(hardware="6 A100")
    with pytest.raises(LayoutError, match="JAX requires equal parts"):
        wb.Plan(padded.program, "data:5", "batch:data", hardware="6 A100, eager")  # the batch is data, not state


def test_state_is_shared_by_all_that_have_the_same_weights():
    report = plan_of("decoder", "data:2 context:3", "data_parallel", "context_parallel", "zero_1", seq=96).report()
    moments = [each for each in report.arguments if each.tensor.path.startswith("opt_state/0/mu/layers/mlp")]
    assert moments
    assert all(set(each.sharding.axes) == {"data", "context"} for each in moments)


def test_axes_are_on_one_dimension_that_their_product_divides_and_gradients_are_summed_over_them_at_once():
    plan = plan_of(
        "decoder", "data:4 context:2 model:2", "data_parallel", "context_parallel", "megatron", "zero_3", hardware="2 nodes of 8 A100"
    )
    weights = [each for each in plan.report().arguments if each.tensor.path.startswith("params/") and len(each.tensor.shape) > 1]
    assert all(("data", "context") in each.sharding.dims for each in weights)
    planned, answered = (
        sum(each.sent * each.count for each in report.collectives)
        for report in (plan.report(), analyze(plan, answer=ask_partitioner(plan)))
    )
    assert planned == pytest.approx(answered, rel=0.01)
    assert planned < 1e6  # 1.3e6 with each axis on a dimension of its own


def test_dense_state_is_shared_over_the_axis_of_experts_and_that_of_experts_is_not_twice():
    layout = "batch:data+expert; experts:expert"
    report = plan_of("mixture", "data:2 expert:2", "zero_1", layout=layout, hardware="4 A100, eager").report()
    axes = {each.tensor.path: each.sharding.axes for each in report.arguments if each.tensor.path.startswith("opt_state/0/mu/")}
    assert all(set(found) == {"data", "expert"} for path, found in axes.items() if path.endswith(("wo", "w1", "w2")))


def test_a_second_axis_of_replicas_stays_one():
    report = plan_of("decoder", "replica:2 fsdp:2", "zero_3", layout="batch:replica+fsdp", hardware="4 A100, eager").report()
    weights = [each for each in report.arguments if each.tensor.path.endswith(("w1", "w2"))]
    assert all(each.sharding.axes == ("fsdp",) for each in weights)


def test_the_buckets_of_deepspeed_are_held_where_state_is_sharded():
    def peak(runtime, *zero):
        return plan_of("decoder", "data:2", "data_parallel", *zero, hardware=f"2 A100, {runtime}").report().peak

    assert peak("DeepSpeed") < 1e9
    assert 9e9 < peak("DeepSpeed", "zero_2") < 9.1e9
    assert 2e9 < peak("DeepSpeed", "zero_3") < 2.1e9
    assert peak("eager", "zero_2") < 1e9
