"""The best plans of a search in three tiers: what XLA's partitioner and libtpu make of them, and what a tier cannot say."""

import pytest

from workbench.analysis.verify_plan import NOT_ESTIMATED, PIPELINED_REASON, STAGES, Compilers
from workbench.engine import compile_plan, partition_plan
from workbench.models import build
from workbench.public_plan import Plan
from workbench.search.find_plans import find_plans

pytestmark = pytest.mark.compile

COMPILERS = Compilers(partition_plan, compile_plan)


def test_a_plan_for_tpus_has_seconds_and_memory_in_each_tier():
    result = find_plans(Plan(build("two_layer"), "", hardware="TPU v5e 2x2"), within=60, compilers=COMPILERS)
    seen = []
    verified = result.verify(1, seen.append)
    (each,) = verified
    assert seen == [each]
    assert each.title == str(result.front[0][0])
    assert (each.planned.seconds, each.planned.memory) == (result.front[0][1].seconds, result.front[0][1].memory)
    for tier in ("partitioned", "compiled"):
        assert each.tier(tier).compiler.startswith("libtpu")
        assert each.tier(tier).reason == ""
        assert abs(each.difference("seconds", tier)) < 0.3
        assert abs(each.difference("memory", tier)) < 0.1
    assert each.partitioned.seconds == each.plan.report("partitioned").step_time.total
    assert each.compiled.seconds == each.plan.report("compiled").step_time.total
    assert each.peak == each.plan.compile().memory.peak


def test_a_pipeline_stays_planned_and_is_compiled_stage_by_stage():
    plan = Plan(build("gpt", layers=2), "", hardware="TPU v5e 2x2")
    pinned = {"remats": ("none",), "zeros": ("no ZeRO",), "schedules": ("1f1b",), "layouts": ("replicated",)}
    (each,) = find_plans(plan, within=60, pins={"stage": 2, "micro_batches": 4}, compilers=COMPILERS, **pinned).verify(1)
    assert each.plan.pipeline is not None
    assert (each.partitioned.seconds, each.partitioned.memory, each.partitioned.reason) == (None, None, PIPELINED_REASON)
    assert (each.compiled.seconds, each.compiled.reason) == (None, STAGES)
    assert abs(each.difference("memory", "compiled")) < 0.1


def test_what_is_partitioned_and_cannot_be_compiled_here_says_so():
    (each,) = find_plans(Plan(build("two_layer"), "", hardware="4 H100"), within=60, compilers=COMPILERS).verify(1)
    assert each.partitioned.compiler.startswith("XLA of jaxlib")
    assert each.partitioned.seconds == each.plan.report("partitioned").step_time.total
    if each.peak is None:
        assert each.refusal == "Compiling for 4 H100 needs JAX's CUDA plug-in, which is not installed. No GPU is needed."
        assert each.compiled.ways_out == ('pip install -e ".[cuda]" in the checkout (4.4 GB)',)
    else:
        assert each.compiled.reason == NOT_ESTIMATED.format(platform="GPUs")
