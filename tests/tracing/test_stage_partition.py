"""Cutting: any loss into blocks and segments; skips carried, parameters with the stage that uses them, errors in the user's names."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from tests.support import pipelines
from tests.support.partitioned_losses import partition_loss
from workbench.core.path_patterns import template
from workbench.errors import PipelineError, TraceError
from workbench.models import gpt
from workbench.tracing import trace
from workbench.tracing.grad_accumulation.micro_batch_marks import micro_batch_weight
from workbench.tracing.layered_losses import scanned_loss, sequential_loss
from workbench.tracing.stage_partition.partition_network import partition_network, starts_at
from workbench.tracing.stage_partition.trace_network import block_path, network_of

X = jax.ShapeDtypeStruct((8, 4), "float32")
W = jax.ShapeDtypeStruct((4, 4), "float32")


def dense(weights, x):
    return jnp.tanh(x @ weights)


def distance(x, batch):
    return jnp.mean((x - batch["y"]) ** 2)


def run_in_turn(partition, params, batch):
    """All segments one after the other by hand: what a pipeline does, without one."""
    param_slices = [
        params[leaf] if layer is None else params[leaf][layer : layer + 1] for (leaf, layer), _ in partition.network.flat.param_slices
    ]
    values = {}
    for virtual_stage in partition.virtual_stages:
        input_activations = [values[i] for i in virtual_stage.input_activations]
        results = virtual_stage.call(
            *(param_slices[i] for i in virtual_stage.param_slices), *(batch[i] for i in virtual_stage.batch), *input_activations
        )
        values.update(zip(virtual_stage.output_activations, results, strict=False))
    return results[-1 if partition.network.flat.weight is None else -2]


@pytest.mark.compile
@pytest.mark.parametrize("name", pipelines.ALL)
def test_segments_in_turn_are_the_loss_wherever_it_is_cut(name):
    program = pipelines.ALL[name]()
    network = network_of(program, 2)
    params = [np.asarray(each) for each in program.step.given]
    batch = [np.asarray(each)[: var.aval.shape[0]] for each, var in zip(program.step.feed(0), network.flat.batch, strict=True)]
    whole = run_in_turn(partition_network(network, ()), params, batch)
    for starts in [(1,), tuple(range(1, len(network.paths)))]:
        np.testing.assert_allclose(run_in_turn(partition_network(network, starts), params, batch), whole, rtol=1e-6)


@pytest.mark.compile
def test_scanned_and_listed_layers_give_the_same_blocks():
    scanned, listed = (network_of(gpt.build(scan=scan), 2).blocks for scan in (True, False))
    assert [block.path for block in scanned] == ["embedding", *(f"layers/{i}" for i in range(4)), "norm", "head", "loss"]
    assert [(block.path, block.flops, block.parameter_bytes, block.crossing) for block in scanned] == [
        (block.path, block.flops, block.parameter_bytes, block.crossing) for block in listed
    ]


def test_each_stage_holds_its_own_layers_slices_and_a_tied_table_is_replicated():
    network = network_of(gpt.build(scan=True), 2)
    partition = partition_network(network, starts_at(network, ["layers/2"]))
    first, second = (
        {partition.path(param_slice) for param_slice in virtual_stage.param_slices} for virtual_stage in partition.virtual_stages
    )
    assert "params/layers/mlp/w1[0]" in first
    assert "params/layers/mlp/w1[3]" in second
    assert first & second == {"params/embedding/tokens"}


def test_a_skip_goes_from_its_maker_straight_to_its_reader_and_is_counted_at_every_cut_it_crosses():
    network = network_of(pipelines.skips(), 2)
    partition = partition_network(network, starts_at(network, ["down/1", "up/0", "up/1"]))
    assert [(value.maker, value.readers) for value in partition.values] == [(0, (1, 3)), (1, (2,)), (2, (3,))]
    one = 4 * 4 * 4  # float32[4, 4] of one micro-batch
    assert [block.crossing for block in network.blocks][:4] == [one, 2 * one, 2 * one, one]


def test_a_mask_and_random_keys_are_computed_where_they_are_read_not_sent():
    assert all(value.aval.shape == (2, 4) for value in partition_network(network_of(pipelines.dropout(), 4), (1, 2)).values)


def test_a_parameter_goes_to_the_one_stage_that_uses_it():
    partition = partition_network(network_of(pipelines.chain(), 1), (1, 2, 3))
    assert partition.shared == {}
    assert [len(virtual_stage.param_slices) for virtual_stage in partition.virtual_stages] == [2, 2, 2, 2]


def test_functions_in_sequence_and_one_function_scanned_cut_at_each_layer():
    batch = {"x": X, "y": X}
    listed = partition_loss(sequential_loss([dense, dense, dense], distance), [W, W, W], batch, ["layers/1", "layers/2"])
    stacked = {"layers": jax.ShapeDtypeStruct((3, 4, 4), "float32")}
    scanned = partition_loss(scanned_loss(dense, distance), stacked, batch, ["layers/1", "layers/2"])
    for partition in (listed, scanned):
        assert partition.network.paths == ("layers/0", "layers/1", "layers/2", "final")
        assert [virtual_stage.blocks[0] for virtual_stage in partition.virtual_stages] == ["layers/0", "layers/1", "layers/2"]


def test_a_program_without_scopes_is_cut_at_its_products():
    def loss(params, batch):
        return jnp.mean((jnp.tanh(batch["x"] @ params[0]) @ params[1]) ** 2)

    assert partition_loss(loss, [W, W], {"x": X}).network.paths == ("dot_0", "dot_1")


@pytest.mark.parametrize(
    ("scope", "path"),
    [("GPT/layers_3/attention", "GPT/layers_3"), ("encoder/blocks/0/mlp", "encoder/blocks/0"), ("head", "head")],
)
def test_blocks_follow_module_paths(scope, path):
    assert block_path(scope) == path
    assert template(path) != path or path == "head"


def test_a_boundary_that_no_longer_exists_is_named_with_what_is_near():
    network = network_of(pipelines.chain(), 1)
    with pytest.raises(PipelineError, match=r"no block `layers/9`.*no longer exists") as error:
        starts_at(network, ["layers/9"])
    assert "Did you mean `layers/" in str(error.value)
    with pytest.raises(PipelineError, match="is the first block"):
        starts_at(network, ["layers/0"])


def test_micro_batches_that_do_not_divide_the_batch_show_the_arithmetic():
    with pytest.raises(PipelineError, match="3 micro-batches do not divide `batch` \\(8\\); 8 % 3 = 2") as error:
        network_of(pipelines.chain(), 3)
    assert "make micro_batches 2 or 4" in str(error.value)


def keeping():
    kept = []

    def layer(weights, x):
        kept.append(x)
        return dense(weights, kept[0])

    return layer


def growing():
    count = []

    def layer(weights, x):
        count.append(1)
        return x @ weights * len(count)

    return layer


def printing():
    def layer(weights, x):
        jax.debug.print("{}", x.sum())
        return dense(weights, x)

    return layer


@pytest.mark.parametrize(
    ("layer", "words"),
    [(keeping(), "keeps state between calls"), (growing(), "different results for the same arguments"), (printing(), "side effects")],
)
def test_a_layer_that_is_not_a_pure_function_is_refused_by_name(layer, words):
    with pytest.raises(PipelineError, match=f"Layer `layers/1`.*{words}"):
        partition_loss(sequential_loss([dense, layer], distance), [W, W], {"x": X, "y": X})


def test_a_scanned_layer_that_changes_the_carried_shape_is_told_with_both():
    def widening(weights, x):
        return jnp.concatenate([dense(weights, x)] * 2, axis=-1)

    stacked = {"layers": jax.ShapeDtypeStruct((3, 4, 4), "float32")}
    with pytest.raises(PipelineError, match=r"takes float32\[8, 4\] and returns float32\[8, 8\]"):
        partition_loss(scanned_loss(widening, distance), stacked, {"x": X, "y": X})


def test_what_cannot_be_cut_is_said():
    with pytest.raises(PipelineError, match="not a training step"):
        network_of(trace(lambda x: x.sum(), X), 1)
    with pytest.raises(PipelineError, match="side effects"):
        partition_loss(lambda w, x: jax.debug.print("{}", w) or (x @ w).sum(), W, X)
    with pytest.raises(PipelineError, match="marks 2 values"):
        partition_loss(lambda w, x: (x @ w).sum() / micro_batch_weight(x[0, 0]) / micro_batch_weight(x[0, 1]), W, X)
    with pytest.raises(PipelineError, match="cannot be partitioned"):
        partition_loss(lambda w, _: w.sum(), W, X)
    with pytest.raises(TraceError):
        partition_loss(lambda w, x: (x @ w @ w[:2]).sum(), W, X)
    with pytest.raises(PipelineError, match="1 layers and the weights of 3"):
        partition_loss(sequential_loss([dense], distance), [W, W, W], {"x": X, "y": X})


def test_what_stands_before_and_behind_repeated_layers_is_a_block_of_its_own():
    """Outside of all scopes; what stands between layers goes with the one before it."""

    def loss(params, batch):
        x = batch["x"] @ params["in"]
        for i in range(3):
            with jax.named_scope(f"layer_{i}"):
                h = jnp.tanh(x @ params["w"][i])
            x = x + h
        return ((x @ params["out"]) ** 2).mean()

    shape = jax.ShapeDtypeStruct((8, 8), jnp.float32)
    params = {"in": shape, "out": shape, "w": [shape] * 3}
    network = partition_loss(loss, params, {"x": shape}).network
    assert network.paths == ("start", "layer_0", "layer_1", "layer_2", "end")
    assert [len(block.param_slices) for block in network.blocks] == [1, 1, 1, 1, 1]
