"""Which dots are multiplied piece by piece, against what libtpu 0.0.42.1 compiles; and what that does to a step."""

from collections import Counter
from dataclasses import replace
from functools import cache
from math import prod

import jax
import jax.numpy as jnp
import pytest

from tests.engine.test_compile import needs_libtpu
from workbench.core.tensor import itemsize
from workbench.cost.estimate import estimate
from workbench.cost.fusion.fuse_operations import kernels_of
from workbench.cost.simulate_overlap import Send, simulate
from workbench.cost.windowed_dots import dot_of, plan_windowed_dots
from workbench.hardware.catalogue import parse_hardware
from workbench.models.decoder import decoder
from workbench.models.decoder.decoder_config import PRESETS
from workbench.models.decoder.decoder_layouts import sequence_parallel
from workbench.propagation import local_shape, partition, structure_of
from workbench.public_plan import Plan
from workbench.tracing import trace

HALF = jnp.bfloat16
S = jax.ShapeDtypeStruct
COMPILED = {
    **dict.fromkeys((f"{each}/dot_general" for each in ("layers/attention/output", "layers/mlp/down")), ("model/reduce-scatter",)),
    **dict.fromkeys((f"{each}/dot_general" for each in ("layers/attention/query_key_value", "layers/mlp/up")), ("fsdp/all-gather",)),
    "grad/head/dot_general": ("fsdp/reduce-scatter",),
    "grad/layers/mlp/down/dot_general": ("fsdp/all-gather", "fsdp/reduce-scatter"),
    **dict.fromkeys(
        (f"grad/layers/{each}/dot_general" for each in ("attention/output", "attention/query_key_value", "mlp/up")),
        ("fsdp/reduce-scatter", "model/reduce-scatter"),
    ),
}
"""By the path of a dot: the windowed einsums of its scope that libtpu compiled of two layers of `maxtext-128b`, on TPU v5e 16x16 and
TPU v5p 4x8x8 alike."""


@cache
def two_layers():
    return decoder.training_step(replace(PRESETS["maxtext-128b"], layers=2))


def two_layers_on(hardware):
    layout = "batch:fsdp; d_model:fsdp; @embedding/stream/reduce_precision=[fsdp, ?, ?]; kv_heads:model; d_ff:model; vocab:model; "
    layout += sequence_parallel(batch="fsdp")
    return Plan(two_layers(), "fsdp:16 model:16", layout, hardware=parse_hardware(hardware))


def windows(plan):
    """The windowed collectives of a plan."""
    found = partition(plan, plan.hardware)
    kernels = kernels_of(structure_of(plan.program), recomputes=True)
    placed = zip(found.structure.values, found.dims, strict=True)
    local_bytes = [itemsize(str(value.dtype)) * prod(local_shape(value.shape, dims or (), plan.mesh)) for value, dims in placed]
    return [found.reshards[place] for place in plan_windowed_dots(kernels, found, local_bytes, plan.mesh, plan.hardware.chip)]


def multiply(x, w):
    return jnp.einsum("bsk,kn->bsn", x, w)


def multiplied(seq, mesh, layout, hardware="TPU v5e 2x4"):
    program = trace(multiply, S((8, seq, 1024), HALF), S((1024, 1024), HALF), dims={"x": "b s k", "w": "k n"})
    return Plan(program, mesh, layout, hardware=parse_hardware(hardware))


CASES = [  # (tokens of a sequence, mesh, layout, hardware, whether libtpu makes a windowed einsum of it)
    (1024, "f:4 m:2", "b:f; w=[f, m]", "TPU v5e 2x4", True),
    (256, "f:4 m:2", "b:f; w=[f, m]", "TPU v5e 2x4", False),  # too little to compute
    (1024, "f:4 m:2", "b:f; w=[f, m]", "TPU v6e 2x4", False),  # for a chip as fast as this
    (1024, "f:4 m:2", "b:f; w=[f, m]", "TPU v3 2x2", False),
    (4096, "f:4 m:2", "b:f; w=[f, -]", "TPU v5e 2x4", False),  # an axis that only replicates
    (4096, "d:2 f:4", "b:d+f; w=[f, -]", "TPU v5e 2x4", False),  # replicas of weights that are split among fewer devices
    (4096, "f:4 m:2", "b:f; w=[-, m+f]", "TPU v5e 2x4", False),  # gathered along its columns beside another axis
    (1024, "f:8", "b:f; w=[-, f]", "TPU v5e 2x4", True),  # and alone
    (256, "f:8", "b:f; w=[-, f]", "TPU v5e 2x4", False),
]
IN_EVERY_RUN = 3


