"""A container that runc makes with the rights of `compose.yaml`: a sandbox can be made in it. With Docker's defaults none can, and programs
of the team's own are refused."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.deploy_files import compose

USER = 10001
PROBE = "from workbench.team.sandbox.probe_sandbox import probe; print(probe())"
MASKED = ("/proc/acpi", "/proc/kcore", "/proc/keys", "/proc/timer_list", "/sys/firmware")  # of Docker's default profile
READ_ONLY = ("/proc/bus", "/proc/fs", "/proc/irq", "/proc/sys", "/proc/sysrq-trigger")

pytestmark = [
    pytest.mark.compile,
    pytest.mark.skipif(shutil.which("runc") is None or shutil.which("bwrap") is None, reason="runc or bubblewrap is not installed"),
    pytest.mark.skipif(os.geteuid() != 0, reason="to make a container takes root"),
    pytest.mark.skipif(
        any(not each.stat().st_mode & 0o001 for each in Path(sys.executable).resolve().parents), reason="only root can read Python here"
    ),
]


def container(folder: Path, security_options: list[str]) -> dict[str, object]:
    """What Docker would ask runc for, with the file system of this machine as the root of the container."""
    subprocess.run(["runc", "spec"], cwd=folder, check=True)
    spec: dict = json.loads((folder / "config.json").read_text())
    is_masked = "systempaths=unconfined" not in security_options
    spec["root"] = {"path": str(folder / "root"), "readonly": True}
    spec["process"] |= {
        "terminal": False,
        "user": {"uid": USER, "gid": USER},
        "noNewPrivileges": "no-new-privileges:true" in security_options,
        "capabilities": {name: [] for name in ("bounding", "effective", "inheritable", "permitted", "ambient")},
        "args": [sys.executable, "-c", PROBE],
        "env": ["PATH=/usr/bin:/bin", f"PYTHONPATH={Path(__file__).parents[3]}", "PYTHONDONTWRITEBYTECODE=1"],
        "rlimits": [],
    }
    spec["linux"] |= {"maskedPaths": list(MASKED) * is_masked, "readonlyPaths": list(READ_ONLY) * is_masked}
    spec["linux"]["namespaces"] = [each for each in spec["linux"]["namespaces"] if each["type"] != "cgroup"]
    spec["mounts"] = [each for each in spec["mounts"] if "cgroup" not in each["destination"]]
    spec["mounts"].append({"destination": "/tmp", "type": "tmpfs", "source": "tmpfs", "options": ["mode=1777"]})
    return spec


@pytest.mark.parametrize("is_ours", [True, False], ids=["compose.yaml", "defaults"])
def test_the_sandbox_works_in_a_container_of_the_compose_file(tmp_path: Path, is_ours: bool):
    options = compose()["services"]["server"]["security_opt"] if is_ours else ["no-new-privileges:true"]
    spec = container(tmp_path, options)
    (tmp_path / "config.json").write_text(json.dumps(spec))
    (tmp_path / "root").mkdir()
    # the mount is in a namespace of its own: whatever ends this test, nothing that removes its folder meets the root of the machine in it
    script = f"mount --bind / '{tmp_path}/root' && exec runc run workbench-{os.getpid()}"
    command = ["unshare", "--mount", "--propagation", "private", "sh", "-c", script]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("Sandboxed." if is_ours else "Refused."), done.stdout
