"""Manifests of jobs, against Kubernetes' own schema; and `kubectl`, which is a script here that answers as it does."""

import stat
from pathlib import Path

import pytest
import yaml

from tests.support.deploy_files import kubernetes_flaws
from tests.support.team_jobs import tiny_spec
from workbench.team.jobs.job_spec import JobError, own_port
from workbench.team.jobs.kubernetes import Kubernetes, as_yaml, render_job
from workbench.team.jobs.local_engine import NativeState

OPTIONS = {"image": "registry.example.org/workbench:1", "claim": "team-data"}
FOLDER = Path("/data/jobs/abc")
SPECS = {
    "one host": tiny_spec(),
    "several processes": tiny_spec(processes=4, devices=8, memory=1 << 30),
    "several hosts": tiny_spec(
        hosts=4,
        devices=16,
        options={"accelerator": "google.com/tpu=4", "node_selector": "topology=4x4,type=v5e", "queue": "team", "service_account": "jobs"},
    ),
}


@pytest.mark.parametrize("name", SPECS)
def test_manifests_are_what_kubernetes_takes(name):
    manifests = list(yaml.safe_load_all(as_yaml(render_job(SPECS[name], FOLDER, OPTIONS))))
    assert [flaw for each in manifests for flaw in kubernetes_flaws(each)] == []
    assert [each["kind"] for each in manifests] == (["Service", "Job"] if SPECS[name].hosts > 1 else ["Job"])


def test_the_schema_finds_what_is_wrong():
    (job,) = render_job(tiny_spec(), FOLDER, OPTIONS)
    job["spec"]["template"]["spec"]["containers"][0]["img"] = "x"
    assert any("'img' was unexpected" in flaw for flaw in kubernetes_flaws(job))


def test_a_pod_sees_the_folder_of_its_job_and_programs_where_it_has_one_and_nothing_else_of_the_server():
    for program, seen in ((None, ["/data/jobs/abc"]), ("b" * 64, ["/data/jobs/abc", f"/data/programs/trees/{'b' * 64}"])):
        (job,) = render_job(tiny_spec(program=program), FOLDER, OPTIONS, Path("/data"))
        mounts = job["spec"]["template"]["spec"]["containers"][0]["volumeMounts"]
        assert [each["mountPath"] for each in mounts] == seen
        assert [f"/data/{each['subPath']}" for each in mounts] == seen
        assert all(each["readOnly"] for each in mounts[1:])


def test_the_pods_of_several_hosts_meet_at_the_first_by_the_name_of_their_service():
    service, job = render_job(SPECS["several hosts"], FOLDER, OPTIONS)
    pod = job["spec"]["template"]
    environment = {each["name"]: each["value"] for each in pod["spec"]["containers"][0]["env"]}
    assert environment == {"JAX_COORDINATOR_ADDRESS": f"workbench-abc-0.workbench-abc:{own_port('abc')}"}
    assert pod["spec"]["subdomain"] == service["metadata"]["name"] == "workbench-abc"
    assert service["spec"]["selector"].items() <= pod["metadata"]["labels"].items()
    assert (job["spec"]["completions"], job["spec"]["completionMode"], job["spec"]["backoffLimit"]) == (4, "Indexed", 0)
    assert pod["spec"]["containers"][0]["command"] == ["python", "-m", "workbench.team.jobs.job_supervisor", "/data/jobs/abc"]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({}, "A job on Kubernetes needs `image`: the container's image, with the workbench in it and `claim`: "),
        ({**OPTIONS, "colour": "red"}, "Kubernetes has no option `colour` here."),
        ({**OPTIONS, "accelerator": "four"}, "`accelerator` is `four`; it should be NAME=VALUE, several with commas."),
    ],
)
def test_what_cannot_be_rendered_is_refused_in_words(options, message):
    with pytest.raises(JobError) as caught:
        render_job(tiny_spec(options=options), FOLDER, {})
    assert caught.value.message.startswith(message)


KUBECTL = """#!/bin/sh
echo "$@" >> {folder}/asked
case "$1" in
  get) cat {folder}/status 2>/dev/null || true;;
  apply) grep -q forbidden "$3" && { echo 'Error from server (Forbidden): jobs.batch is forbidden' >&2; exit 1; }; exit 0;;
esac
"""
STATUS = {
    '{"status": {}}': NativeState.WAITING,
    '{"status": {"active": 1, "ready": 1}}': NativeState.RUNNING,
    '{"status": {"conditions": [{"type": "Complete", "status": "True"}]}}': NativeState.GONE,
    '{"status": {"conditions": [{"type": "Failed", "status": "True"}]}}': NativeState.GONE,
    "": NativeState.GONE,
}


@pytest.fixture
def kubernetes(tmp_path):
    script = tmp_path / "kubectl"
    script.write_text(KUBECTL.replace("{folder}", str(tmp_path)))
    script.chmod(stat.S_IRWXU)
    return Kubernetes(tmp_path, OPTIONS, str(script))


def test_a_job_is_applied_asked_about_and_deleted(kubernetes, tmp_path):
    folder = tmp_path / "abc"
    folder.mkdir()
    native = kubernetes.submit(tiny_spec(), folder)
    assert native == "default/workbench-abc"
    assert kubernetes.recover(tiny_spec(), folder) is None
    for status, state in STATUS.items():
        (tmp_path / "status").write_text(status)
        assert kubernetes.state(native) is state
    kubernetes.cancel(native)
    asked = (tmp_path / "asked").read_text().splitlines()
    assert asked[0] == f"apply --filename {folder}/manifest.yaml"
    assert asked[-1].startswith("delete job,service --namespace default --selector sharding-workbench/job=workbench-abc")


def test_what_kubectl_says_is_handed_on(kubernetes, tmp_path):
    folder = tmp_path / "forbidden"
    folder.mkdir()
    with pytest.raises(JobError, match=r"`kubectl` says: Error from server \(Forbidden\)"):
        kubernetes.submit(tiny_spec(), folder)
