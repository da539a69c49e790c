"""A hand-written kernel is one kernel for each call, forward and backward, whatever is computed between its parts."""

import jax
import jax.numpy as jnp
import pytest

from tests.support.residual_bytes import count_residual_bytes
from workbench.propagation.prepared_program import structure_of
from workbench.public_plan import Plan
from workbench.tracing import fused_kernel, trace

S = jax.ShapeDtypeStruct
SEQ, HEADS, WIDTH = 512, 4, 32
D_MODEL = HEADS * WIDTH
ARRAY = 4 * SEQ * D_MODEL  # bytes of a query, of a key with as many heads, of a layer's input
CHIPS = ("1 H100", "TPU v5p 1x1x1")


def rotate(x):
    half = WIDTH // 2
    angles = jnp.arange(SEQ)[:, None] * 1e4 ** (-jnp.arange(half) / half)
    cos, sin = jnp.cos(angles)[None, :, None], jnp.sin(angles)[None, :, None]
    return jnp.concatenate([x[..., :half] * cos - x[..., half:] * sin, x[..., half:] * cos + x[..., :half] * sin], -1)


def attend(query, key, value):
    scores = jnp.einsum("bshk,bthk->bhst", query, key) * WIDTH**-0.5
    shares = jax.nn.softmax(jnp.where(jnp.tril(jnp.ones((SEQ, SEQ), bool)), scores, -1e9), axis=-1)
    return jnp.einsum("bhst,bthk->bshk", shares, value)


