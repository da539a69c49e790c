"""Remat for a part of the layers: what is planned of a loop whose iterations run several layers is what is compiled."""

import functools

import numpy as np
import pytest

from tests.support.unsharded import unsharded, zoo_program
from workbench.analysis.tier_comparison import compare_collectives
from workbench.core.program import Program
from workbench.core.remat import Remat
from workbench.engine.spmd.compiled_step import compile_step
from workbench.engine.spmd.device_mesh import host_value, put_sharded
from workbench.models.registry import ALL_MODELS
from workbench.public_plan import Plan
from workbench.spmd.ask_partitioner import ask_partitioner

pytestmark = pytest.mark.compile

TEXTS = ("none", "full layers:1/2", "full")
LAYOUTS = ALL_MODELS[-1].layouts


@functools.cache
def program(text: str) -> Program:
    return zoo_program("gpt", ()).variant(remat=Remat.parse(text))


@pytest.mark.share(3)
@pytest.mark.parametrize(("mesh", "layout"), LAYOUTS, ids=[f"{mesh} | {layout}" for mesh, layout in LAYOUTS])
def test_the_partitioned_program_sends_the_bytes_the_plan_says(mesh, layout):
    plan = Plan(program("full layers:1/2"), mesh, layout)
    rows = compare_collectives(plan.report(), ask_partitioner(plan, "cpu").by_axis_and_kind)
    assert [row for row in rows if not row.agrees] == []


@functools.cache
def compiled_temporaries(text: str) -> int:
    """Bytes that the compiler of this machine takes beside arguments and results."""
    return compile_step(Plan(program(text), "all:1")).compiled.memory_analysis().temp_size_in_bytes


def test_less_is_compiled_to_be_kept_where_more_layers_are_recomputed():
    found = [compiled_temporaries(text) for text in TEXTS]
    assert found == sorted(found, reverse=True)
    peaks = [Plan(program(text), "all:1").report().memory.peak for text in TEXTS]
    assert peaks == sorted(peaks, reverse=True)
    assert peaks == pytest.approx(found, rel=0.15)


def test_a_sharded_step_is_the_unsharded_one():
    mesh, layout = LAYOUTS[6]
    step, reference = compile_step(Plan(program("full layers:1/2"), mesh, layout)), unsharded("gpt", ())
    held = [put_sharded(np.array(reference.arguments[i]), sharding) for i, sharding in enumerate(step.shardings)]
    loss = step.plan.program.step.loss
    results = step.advance(held, None)
    np.testing.assert_allclose(host_value(results[loss]), reference.results[loss], rtol=2e-5)
    for place, tensor in enumerate(step.plan.program.results):
        if tensor.role == "parameter":
            slack = 5e-3 * max(np.abs(reference.results[place]).max(initial=0), 1e-6)
            np.testing.assert_allclose(host_value(results[place]), reference.results[place], rtol=2e-4, atol=slack, err_msg=str(tensor))
