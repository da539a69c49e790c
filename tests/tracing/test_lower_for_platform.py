"""A program is lowered for the platform of the plan's hardware, where JAX lowers one of its primitives differently."""

import jax
import jax.numpy as jnp
import jax.scipy.linalg
import pytest

from workbench.models import build
from workbench.public_plan import Plan
from workbench.tracing import trace

MATRICES = jax.ShapeDtypeStruct((16, 8, 8), "float32")


def whiten(x):
    values, vectors = jnp.linalg.eigh(x @ x.mT)
    return (vectors / jnp.sqrt(values)[:, None]) @ vectors.mT @ x


def solve(x):
    return jnp.linalg.solve(x, jnp.ones_like(x)) + jnp.linalg.det(x)[:, None, None]


def spectrum(x):
    return jnp.linalg.svd(x, compute_uv=False) + jnp.abs(jnp.linalg.eig(x)[0])


def plan(fn, hardware=None):
    return Plan(trace(fn, MATRICES, dims={"x": "row i j"}), "data:8", "row:data", hardware=hardware)


@pytest.mark.parametrize("hardware", [None, "8 H100"])
@pytest.mark.parametrize("fn", [whiten, solve, spectrum])
def test_matrices_of_a_sharded_batch_send_nothing(fn, hardware):
    one = plan(fn, hardware)
    for tier in ("planned", "partitioned"):
        report = one.report(tier)
        assert report.collectives == ()
        assert "no sharding rule" not in {each.kind for each in report.notes}


def test_other_hardware_lowers_again_and_going_back_finds_the_first():
    first = plan(whiten)
    tpu = first.updated(hardware="TPU v5e 2x4")
    assert [each.program.platform for each in (first, tpu, tpu.updated(hardware="8 H100"))] == ["cpu", "tpu", "cuda"]
    assert tpu.updated(hardware=None) == first
    assert tpu.program.arguments == first.program.arguments


def test_a_program_of_other_primitives_is_lowered_once():
    program = build("two_layer")
    assert Plan(program, "cols:8", hardware="8 H100").program is program


def test_a_primitive_that_the_hardware_has_not_is_named():
    root = plan(lambda x: jax.scipy.linalg.sqrtm(x[0]), "8 H100").report()
    (note,) = (each for each in root.notes if each.kind == "no lowering")
    assert note.message == (
        "JAX cannot lower `schur` (in `_sqrtm/_schur/schur`) for NVIDIA GPUs, and there the program does not compile: it is planned as "
        "lowered for CPUs. Try: plan for CPUs, or compute it by other functions."
    )
    assert "no lowering" not in {each.kind for each in plan(lambda x: jax.scipy.linalg.sqrtm(x[0])).report().notes}
