"""The attacks of `benchmarks/team_attacks.py` on a server as it runs at home; the other tests of this folder try its other parts."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[2] / "benchmarks" / "team_attacks.py"


@pytest.mark.compile
def test_no_attack_on_a_server_without_a_sandbox_succeeds():
    command = [sys.executable, str(SCRIPT), "--quick", "--json", "--only", "server"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=600, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert json.loads(done.stdout.splitlines()[-1])["succeeded"] == 0
