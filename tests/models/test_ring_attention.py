"""Ring attention: it is ordinary attention, split over devices, and what goes around is hidden behind what is computed."""

from collections import Counter
from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.sharding import PartitionSpec as P

from workbench.cost.estimate import estimate
from workbench.errors import DimensionError, RecipeError, TraceError
from workbench.models.data import english_text
from workbench.models.decoder import decoder
from workbench.models.decoder.decoder_config import PRESETS
from workbench.models.decoder.decoder_layouts import sequence_parallel
from workbench.models.decoder.decoder_stage import micro_batch
from workbench.models.decoder.decoder_weights import init
from workbench.models.layers.decoder_blocks import mix, softmax
from workbench.models.layers.ring_attention import ring_attention, zigzag, zigzag_positions
from workbench.public_plan import Plan
from workbench.recipes.recipe_list import find_recipe
from workbench.reports.kernel import COMPUTE
from workbench.spmd.ask_partitioner import ask_partitioner

pytestmark = pytest.mark.compile

TINY = replace(PRESETS["tiny"], fused="attention")
BATCH, SEQ, HEADS, QUERIES, WIDTH = 2, 64, 2, 3, 8


def drawn(*shape, seed):
    return jax.random.normal(jax.random.key(seed), shape)


def query_key_value():
    keys = (BATCH, SEQ, HEADS, 1, WIDTH)
    return drawn(BATCH, SEQ, HEADS, QUERIES, WIDTH, seed=0), drawn(*keys, seed=1), drawn(*keys, seed=2)


def with_gradients(attend):
    weight = drawn(BATCH, SEQ, HEADS, QUERIES, WIDTH, seed=3)
    return jax.jit(jax.value_and_grad(lambda *operands: (attend(*operands) * weight).sum(), (0, 1, 2)))


def in_order(ring, fused=True):
    """Ring attention to sequences in their own order."""
    back = np.argsort(zigzag(np.arange(SEQ), ring))
    return lambda *operands: ring_attention(*(zigzag(each, ring, 1) for each in operands), ring=ring, fused=fused)[:, back]