@pytest.mark.parametrize("hardware", ["TPU v5e 16x16", "TPU v5p 4x8x8"])
def test_the_windowed_einsums_of_a_layer_are_those_that_libtpu_compiled(hardware):
    plan = two_layers_on(hardware)
    found = {}
    for each in windows(plan):
        found.setdefault(plan.program.operations[dot_of(each)].path, []).append(f"{'+'.join(each.axes)}/{each.kind}")
    assert {path: tuple(sorted(names)) for path, names in found.items()} == COMPILED


@pytest.mark.parametrize("case", CASES, ids=lambda case: " ".join(map(str, case[:4])))
def test_a_windowed_einsum_is_planned_where_libtpu_makes_one(case):
    *given, is_windowed = case
    assert bool(windows(multiplied(*given))) == is_windowed


@needs_libtpu
@pytest.mark.compile
@pytest.mark.parametrize(
    "case",
    [pytest.param(case, marks=[pytest.mark.nightly] * (number >= IN_EVERY_RUN)) for number, case in enumerate(CASES)],
    ids=lambda case: " ".join(map(str, case[:4])),
)
def test_libtpu_makes_a_windowed_einsum_where_one_is_planned(case):
    *given, is_windowed = case
    compiled = multiplied(*given).compile(keep=False)
    assert any(each.part_of for each in compiled.collectives) == is_windowed


def test_the_sum_of_the_pieces_passes_beside_the_dots():
    """A layer of maxtext-128b gathers its weights along what is summed, and is as fast as its dots all the same."""
    found = estimate(two_layers_on("TPU v5e 16x16"))
    ups = [each.kernel for each in found.kernels.dots if found.plan.program.operations[each.op].path == "layers/mlp/up/dot_general"]
    assert ups
    assert all(found.times.dots[each] > found.times.memory[each] for each in ups)


def test_what_blocks_goes_before_what_runs_beside_the_next_kernel():
    """The sum of a norm's gradient does not wait for a reduce-scatter that the next dot hides."""
    beside, blocking = Send(1, 2, 2.0, ("model",), overlaps=True), Send(1, 1, 0.5, ("model",), overlaps=False)
    step = simulate([1.0, 2.0, 1.0], [beside, blocking])
    assert (step.seconds, step.waits) == (4.5, (0.0, 0.5))


def test_a_dot_runs_before_what_reads_it_though_its_result_is_kept_at_the_end_of_the_iteration():
    found = estimate(two_layers_on("TPU v5e 16x16"))
    paths = {found.plan.program.operations[each.op].path: each.kernel for each in found.kernels.dots}
    output, up = paths["layers/attention/output/dot_general"], paths["layers/mlp/up/dot_general"]
    region = found.simulated.regions[found.kernels.regions[up]]
    assert region.places[output] < region.places[up]


def test_a_windowed_reduce_scatter_hides_behind_its_own_dot():
    found = estimate(two_layers_on("TPU v5e 16x16"))
    operations, reshards = found.plan.program.operations, found.partitioned.reshards
    waits = Counter()
    for turn, numbers in zip(found.simulated.turns, found.simulated.reshards, strict=True):
        for wait, number in zip(turn.waits, numbers, strict=True):
            if reshards[number].kind == "reduce-scatter":
                waits[operations[reshards[number].sender].path] += wait
    assert waits["layers/mlp/down/dot_general"] == 0
