"""The tasks of newcomers, each in at most so many actions: `benchmarks/first_minutes.py`."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]


@pytest.mark.nightly
@pytest.mark.browser
def test_each_quick_task_is_done_in_its_actions():
    command = [sys.executable, "benchmarks/first_minutes.py", "--quick", "--json"]
    done = subprocess.run(
        command, cwd=ROOT, env={**os.environ, "PYTHONPATH": str(ROOT)}, capture_output=True, text=True, timeout=900, check=False
    )
    record = json.loads(done.stdout)
    assert [each for each in record["tasks"] if each["problem"]] == []
    assert record["of"] == 10
