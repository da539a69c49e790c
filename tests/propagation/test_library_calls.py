"""Routines of numerical libraries: their matrices are gathered, and their batches split where XLA splits them."""

import subprocess
import sys

import jax
import jax.numpy as jnp
import pytest
from jax.lax import linalg

from workbench.public_plan import Plan
from workbench.spmd.compile_to_schedule import read_dumped_program
from workbench.tracing import trace

MATRIX, MATRICES = (16, 16), (64, 16, 16)


def solve_left(a, b):
    return linalg.triangular_solve(a, b, left_side=True, lower=True)


def solve_right(a, b):
    return linalg.triangular_solve(a, b, left_side=False, lower=True)


def cholesky(a):
    return jnp.linalg.cholesky(a)


def log_determinant(a):
    return jnp.linalg.slogdet(a)[1]


def eigenvalues(a):
    return jnp.linalg.eigh(a)[0]


def least_squares(a, b):
    return jnp.linalg.lstsq(a, b)[0]


def whitened(x):
    """Batches of samples, decorrelated."""
    covariance = jnp.einsum("bsd,bse->bde", x, x) + jnp.eye(x.shape[-1])
    return jnp.swapaxes(solve_left(cholesky(covariance), jnp.swapaxes(x, 1, 2)), 1, 2)


def of_library(x):
    return jnp.sin(jax.ffi.ffi_call("foreign", jax.ShapeDtypeStruct(x.shape, x.dtype))(jnp.cos(x)))


ANYWHERE = [
    (solve_left, (MATRICES, (64, 16, 8)), "a=[d, -, -]; b=[d, -, -]"),
    (solve_left, (MATRIX, (16, 64)), "b=[-, d]"),
    (solve_right, (MATRIX, (64, 16)), "b=[d, -]"),
    (cholesky, (MATRICES,), "a=[d, -, -]"),
    (jnp.linalg.solve, (MATRICES, (64, 16, 4)), "a=[d, -, -]; b=[d, -, -]"),
    (jnp.linalg.inv, (MATRICES,), "a=[d, -, -]"),
    (log_determinant, (MATRICES,), "a=[d, -, -]"),
    (eigenvalues, (MATRICES,), "a=[d, -, -]"),
    (whitened, ((16, 32, 8),), "x=[d, -, -]"),
    (of_library, ((32, 16),), "x=[-, d]"),
]
ON_HOSTS = [
    (solve_left, ((4, 16, 16), (4, 16, 64)), "b=[-, -, d]"),
    (solve_left, (MATRIX, (16, 64)), "b=[d, -]"),
    (cholesky, ((64, 64),), "a=[d, -]"),
    (eigenvalues, ((64, 64),), "a=[d, -]"),
    (least_squares, ((64, 8), (64, 4)), "a=[d, -]; b=[d, -]"),
]


def plan_of(function, shapes, layout, hardware=None):
    return Plan(trace(function, *(jax.ShapeDtypeStruct(shape, "float32") for shape in shapes)), "d:8", layout, hardware=hardware)


@pytest.mark.parametrize(
    ("hardware", "function", "shapes", "layout"),
    [*((None, *case) for case in (*ANYWHERE, *ON_HOSTS)), *(("TPU v5e 2x4", *case) for case in ANYWHERE)],
)
def test_what_is_sent_is_what_xlas_partitioner_sends(hardware, function, shapes, layout):
    plan = plan_of(function, shapes, layout, hardware)
    planned, partitioned = plan.report(), plan.report("partitioned")
    assert planned.by_axis_and_kind == partitioned.by_axis_and_kind
    if hardware is None:
        assert planned.peak == pytest.approx(partitioned.peak, rel=0.05)


def test_a_program_whose_code_libtpu_cannot_generate_is_answered_when_its_process_is_late_to_end(tmp_path):
    late = f"""
from pathlib import Path
from workbench.engine.partitioner import libtpu_process
from workbench.spmd import compile_to_schedule
from tests.propagation.test_library_calls import of_library, plan_of

compile_to_schedule._POLL_SECONDS = 1000
plan = plan_of(of_library, [(32, 16)], "x=[-, d]", "TPU v5e 2x4")
libtpu_process._compile(plan, plan.hardware, Path({str(tmp_path)!r}))
"""
    subprocess.run([sys.executable, "-c", late], check=True, timeout=300)
    assert not (tmp_path / "refused").exists()
    assert b"foreign" in read_dumped_program(tmp_path)


def test_a_batch_that_a_tpu_does_not_split_is_noted():
    report = plan_of(eigenvalues, (MATRICES,), "a=[d, -, -]", "TPU v5e 2x4").report()
    (note,) = (each for each in report.notes if each.kind == "not partitioned")
    assert note.message.startswith("XLA does not partition a `eigh` along its batch")
    assert not plan_of(eigenvalues, (MATRICES,), "a=[d, -, -]").report().notes