@pytest.mark.parametrize("ring", [1, 2, 4, 8])
def test_values_and_gradients_are_those_of_ordinary_attention(ring):
    expected = with_gradients(lambda *operands: mix(*operands, softmax))(*query_key_value())
    found = with_gradients(in_order(ring))(*query_key_value())
    for one, other in zip(jax.tree.leaves(found), jax.tree.leaves(expected), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(("ring", "mesh"), [(8, (8, 1)), (4, (4, 2)), (4, (2, 2))])
def test_it_is_the_same_over_devices_which_send_only_to_neighbours(ring, mesh):
    devices = jax.make_mesh(
        mesh, ("context", "model"), axis_types=(jax.sharding.AxisType.Auto,) * 2, devices=jax.devices()[: np.prod(mesh)]
    )
    placed = jax.NamedSharding(devices, P(None, "context", "model"))
    operands = [zigzag(each, ring, 1) for each in query_key_value()]
    step = with_gradients(lambda *each: ring_attention(*each, ring=ring))
    expected, found = step(*operands), step(*(jax.device_put(each, placed) for each in operands))
    for one, other in zip(jax.tree.leaves(found), jax.tree.leaves(expected), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-4, atol=1e-5)
    compiled = step.lower(*(jax.device_put(each, placed) for each in operands)).compile().as_text()
    assert " collective-permute(" in compiled
    assert " all-gather(" not in compiled
    assert " all-to-all(" not in compiled


def test_early_and_late_chunks_lie_together():
    order = zigzag(np.arange(24), 3)
    assert order.reshape(3, 2, 4)[:, :, 0].tolist() == [[0, 20], [4, 16], [8, 12]]
    np.testing.assert_array_equal(zigzag_positions(24, 3), order)
    np.testing.assert_array_equal(zigzag(jnp.arange(24)[None], 3, 1)[0], order)


@pytest.mark.parametrize("positions", ["rotary", "learned", "sinusoidal"])
def test_a_decoders_loss_and_gradients_are_those_without_a_ring(positions):
    config = replace(TINY, positions=positions)
    params, batch = init(jax.random.key(0), config, scan=True), english_text.batches(config.batch, config.seq)(0)
    plain = jax.jit(jax.value_and_grad(decoder.make_loss(config)))(params, batch)
    arranged = {name: zigzag(rows, 4, 1) for name, rows in batch.items()}
    found = jax.jit(jax.value_and_grad(decoder.make_loss(replace(config, ring=4))))(params, arranged)
    for one, other in zip(jax.tree.leaves(found), jax.tree.leaves(plain), strict=True):
        np.testing.assert_allclose(one, other, rtol=2e-3, atol=2e-5)


def test_a_step_is_fed_sequences_in_the_order_of_the_ring():
    plain, ring = (decoder.training_step(replace(TINY, ring=each)).step.feed(0) for each in (1, 4))
    for one, other in zip(plain, ring, strict=True):
        np.testing.assert_array_equal(other, zigzag(np.asarray(one), 4, 1))


def ring_plan(mesh, hardware="8 H100", **changes):
    config = replace(TINY, **changes)
    layout = f"seq:context; {sequence_parallel(context='context', model='model' if 'model' in mesh else '-', ring=config.ring > 1)}"
    return Plan(
        decoder.training_step(config), mesh, layout + ("; d_ff:model; kv_heads:model" if "model" in mesh else ""), hardware=hardware
    )


@pytest.mark.parametrize(("mesh", "ring"), [("context:8", 8), ("context:4 model:2", 4)])
def test_keys_and_values_go_around_once_forward_and_with_their_gradients_once_backward(mesh, ring):
    plan = ring_plan(mesh, ring=ring)
    heads = TINY.kv_heads // (2 if "model" in mesh else 1)
    pair = 2 * TINY.batch * (TINY.seq // ring) * heads * TINY.d_head * 4
    for sent in (plan.report().collectives, ask_partitioner(plan, "cuda").collectives):
        permutes = Counter({each.payload: 0 for each in sent})
        for each in sent:
            permutes[each.payload] += each.count if each.kind == "collective-permute" else 0
        assert +permutes == {pair: TINY.layers * ((ring - 1) + (ring - 1) + ring)}
        assert not {each.kind for each in sent if "context" in each.axes} & {"all-to-all", "all-gather"}


@pytest.mark.parametrize("fused", ["", "attention"])
@pytest.mark.parametrize("queries", [1, 4])
def test_scores_are_sharded_by_queries_so_that_none_are_exchanged(queries, fused):
    config = replace(TINY, kv_heads=8 // queries, q_per_kv=queries, fused=fused)
    sent = Plan(decoder.training_step(config), "data:2 context:4", "batch:data; seq:context", hardware="8 H100").report().collectives
    assert {each.kind for each in sent} == {"all-gather", "reduce-scatter", "all-reduce"}


def long_plan(hardware, ring):
    """A layer of Llama-3 8B on sequences of 131,072 tokens over eight devices."""
    sizes = {"d_model": 4096, "kv_heads": 8, "q_per_kv": 4, "d_head": 128, "d_ff": 14336, "seq": 131072, "batch": 1}
    config = replace(PRESETS["llama3-70b"], layers=1, recompute="none", ring=ring, **sizes)
    gathered = sequence_parallel(context="context", model="-", ring=True, first=False, last=False)
    if ring == 1:
        split = {"query": "context", "mixed": "context", "key": "-", "value": "-"}
        gathered += "".join(f"; @core/{name}_here/reduce_precision=[-, {axis}, -, ?, ?]" for name, axis in split.items())
    program = micro_batch(config, first=False, last=False, scan=True)
    return Plan(program, "context:8", f"seq:context; {gathered}", hardware=hardware)


@pytest.mark.parametrize("hardware", ["8 H100", "TPU v5p 2x2x2"])
def test_what_goes_around_is_hidden_behind_the_attention_of_a_step(hardware):
    """All but the gradients' way home at the end of a layer's attention."""
    found = estimate(long_plan(hardware, ring=8))
    waits: Counter[str] = Counter()
    runs: Counter[str] = Counter()
    for turn, region, numbers in zip(found.simulated.turns, found.simulated.regions, found.simulated.reshards, strict=True):
        for wait, number in zip(turn.waits, numbers, strict=True):
            kind = found.partitioned.reshards[number].kind
            waits[kind] += wait * region.times
            runs[kind] += region.times
    (seconds,) = {
        cost.seconds for cost, each in zip(found.costs, found.partitioned.reshards, strict=True) if each.kind == "collective-permute"
    }
    assert runs["collective-permute"] == 7 + 7 + 8
    lost = 0.12 * 22 if hardware == "8 H100" else 0  # kernels slow down beside NCCL's
    assert seconds * (1 - 1e-6) <= waits["collective-permute"] <= seconds * (1 + lost) * (1 + 1e-6)


def test_a_ring_waits_less_than_gathered_keys_and_values():
    ring, gathered = (long_plan("8 H100", each).report() for each in (8, 1))
    assert ring.step_time.exposed < gathered.step_time.exposed / 4


def timeline_of(hardware, seq):
    """A layer of Llama-3 8B over a ring of eight devices."""
    config = replace(
        PRESETS["llama3-70b"], layers=1, recompute="none", ring=8, d_model=4096, kv_heads=8, q_per_kv=4, d_head=128, d_ff=14336
    )
    program = micro_batch(replace(config, seq=seq, batch=1), first=False, last=False, scan=True)
    return Plan(program, "context:8", hardware=hardware).recipe("ring_attention").report().timeline.events


@pytest.mark.parametrize("hardware", ["8 H100, device=20 GB/s", "TPU v5p 2x2x2, ici=20 GB/s"])
def test_the_timeline_has_the_exchange_behind_the_attention_of_long_sequences_and_waits_for_it_with_short_ones(hardware):
    waits = {}
    for seq in (131072, 2048):
        events = timeline_of(hardware, seq)
        exchanges = [each for each in events if each.kind == "collective-permute"]
        assert {each.stream for each in exchanges} == {"context"}
        assert sum(each.count for each in exchanges) == 7 + 7 + 8
        (exchange,) = (each for each in exchanges if each.path.startswith("layers/") and each.count == 6)  # in the forward loop
        (attention,) = (
            each
            for each in events
            if each.stream == COMPUTE and each.path.startswith("layers/") and "ring_other/" in each.path and each.count == 6
        )
        assert attention.start < exchange.end
        assert exchange.start < attention.end
        waits[seq] = exchange.exposed / exchange.seconds
    assert waits[131072] < 0.15  # GPUs' kernels slow down beside it
    assert waits[2048] > 0.5


def test_ring_attention_is_a_recipe_of_programs_that_go_around():
    plan = Plan(decoder.training_step(replace(TINY, ring=4)), "data:2 context:4", "batch:data").recipe("ring_attention")
    assert str(plan.layout) == "batch:data; seq:context"
    kinds = {each.kind for each in plan.report().collectives if "context" in each.axes}
    assert kinds == {"collective-permute", "all-reduce"}
    assert find_recipe("ring_attention").edits(Plan(plan.program, "data:2 context:4"))
    with pytest.raises(RecipeError, match="The plan is already ring attention"):
        plan.recipe("ring_attention")


@pytest.mark.parametrize(("ring", "mesh", "message"), [
    (1, "context:4", "Ring attention needs a program with a ring of keys and values; this program's attention reads all of them at once.\n"
     '  Try: build the program with a ring, `build("decoder", ring=8)` · gather them, recipe `context_parallel`.'),
    (4, "context:8", "The ring of this program has 4 devices; mesh axis `context` has 8.\n"
     "  Try: make `context` 4 · build the program with `ring=8`."),
])  # fmt: skip
def test_a_recipe_that_the_program_is_not_made_for_is_refused(ring, mesh, message):
    with pytest.raises(RecipeError) as found:
        Plan(decoder.training_step(replace(TINY, ring=ring)), mesh).recipe("ring_attention")
    assert str(found.value) == message


@pytest.mark.parametrize(("changes", "error", "says"), [
    ({"ring": 3}, DimensionError, r"A ring of 3 blocks holds 6 chunks of a sequence, and 64 positions are no multiple of 6\."),
    ({"ring": 4, "dropout": 0.1}, TraceError, "An attention over a ring has no dropout"),
])  # fmt: skip
def test_what_a_ring_cannot_be_is_refused_with_ways_out(changes, error, says):
    with pytest.raises(error, match=says) as found:
        decoder.training_step(replace(TINY, **changes))
    assert found.value.ways_out