def layer(x, w):
    """As in any Llama: queries, keys and values from three products; keys and values may have fewer heads."""
    query, key, value = (jnp.einsum("bsd,dhk->bshk", x, w[name]) for name in ("wq", "wk", "wv"))
    query, key = rotate(query), rotate(key)
    key, value = (jnp.repeat(each, HEADS // each.shape[2], axis=2) for each in (key, value))
    with fused_kernel("flash_attention", work=0.5):
        mixed = jax.checkpoint(attend)(query, key, value)
    return x + jnp.einsum("bshk,hkd->bsd", mixed, w["wo"])


def program(layers=1, *, kv_heads=HEADS, scanned=False, remat=False, layer=layer):
    one = jax.checkpoint(layer) if remat else layer

    def loss(weights, x):
        if scanned:
            x, _ = jax.lax.scan(lambda x, w: (one(x, w), None), x, weights)
        else:
            for w in weights:
                x = one(x, w)
        return jnp.mean(x * x)

    shapes = {"wq": (D_MODEL, HEADS, WIDTH), "wo": (HEADS, WIDTH, D_MODEL)}
    shapes |= dict.fromkeys(("wk", "wv"), (D_MODEL, kv_heads, WIDTH))
    stacked = (layers,) if scanned else ()
    weights = {name: S((*stacked, *shape), "float32") for name, shape in shapes.items()}
    return trace(jax.value_and_grad(loss), weights if scanned else [weights] * layers, S((1, SEQ, D_MODEL), "float32"))


def square_arrays(traced):
    """Paths of the values of sequence times sequence that take memory."""
    structure = structure_of(traced)
    return [
        traced.operations[value.maker].path
        for value in structure.values
        if value.stored and value.alias is None and value.maker >= 0 and value.shape[-2:] == (SEQ, SEQ)
    ]


VARIANTS = {
    "one layer": {},
    "grouped queries": {"kv_heads": 1},
    "two layers of one scope": {"layers": 2},
    "layer under checkpoint": {"remat": True},
    "scanned": {"layers": 3, "scanned": True},
    "scanned under checkpoint": {"layers": 3, "scanned": True, "remat": True},
}


@pytest.mark.compile
@pytest.mark.parametrize("chip", CHIPS)
@pytest.mark.parametrize("variant", VARIANTS)
def test_nothing_of_sequence_times_sequence_is_stored_or_moved(variant, chip):
    traced = program(**VARIANTS[variant])
    assert square_arrays(traced) == []
    report = Plan(traced, "x:1", hardware=chip).report()
    square = 4 * SEQ * SEQ
    assert all(each.bytes < 8 * ARRAY for each in report.kernel_costs if "flash_attention" in each.path)
    assert report.memory.working < plain_working(variant, chip) - HEADS * square


def plain_working(variant, chip):
    def plain(x, w):
        with pytest.MonkeyPatch.context() as patch:
            patch.setitem(globals(), "fused_kernel", lambda name, **_: jax.named_scope(name))
            return layer(x, w)

    return Plan(program(**VARIANTS[variant], layer=plain), "x:1", hardware=chip).report().memory.working


@pytest.mark.compile
@pytest.mark.parametrize("chip", CHIPS)
@pytest.mark.parametrize(
    ("variant", "kernels"),
    [
        ("one layer", {"flash_attention": 1, "grad": 1}),
        ("grouped queries", {"flash_attention": 1, "grad": 1}),
        ("two layers of one scope", {"flash_attention": 2, "grad": 2}),
        ("layer under checkpoint", {"flash_attention": 1, "grad": 2}),  # the attention again, and its gradient
        ("scanned", {"flash_attention": 3, "grad": 3}),
        ("scanned under checkpoint", {"flash_attention": 3, "grad": 6}),
    ],
)
def test_a_call_is_one_kernel_forward_and_one_backward(variant, kernels, chip):
    found = Plan(program(**VARIANTS[variant]), "x:1", hardware=chip).report().kernel_costs
    mine = [each for each in found if "flash_attention" in each.path and each.flops]
    assert {start: sum(each.count for each in mine if each.path.startswith(start)) for start in kernels} == kernels
    assert not [each.path for each in found if "flash_attention" in each.path and not each.flops and each.bytes > 4]


def test_a_kernel_reads_what_it_is_given_and_writes_what_it_returns():
    found = [each for each in Plan(program(remat=True), "x:1", hardware="1 H100").report().kernel_costs if "flash_attention" in each.path]
    # The query, key and value, turned outside, and the result: forward, and again backward. Then three gradients of the result's.
    assert sorted(each.bytes for each in found) == [4 * ARRAY, 4 * ARRAY, 7 * ARRAY]


def test_residuals_are_what_the_kernel_reads_and_returns():
    kept = count_residual_bytes(Plan(program(), "x:1"))
    assert 4 * ARRAY <= kept < 4 * ARRAY + 64  # query, key, value and the mixed values, for wo; and the loss's scalars
    assert count_residual_bytes(Plan(program(remat=True), "x:1")) < ARRAY + 64  # the layer's result, for the loss


def blocks(count, block):
    def loss(w, x):
        for _ in range(count):
            x = block(x, w)
        return jnp.sum(x)

    return trace(jax.value_and_grad(loss), S((64, 64), "float32"), S((256, 64), "float32"))


def kernel_of(traced, scope):
    """For each kernel of a scope, the places of its operations in the program as traced."""
    found = {}
    for op in structure_of(traced).ops:
        if op.custom_kernel.partition("#")[0] == scope:
            found.setdefault(op.custom_kernel, []).append(op.position)
    return list(found.values())


def norm(x):
    with fused_kernel("norm"):
        return jax.checkpoint(lambda x: x * jax.lax.rsqrt(jnp.mean(x * x, -1, keepdims=True)))(x)


def test_what_runs_in_between_separates_two_kernels_without_a_product():
    traced = blocks(3, lambda x, w: jnp.tanh(norm(x)) * w[0] + x)
    assert len(kernel_of(traced, "norm")) == 3
    assert len(kernel_of(traced, "grad/norm")) == 2  # no one asks for the gradient of the first one's argument


def test_parts_that_wait_for_what_others_make_of_the_kernel_are_two_kernels():
    def both(x, w):
        with fused_kernel("pair"):
            first = jnp.tanh(x)
            second = jnp.sin(x)
        outside = first @ w
        with fused_kernel("pair"):
            return first + jnp.cos(outside) + second

    assert len(kernel_of(trace(both, S((64, 64), "float32"), S((64, 64), "float32")), "pair")) == 2


def test_a_product_between_parts_that_do_not_need_it_does_not_separate_them():
    def apart(x, w):
        with fused_kernel("pair"):
            first = jnp.tanh(x)
        outside = x @ w
        with fused_kernel("pair"):
            second = jnp.sin(first)
        return second + outside

    traced = trace(apart, S((64, 64), "float32"), S((64, 64), "float32"))
    assert len(kernel_of(traced, "pair")) == 1
    structure = structure_of(traced)
    assert not any(value.stored for value in structure.values if value.maker >= 0 and structure.ops[value.maker].kind.endswith("tanh"))


def test_two_kernels_never_wait_for_each_other():
    def crossed(x, y):
        with fused_kernel("left"):
            a = jnp.tanh(x)
        with fused_kernel("right"):
            b = jnp.sin(a)
            c = jnp.tanh(y)
        with fused_kernel("left"):
            d = jnp.cos(c) + a
        return b, d

    traced = trace(crossed, S((64, 64), "float32"), S((64, 64), "float32"))
    assert (len(kernel_of(traced, "left")), len(kernel_of(traced, "right"))) in {(2, 1), (1, 2)}
    assert_order_is_possible(structure_of(traced))


@pytest.mark.compile
@pytest.mark.parametrize("variant", VARIANTS)
def test_every_operation_stands_behind_what_it_reads_and_a_kernel_in_one_place(variant):
    assert_order_is_possible(structure_of(program(**VARIANTS[variant])))


def assert_order_is_possible(structure):
    assert sorted(structure.order) == list(range(len(structure.ops)))
    place = {index: number for number, index in enumerate(structure.order)}
    for index, op in enumerate(structure.ops):
        makers = (structure.values[each].maker for each in op.operands)
        assert all(place[maker] < place[index] for maker in makers if maker >= 0)
    ended, last = set(), ""
    for op in (structure.ops[index] for index in structure.order):
        if op.custom_kernel != last:
            assert op.custom_kernel not in ended
            ended.add(last)
            last = op.custom_kernel
        ended.discard("")


def test_a_mask_made_in_the_kernel_is_no_value_of_its_own_and_joins_no_layers():
    def masked(x, mask=None):
        for _ in range(2):
            with fused_kernel("masked"):
                mask = jnp.tril(jnp.ones((SEQ, SEQ), bool)) if mask is None else mask
                x = jnp.where(mask, x, 0.0)
            x = x @ x
        return x

    traced = trace(masked, S((SEQ, SEQ), "float32"))
    assert len(kernel_of(traced, "masked")) == 2
    assert Plan(traced, "x:1", hardware="1 H100").report().traffic == 8 * 4 * SEQ * SEQ  # two kernels of two arrays, two products' reads


def test_a_mask_that_jax_moves_out_of_a_loop_is_still_made_in_the_kernel():
    structure = structure_of(program(layers=3, scanned=True))
    hoisted = [structure.values[each] for each in structure.kernel_constants]
    assert any(value.shape[-2:] == (SEQ, SEQ) for value in hoisted)
    assert not any(value.stored for value in hoisted)


def test_a_table_that_a_kernel_computes_for_others_is_stored():
    def table(x):
        with fused_kernel("table"):
            angles = jnp.cos(jnp.arange(64.0)[:, None] * jnp.arange(64.0)[None, :])
        return angles @ x, angles

    assert len(kernel_of(trace(table, S((64, 64), "float32")), "table")) == 1
    assert Plan(trace(table, S((64, 64), "float32")), "x:1").report().memory.peak >= 3 * 4 * 64 * 64
