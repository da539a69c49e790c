"""The exported script runs by itself and trains as the unsharded step does."""

import os
import re
import subprocess
import sys
from pathlib import Path

import jax
import numpy as np
import pytest

from workbench.core.precision import Precision
from workbench.core.program import Program, Reference
from workbench.core.remat import Remat
from workbench.documents import export_script, program_from_reference
from workbench.public_plan import Plan

pytestmark = [pytest.mark.compile, pytest.mark.worker]

ROOT = Path(__file__).parents[2]
SMALL = {"layers": 2, "seq": 16, "batch": 8}


def run(script: str, tmp_path: Path) -> str:
    path = tmp_path / "exported.py"
    path.write_text(script, encoding="utf-8")
    env = {**os.environ, "PYTHONPATH": str(ROOT), "JAX_PLATFORMS": "cpu"}
    done = subprocess.run([sys.executable, str(path)], capture_output=True, text=True, env=env, cwd=tmp_path, timeout=300, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def unsharded_losses(program: Program, steps: int) -> list[float]:
    """The plain way: the same step on one device."""
    step = jax.jit(program.step.call)
    values: list = [None] * len(program.arguments)
    state = jax.jit(program.step.initialize)(jax.random.key(0), tuple(program.step.given))
    for place, array in zip(program.state, state, strict=True):
        values[place] = array
    losses = []
    for number in range(steps):
        for place, array in zip(program.inputs, program.step.feed(number), strict=True):
            values[place] = array
        outputs = step(*values)
        for result, argument in program.carried:
            values[argument] = outputs[result]
        losses.append(float(outputs[program.step.loss]))
    return losses


@pytest.mark.share(3)
@pytest.mark.parametrize(
    ("reference", "mesh", "layout"),
    [
        (Reference("gpt", {**SMALL, "scan": False}), "data:4 model:2", "batch:data; d_ff:model; heads:model; layers/1/mlp/w2=[-, -]"),
        (Reference("gpt", SMALL), "data:2 model:2", "batch:data; d_ff:model; @layers/mlp/up/dot_general=[data, ?, model]"),
        (
            Reference("gpt", SMALL),
            "data:2 model:2",
            "batch:data; d_ff:model p1; heads:model; layers/mlp/w1=[-, ?, model?]; group[params/layers/mlp/w1, params/layers/mlp/w1]; "
            "barrier[@mlp/up/dot_general] allows:forward; @mlp/down/dot_general=[?, ?, -] replicated:model",
        ),
        (Reference("tests.support.importable:regression", {"width": 32}), "data:4 model:2", "batch:data+model; d_ff:data"),
        (Reference("tests.support.importable:regression", {}), "", ""),
    ],
    ids=lambda value: str(value) or "none",
)
def test_the_exported_script_trains_as_the_unsharded_step_does(reference, mesh, layout, tmp_path):
    plan = Plan(program_from_reference(reference), mesh, layout)
    printed = [float(loss) for loss in re.findall(r"loss (\S+)", run(export_script(plan, steps=3), tmp_path))]
    np.testing.assert_allclose(printed, unsharded_losses(plan.program, 3), rtol=2e-4)
    assert printed[-1] < printed[0]


def test_the_exported_script_has_the_remat_and_the_precision_of_the_plan(tmp_path):
    program = program_from_reference(Reference("tests.support.layered:stack", {}))
    program = program.variant(remat=Remat.parse("save:mixed"), precision=Precision.parse("moments=bfloat16"))
    plan = Plan(program, "data:4", "batch:data")
    script = export_script(plan, steps=3)
    assert 'program.variant(remat=Remat.parse("save:mixed"), precision=Precision.parse("moments=bfloat16"))' in script
    printed = [float(loss) for loss in re.findall(r"loss (\S+)", run(script, tmp_path))]
    np.testing.assert_allclose(printed, unsharded_losses(program, 3), rtol=2e-4)


def test_a_function_without_state_and_loss_is_exported_too(tmp_path):
    plan = Plan(program_from_reference(Reference("tests.support.importable:forward", {})), "data:4", "batch:data")
    assert "step 4" in run(plan.export(), tmp_path)


def test_the_script_reads_well(golden):
    plan = Plan(
        program_from_reference(Reference("gpt", {"layers": 2, "scan": False})),
        "data:4 model:2",
        "batch:data; d_ff:model; heads:model; layers/1/mlp/w2=[-, -]; @mlp/up/dot_general=[data, ?, model]",
    )
    golden("gpt_script.py.txt", plan.export().rstrip("\n"))


def test_a_script_of_a_pipelined_plan_says_that_it_runs_without():
    plan = Plan(program_from_reference(Reference("gpt", SMALL)), "stage:2 data:2", "batch:data", pipeline="stages:2 micro_batches:4")
    script = export_script(plan)
    assert "WITHOUT the plan's pipeline, stages:2 micro_batches:4" in script
    compile(script, "exported.py", "exec")
    assert "pipeline" not in export_script(plan.updated(pipeline=None))


def test_a_name_cannot_break_out_of_the_script():
    plan = Plan(program_from_reference(Reference("tests.support.importable:forward", {})), "data:4", name='x"""\nimport os\n"""\\')
    code = compile(plan.export(), "exported", "exec")
    assert "os" not in code.co_names
