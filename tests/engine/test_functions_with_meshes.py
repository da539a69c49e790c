"""Programs whose functions refer to device meshes run in a worker process and are compared with themselves unsharded."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[1] / "support" / "meshes_in_functions.py"
WRITTEN = "x=[data, -]; w=[-, model]"


def errors_and_layouts(*names):
    ran = subprocess.run([sys.executable, "-P", str(SCRIPT), *names], check=False, capture_output=True, text=True, timeout=900)
    assert ran.returncode == 0, ran.stderr[-4000:]
    return json.loads(ran.stdout.splitlines()[-1])


def is_right(found):
    return {name: error for name, (error, _) in found.items() if error is None or error > 1e-5} == {}


@pytest.mark.compile
def test_a_mapped_function_and_one_over_explicit_axes_run_over_the_workers_devices():
    found = errors_and_layouts("mapped", "with_output_sharding, explicit")
    assert is_right(found)
    assert found["mapped: None"][1] == WRITTEN
    assert found["with_output_sharding, explicit: None"][1] == WRITTEN
    assert found["mapped: row:data"][1] == "row:data"


@pytest.mark.nightly
@pytest.mark.compile
def test_all_styles_run():
    found = errors_and_layouts()
    assert len(found) == 22
    assert is_right(found)
