"""What the Ultra-Scale Playbook says that a device holds, from plans of the same models.

Source: nanotron/ultrascale-playbook (Apache-2.0), the figures' own data as packed by vinjn/nanotron-ultrascale-playbook@924e4d0,
`assets/data/benchmarks`: `zero3_memoryusage`, `memusage_activations`, `memory-recomputation`, `tp_memoryusage`, `tp_sp_memoryusage`,
`cp_8Bmemoryusage`, `pp_memoryusage`. It writes GB and means GiB: 131.5 for the parameters of 70B in 16 bits.
"""

from functools import cache

import pytest

import workbench as wb
from tests.support.megatron_layer import SEQUENCE_PARALLEL, SPLIT_HEADS, megatron_layers
from tests.support.mixed_precision import local_bytes, mixed_precision_step
from tests.support.residual_bytes import count_residual_bytes
from workbench.core.tensor import Role
from workbench.models import build
from workbench.models.decoder import decoder_stage
from workbench.models.registry import choose_config
from workbench.reports.report import Report

GIB = 2**30
LAYERS = {4096: 32, 8192: 80}
HEADS = {4096: 32, 8192: 64}
KEY = 16
"""Bytes of a layer's random key, by which its masks are drawn again: kept, and not counted by the source."""
MEMORY = {0: (15, 15, 60), 1: (15, 15, 7.5), 2: (15, 1.875, 7.5), 3: (1.875, 1.875, 7.5)}
"""GiB of parameters, gradients, optimizer state by the stage of ZeRO: 8B over 8 devices. The source rounds 8.03e9 parameters to 8.05e9."""


def _sharded(program: wb.Program, stage: int) -> Report:
    plan = wb.Plan(program, "data:8").recipe("data_parallel")
    return (plan.recipe(f"zero_{stage}") if stage else plan).report()


@pytest.mark.parametrize("stage", MEMORY)
def test_parameters_and_optimiser_state_of_8b_under_zero(stage):
    parameters, _, state = MEMORY[stage]
    report = _sharded(mixed_precision_step("llama3-8b", 8, 1024), stage)
    assert local_bytes(report, Role.PARAMETER) / GIB == pytest.approx(parameters, rel=0.003)
    assert local_bytes(report, Role.OPTIMIZER_STATE) / GIB == pytest.approx(state, rel=0.003)


@pytest.mark.parametrize("stage", [0, 2, 3])
def test_gradients_of_8b_under_zero(stage):
    """The most that are held at one time over the step."""
    held = max(_sharded(_with_small_moments(), stage).memory_curve.by_role[Role.GRADIENT])
    assert held / GIB == pytest.approx(MEMORY[stage][1], rel=0.003)


@cache
def _with_small_moments() -> wb.Program:
    """No copies of gradients in float32 beside them."""
    return build("decoder", preset="llama3-8b", batch=8, seq=1024)


def test_zero_1_holds_all_gradients_where_they_are_summed_over_micro_batches():
    """Stage 1: 15, as stage 0. So it is at the end of several micro-batches: each replica comes to the update with a sum of its own. In a
    step of one batch the compiler reduces and scatters each gradient as soon as it is made, and stage 1 holds as few as stage 2."""
    config = choose_config("decoder", preset="llama3-8b", batch=1, seq=1024)
    update = decoder_stage.update(config, replicas=8, scan=True, accumulate="bfloat16")
    arguments = wb.Plan(update, "data:8", "replica:data").report().arguments
    summed = sum(each.local_bytes for each in arguments if each.tensor.path.startswith("gradients/"))
    assert summed / GIB == pytest.approx(MEMORY[1][1], rel=0.003)
    held = [max(_sharded(_with_small_moments(), stage).memory_curve.by_role[Role.GRADIENT]) for stage in (1, 2)]
    assert held[0] == held[1]


@pytest.mark.compile
@pytest.mark.parametrize(
    ("mesh", "layout", "parameters"),
    [
        ("head:1", "d_ff:head", 131.5),
        ("head:8", "kv_heads:head; d_ff:head; vocab:head", 16.4375),
        ("head:8 half:2", "kv_heads:head; d_head:half; d_ff:head+half; vocab:head+half", 8.21875),
    ],
)
def test_parameters_of_70b_under_tensor_parallelism(mesh, layout, parameters):
    """TP 1, 8 and 16; it has 8 heads of keys and values, and 16 devices share each head by two."""
    program = build("decoder", preset="llama3-70b", batch=1, seq=1024)
    assert local_bytes(wb.Plan(program, mesh, layout).report(), Role.PARAMETER) / GIB == pytest.approx(parameters, rel=0.003)


def activations(width: int, seq: int, mesh: str = "model:1", layout: str = SPLIT_HEADS, *, selective: bool = True) -> float:
    """GiB that all layers keep on one device: as many times what one layer more keeps."""
    kept = [
        count_residual_bytes(wb.Plan(megatron_layers(layers, seq, width, HEADS[width], selective=selective), mesh, layout))
        for layers in (1, 2)
    ]
    return (kept[1] - kept[0] - (KEY if selective else 0)) * LAYERS[width] / GIB


@pytest.mark.compile
@pytest.mark.parametrize(
    ("width", "seq", "kept"),
    [(4096, 1024, 4.25), (4096, 2048, 8.5), (4096, 4096, 17), (4096, 8192, 34), (4096, 16384, 68), (8192, 1024, 21.25)],
)
def test_activations_with_selective_recomputation(width, seq, kept):
    """34 s b h L bytes, exactly."""
    assert activations(width, seq) == kept == 34 * seq * width * LAYERS[width] / GIB


@pytest.mark.compile
@pytest.mark.parametrize(("seq", "kept"), [(1024, 9.25), (2048, 28.5), (4096, 97), (8192, 354)])
def test_activations_without_recomputation(seq, kept):
    """(34 s b h + 5 a s s b) L bytes, exactly."""
    assert activations(4096, seq, selective=False) == kept == (34 * seq * 4096 + 5 * 32 * seq**2) * 32 / GIB


@pytest.mark.compile
@pytest.mark.parametrize(("split", "kept", "sequence_parallel"), [(8, 8.125, 2.65625), (16, 7.1875, 1.328125)])
def test_activations_of_70b_under_tensor_parallelism(split, kept, sequence_parallel):
    """(10 + 24 / t) s b h L bytes, and 34 / t with the sequence split where no product is made."""
    assert activations(8192, 1024, f"model:{split}") == kept
    assert activations(8192, 1024, f"model:{split}", SEQUENCE_PARALLEL) == sequence_parallel


def test_activations_of_8b_under_tensor_and_context_parallelism():
    """TP 2 and CP 4 at 131,072 tokens: 88."""
    assert activations(4096, 131_072, "context:4 model:2", f"seq:context; {SPLIT_HEADS}") == 88


@pytest.mark.compile
def test_a_pipeline_splits_parameters_and_no_activations():
    """8B on 8 stages at 1k: parameters 2.604 on the first, which has the embedding, instead of 15; activations 4.25, as without: the first
    stage keeps an eighth of the layers of eight micro-batches."""
    plan = wb.Plan(
        mixed_precision_step("llama3-8b", 8, 1024), "stage:8 data:1", pipeline="stages:8 micro_batches:8 schedule:1f1b remat:never"
    )
    report = plan.report()
    assert local_bytes(report.stages[0], Role.PARAMETER) / GIB == pytest.approx(2.604, abs=0.0005)
    simulated = report.pipeline.simulated
    kept = simulated.costs[0].residuals * simulated.in_flight(0)
    assert kept / GIB == pytest.approx(4.25, rel=1e-4)
